"""Secrets are planted wherever there is room for one; then everything that is said is searched."""

import base64
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import httpx
import pytest

from seawall import Seawall, access
from seawall.states import State
from tests.docs.test_observing import SOURCE
from tests.life.world import eventually
from tests.support.processes import answers, free_ports, server
from tests.support.sentry import Sentry
from tests.support.tracing import Collector
from tests.web.page_routes import PAGES
from tests.web.test_who_may import TABLE
from tests.webhooks.receiver import Receiver

HERE = Path(__file__).parent
PLANTED = {
    "argument": "sk-proj-Argu4711mentPlanted",
    "prompt": "Pr0mptPlanted4711",
    "user": "Us3rPlanted4711",
    "query": "Qu3ryPlanted4711",
    "header": "H3aderPlanted4711",
    "cookie": "C00kiePlanted4711",
    "dsn": "Dsn4711Planted",
    "error": "Err0rPlanted4711",
    "raw": "RawPlanted4711",
    "body": "B0dyPlanted4711",
    "set_cookie": "S3tCookiePlanted4711",
    "progress": "Pr0gressPlanted4711",
    "result": "R3sultPlanted4711",
    "store": "St0rePlanted4711",
    "key": "K3yPlanted4711",
    "upstream": "Upstr3amPlanted4711",
    "request_id": "R3questPlanted4711",
    "run": "RunPlanted4711",
    "hook": "H00kPlanted4711",
    "wrong_token": "Wr0ngTokenPlanted4711",
}
"""What is planted, by where. Each has the looks of a secret, or stands where one is looked for."""
ENDED = (State.FAILED, State.SUCCEEDED)


class Gateway(BaseHTTPRequestHandler):
    """An upstream that says back what it was sent, and more."""

    def do_GET(self):
        self.refuse(503, f"no luck with {self.headers['authorization']} and {PLANTED['body']}")

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        key = self.headers["authorization"].removeprefix("Bearer ")
        said = f"Incorrect API key provided: {key}. token={PLANTED['body']}"
        self.refuse(500, json.dumps({"error": {"message": said, "code": "invalid_api_key"}}))

    def refuse(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("set-cookie", f"sid={PLANTED['set_cookie']}")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args):
        """It is quiet."""


