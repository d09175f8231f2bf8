"""The handle of a job: where it stands, and what it came to."""

import asyncio
import threading
from datetime import datetime

import pytest

from seawall import (
    JobCancelledError,
    JobEndedError,
    JobFailedError,
    JobHandle,
    JobSkippedError,
    NoSuchJobError,
    NotFinishedError,
    Outcome,
    Seawall,
    SeawallError,
    Skip,
    State,
    current_job,
)
from seawall.model import Settlement
from seawall.store import Wanted
from seawall.testing import in_memory


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Seawall()


@pytest.fixture
def world(app):
    with in_memory(app) as world:
        yield world


def task_of(app, end):
    @app.task(name="t")
    def handler():
        if isinstance(end, BaseException):
            raise end
        return end

    return handler


def test_a_handle_is_its_id_and_asks_anew_each_time(app, world):
    job = task_of(app, 5).enqueue()
    assert isinstance(job, JobHandle)
    assert repr(job) == f"<job {job.id}>"
    assert job.state is State.QUEUED
    assert job.attempts() == []
    world.drain()
    assert job.state is State.SUCCEEDED
    assert job.job().id == job.id
    assert [attempt.outcome for attempt in job.attempts()] == [Outcome.SUCCEEDED]


ENDS = [
    (ValueError("broke"), JobFailedError, "failed: .*broke"),
    (Skip("nothing to do"), JobSkippedError, "was skipped: nothing to do"),
]


@pytest.mark.parametrize(("end", "error", "words"), ENDS, ids=["failed", "skipped"])
def test_a_job_without_a_result_says_why(app, world, end, error, words):
    job = task_of(app, end).enqueue()
    world.drain()

    async def awaited():
        await job.await_(0)

    for ask in (job.result, lambda: job.wait(0), job.wait, lambda: asyncio.run(awaited())):
        with pytest.raises(error, match=rf"^job {job.id} \(t\) {words}") as ended:
            ask()
        assert isinstance(ended.value, JobEndedError)
        assert isinstance(ended.value, SeawallError)
        assert "\n" not in str(ended.value)


def test_a_failed_job_gives_its_fault(app, world):
    job = task_of(app, TimeoutError("slow")).enqueue()
    world.drain()
    with pytest.raises(JobFailedError) as failed:
        job.result()
    assert failed.value.fault == job.job().last_fault


def test_a_cancelled_job_has_no_result(app, world):
    job = task_of(app, 5).enqueue()
    job.cancel()
    with pytest.raises(JobCancelledError, match="was cancelled"):
        job.result()


def late(job, words):
    """However its result is asked for, it is not there yet, and the error says so."""

    async def awaited():
        await job.await_(0.02)

    for ask in (lambda: job.wait(0), lambda: job.wait(0.02), lambda: asyncio.run(awaited())):
        with pytest.raises(NotFinishedError, match=words) as refused:
            ask()
        assert isinstance(refused.value, TimeoutError)
        assert "\n" not in str(refused.value)


def test_in_a_test_a_job_that_has_not_ended_is_not_waited_for(app, world):
    """No time passes there by itself: it would wait for ever."""
    job = task_of(app, 5).enqueue()
    late(job, "world.drain")
    with pytest.raises(NotFinishedError, match=rf"queued still: `seawall why {job.id}`"):
        job.result()


@pytest.fixture
def in_a_file(app):
    """The application on a real clock, with a store that others can use meanwhile."""
    app.configure(url="sqlite:///jobs.db")
    yield app
    app.close()


def settled(app, job):
    """Somebody runs the job."""
    (claim,) = app.store.claim(Wanted("w", None, ("t",), 1, 60.0))
    assert claim.token.job_id == job.id
    app.store.settle([Settlement(token=claim.token, outcome=Outcome.SUCCEEDED, output="5")])


def test_a_job_that_has_not_ended_says_so_and_whom_to_ask(in_a_file):
    job = task_of(in_a_file, 5).enqueue()
    late(job, rf"queued still: `seawall why {job.id}`")


def test_waiting_ends_when_the_job_does(in_a_file):
    job = task_of(in_a_file, 5).enqueue()
    somebody = threading.Timer(0.02, settled, (in_a_file, job))
    somebody.start()
    try:
        assert job.wait(30) == 5
    finally:
        somebody.join()


def test_awaiting_lets_others_run(in_a_file):
    job = task_of(in_a_file, 5).enqueue()

    async def main():
        waiting = asyncio.ensure_future(job.await_(30))
        await asyncio.to_thread(settled, in_a_file, job)
        return await waiting

    assert asyncio.run(main()) == 5


def test_a_result_that_is_not_what_was_promised_is_an_error_in_one_line_that_does_not_quote_it(
    app, world
):
    @app.task
    def t() -> datetime:
        return "hunter2-Zq"

    job = t.enqueue()
    world.drain()
    assert job.state is State.SUCCEEDED
    with pytest.raises(SeawallError) as refused:
        job.result()
    assert "\n" not in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_pruned_job_is_gone(app, world):
    job = task_of(app, 5).enqueue()
    world.drain()
    world.clock.advance(100)
    assert world.store.prune(State.SUCCEEDED, older_than_seconds=1) == 1
    for ask in (job.job, job.result, lambda: job.state, lambda: job.wait(0), job.cancel):
        with pytest.raises(NoSuchJobError, match=rf"there is no job {job.id}; it may have been pr"):
            ask()


def test_what_a_handler_said_of_its_progress_is_kept(app, world):
    seen = []

    @app.task
    def t():
        current_job().progress(3, 10, "three\nof  ten")
        seen.append(current_job().said.progress)

    t.enqueue()
    world.drain()
    assert seen == [(3.0, 10.0, "three of ten")]
