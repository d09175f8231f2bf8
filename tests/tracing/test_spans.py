"""What is a span, which belongs to which, and what each says: with a provider that keeps them all."""

import asyncio
import logging
import os
import threading
from datetime import timedelta

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import SpanKind, StatusCode

from seawall import (
    Backoff,
    FaultError,
    HandedOver,
    Policy,
    Rule,
    Seawall,
    Skip,
    Snooze,
    current_job,
    upstream,
)
from seawall.errors import KeyConflictError
from seawall.model import Token
from seawall.simulate.system import System
from seawall.store import Result, Wanted
from seawall.telemetry import LOGGER, otlp, tracing
from seawall.telemetry.span_words import SPANS, Attr
from seawall.telemetry.trace_context import read
from seawall.testing import in_memory
from seawall.worker.upkeep import Upkeep
from tests.life.world import PATIENCE_SECONDS, Says, eventually
from tests.support.ledger import lost
from tests.support.tracing import ids, links, no_provider, traced

SECRET = "hunter2-Zq9Xplanted"
SOON = Policy(
    name="soon",
    max_attempts=3,
    rules=(Rule(on="all", backoff=Backoff(curve="fixed", base_seconds=0.02)),),
)


@pytest.fixture
def app(tmp_path):
    return Seawall(
        f"sqlite:///{tmp_path}/own.db", policies=[SOON], poll_seconds=0.05, lease_seconds=2
    )


@pytest.fixture
def world(app):
    with in_memory(app) as made:
        yield made


def within(name="web"):
    return trace.get_tracer("test").start_as_current_span(name)


# --- who belongs to whom --------------------------------------------------------------------------


def test_every_attempt_belongs_to_who_asked_and_is_linked_to_the_one_before(seen, app, world):
    @app.task(policy="soon")
    def flaky():
        if current_job().seq < 3:
            raise FaultError("TIMEOUT", "slow")

    with within():
        flaky.enqueue()
    world.drain()
    web, asked = seen.one("web"), seen.one("enqueue flaky")
    assert (asked.kind, asked.parent.span_id) == (SpanKind.PRODUCER, web.context.span_id)
    attempts = seen.named("process flaky")
    assert [span.parent.span_id for span in attempts] == [asked.context.span_id] * 3
    first, second, _ = attempts
    assert [links(span) for span in attempts] == [
        [ids(asked)], [ids(asked), ids(first)], [ids(asked), ids(second)],
    ]  # fmt: skip
    assert {span.context.trace_id for span in seen.all()} == {web.context.trace_id}
    statuses = [span.status.status_code for span in attempts]
    assert statuses == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]


def test_a_job_asked_for_without_a_trace_has_one_from_its_first_attempt_on(seen, app, world):
    @app.task(policy="soon")
    def flaky():
        if current_job().seq < 2:
            raise FaultError("TIMEOUT")

    with tracing.untraced():
        flaky.enqueue()
    world.drain()
    first, second = seen.named("process flaky")
    assert (first.parent, first.links) == (None, ())
    assert (second.parent.span_id, links(second)) == (first.context.span_id, [ids(first)])


def test_a_redrive_goes_on_in_the_same_trace(seen, app, world):
    @app.task(policy="sample-filter")
    def broken():
        if current_job().cycle == 0:
            raise FaultError("INVALID_INPUT")

    job = broken.enqueue()
    world.drain()
    app.retry(job.id)
    world.drain()
    asked, (first, second) = seen.one("enqueue broken"), seen.named("process broken")
    assert [first.attributes[Attr.CYCLE], second.attributes[Attr.CYCLE]] == [0, 1]
    assert links(second) == [ids(asked), ids(first)]
    assert second.context.trace_id == asked.context.trace_id


def test_what_a_handler_asks_for_belongs_to_it(seen, app, world):
    @app.task
    def child(n: int):
        assert n

    @app.task
    def parent():
        child.enqueue(1)
        app.enqueue_many([child.job(2), child.job(3)])

    parent.enqueue()
    world.drain()
    attempt, alone, many = (
        seen.one("process parent"), seen.one("enqueue child"), seen.one("enqueue many"),
    )  # fmt: skip
    assert {alone.parent.span_id, many.parent.span_id} == {attempt.context.span_id}
    parents = [span.parent.span_id for span in seen.named("process child")]
    assert sorted(parents) == sorted([alone.context.span_id] + 2 * [many.context.span_id])
    assert many.attributes[Attr.BATCH] == 2
    assert Attr.JOB not in alone.attributes