@pytest.fixture
def gateway():
    served = ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    Thread(target=served.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{served.server_address[1]}"
    served.shutdown()
    served.server_close()


@pytest.fixture(params=["file", "postgres18"])
def url(request, tmp_path):
    if request.param == "file":
        return f"sqlite:///{tmp_path}/jobs.db"
    found = request.getfixturevalue("postgres_fleet").server("18").new_url()
    return found.replace("postgres@", f"postgres:{PLANTED['store']}@")


class Careless:
    """The application in its folder, and all who hear of it."""

    def __init__(self, folder, url, gateway, held):
        self.folder, self.held, self.said = folder, held, {}
        for each in ("leaky.py", "asking.py"):
            shutil.copy(HERE / each, folder / each)
        (folder / "jobs.py").write_text(SOURCE, "utf-8")
        self.collector, self.sentry = held.enter_context(Collector()), held.enter_context(Sentry())
        self.receiver = Receiver().up()
        held.callback(self.receiver.down)
        self.app = Seawall(url, webhook_allow="127.0.0.1")
        held.callback(self.app.close)
        # Called whatever happens: each fault is to be heard.
        for name in ("llm", "gateway", "https://api.example/v1"):
            self.app.upstreams.force(name, "closed")
        self.secret = self.app.webhooks.create(
            f"{self.receiver.url}?token={PLANTED['hook']}",
            events=["job.complete", "job.failed", "job.retry", "job.queued"],
        ).secret
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OTEL_")},
            "SEAWALL_URL": url, "SEAWALL_APP": "leaky:app", "SEAWALL_WEBHOOK_ALLOW": "127.0.0.1",
            "GATEWAY": gateway, "SENTRY_DSN": self.sentry.dsn, "no_proxy": "*",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.collector.url,
        }  # fmt: skip

    def program(self, *words, turn):
        planted = json.dumps({**PLANTED, "round": turn})
        return {
            "args": [sys.executable, "-m", *words], "cwd": self.folder,
            "env": {**self.environ, "PLANTED": planted}, "stdin": subprocess.DEVNULL,
        }  # fmt: skip

    def asked(self, turn):
        done = subprocess.run(**self.program("asking", turn=turn), capture_output=True, check=False)
        self.said[f"asking {turn}"] = done.stdout + done.stderr
        assert done.returncode == 0, done.stderr.decode()

    def worked(self, *flags, turn, look=lambda: None):
        """A worker, until all jobs have ended; what it said."""
        log = self.folder / f"worker-{turn}.log"
        with log.open("wb") as said:
            worker = subprocess.Popen(
                **self.program("seawall", "worker", *flags, turn=turn), stdout=said, stderr=said
            )
            try:
                eventually(self.all_have_ended, 90)
                look()
            finally:
                worker.send_signal(signal.SIGTERM)
                worker.wait(60)
        self.said[f"worker {turn}"] = log.read_bytes()

    def all_have_ended(self):
        return all(job.state in ENDED for job in self.app.jobs(limit=200))

    def served(self):
        """Everything that the server can be asked, by an operator; then what it logged."""
        (port,) = free_ports(1)
        command = self.program("seawall", "serve", "--port", str(port), "--log-format", "json",
                               turn=3)  # fmt: skip
        with server(command["args"], lambda: answers(port, "/ready"), folder=self.folder,
                    environ=command["env"]) as up:  # fmt: skip
            assert up is not None, (self.folder / "log").read_text()
            word, _ = access.made(self.app.store, scope="operator", owner="olga")
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60
            ) as client:
                self.browse(client, {"authorization": f"Bearer {word}"})
                self.blunder(client, {"authorization": f"Bearer {word}"})
        self.said["log of the server"] = (self.folder / "log").read_bytes()
        assert word.encode() not in self.said["log of the server"]

    def browse(self, client, headers):
        for method, route in [*PAGES, *TABLE]:
            if method != "GET" or route in ("/api/events", "/static/{name}"):
                continue
            for path in self.paths(route):
                answer = client.get(path, headers=headers)
                assert answer.status_code in (200, 404, 409), f"{path}: {answer.text}"
                self.said[f"GET {path}"] = answer.content + repr(answer.headers).encode()
        self.said["GET /api/events"] = self.heard(client, headers)

    def heard(self, client, headers):
        """What listeners are told of a job that is asked for."""
        new = {"task": "by_client", "arguments": {"api_key": PLANTED["argument"]}}
        lines = []
        with client.stream("GET", "/api/events", headers=headers) as stream:
            for line in stream.iter_lines():
                lines.append(line)
                if "hello" in line:
                    asked = client.post("/api/jobs", headers=headers, json=new)
                    assert asked.status_code == 201, asked.text
                    self.said["POST /api/jobs"] = asked.content
                if line.startswith("data:"):
                    return "\n".join(lines).encode()
        raise AssertionError(f"nothing was told: {lines}")

    def paths(self, route):
        """The route's paths, for all that there is."""
        jobs = [str(job.id) for job in self.app.jobs(limit=100)]
        groups = re.findall(rb'/dead/groups/(\w+)"', self.said.get("GET /dead", b""))
        every = {
            "{job_id:int}": jobs, "{run_id:int}": ["1", "2"],
            "{fingerprint}": [each.decode() for each in groups],
            "{name:path}": ["llm", "gateway", "seawall.webhook:1"], "{webhook_id:int}": ["1"],
            "{name}": ["twice", "sample-filter"],
        }  # fmt: skip
        for hole, found in every.items():
            if hole in route:
                return [route.replace(hole, quote(each)) for each in found]
        if route == "/jobs/act":
            return ["/jobs/act?do=redrive&state=failed"]
        return [route]

    def blunder(self, client, headers):
        """What goes wrong at the door says nothing either."""
        wrong, key = PLANTED["wrong_token"], PLANTED["argument"]
        answers = [
            client.get("/api/jobs", headers={"authorization": f"Bearer {wrong}"}),
            client.get(f"/api/jobs?token={wrong}"),
            client.post("/login", data={"token": wrong}),
            client.post("/api/jobs", headers=headers,
                        json={"task": "by_client", "arguments": {"api_key": [key]}}),
            client.post("/api/jobs", headers=headers, content=f'{{"api_key": "{key}",,}}'),
            client.post("/api/webhooks", headers=headers,
                        json={"url": f"http://ann:{wrong}@127.0.0.1:9/hook?sig={key}"}),
        ]  # fmt: skip
        for number, answer in enumerate(answers):
            assert 400 <= answer.status_code < 500, answer.text
            self.said[f"blunder {number}"] = answer.content + repr(answer.headers).encode()

    def collected(self):
        """All channels, by name."""
        hooks = [each.body + repr(each.headers).encode() for each in self.receiver.got]
        return {
            **self.said,
            "traces": b"\n".join(self.collector.bodies),
            "sentry": b"\n".join(self.sentry.bodies),
            "webhooks": b"\n".join(hooks),
        }


