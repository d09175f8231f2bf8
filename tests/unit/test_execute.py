"""One attempt, from the claim to what is written about its end: in memory, on a manual clock."""

import asyncio
import logging
from datetime import timedelta

import pytest

from seawall import (
    Backoff,
    FaultCode,
    FaultError,
    Policy,
    Rule,
    Seawall,
    Skip,
    Snooze,
    State,
    classifier,
    current_job,
)
from seawall.current import LARGEST_CAPTURE
from seawall.errors import JobFailedError, JobSkippedError
from seawall.evidence import LONGEST_TRACEBACK
from seawall.execute import End, Stop, begun, carry_out, ended
from seawall.model import Outcome, Settlement
from seawall.store import Release, Wanted
from seawall.telemetry import LOGGER, emit
from seawall.testing import in_memory
from seawall.worker.runner import awaited, called, without_waiting

SECRET = "hunter2-Zq9"
LEAK = f"password={SECRET}"
FIXED = Backoff(curve="fixed", base_seconds=10.0, jitter="none")
PATIENT = Policy(name="patient", max_attempts=4, rules=(Rule(on="all", backoff=FIXED),))


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Seawall(policies=[PATIENT])


@pytest.fixture
def world(app):
    with in_memory(app) as world:
        yield world


def outcomes(job):
    return [attempt.outcome for attempt in job.attempts()]


def raising(error):
    """A handler that raises this, every time."""

    def task():
        raise error

    return task


def sequence(*steps):
    """A handler that raises or returns these, one after the other."""
    left = list(steps)

    def task():
        step = left.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step

    return task


def attempted(world, task, *args):
    """The end of one attempt at a new job, not yet written."""
    task.enqueue(*args)
    (claim,) = world.store.claim(Wanted("me", None, (task.name,), 1, 60.0))
    now = world.clock.monotonic()
    work = begun(world.app, claim, lease_seconds=60.0, claimed=now)
    if task.is_async:
        return work, asyncio.run(carry_out(work, awaited))
    return work, without_waiting(carry_out(work, called))


# ── Ends that are no faults ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_handler_returns_is_the_jobs_result(app, world, is_async):
    if is_async:

        @app.task
        async def double(n: int) -> int:
            return 2 * n
    else:

        @app.task
        def double(n: int) -> int:
            return 2 * n

    job = double.enqueue(21)
    assert world.drain() == 1
    assert job.result() == 42
    assert outcomes(job) == [Outcome.SUCCEEDED]
    (attempt,) = job.attempts()
    assert (attempt.seq, attempt.counted, attempt.fault, attempt.policy) == (1, True, None, None)


def test_a_handler_that_returns_nothing_has_succeeded(app, world):
    job = app.task(name="t")(lambda: None).enqueue()
    world.drain()
    assert job.state is State.SUCCEEDED
    assert job.result() is None


def test_a_handler_that_skips_ends_its_job_with_its_reason(app, world):
    job = app.task(name="t")(raising(Skip("nothing\nto do  here"))).enqueue()
    assert world.drain() == 1
    assert job.state is State.SKIPPED
    with pytest.raises(JobSkippedError, match=r"was skipped: nothing to do here$"):
        job.result()
    assert job.attempts()[0].fault is None


@pytest.mark.parametrize("reason", ["", "\ud800", "a\0b", "x" * 100_000, '"quotes"', "ü🦜"])
def test_a_reason_to_skip_may_be_any_text(app, world, reason):
    job = app.task(name="t")(raising(Skip(reason))).enqueue()
    world.drain()
    assert job.state is State.SKIPPED
    with pytest.raises(JobSkippedError):
        job.result()


def test_a_reason_to_skip_is_kept_without_its_secrets(app, world):
    job = app.task(name="t")(raising(Skip(LEAK))).enqueue()
    world.drain()
    with pytest.raises(JobSkippedError) as skipped:
        job.result()
    assert SECRET not in str(skipped.value)