def test_many_at_once_share_one_span(seen, app, world):
    @app.task
    def add(n: int) -> int:
        return n

    app.enqueue_many(add.job(n) for n in range(2_500))
    many = seen.one("enqueue many")
    assert many.attributes[Attr.BATCH] == 2_500
    wanted = Wanted("w", None, ("add",), 1_000, 60.0)
    traces = {claim.trace for _ in range(3) for claim in world.store.claim(wanted)}
    assert {read(each)[:2] for each in traces} == {ids(many)}


def test_each_item_of_a_run_has_a_trace_of_its_own_linked_to_the_runs(seen, app, world):
    def fetch(n: int) -> int:
        if n == 2 and current_job().seq == 1:
            raise FaultError("TIMEOUT")
        return n

    pipe = app.pipeline("pipe", [app.task(policy="soon", name="fetch")(fetch), lambda n: n][:1])
    with within():
        run = pipe.run([1, 2], name="r")
    world.drain()
    many, attempts = seen.one("enqueue many"), seen.named("process pipe")
    assert many.attributes[Attr.RUN] == run.id
    assert many.attributes[Attr.BATCH] == 2
    by_job = {}
    for span in attempts:
        by_job.setdefault(span.attributes[Attr.JOB], []).append(span)
        assert ids(many) in links(span)
        assert span.attributes[Attr.RUN] == run.id
    assert sorted(len(each) for each in by_job.values()) == [1, 2]
    traces = {
        many.context.trace_id,
        *({s.context.trace_id for s in e}.pop() for e in by_job.values()),
    }
    assert len(traces) == 3
    for spans in by_job.values():
        assert len({span.context.trace_id for span in spans}) == 1


def test_a_schedule_begins_a_trace_with_every_fire(seen, app, world):
    @app.task
    def tick(): ...

    app.schedule(tick.job(), every=timedelta(seconds=60))
    for _ in range(2):
        world.advance(61)
        world.drain()
    asked, done = seen.named("enqueue tick"), seen.named("process tick")
    assert len(asked) == len(done) == 2
    assert [span.parent for span in asked] == [None, None]
    assert {s.context.trace_id for s in asked} == {s.context.trace_id for s in done}
    assert len({s.context.trace_id for s in asked}) == 2
    assert Attr.JOB in asked[0].attributes


def test_of_several_workers_that_would_fire_only_one_tells_of_it(seen, app, world):
    @app.task
    def tick(): ...

    app.schedule(tick.job(), every=timedelta(seconds=60))
    first, second = Upkeep(app, "a", world.store), Upkeep(app, "b", world.store)
    first.fire()
    second.fire()
    planned = {each[:2]: each for each in world.store.planned()}
    world.clock.advance(61)
    first.fire()
    (scheduled,) = app.schedules.values()
    second._fire(scheduled, planned[scheduled.name, scheduled.schedule.spec], world.store.now())
    assert len(seen.named("enqueue tick")) == 1


# --- what a handler sees --------------------------------------------------------------------------


def here():
    found = trace.get_current_span().get_span_context()
    return found.trace_id, found.span_id


def test_every_kind_of_handler_runs_in_its_attempts_span(seen, app, hire):
    found = {}

    @app.task
    def plain():
        found["plain"] = here()

    @app.task
    async def on_the_loop():
        await asyncio.sleep(0)
        found["on_the_loop"] = await asyncio.to_thread(here)

    hire(app)
    for task in (plain, on_the_loop):
        task.enqueue().wait(PATIENCE_SECONDS)
    eventually(lambda: len(seen.all()) == 4)
    assert found == {name: ids(seen.one(f"process {name}")) for name in ("plain", "on_the_loop")}
    assert not trace.get_current_span().get_span_context().is_valid


