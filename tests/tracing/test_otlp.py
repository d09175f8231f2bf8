"""Traces arrive at a collector: real processes, real HTTP, OpenTelemetry's own protocol."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from seawall import access
from seawall.model import Lane, NewJob
from seawall.store import open_store
from tests.life.world import PATIENCE_SECONDS, ROOT
from tests.support.processes import answers, free_ports
from tests.support.tracing import Collector, told

SECRET = "hunter2-Zq9Xplanted"
BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "opentelemetry":
            raise ImportError(f"No module named {name!r}")
sys.meta_path.insert(0, Blocked())
"""


@pytest.fixture
def collector():
    with Collector() as found:
        yield found


@pytest.fixture
def environ(url, collector):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {
        **clean,
        "SEAWALL_URL": url,
        "SEAWALL_APP": "tests.tracing.jobs:app",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "no_proxy": "*",
    }


def ran(environ, *words):
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environ,
        capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def worked(environ, *more):
    return ran(environ, "-m", "seawall", "worker", "--drain", "--log-format", "json", *more).stderr


def asked(url, task, arguments="{}"):
    """Ask for a job without a trace."""
    with open_store(url) as store:
        store.enqueue([NewJob(lane=Lane(task), arguments=arguments)])


class Trace:
    """One trace, as the collector has it."""

    def __init__(self, spans):
        (self.id,) = {span.trace_id for span in spans}
        self.spans = spans
        (self.root,) = [span for span in spans if not span.parent_span_id]

    def named(self, name):
        return [span for span in self.spans if span.name == name]

    def one(self, name):
        (found,) = self.named(name)
        return found

    @property
    def is_whole(self):
        known = {span.span_id for span in self.spans}
        return all(span.parent_span_id in known for span in self.spans if span is not self.root)


def test_a_job_with_three_attempts_two_stages_and_a_hand_over_arrives_whole(environ, collector):
    said = json.loads(ran(environ, "-m", "tests.tracing.caller", SECRET).stdout)
    assert said["answer"] == "HandedOver"
    log = worked(environ)

    trace = Trace(collector.spans())
    assert trace.is_whole
    assert trace.root.name == "POST /reports"
    assert collector.services() == {"web", "seawall"}
    enqueue, attempts = trace.one("enqueue reports"), trace.named("process reports")
    assert enqueue.kind == Span.SPAN_KIND_PRODUCER
    assert enqueue.parent_span_id == trace.root.span_id
    need_attempts(attempts, enqueue, said["job"])
    need_what_stands_below(trace, attempts)
    over = trace.one("hand over reports")
    assert over.parent_span_id == enqueue.span_id
    assert told(over)["seawall.attempt"] == 1
    assert attempts[0].end_time_unix_nano <= over.start_time_unix_nano
    assert len(trace.spans) == 1 + 1 + 4 + 4 + 3 + 2 + 1

    assert SECRET.encode() not in b"".join(collector.bodies)
    assert SECRET not in log
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["endpoint"] for line in lines if line["event"] == "tracing_on"] == [collector.url]
    (retry,) = [line for line in lines if line["event"] == "retry_scheduled"]
    assert (retry["trace_id"], retry["span_id"]) == (trace.id.hex(), attempts[1].span_id.hex())
    assert (retry["upstream"], retry["breaker"]) == ("source", "closed")


def need_attempts(attempts, enqueue, job_id):
    """Three at the first stage, the first of them by its caller, and one at the second."""
    first, second, third, fourth = map(told, attempts)
    everyone = (first, second, third, fourth)
    outcomes = [each["seawall.outcome"] for each in everyone]
    assert outcomes == ["retried", "retried", "advanced", "succeeded"]
    assert [each["seawall.attempt.seq"] for each in everyone] == [1, 2, 3, 4]
    assert [each["seawall.inline"] for each in everyone] == [True, False, False, False]
    assert {each["seawall.request.id"] for each in everyone} == {"r-7"}
    assert {each["seawall.job.id"] for each in everyone} == {job_id}
    assert {span.parent_span_id for span in attempts} == {enqueue.span_id}
    assert {span.kind for span in attempts} == {Span.SPAN_KIND_CONSUMER}
    for at, span in enumerate(attempts):
        before = [] if at == 0 else [attempts[at - 1].span_id]
        assert [link.span_id for link in span.links] == [enqueue.span_id, *before]
        assert {link.trace_id for link in span.links} == {enqueue.trace_id}
    assert (first["seawall.fault.code"], first["http.response.status_code"]) == (
        "RATE_LIMITED",
        429,
    )
    assert (second["seawall.fault.code"], second["error.type"]) == ("TIMEOUT", "TIMEOUT")
    assert second["seawall.upstream.request.id"] == "req-77"
    assert second["seawall.delay_seconds"] > 0
    assert attempts[1].status.code == Status.STATUS_CODE_ERROR
    assert attempts[1].status.message == "no answer for token=[redacted]"
    assert attempts[3].status.code == Status.STATUS_CODE_UNSET