def test_a_snooze_uses_up_no_try_is_no_fault_and_is_in_the_history(app, world):
    policy = Policy(name="once", max_attempts=1)
    job = app.task(name="t", policy=policy)(sequence(*[Snooze(60.0)] * 5, "done")).enqueue()
    start = world.now
    assert world.drain() == 6
    assert job.result() == "done"
    assert outcomes(job) == [Outcome.SNOOZED] * 5 + [Outcome.SUCCEEDED]
    assert world.now - start == timedelta(seconds=300)
    for attempt in job.attempts()[:5]:
        assert (attempt.counted, attempt.fault, attempt.delay_seconds) == (False, None, 60.0)
    found = job.job()
    assert (found.tries, found.seq, found.last_fault) == (1, 6, None)


def test_a_snooze_of_no_time_comes_again_at_once(app, world):
    job = app.task(name="t")(sequence(Snooze(0), "done")).enqueue()
    assert world.work() == 2
    assert job.result() == "done"


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e18])
def test_a_snooze_that_never_ends_is_a_bug_of_the_handler(app, world, seconds):
    def task():
        raise Snooze(seconds)

    job = app.task(name="t")(task).enqueue()
    world.drain()
    assert job.state is State.FAILED
    assert "expected seconds from 0 on" in job.job().last_fault.message


# ── Retries ──────────────────────────────────────────────────────────────────────────────────────


def test_a_fault_is_tried_again_by_the_policy_which_is_recorded(app, world):
    job = app.task(name="t", policy="patient")(sequence(TimeoutError("slow"), 7)).enqueue()
    start = world.now
    assert world.work() == 1
    waiting = job.job()
    assert (waiting.state, waiting.tries, waiting.seq) == (State.QUEUED, 1, 1)
    assert waiting.due_at == start + timedelta(seconds=10)
    assert waiting.last_fault.code is FaultCode.TIMEOUT
    (attempt,) = job.attempts()
    assert attempt.outcome is Outcome.RETRIED
    assert (attempt.policy, attempt.delay_seconds, attempt.counted) == (PATIENT.id, 10.0, True)
    world.drain()
    assert job.result() == 7
    assert [attempt.seq for attempt in job.attempts()] == [1, 2]


def test_a_job_whose_tries_are_used_up_has_failed(app, world):
    job = app.task(name="t", policy="patient")(raising(TimeoutError("slow"))).enqueue()
    start = world.now
    assert world.drain() == 4
    assert outcomes(job) == [Outcome.RETRIED] * 3 + [Outcome.FAILED]
    assert world.now - start == timedelta(seconds=30)
    found = job.job()
    assert (found.state, found.tries) == (State.FAILED, 4)
    assert job.attempts()[-1].delay_seconds is None
    with pytest.raises(JobFailedError, match="TIMEOUT") as failed:
        job.result()
    assert failed.value.fault.code is FaultCode.TIMEOUT


def test_each_attempt_is_judged_by_the_policy_that_the_task_has_then(app, world):
    task = app.task(name="t", policy="patient")(raising(TimeoutError("slow")))
    job = task.enqueue()
    world.work()
    task.policy = Policy(name="changed", max_attempts=2)
    world.drain()
    assert [attempt.policy for attempt in job.attempts()] == [PATIENT.id, task.policy.id]
    assert task.policy.id != PATIENT.id


def test_a_rule_with_an_allowance_of_its_own_counts_what_came_before(app, world):
    """Three rate limits are allowed, in the life of the job, and use up no tries."""
    policy = Policy(
        name="limited",
        max_attempts=2,
        rules=(
            Rule(on="RATE_LIMITED", max_attempts=4, counts=False, backoff=FIXED),
            Rule(on="all", backoff=FIXED),
        ),
    )
    limited = FaultError("RATE_LIMITED")
    steps = [limited, limited, TimeoutError("slow"), limited, limited]
    job = app.task(name="t", policy=policy)(sequence(*steps)).enqueue()
    assert world.drain() == 5
    assert outcomes(job) == [Outcome.RETRIED] * 4 + [Outcome.FAILED]
    assert [attempt.counted for attempt in job.attempts()] == [False, False, True, False, True]