def test_handlers_that_run_at_once_each_see_their_own(seen, app, hire):
    together, found = threading.Barrier(4), {}

    @app.task
    def meet(n: int):
        together.wait(PATIENCE_SECONDS)
        found[current_job().id] = here()

    hire(app, concurrency=4)
    for job in app.enqueue_many(meet.job(n) for n in range(4)):
        job.wait(PATIENCE_SECONDS)
    eventually(lambda: len(seen.named("process meet")) == 4)
    spans = {span.attributes[Attr.JOB]: ids(span) for span in seen.named("process meet")}
    assert spans == found


# --- what it calls --------------------------------------------------------------------------------


def test_a_call_that_a_handler_marks_is_a_clients_span(seen, app, hire):
    @app.task
    def asks():
        with upstream("vision"):
            with within("inner"):
                pass
            with pytest.raises(ValueError, match="boom"), upstream("voice"):
                raise ValueError(f"boom {SECRET}")

    hire(app)
    asks.enqueue().wait(PATIENCE_SECONDS)
    eventually(lambda: seen.named("process asks"))
    vision, voice, inner = seen.one("call vision"), seen.one("call voice"), seen.one("inner")
    assert vision.kind is SpanKind.CLIENT
    assert vision.parent.span_id == seen.one("process asks").context.span_id
    assert {inner.parent.span_id, voice.parent.span_id} == {vision.context.span_id}
    assert dict(vision.attributes) == {
        Attr.JOB: 1, Attr.TASK: "asks", Attr.UPSTREAM: "vision", Attr.PEER: "vision",
        Attr.BREAKER: "closed",
    }  # fmt: skip
    assert voice.status.status_code is StatusCode.ERROR
    assert voice.attributes[Attr.ERROR] == "ValueError"
    assert (voice.status.description, voice.events) == (None, ())


def test_the_upstream_of_a_task_is_called_by_its_handler_as_a_whole_or_where_it_says(
    seen, app, hire
):
    @app.task(upstream="api")
    def whole(): ...

    @app.task(upstream="api")
    async def marked():
        async with upstream("api"):
            pass

    hire(app)
    for task in (whole, marked):
        task.enqueue().wait(PATIENCE_SECONDS)
    eventually(lambda: len(seen.all()) == 6)
    first, second = seen.named("call api")
    assert first.parent.span_id == seen.one("process whole").context.span_id
    assert second.parent.span_id == seen.one("process marked").context.span_id
    whole_span = seen.one("process whole")
    assert whole_span.start_time <= first.start_time <= first.end_time <= whole_span.end_time
    assert whole_span.attributes[Attr.BREAKER] == "closed"


def test_a_block_that_ends_the_attempt_otherwise_is_no_error(seen, app, world):
    @app.task
    def skips():
        with upstream("vision"):
            raise Skip("nothing to do")

    skips.enqueue()
    world.drain()
    assert seen.one("call vision").status.status_code is StatusCode.UNSET
    assert seen.one("process skips").attributes[Attr.OUTCOME] == "skipped"


# --- how it ends ----------------------------------------------------------------------------------


def test_an_attempt_that_lost_its_lease_says_so_whatever_it_did(seen, app, hire):
    began, go_on = threading.Event(), threading.Event()

    @app.task
    def slow():
        if current_job().seq == 1:
            began.set()
            go_on.wait(PATIENCE_SECONDS)

    hand = hire(app)
    job = slow.enqueue()
    began.wait(PATIENCE_SECONDS)
    token = Token(job.id, 1, 1)

    def is_taken():
        app.store.renew([token], lease_seconds=0.001)
        (answer,) = app.store.reclaim([lost(token, delay_seconds=0.0)])
        return answer.result is Result.DONE

    eventually(is_taken)
    go_on.set()
    job.wait(PATIENCE_SECONDS)
    hand.stop()
    first, second = seen.named("process slow")
    assert first.attributes[Attr.OUTCOME] == "lost"
    assert first.status.status_code is StatusCode.ERROR
    assert second.attributes[Attr.OUTCOME] == "succeeded"