def need_what_stands_below(trace, attempts):
    stages = trace.named("stage fetch") + trace.named("stage store")
    assert [span.parent_span_id for span in stages] == [span.span_id for span in attempts]
    calls = trace.named("call source")
    assert [span.parent_span_id for span in calls] == [span.span_id for span in stages[:3]]
    assert {span.kind for span in calls} == {Span.SPAN_KIND_CLIENT}
    assert {told(span)["seawall.breaker.state"] for span in calls} == {"closed"}
    resize, bucket = trace.one("resize"), trace.one("call bucket")
    assert (resize.parent_span_id, bucket.parent_span_id) == (stages[3].span_id, resize.span_id)


@pytest.mark.parametrize("kind", ["file"])
def test_the_spans_of_an_isolated_handler_arrive_from_its_own_process(environ, collector, url):
    asked(url, "apart", '{"number": 7}')
    worked(environ)
    spans = {span.name: span for span in collector.spans()}
    assert set(spans) == {"process apart", "count", "enqueue after", "process after"}
    assert len({span.trace_id for span in spans.values()}) == 1
    assert spans["count"].parent_span_id == spans["process apart"].span_id
    assert spans["enqueue after"].parent_span_id == spans["count"].span_id
    assert spans["process after"].parent_span_id == spans["enqueue after"].span_id


@pytest.mark.parametrize("kind", ["file"])
def test_a_request_that_is_in_a_trace_has_its_job_done_in_it(environ, collector, url):
    (port,) = free_ports(1)
    with open_store(url) as store:
        token, _ = access.made(store, scope="owner", owner="ann")
    server = subprocess.Popen(
        [sys.executable, "-m", "seawall", "serve", "--port", str(port)], cwd=ROOT, env=environ
    )
    try:
        deadline = time.monotonic() + 2 * PATIENCE_SECONDS
        while not answers(port, "/ready"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
        answer = httpx.post(
            f"http://127.0.0.1:{port}/api/jobs",
            json={"task": "add", "arguments": {"a": 1, "b": 2}},
            headers={
                "authorization": f"Bearer {token}",
                "traceparent": f"00-{trace}-{span}-01",
                "tracestate": "vendor=x",
            },
            trust_env=False,
        )
        assert answer.status_code == 201, answer.text
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_SECONDS) == 0
    worked(environ)
    enqueue, process = collector.spans()
    assert (enqueue.name, process.name) == ("enqueue add", "process add")
    assert (enqueue.trace_id.hex(), enqueue.parent_span_id.hex()) == (trace, span)
    assert (process.trace_id.hex(), process.parent_span_id) == (trace, enqueue.span_id)
    assert process.trace_state == "vendor=x"


@pytest.mark.parametrize("kind", ["file"])
def test_a_collector_that_is_away_costs_no_job_anything(environ, collector, url):
    collector.status = 503
    asked(url, "add", '{"a": 1, "b": 2}')
    worked({**environ, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"})
    with open_store(url) as store:
        assert store.jobs([1])[1].state == "succeeded"


@pytest.mark.parametrize("kind", ["file"])
def test_without_opentelemetry_jobs_are_done_and_a_trace_is_carried_on(environ, url, tmp_path):
    """And where somebody wants spans, the log says what is missing."""
    program = BLOCKED + (
        "from seawall import Seawall, Worker, current_job\n"
        "from seawall.model import NewJob\n"
        "from seawall.telemetry.otlp import exported\n"
        "import logging; logging.basicConfig(level='INFO')\n"
        "app = Seawall()\n"
        "@app.task\n"
        "def child(): pass\n"
        "@app.task\n"
        "def parent(): child.enqueue(); print(current_job().trace)\n"
        "trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'\n"
        "app.store.enqueue([parent.job().new_job().in_trace(trace)])\n"
        "with exported(): Worker(app, drain=True).run()\n"
        "import sys; assert not [m for m in sys.modules if m.startswith('opentelemetry')]\n"
    )
    done = ran(environ, "-c", program)
    assert done.stdout == "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n"
    assert "tracing_off" in done.stderr
    assert "pip install 'seawall[otel]'" in done.stderr
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as found:
        kept = found.execute("SELECT trace FROM seawall_job_data").fetchall()
    assert kept == [(done.stdout.strip(),)] * 2


@pytest.mark.parametrize("kind", ["file"])
def test_where_nobody_traces_nothing_of_opentelemetry_is_loaded(environ):
    program = (
        "import sys\n"
        "from seawall import Seawall, Worker\n"
        "from seawall.telemetry.otlp import exported\n"
        "app = Seawall()\n"
        "@app.task\n"
        "def greet(): pass\n"
        "greet.enqueue()\n"
        "with exported(): Worker(app, drain=True).run()\n"
        "assert greet.call_or_enqueue()\n"
        "assert not [m for m in sys.modules if m.startswith('opentelemetry')]\n"
    )
    del environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
    ran(environ, "-c", program)