def test_the_attempt_that_a_handler_sees_is_the_policys_and_the_number_the_histories(app, world):
    policy = Policy(
        name="limited",
        max_attempts=3,
        rules=(
            Rule(on="RATE_LIMITED", max_attempts=9, counts=False, backoff=FIXED),
            Rule(on="all", backoff=FIXED),
        ),
    )
    steps = iter([FaultError("RATE_LIMITED"), TimeoutError(), Snooze(1), None])
    seen = []

    @app.task(policy=policy)
    def t():
        job = current_job()
        seen.append((job.attempt, job.seq, job.idempotency_key))
        step = next(steps)
        if step is not None:
            raise step

    job = t.enqueue()
    world.drain()
    key = f"{job.id}:0:0"
    assert seen == [(1, 1, key), (1, 2, key), (2, 3, key), (2, 4, key)]


def test_what_the_upstream_asked_to_wait_is_the_least_that_is_waited(app, world):
    error = FaultError("RATE_LIMITED", retry_after_seconds=120.0)
    job = app.task(name="t", policy="patient")(sequence(error, "ok")).enqueue()
    world.work()
    assert job.attempts()[0].delay_seconds >= 120.0
    world.drain()
    assert job.result() == "ok"


def test_a_retry_that_would_come_after_the_deadline_is_not_made(app, world):
    task = app.task(name="t", policy="patient")(raising(TimeoutError("slow")))
    job = task.using(deadline=timedelta(seconds=25)).enqueue()
    assert world.drain() == 3
    assert outcomes(job) == [Outcome.RETRIED, Outcome.RETRIED, Outcome.FAILED]
    assert job.job().last_fault.code is FaultCode.TIMEOUT


def test_a_retry_exactly_at_the_deadline_is_too_late(app, world):
    task = app.task(name="t", policy="patient")(raising(TimeoutError("slow")))
    job = task.using(deadline=timedelta(seconds=10)).enqueue()
    assert world.drain() == 1
    assert outcomes(job) == [Outcome.FAILED]


def test_time_that_the_handler_took_counts_towards_the_deadline(app, world):
    @app.task(policy="patient")
    def t():
        world.clock.advance(20)
        raise TimeoutError("slow")

    job = t.using(deadline=timedelta(seconds=25)).enqueue()
    world.drain()
    assert outcomes(job) == [Outcome.FAILED]
    assert job.attempts()[0].duration == timedelta(seconds=20)


def test_the_policys_own_time_limit_is_counted_from_the_first_attempt(app, world):
    policy = Policy(
        name="brief",
        max_attempts=50,
        max_elapsed_seconds=35.0,
        rules=(Rule(on="all", backoff=FIXED),),
    )
    job = app.task(name="t", policy=policy)(raising(TimeoutError("slow"))).enqueue()
    world.drain()
    assert outcomes(job) == [Outcome.RETRIED] * 3 + [Outcome.FAILED]


def test_a_redriven_job_has_a_fresh_allowance_and_all_its_history(app, world):
    steps = [TimeoutError("slow")] * 5 + ["ok"]
    job = app.task(name="t", policy="patient")(sequence(*steps)).enqueue()
    world.drain()
    assert job.state is State.FAILED
    assert app.retry(job.id)
    world.drain()
    assert job.result() == "ok"
    assert [attempt.seq for attempt in job.attempts()] == [1, 2, 3, 4, 5, 6]
    assert [attempt.cycle for attempt in job.attempts()] == [0, 0, 0, 0, 1, 1]


# ── Faults ───────────────────────────────────────────────────────────────────────────────────────