def test_a_handler_that_is_left_behind_ends_its_span_with_its_attempt(seen, app, hire):
    let_go = threading.Event()

    @app.task(timeout_seconds=0.1, policy="sample-filter")
    def hangs():
        let_go.wait(PATIENCE_SECONDS)

    hire(app)
    job = hangs.enqueue()
    (span,) = eventually(lambda: seen.named("process hangs"))
    assert span.attributes[Attr.FAULT] == "TIMEOUT"
    let_go.set()
    eventually(lambda: job.state == "failed")


def test_a_call_now_that_is_handed_over_goes_on_in_the_same_trace(seen, app, hire):
    @app.task(policy="soon", upstream="api")
    def limited():
        if current_job().seq == 1:
            raise FaultError("RATE_LIMITED", "slow down")
        return "well"

    with within():
        answer = limited.call_or_enqueue()
    assert isinstance(answer, HandedOver)
    hire(app)
    answer.job.wait(PATIENCE_SECONDS)
    eventually(lambda: len(seen.named("process limited")) == 2)
    asked, over = seen.one("enqueue limited"), seen.one("hand over limited")
    inline, later = seen.named("process limited")
    assert {s.parent.span_id for s in (inline, later, over)} == {asked.context.span_id}
    assert links(later) == [ids(asked), ids(inline)]
    assert (inline.attributes[Attr.INLINE], later.attributes[Attr.INLINE]) == (True, False)
    assert {s.context.trace_id for s in seen.all()} == {seen.one("web").context.trace_id}


def test_an_async_call_now_is_in_its_callers_trace(seen, app):
    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    async def request():
        with within():
            return await greet.acall_or_enqueue("ann")

    assert asyncio.run(request()).value == "hello ann"
    web, asked, done = seen.one("web"), seen.one("enqueue greet"), seen.one("process greet")
    assert asked.parent.span_id == web.context.span_id
    assert done.parent.span_id == asked.context.span_id
    app.close()


# --- what it says ---------------------------------------------------------------------------------


def test_every_attribute_is_on_the_list_and_the_list_has_no_other(seen, app, hire):
    """A job of each kind, so that every span and attribute is said at least once."""

    @app.task(policy="soon", upstream="api")
    def calls():
        if current_job().seq == 1:
            raise FaultError("RATE_LIMITED", "slow", status=429, request_id="u-1")
        return "well"

    def one(n: int) -> int:
        if n > 1 and current_job().seq == 1:
            raise FaultError("TIMEOUT")
        return n

    def two(n: int) -> int:
        return n

    pipe = app.pipeline("pipe", [app.task(policy="soon", name="one")(one), two])

    @app.task
    def refused():
        with upstream("vision"):
            raise ValueError("boom")

    hire(app)
    assert isinstance(calls.using(request_id="r-1").call_or_enqueue(), HandedOver)
    pipe.run([1, 2], name="r").wait()
    refused.enqueue()
    with pytest.raises(TypeError):
        app.enqueue_many(5)
    pipe.using(key="k").enqueue(1)
    with pytest.raises(KeyConflictError):
        pipe.using(key="k").enqueue(2)
    eventually(lambda: len(seen.named("process calls")) == 2 and seen.named("process refused"))
    eventually(lambda: len(seen.named("process pipe")) >= 5)

    said = {}
    for span in seen.all():
        (word,) = [w for w in SPANS if span.name == f"{w.name} {span.name[len(w.name) + 1:]}".strip()
                   and (w.subject or span.name == w.name)
                   and not (w.name == "enqueue" and span.name == "enqueue many")]  # fmt: skip
        assert span.kind.name.lower() == word.kind
        said.setdefault(word.name, set()).update(span.attributes)
    for word in SPANS:
        expected = {str(attr) for attr in Attr if word in attr.spans}
        assert said[word.name] == expected, word.name


def test_no_secret_is_said_anywhere(seen, app, world):
    @app.task(policy="soon", upstream="api")
    def leaks(card: str):
        current_job().capture(f"raw {card}")
        raise FaultError("TIMEOUT", f"password={card} was refused at https://x/?token={card}")

    @app.task
    def returns(card: str) -> str:
        with upstream("vision"):
            return card

    leaks.using(request_id=f"sk-live-{SECRET}", tags=(SECRET,)).enqueue(SECRET)
    returns.enqueue(SECRET)
    world.drain()
    assert len(seen.all()) > 5
    assert SECRET not in "".join(span.to_json() for span in seen.all())


