"""Calling now against a real upstream, on both stores: what is answered, and what it leaves."""

import asyncio
import os
import threading
from datetime import timedelta

import pytest

from seawall import (
    ArgumentsError,
    Done,
    Failed,
    FaultCode,
    HandedOver,
    JobCancelledError,
    JobSkippedError,
    KeyConflictError,
    Policy,
    Rule,
    SeawallError,
    State,
    StoreUnavailableError,
    UnknownPolicyError,
)
from seawall.decisions import presets
from seawall.model import INLINE_WORKER, Outcome
from seawall.testing import in_memory
from tests.life.world import eventually
from tests.sync.jobs import apart
from tests.sync.upstream import Said

HANDLERS = ("ask", "look")
"""One that is async, one that runs in a thread."""


def outcomes(job):
    return [attempt.outcome for attempt in job.attempts()]


# --- what must be shown ---------------------------------------------------------------------------


@pytest.mark.parametrize("handler", HANDLERS)
def test_what_goes_well_is_done_while_its_caller_waits(app, call, handler, upstream):
    answer = call(app.tasks[handler], (service := upstream()).url)
    assert answer == Done({"answer": "short"}, answer.job)
    assert answer.job.state is State.SUCCEEDED
    assert answer.job.result() == answer.value
    (attempt,) = answer.job.attempts()
    assert attempt.worker.startswith(INLINE_WORKER)
    assert service.calls[0]["idempotency-key"] == f"{answer.job.id}:0:0"


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_502_and_then_a_200_is_done_inline(app, call, handler, upstream, says):
    service = upstream(502)
    answer = call(app.tasks[handler], service.url)
    assert isinstance(answer, Done)
    assert outcomes(answer.job) == [Outcome.RETRIED, Outcome.SUCCEEDED]
    assert [each["x-attempt"] for each in service.calls] == ["1/1", "2/2"]
    assert len({each["idempotency-key"] for each in service.calls}) == 1
    assert service.times[1] - service.times[0] >= 0.3
    (told,) = says.said("retry_scheduled")
    assert (told["attempt"], told["max_attempts"], told["fault_code"]) == (1, 2, "UPSTREAM_ERROR")
    assert 300 <= told["delay_ms"] <= 800
    assert told["upstream_request_id"] == "up-1"
    assert answer.job.job().tries == 1, "what counts is the success"


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_502_twice_is_handed_over_with_both_attempts_in_its_history(
    app, call, handler, upstream, hire, says
):
    service = upstream(502, 502)
    answer = call(app.tasks[handler], service.url)
    assert isinstance(answer, HandedOver)
    job = answer.job.job()
    assert (job.state, job.tries, job.seq) == (State.QUEUED, 0, 2)
    assert outcomes(answer.job) == [Outcome.RETRIED, Outcome.RETRIED]
    assert not any(attempt.counted for attempt in answer.job.attempts())
    assert says.said("job_handed_over")[0]["reason"] == "exhausted"
    hire(app)
    assert answer.job.wait(40) == {"answer": "short"}
    assert outcomes(answer.job)[2:] == [Outcome.SUCCEEDED]
    assert service.calls[2]["x-attempt"] == "1/3", "the worker's allowance is untouched"
    assert service.calls[2]["idempotency-key"] == service.calls[0]["idempotency-key"]


def test_a_rate_limit_is_handed_over_at_once_and_not_before_it_said(app, call, upstream):
    service = upstream(Said(429, {"retry-after": "30"}))
    answer = call(app.tasks["ask"], service.url)
    assert isinstance(answer, HandedOver)
    assert answer.retry_after_seconds >= 30
    assert len(service.calls) == 1
    job = answer.job.job()
    assert job.last_fault.code is FaultCode.RATE_LIMITED
    assert (job.due_at - job.last_attempt_at).total_seconds() >= 30
    held = app.upstreams.get("api").held_until
    assert held is not None, "the whole fleet was told"


def test_a_fatal_fault_is_failed_at_once_and_leaves_a_dead_letter(app, call, upstream):
    service = upstream(400)
    answer = call(app.tasks["look"], service.url)
    assert isinstance(answer, Failed)
    assert (answer.fault.code, answer.fault.status) == (FaultCode.INVALID_REQUEST, 400)
    assert len(service.calls) == 1
    assert answer.job.state is State.FAILED
    assert outcomes(answer.job) == [Outcome.FAILED]
    assert app.dead_letter(answer.job.id).fault == answer.fault


def test_a_held_upstream_is_handed_over_without_a_call(app, call, upstream, says):
    service = upstream()
    app.upstreams.hold("api", seconds=600)
    answer = call(app.tasks["ask"], service.url)
    assert isinstance(answer, HandedOver)
    assert answer.retry_after_seconds > 100
    assert (service.calls, outcomes(answer.job)) == ([], [])
    assert answer.job.state is State.QUEUED
    assert says.said("job_handed_over")[0]["attempt"] == 0