def test_a_fault_that_a_handler_names_is_taken_at_its_word(app, world):
    error = FaultError("NOT_FOUND", "no such object", status=404, request_id="req-9", detail="GONE")
    job = app.task(name="t")(raising(error)).enqueue()
    world.drain()
    fault = job.job().last_fault
    assert (fault.code, fault.status, fault.request_id) == (FaultCode.NOT_FOUND, 404, "req-9")
    assert (fault.message, fault.detail) == ("no such object", "GONE")


def test_the_applications_own_classifier_comes_first(app, world):
    @app.classifier.register(KeyError)
    def missing(error):
        return FaultCode.CONFIG_MISSING

    job = app.task(name="t")(raising(KeyError("x"))).enqueue()
    world.drain()
    assert job.job().last_fault.code is FaultCode.CONFIG_MISSING


def test_a_classifier_for_the_whole_process_is_asked_after_the_applications_own(
    app, world, monkeypatch
):
    monkeypatch.setattr("seawall.decisions.classify.CLASSIFIER._own", {})
    classifier(KeyError, ValueError)(lambda error: FaultCode.NOT_READY)
    app.classifier.register(ValueError)(lambda error: FaultCode.CONFIG_MISSING)
    one = app.task(name="one", policy="sample-filter")(raising(KeyError("x"))).enqueue()
    two = app.task(name="two", policy="sample-filter")(raising(ValueError("x"))).enqueue()
    world.drain()
    assert one.job().last_fault.code is FaultCode.NOT_READY
    assert two.job().last_fault.code is FaultCode.CONFIG_MISSING


def test_a_classifier_of_one_application_says_nothing_in_another(app, world):
    app.classifier.register(KeyError)(lambda error: FaultCode.CONFIG_MISSING)
    other = Seawall()
    with in_memory(other) as elsewhere:
        job = other.task(name="t")(raising(KeyError("x"))).enqueue()
        elsewhere.drain()
        assert job.job().last_fault.code is not FaultCode.CONFIG_MISSING


def test_a_classifier_that_breaks_does_not_decide(app, world):
    @app.classifier.register(KeyError)
    def broken(error):
        raise RuntimeError("in the classifier")

    job = app.task(name="t")(raising(KeyError("x"))).enqueue()
    world.drain()
    assert job.state is State.FAILED


def test_arguments_that_no_longer_fit_the_task_are_invalid_input(app, world):
    def handler(path: str, pages: int = 1): ...

    job = app.task(name="t", policy="patient")(handler).enqueue("a.pdf", pages=2)
    app.tasks.clear()

    @app.task(name="t")
    def newer(path: str, sheets: int = 1): ...

    assert world.drain() == 1
    fault = job.job().last_fault
    assert fault.code is FaultCode.INVALID_INPUT
    assert "its arguments no longer fit the task: pages: " in fault.message
    assert "a.pdf" not in fault.message


class Unkeepable:
    pass


@pytest.mark.parametrize(
    "value", [Unkeepable(), float("nan"), {"a": [float("inf")]}, "\ud800", "x" * (16 * 2**20 + 1)],
    ids=["object", "nan", "inf", "surrogate", "large"],
)  # fmt: skip
def test_a_result_that_cannot_be_kept_fails_the_job_and_says_so(app, world, value):
    job = app.task(name="t")(lambda: value).enqueue()
    world.drain()
    fault = job.job().last_fault
    assert fault.code is FaultCode.INTERNAL_ERROR
    assert fault.message.startswith("its result cannot be kept: ")
    assert len(fault.message) < 400