def test_a_log_line_has_the_ids_of_the_span_that_it_was_said_in(seen, app, hire):
    @app.task(policy="soon")
    def flaky():
        if current_job().seq == 1:
            raise FaultError("TIMEOUT")
        raise Skip("enough")

    with Says() as says:
        hire(app)
        flaky.enqueue()
        line = says.await_("retry_scheduled")
        skipped = says.await_("job_skipped")
    first, second = eventually(lambda: len(s := seen.named("process flaky")) == 2 and s)
    for said, span in ((line, first), (skipped, second)):
        assert said["trace_id"] == f"{span.context.trace_id:032x}"
        assert said["span_id"] == f"{span.context.span_id:016x}"


def test_outside_of_a_span_a_log_line_has_no_ids(app, world):
    @app.task(policy="sample-filter")
    def broken():
        raise FaultError("INVALID_INPUT")

    with Says() as says:
        broken.enqueue()
        world.drain()
    assert not [each for each in says._said if "trace_id" in each]
    assert LOGGER.level == logging.NOTSET


# --- turned off, broken, sampled ------------------------------------------------------------------


def test_without_a_provider_there_is_no_tracer_and_a_remote_span_is_carried_on(app, world):
    @app.task
    def greet():
        return current_job().trace

    with no_provider():
        assert tracing.tracer() is None
        context = trace.SpanContext(
            7, 9, is_remote=True, trace_flags=trace.TraceFlags(1),
            trace_state=trace.TraceState([("a", "b")]),
        )  # fmt: skip
        with trace.use_span(trace.NonRecordingSpan(context)):
            job = greet.enqueue()
        world.drain()
    assert job.result() == f"00-{7:032x}-{9:016x}-01 a=b"


def test_what_is_not_sampled_is_not_sampled_in_the_worker_either(app, world):
    @app.task
    def greet(): ...

    with traced(sampler=ParentBased(ALWAYS_OFF)) as nothing, within():
        greet.enqueue()
    with traced() as seen:
        world.drain()
    assert nothing.all() == seen.all() == []


class Broken:
    """A provider whose spans raise, whatever they are asked for."""

    def get_tracer(self, *_, **__):
        return self

    def __getattr__(self, name):
        raise RuntimeError("broken")


def test_a_provider_that_is_broken_costs_no_job_anything(app, world):
    @app.task
    def greet() -> str:
        with upstream("vision"):
            return "hello"

    with no_provider():
        trace.set_tracer_provider(Broken())
        job = greet.enqueue()
        world.drain()
    assert job.result() == "hello"


def test_an_applications_own_provider_goes_before_the_environments(seen, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    own = trace.get_tracer_provider()
    assert otlp.exporting() is None
    assert trace.get_tracer_provider() is own


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
        {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1",
            "OTEL_TRACES_EXPORTER": "none",
        },
    ],
    ids=["not asked for", "disabled", "no exporter"],
)
def test_what_is_not_asked_for_or_turned_off_is_not_set_up(environ, monkeypatch):
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with no_provider():
        assert otlp.exporting() is None
        assert tracing.tracer() is None


def test_the_sdk_that_is_disabled_makes_no_spans(app, world, monkeypatch):
    @app.task
    def greet(): ...

    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with traced() as seen:
        greet.enqueue()
        world.drain()
    assert seen.all() == []


def test_simulated_workers_are_not_traced(seen):
    System(seed=3, jobs=6).run()
    assert seen.all() == []


def test_a_snooze_says_what_it_is(seen, app, world):
    @app.task
    def later():
        if current_job().seq == 1:
            raise Snooze(5)

    later.enqueue()
    world.drain()
    first, second = seen.named("process later")
    assert first.attributes[Attr.OUTCOME] == "snoozed"
    assert (first.attributes[Attr.DELAY], first.attributes[Attr.COUNTS]) == (5.0, False)
    assert second.attributes[Attr.OUTCOME] == "succeeded"