def test_an_upstream_that_this_process_saw_fail_is_not_called_any_more(app, call, upstream):
    service = upstream(*[503] * 50)
    look = app.tasks["look"].using(inline="sample-filter")
    answers = [call(look, service.url) for _ in range(7)]
    assert all(isinstance(answer, HandedOver) for answer in answers)
    assert len(service.calls) == 5, "the breaker opened, and jobs were handed over uncalled"
    assert outcomes(answers[-1].job) == []


# --- limits, pauses, policies ---------------------------------------------------------------------


def test_where_no_turn_is_to_be_had_it_is_handed_over(app, upstream):
    service = upstream(Said(seconds=1.5))
    task, first = app.tasks["squeeze"], []
    thread = threading.Thread(target=lambda: first.append(task.call_or_enqueue(service.url)))
    thread.start()
    eventually(lambda: service.calls)
    second = task.call_or_enqueue(service.url)
    assert isinstance(second, HandedOver)
    assert len(service.calls) == 1, "one call at once is all that the upstream takes"
    thread.join()
    assert isinstance(first[0], Done)
    assert isinstance(task.call_or_enqueue(service.url), Done), "the place is free again"


def test_a_handler_that_outlasts_its_attempt_keeps_its_place_until_it_returns(app, upstream):
    service = upstream(Said(seconds=3))
    task = app.tasks["squeeze"]
    first = task.using(inline_seconds=1.5).call_or_enqueue(service.url)
    assert isinstance(first, HandedOver)
    assert outcomes(first.job) == [Outcome.RETRIED]
    assert outcomes(task.call_or_enqueue(service.url).job) == [], "it was not called"
    eventually(lambda: isinstance(task.call_or_enqueue(service.url), Done))


def test_a_paused_queue_is_not_called_around(app, call, upstream):
    service = upstream()
    app.pause("default")
    assert isinstance(call(app.tasks["look"], service.url), HandedOver)
    assert service.calls == []
    app.resume("default")
    assert isinstance(call(app.tasks["look"], service.url), Done)


def test_what_is_fatal_to_the_jobs_own_policy_is_not_tried_again_inline(app, call, upstream):
    """Invalid output is retried by ai-sync, but this task's policy says that it is final."""
    service = upstream(Said(body="no JSON"))
    answer = call(app.tasks["strict"], service.url)
    assert isinstance(answer, Failed)
    assert len(service.calls) == 1


def test_another_inline_policy_can_be_named(app, call, upstream):
    patient = Policy(name="patient", max_attempts=3, rules=[Rule(on="5xx")])
    service = upstream(500, 500)
    task = app.tasks["look"]
    assert isinstance(call(task.using(inline=patient), service.url), Done)
    service = upstream(500)
    assert isinstance(call(task.using(inline="sample-filter"), service.url), HandedOver)
    with pytest.raises(UnknownPolicyError, match="no policy named 'ai-synk'; did you mean ai-sync"):
        call(task.using(inline="ai-synk"), service.url)


def test_the_callers_time_is_up(app, call, upstream):
    service = upstream(Said(seconds=3), Said(seconds=3))
    for handler in HANDLERS:
        answer = call(app.tasks[handler].using(inline_seconds=1.0), service.url)
        assert isinstance(answer, HandedOver)
        (attempt,) = answer.job.attempts()
        assert (attempt.fault.code, attempt.fault.ambiguous) == (FaultCode.TIMEOUT, True)


def test_the_jobs_own_deadline_bounds_it_too(app, call, upstream):
    service = upstream(Said(seconds=3))
    answer = call(app.tasks["ask"].using(deadline=timedelta(seconds=1)), service.url)
    assert isinstance(answer, Failed)
    assert answer.fault.code is FaultCode.EXPIRED


# --- options and odd ends -------------------------------------------------------------------------


def test_the_options_of_a_job_hold_for_it(app, call, upstream):
    service = upstream()
    task = app.tasks["look"].using(key="k", owner="ann", tags=["a"], priority=3, request_id="r-9")
    answer = call(task, service.url)
    job = answer.job.job()
    assert (job.key, job.owner, job.tags, job.priority) == ("k", "ann", ("a",), 3)
    assert answer.job.attempts()[0].caller_request_id == "r-9"