@pytest.mark.parametrize("error", [
    SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), BaseException("x"),
    BaseExceptionGroup("many", [SystemExit(1)]), StopIteration(), StopAsyncIteration(), MemoryError(), RecursionError(),
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_a_handler_raises_ends_its_attempt_and_nothing_else(app, world, error, is_async):
    if is_async:

        @app.task
        async def bad():
            raise error
    else:

        @app.task
        def bad():
            raise error

    good = app.task(name="good")(lambda: "ok")
    jobs = [bad.enqueue(), good.enqueue()]
    world.drain()
    assert jobs[0].state is State.FAILED
    assert isinstance(jobs[0].job().last_fault.code, FaultCode)
    assert jobs[1].result() == "ok"


class Hostile(Exception):  # noqa: N818
    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __str__


def test_an_exception_that_cannot_be_shown_ends_its_attempt_all_the_same(app, world):
    job = app.task(name="t")(raising(Hostile())).enqueue()
    world.drain()
    assert job.state is State.FAILED
    assert world.store.evidence(job.id, 1).traceback


def test_a_task_whose_types_cannot_be_looked_up_fails_its_jobs_and_not_the_worker(app, world):
    def handler(a: int): ...

    job = app.task(name="t")(handler).enqueue(1)
    app.tasks.clear()

    def broken(a: "Nowhere"): ...  # noqa: F821

    app.task(name="t")(broken)
    world.drain()
    assert job.state is State.FAILED
    assert "types cannot be looked up" in job.job().last_fault.message


# ── Evidence ─────────────────────────────────────────────────────────────────────────────────────


def test_what_a_handler_captures_is_kept_however_its_attempt_ends(app, world):
    steps = iter([TimeoutError("slow"), Snooze(1), None])

    @app.task(policy="patient")
    def t():
        current_job().capture(f"raw {current_job().seq}")
        step = next(steps)
        if step:
            raise step

    job = t.enqueue()
    world.drain()
    found = [world.store.evidence(job.id, seq).raw_output for seq in (1, 2, 3)]
    assert found == ["raw 1", "raw 2", "raw 3"]


def test_raw_output_of_a_fault_is_kept_and_never_in_its_message(app, world):
    error = FaultError("INVALID_RESPONSE", "no JSON", raw_output="upstream said \0 \ud800 this")
    job = app.task(name="t")(raising(error)).enqueue()
    world.drain()
    assert world.store.evidence(job.id, 1).raw_output == "upstream said \ufffd ? this"
    assert "upstream said" not in str(job.job().last_fault)


def test_raw_output_is_found_behind_other_errors_and_is_stronger_than_what_was_captured(app, world):
    @app.task
    def t():
        current_job().capture("captured")
        try:
            raise FaultError("INVALID_RESPONSE", raw_output="raw")
        except FaultError as error:
            raise RuntimeError("wrapped") from error

    job = t.enqueue()
    world.drain()
    assert world.store.evidence(job.id, 1).raw_output == "raw"


def test_raw_output_is_bounded(app, world):
    @app.task
    def t():
        current_job().capture("x" * (LARGEST_CAPTURE + 10))

    job = t.enqueue()
    world.drain()
    assert len(world.store.evidence(job.id, 1).raw_output) == LARGEST_CAPTURE


def test_where_a_bug_broke_is_kept_for_operators_without_its_secrets(app, world):
    @app.task
    def t():
        raise RuntimeError(LEAK)

    job = t.enqueue()
    world.drain()
    shown = world.store.evidence(job.id, 1).traceback
    assert "RuntimeError" in shown
    assert "test_execute.py" in shown
    assert SECRET not in shown
    fault = job.job().last_fault
    assert SECRET not in str(fault)
    assert "Traceback" not in str(fault)
    assert "test_execute.py" not in str(fault)


def test_an_expected_fault_that_is_tried_again_keeps_no_traceback_but_its_last_one_does(app, world):
    job = app.task(name="t", policy="patient")(raising(TimeoutError("slow"))).enqueue()
    world.drain()
    found = [world.store.evidence(job.id, seq) for seq in (1, 2, 3, 4)]
    assert [bool(each and each.traceback) for each in found] == [False, False, False, True]


def test_a_long_traceback_is_kept_from_its_end(app, world):
    @app.task
    def t():
        raise RuntimeError("x " * 50_000 + "the end")

    job = t.enqueue()
    world.drain()
    shown = world.store.evidence(job.id, 1).traceback
    assert len(shown) <= LONGEST_TRACEBACK
    assert shown.rstrip().endswith("the end")


# ── Stops by the worker ──────────────────────────────────────────────────────────────────────────


def stopped_work(app, world):
    @app.task(policy="patient", timeout_seconds=5)
    def t(): ...

    t.enqueue()
    (claim,) = world.store.claim(Wanted("me", None, ("t",), 1, 60.0))
    work = begun(app, claim, lease_seconds=60.0, claimed=world.clock.monotonic())
    world.clock.advance(5)
    return work


@pytest.mark.parametrize(("why", "code", "outcome"), [
    (Stop.TIMEOUT, FaultCode.TIMEOUT, Outcome.RETRIED), (Stop.EXPIRED, FaultCode.EXPIRED, None),
])  # fmt: skip
def test_an_attempt_that_ran_out_of_time_is_a_fault_that_may_have_had_effect(
    app, world, why, code, outcome
):
    end = ended(stopped_work(app, world), why)
    assert end.write.fault.code is code
    assert end.write.fault.ambiguous
    assert end.write.duration_seconds == 5.0
    assert outcome is None or end.write.outcome is outcome


def test_a_cancelled_attempt_is_cancelled_and_uses_up_no_try(app, world):
    end = ended(stopped_work(app, world), Stop.CANCEL)
    assert isinstance(end.write, Settlement)
    assert (end.write.outcome, end.write.counts) == (Outcome.CANCELLED, False)
    assert [event.name for event in end.events] == ["job_cancelled"]


@pytest.mark.parametrize("why", [Stop.SHUTDOWN, Stop.LOST])
def test_an_attempt_that_the_worker_gives_up_is_handed_back(app, world, why):
    end = ended(stopped_work(app, world), why)
    assert isinstance(end.write, Release)
    assert end.write.duration_seconds == 5.0
    assert [event.name for event in end.events] == ["job_released"]


@pytest.mark.parametrize("late_seconds", [0.0, 0.01])
def test_a_handler_is_not_called_after_the_moment_that_it_was_let_through_for(
    app, world, late_seconds
):
    work = stopped_work(app, world)
    work.use_by = world.clock.monotonic() - late_seconds
    end = without_waiting(carry_out(work, called))
    if not late_seconds:
        assert end.write.outcome is Outcome.SUCCEEDED
        return
    assert end.write == Release(token=work.claim.token)
    assert [event.name for event in end.events] == ["job_came_late"]


@pytest.mark.parametrize(("stop", "expected"), [
    (Stop.CANCEL, Outcome.CANCELLED), (Stop.TIMEOUT, Outcome.RETRIED), (Stop.SHUTDOWN, None), (None, Outcome.FAILED),
])  # fmt: skip
def test_a_cancelled_coroutine_ends_as_whoever_cancelled_it_meant(app, world, stop, expected):
    @app.task(policy=Policy(name="p", max_attempts=3, rules=(Rule(on="TIMEOUT"),)))
    async def t():
        raise asyncio.CancelledError

    t.enqueue()
    (claim,) = world.store.claim(Wanted("me", None, ("t",), 1, 60.0))
    work = begun(app, claim, lease_seconds=60.0, claimed=world.clock.monotonic())
    work.stop = stop
    end = asyncio.run(carry_out(work, awaited))
    if expected is None:
        assert isinstance(end.write, Release)
    else:
        assert end.write.outcome is expected


def test_a_handler_that_finished_before_it_heard_of_its_stop_has_succeeded(app, world):
    @app.task
    def t():
        return 5

    t.enqueue()
    (claim,) = world.store.claim(Wanted("me", None, ("t",), 1, 60.0))
    work = begun(app, claim, lease_seconds=60.0, claimed=world.clock.monotonic())
    work.stop = Stop.TIMEOUT
    end = without_waiting(carry_out(work, called))
    assert (end.write.outcome, end.write.output) == (Outcome.SUCCEEDED, "5")


def test_an_async_handler_that_takes_too_long_is_stopped(app, world):
    @app.task(timeout_seconds=0.01, policy=Policy(name="p", max_attempts=1))
    async def t():
        await asyncio.sleep(60)

    job = t.enqueue()
    world.drain()
    fault = job.job().last_fault
    assert (fault.code, fault.ambiguous) == (FaultCode.TIMEOUT, True)
    assert fault.message == "no end after 0.01 s, its time limit"


# ── Events ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def records():
    """Every record of the `seawall` logger, at every level."""
    found = []
    handler = logging.Handler()
    handler.emit = found.append
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG)
    yield found
    LOGGER.removeHandler(handler)
    LOGGER.setLevel(level)