def forms(secret):
    """As it may have been written."""
    yield from {secret, quote(secret), html.escape(secret), json.dumps(secret)[1:-1]}
    for shift in range(3):  # wherever in a longer text it stood
        coded = base64.b64encode(b"x" * shift + secret.encode()).decode()
        yield coded[4:-4]


NAMES = {"key", "run"}
"""What programs know things by, and so are told as it is."""


def leaks(channels, secrets):
    return [
        f"{what} in {where}: …{content[max(at - 80, 0) : at + 80].decode(errors='replace')}…"
        for where, content in channels.items()
        if not where.endswith("/result")  # which is the owner's own
        for what, secret in secrets.items()
        if what not in NAMES or "/api/" not in where
        for form in forms(secret)
        if (at := content.find(form.encode())) >= 0
    ]


def test_no_planted_secret_is_in_any_log_metric_trace_webhook_or_page(url, tmp_path, gateway):
    with ExitStack() as held:
        careless = Careless(tmp_path, url, gateway, held)
        (port,) = free_ports(1)

        def scraped():
            found = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False)
            careless.said["metrics of a worker"] = found.content

        flags = ("--log-format", "json", "--log-level", "debug", "--metrics-port", str(port))
        careless.asked(1)
        careless.worked(*flags, turn=1, look=scraped)
        careless.asked(2)
        careless.worked("--log-format", "text", turn=2)
        careless.served()
        channels = careless.collected()
        secrets = {**PLANTED, "webhook's secret": careless.secret.removeprefix("whsec_")}

        assert "\n".join(leaks(channels, secrets)) == ""
        need_that_all_was_heard(careless, channels)


def need_that_all_was_heard(careless, channels):
    """That nothing was found means little where nothing was said."""
    failed = {job.task for job in careless.app.jobs(state=State.FAILED, limit=100)}
    assert failed == {
        "by_client",
        "by_address",
        "by_names",
        "by_words",
        "by_a_process",
        "by_answer",
        "leaking",
    }
    for turn in (1, 2):
        for task in failed:
            assert task.encode() in channels[f"worker {turn}"], f"{task} in {turn}"
        assert channels[f"worker {turn}"].count(b"[redacted]") > 5
    for where in ("traces", "sentry", "webhooks", "metrics of a worker", "GET /metrics"):
        for task in failed:
            assert task.encode() in channels[where], f"{task} in {where}"
    pages = [
        name
        for name in channels
        if name.startswith("GET /jobs/") and b"[redacted]" in channels[name]
    ]
    assert len(pages) > 10
    assert b"by_client" in channels["GET /api/events"]