def test_a_key_that_is_taken_answers_as_the_job_that_has_it(app, call, upstream):
    service = upstream(200, 400, 502, 502)
    look = app.tasks["look"]
    first = call(look.using(key="done"), service.url)
    assert call(look.using(key="done"), service.url) == Done(first.value, Same(first.job))
    failed = call(look.using(key="bad"), service.url)
    assert call(look.using(key="bad"), service.url) == Failed(failed.fault, Same(failed.job))
    assert isinstance(call(look.using(key="late"), service.url), HandedOver)
    again = call(look.using(key="late"), service.url)
    assert isinstance(again, HandedOver)
    assert not again.job.created
    assert len(service.calls) == 4, "none of them was called a second time"
    with pytest.raises(KeyConflictError, match="has other arguments"):
        call(look.using(key="done"), service.url, secret="other")
    with pytest.raises(KeyConflictError, match="another owner's job: put the owner into the key"):
        call(look.using(key="done", owner="bob"), service.url)


class Same:
    """Equal to every handle of the same job."""

    def __init__(self, job):
        self.id = job.id

    def __eq__(self, other):
        return self.id == other.id

    __hash__ = None


def test_what_is_skipped_snoozed_or_leaves_children(app, call):
    odd = app.tasks["odd"]
    with pytest.raises(JobSkippedError, match="nothing to do"):
        call(odd, "skip")
    answer = call(odd, "snooze")
    assert isinstance(answer, HandedOver)
    assert answer.retry_after_seconds == 60
    assert call(odd, "none") == Done(None, Anything())
    assert isinstance(call(odd, "child"), Done)
    assert [job.state for job in app.jobs(task="odd", state="queued")] == [State.QUEUED] * 2


class Anything:
    def __eq__(self, other):
        return True

    __hash__ = None


def test_an_end_that_no_store_can_keep_is_a_failure(app, call):
    app.tasks["odd"].using(key="taken").enqueue("first")
    answer = call(app.tasks["odd"], "refused")
    assert isinstance(answer, Failed)
    assert answer.fault.code is FaultCode.INTERNAL_ERROR
    assert "cannot be stored" in answer.fault.message


def test_a_pipeline_goes_through_its_stages_under_the_same_lease(app, call, upstream):
    answer = call(app.tasks["reports"], (service := upstream()).url)
    assert answer == Done("short", answer.job)
    assert outcomes(answer.job) == [Outcome.ADVANCED, Outcome.ADVANCED, Outcome.SUCCEEDED]
    assert len(service.calls) == 1


def test_a_pipeline_is_handed_over_at_the_stage_that_fails_and_keeps_what_was_done(
    app, call, upstream, hire
):
    service = upstream(502, 502)
    answer = call(app.tasks["reports"], service.url)
    assert isinstance(answer, HandedOver)
    assert answer.job.job().stage == 1
    assert outcomes(answer.job) == [Outcome.ADVANCED, Outcome.RETRIED, Outcome.RETRIED]
    hire(app)
    assert answer.job.wait(40) == "short"
    assert [a.stage for a in answer.job.attempts()] == [0, 1, 1, 1, 2]


def test_a_pipeline_stops_before_an_upstream_that_is_held(app, call, upstream):
    service = upstream()
    app.upstreams.hold("api", seconds=600)
    answer = call(app.tasks["reports"], service.url)
    assert isinstance(answer, HandedOver)
    assert (answer.job.job().stage, outcomes(answer.job)) == (1, [Outcome.ADVANCED])
    assert service.calls == []


def test_what_is_cancelled_while_it_runs_is_not_queued_again(app, call, upstream):
    service = upstream(Said(502, seconds=0.8))
    task = app.tasks["look"].using(key="k")
    threading.Thread(
        target=lambda: (eventually(lambda: service.calls), _cancel(app)), daemon=True
    ).start()
    with pytest.raises(JobCancelledError):
        call(task, service.url)


def _cancel(app):
    (job,) = app.jobs(key="k")
    app.cancel(job.id)


# --- whoever stops waiting ------------------------------------------------------------------------


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_caller_that_is_cancelled_leaves_its_job_to_the_workers(app, handler, upstream, hire):
    service = upstream(Said(seconds=2))

    async def impatient():
        calling = asyncio.ensure_future(
            app.tasks[handler].using(key="k").acall_or_enqueue(service.url)
        )
        await asyncio.to_thread(eventually, lambda: service.calls)
        calling.cancel()
        await calling

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(impatient())
    (job,) = app.jobs(key="k")
    assert job.state is State.QUEUED
    assert outcomes(app.job(job.id)) == [Outcome.RELEASED]
    hire(app)
    assert app.job(job.id).wait(40) == {"answer": "short"}