EVENTS = [
    (None, "job_succeeded", logging.DEBUG, State.SUCCEEDED),
    (Skip("nothing"), "job_skipped", logging.INFO, State.SKIPPED),
    (Snooze(90), "job_snoozed", logging.DEBUG, State.QUEUED),
    (TimeoutError("slow"), "retry_scheduled", logging.INFO, State.QUEUED),
    (FaultError("NOT_FOUND"), "gave_up", logging.WARNING, State.FAILED),
]


@pytest.mark.parametrize(("step", "name", "level", "state"), EVENTS, ids=str)
def test_each_end_has_its_event_with_its_level_and_fields(
    app, world, records, step, name, level, state
):
    policy = Policy(name="p", max_attempts=3, rules=(Rule(on="TIMEOUT", backoff=FIXED),))
    task = app.task(name="t", policy=policy)(sequence(step))
    task.using(request_id="req-1").enqueue()
    (claim,) = world.store.claim(Wanted("me", None, ("t",), 1, 60.0))
    work = begun(app, claim, lease_seconds=60.0, claimed=world.clock.monotonic())
    end = without_waiting(carry_out(work, called))
    for event in end.events:
        emit(event)
    (record,) = records
    told = record.seawall
    assert (told["event"], record.levelno) == (name, level)
    expected = {"job": claim.token.job_id, "task": "t", "stage": 0, "state": state, "attempt": 1,
                "duration_ms": 0, "request_id": "req-1"}  # fmt: skip
    assert expected.items() <= told.items()
    if name == "job_snoozed":
        assert told["delay_ms"] == 90_000
    if name == "retry_scheduled":
        assert (told["delay_ms"], told["max_attempts"], told["policy"]) == (10_000, 3, policy.id)
        assert told["fault_code"] is FaultCode.TIMEOUT


