"""What a handler may know about its attempt, and tell it."""

import asyncio
import threading
from contextvars import copy_context
from datetime import UTC, datetime

import pytest

from seawall import CurrentJob, SeawallError, current_job
from seawall.current import LARGEST_CAPTURE, MOST_CHILDREN, made_current, maybe_current_job
from seawall.model import MOST_NAME_BYTES, Lane, NewJob, Token
from seawall.store import Progress


def job(**more):
    return CurrentJob(**{"id": 7, "task": "t", "attempt": 2, "seq": 5, **more})


CHILD = NewJob(lane=Lane("t"), arguments="{}")


def test_outside_of_a_task_there_is_none():
    with pytest.raises(SeawallError, match="no job runs here"):
        current_job()
    assert maybe_current_job() is None


def test_inside_there_is_the_one_and_afterwards_none():
    mine = job(owner="ann", request_id="req", deadline_at=datetime(2026, 1, 1, tzinfo=UTC))
    with made_current(mine):
        assert current_job() is mine
        assert not mine.ended
    assert mine.ended
    with pytest.raises(SeawallError):
        current_job()


def test_an_attempt_that_breaks_has_ended_too():
    mine = job()
    with pytest.raises(RuntimeError), made_current(mine):
        raise RuntimeError
    assert mine.ended
    assert maybe_current_job() is None


def test_attempts_that_run_at_once_do_not_see_one_another():
    async def attempt(mine):
        with made_current(mine):
            await asyncio.sleep(0)
            assert current_job() is mine
            return await asyncio.to_thread(current_job)

    async def main():
        jobs = [job(id=n) for n in range(1, 20)]
        assert await asyncio.gather(*map(attempt, jobs)) == jobs

    asyncio.run(main())


def test_a_thread_of_its_own_has_none():
    found = []
    with made_current(job()):
        thread = threading.Thread(target=lambda: found.append(maybe_current_job()))
        thread.start()
        thread.join()
    assert found == [None]


def test_the_key_for_upstreams_is_the_same_for_every_attempt_at_a_stage_of_a_cycle():
    assert job().idempotency_key == job(attempt=3, seq=9).idempotency_key == "7:0:0"
    assert job(cycle=1).idempotency_key == "7:1:0"
    assert job(stage=2).idempotency_key == "7:0:2"


def test_a_handler_can_see_that_it_is_to_stop():
    mine = job()
    assert not mine.cancel_requested
    mine.ask_to_stop()
    assert mine.cancel_requested


@pytest.mark.parametrize(
    "tell", [
        lambda it: it.progress(1), lambda it: it.capture("x"), lambda it: it.enqueue([CHILD]),
    ],
    ids=["progress", "capture", "enqueue"],
)  # fmt: skip
def test_nothing_can_be_told_any_more_when_the_attempt_has_ended(tell):
    mine = job()
    with made_current(mine):
        tell(mine)
        context = copy_context()
    before = (mine.said.children, mine.said.raw_output, mine.said.progress)
    with pytest.raises(SeawallError, match=r"^job 7: the attempt has ended"):
        context.run(tell, mine)
    assert (mine.said.children, mine.said.raw_output, mine.said.progress) == before


@pytest.mark.parametrize(("told", "kept"), [
    ((1,), (1.0, None, "")), ((1, 2), (1.0, 2.0, "")), ((0.5, 1, " a \n b\t"), (0.5, 1.0, "a b")), ((1, None, "ü" * 900), None),
])  # fmt: skip
def test_progress_is_kept_as_the_store_can_keep_it(told, kept):
    mine = job()
    with made_current(mine):
        mine.progress(*told)
    done, total, message = mine.said.progress
    assert kept is None or (done, total, message) == kept
    assert len(message.encode()) <= MOST_NAME_BYTES
    Progress(token=Token(7, 1, 1), done=done, total=total, message=message)


@pytest.mark.parametrize("told", [
    (-1,), (float("nan"),), (float("inf"),), (1, -1), (1, float("nan")), (2**60,), (1, 2, "\x1b[31m"), (1, 2, "\ud800"), (1, 2, "a\0b"),
])  # fmt: skip
def test_progress_that_no_store_can_keep_never_reaches_it(told):
    """The beat that keeps every lease of the worker must not stumble over one handler's words."""
    mine = job()
    with made_current(mine):
        try:
            mine.progress(*told)
        except (ValueError, SeawallError):
            return
    done, total, message = mine.said.progress
    Progress(token=Token(7, 1, 1), done=done, total=total, message=message)


def test_whoever_listens_hears_of_progress():
    heard = []
    mine = job()
    mine._on_progress = heard.append
    with made_current(mine):
        mine.progress(1)
    assert heard == [mine]


def test_what_is_captured_can_be_stored_whatever_it_is():
    mine = job()
    with made_current(mine):
        mine.capture("a\0b\ud800c")
        assert mine.said.raw_output == "a\ufffdb?c"
        mine.capture("x" * (LARGEST_CAPTURE + 1))
        assert len(mine.said.raw_output) == LARGEST_CAPTURE
        mine.capture("the last word counts")
    assert mine.said.raw_output == "the last word counts"


def test_an_attempt_may_ask_for_a_bounded_number_of_jobs():
    mine = job()
    with made_current(mine):
        mine.enqueue([CHILD] * MOST_CHILDREN)
        with pytest.raises(
            SeawallError, match=r"^job 7: an attempt may enqueue at most 1,000 jobs"
        ):
            mine.enqueue([CHILD])
    assert len(mine.said.children) == MOST_CHILDREN