def test_a_caller_that_is_cancelled_between_two_attempts_leaves_it_too(app, upstream):
    service = upstream(502)
    patient = Policy(
        name="patient",
        max_attempts=2,
        rules=[Rule(on="5xx", backoff=presets.DEFAULT.rules[1].backoff)],
    )

    async def impatient():
        calling = asyncio.ensure_future(
            app.tasks["ask"].using(key="k", inline=patient).acall_or_enqueue(service.url)
        )
        waiting = lambda: app.jobs(key="k", state="queued").jobs  # noqa: E731
        await asyncio.to_thread(eventually, waiting)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    asyncio.run(impatient())
    (job,) = app.jobs(key="k")
    assert (job.state, job.seq) == (State.QUEUED, 1)
    assert len(service.calls) == 1


# --- what is refused ------------------------------------------------------------------------------


def test_what_cannot_be_called_now_is_refused_in_one_line(app, call, upstream):
    look = app.tasks["look"]
    with pytest.raises(ArgumentsError, match="run_after: a call now cannot wait"):
        call(look.using(run_after=timedelta(seconds=5)), "u")
    with pytest.raises(ArgumentsError, match="cannot be part of your transaction"):
        call(look.using(connection=object()), "u")
    with pytest.raises(ArgumentsError, match="inline_seconds: found 31, expected more than 0"):
        call(look.using(inline_seconds=31), "u")
    with pytest.raises(ArgumentsError, match="url: Input should be a valid string"):
        call(look, 5)
    with app.transaction(), pytest.raises(ArgumentsError, match="your transaction"):
        look.call_or_enqueue("u")
    assert app.jobs().jobs == ()


def test_the_sync_face_does_not_block_a_loop(app):
    async def blocking():
        app.tasks["look"].call_or_enqueue("u")

    with pytest.raises(SeawallError, match=r"use `await look\.acall_or_enqueue"):
        asyncio.run(blocking())


def test_a_store_that_is_away_is_an_error_and_nothing_was_called(app, call, upstream, monkeypatch):
    service = upstream()

    def away(_jobs):
        raise StoreUnavailableError("the store does not answer")

    monkeypatch.setattr(app.store, "enqueue", away)
    with pytest.raises(StoreUnavailableError):
        call(app.tasks["look"], service.url)
    assert service.calls == []
    monkeypatch.undo()
    assert isinstance(call(app.tasks["look"], service.url), Done)


def test_an_end_that_cannot_be_written_at_once_is_written_later(app, call, upstream, monkeypatch):
    service, settle, tries = upstream(), app.store.settle, []

    def shaky(*given):
        tries.append(1)
        if len(tries) < 3:
            raise StoreUnavailableError("the store does not answer")
        return settle(*given)

    monkeypatch.setattr(app.store, "settle", shaky)
    assert isinstance(call(app.tasks["look"], service.url), Done)
    assert (len(tries), len(service.calls)) == (3, 1)


# --- processes of their own, and no time at all ---------------------------------------------------


@pytest.mark.parametrize("kind", ["file"])
def test_an_isolated_task_runs_in_its_process_and_is_killed_when_time_is_up(app, call):
    task = app.task(isolated=True)(apart.function)
    answer = call(task, 0.0)
    assert isinstance(answer, Done)
    assert answer.value != os.getpid()
    answer = call(task.using(inline_seconds=0.5), 30.0)
    assert isinstance(answer, HandedOver)
    (attempt,) = answer.job.attempts()
    assert attempt.fault.code is FaultCode.TIMEOUT


@pytest.mark.parametrize("kind", ["memory"])
def test_in_a_test_on_a_manual_clock_the_pause_takes_no_time(app, call, upstream):
    service = upstream(502, 502)
    with in_memory(app) as world:
        before = world.now
        answer = call(app.tasks["look"], service.url)
        assert isinstance(answer, HandedOver)
        assert 0.3 <= (world.now - before).total_seconds() <= 0.8
        world.drain()
        assert answer.job.result() == {"answer": "short"}


@pytest.mark.parametrize("kind", ["file"])
def test_retries_inline_are_within_the_upstreams_budget(app, call, upstream):
    """A budget that allows none: the second attempt is the workers' affair."""
    service = upstream(*[502] * 4)
    assert isinstance(call(app.tasks["once"], service.url), HandedOver)
    assert len(service.calls) == 1


@pytest.mark.parametrize("kind", ["file", "postgres18"])
def test_many_callers_at_once_leave_the_books_whole(app, upstream):
    service = upstream(*[502, 200, 200] * 20)

    async def everybody():
        ask = app.tasks["no_breaker"]
        return await asyncio.gather(*[ask.acall_or_enqueue(service.url) for _ in range(30)])

    answers = asyncio.run(everybody())
    assert len({answer.job.id for answer in answers}) == 30
    done = [answer for answer in answers if isinstance(answer, Done)]
    assert len(done) == app.store.counts()[State.SUCCEEDED]