def test_missing_configuration_is_told_as_an_error_too(app, world):
    _, end = attempted(world, app.task(name="t")(raising(FaultError("CONFIG_MISSING"))))
    assert [(event.name, event.level) for event in end.events] == [
        ("config_missing", logging.ERROR),
        ("gave_up", logging.WARNING),
    ]


def test_success_makes_no_event_where_nobody_listens(app, world):
    level = LOGGER.level
    LOGGER.setLevel(logging.INFO)
    try:
        _, end = attempted(world, app.task(name="t")(lambda: 1))
    finally:
        LOGGER.setLevel(level)
    assert not end.events


@pytest.mark.parametrize("error", [
    RuntimeError(LEAK), FaultError("NOT_FOUND", LEAK, raw_output=LEAK), TimeoutError(LEAK), Skip(LEAK), ValueError(f"Bearer {SECRET}{SECRET}"),
], ids=lambda it: type(it).__name__)  # fmt: skip
def test_no_event_tells_a_secret(app, world, records, error):
    _, end = attempted(world, app.task(name="t")(raising(error)))
    assert isinstance(end, End)
    for event in end.events:
        emit(event)
    assert records
    for record in records:
        assert SECRET not in record.getMessage()
        assert SECRET not in str(record.seawall)
        assert not record.exc_info


def test_no_event_tells_an_argument(app, world, records):
    def handler(a: str):
        raise RuntimeError("broke")

    _, end = attempted(world, app.task(name="t")(handler), SECRET)
    for event in end.events:
        emit(event)
    assert SECRET not in str([record.getMessage() for record in records])
