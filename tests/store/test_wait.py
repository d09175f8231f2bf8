"""`wait`: whoever waits is woken by work that comes, from this store or another."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from seawall.store import open_store
from seawall.store.values import Redrive, Release, Scope
from tests.support.kinds import shared
from tests.support.ledger import claimed, enqueued, failed, lost, new_job, wanted

PATIENCE_SECONDS = 30.0
MOMENT_SECONDS = 0.2


@pytest.fixture
def other(url, kind, clock):
    """A second store at the same address, as another process has it."""
    with open_store(url, clock=clock) as opened:
        yield opened


def _quiet(store):
    """Hear what was told so far; the first to listen is told once, for all before."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while store.wait(MOMENT_SECONDS):
        assert time.monotonic() < deadline, "it never falls silent"


def test_without_news_it_returns_after_the_timeout(store):
    _quiet(store)
    began = time.monotonic()

    assert store.wait(MOMENT_SECONDS) is False
    assert time.monotonic() - began >= MOMENT_SECONDS * 0.9


def test_a_wait_of_no_time_returns_at_once(store):
    _quiet(store)

    assert store.wait(0) is False


def test_a_new_job_wakes(store):
    _quiet(store)
    enqueued(store)

    assert store.wait(PATIENCE_SECONDS) is True


def test_many_new_jobs_wake(store):
    _quiet(store)
    enqueued(store, *(new_job() for _ in range(200)))

    assert store.wait(PATIENCE_SECONDS) is True


def test_what_was_heard_is_not_heard_again(store):
    _quiet(store)
    enqueued(store)
    store.wait(PATIENCE_SECONDS)

    assert store.wait(MOMENT_SECONDS) is False


def test_a_job_that_was_handed_back_wakes(store):
    (claim,) = claimed(store)
    _quiet(store)
    store.release([Release(token=claim.token)])

    assert store.wait(PATIENCE_SECONDS) is True


def test_a_job_that_was_taken_back_wakes(store, clock):
    (claim,) = claimed(store)
    clock.advance(60)
    _quiet(store)
    store.reclaim([lost(claim.token, 0)])

    assert store.wait(PATIENCE_SECONDS) is True


def test_a_job_that_was_sent_again_wakes(store):
    (job_id,) = failed(store)
    _quiet(store)
    store.redrive([Redrive(job_id)])

    assert store.wait(PATIENCE_SECONDS) is True


def test_the_end_of_a_hold_wakes(store):
    enqueued(store)
    store.hold(Scope.TASK, "work", reason="because")
    _quiet(store)
    store.resume(Scope.TASK, "work")

    assert store.wait(PATIENCE_SECONDS) is True


def test_a_thread_that_waits_is_woken_by_another(store):
    _quiet(store)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(store.wait, PATIENCE_SECONDS)
        enqueued(store)

        assert waiting.result() is True


@shared
def test_a_job_of_another_store_wakes(store, other):
    _quiet(store)
    enqueued(other)

    assert store.wait(PATIENCE_SECONDS) is True
    assert len(store.claim(wanted())) == 1


@shared
def test_a_job_of_another_store_wakes_who_waits_already(store, other):
    _quiet(store)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(store.wait, PATIENCE_SECONDS)
        enqueued(other)

        assert waiting.result() is True


@shared
@pytest.mark.parametrize("verb", ["release", "redrive", "resume"])
def test_whatever_else_makes_work_in_another_store_wakes(store, other, verb):
    (claim,) = claimed(store)
    (job_id,) = failed(store)
    store.hold(Scope.TASK, "work", reason="because")
    _quiet(store)

    {
        "release": lambda: other.release([Release(token=claim.token)]),
        "redrive": lambda: other.redrive([Redrive(job_id)]),
        "resume": lambda: other.resume(Scope.TASK, "work"),
    }[verb]()

    assert store.wait(PATIENCE_SECONDS) is True


@shared
def test_the_last_of_many_that_come_in_quick_turn_is_told_too(store, other):
    _quiet(store)
    with ThreadPoolExecutor() as pool:
        coming = pool.submit(lambda: [enqueued(other) for _ in range(50)])
        taken = 0
        while taken < 50:
            assert store.wait(PATIENCE_SECONDS) is True
            taken += len(store.claim(wanted(100)))
        coming.result()

    assert taken == 50


def test_a_nudge_wakes_whoever_waits_here(store):
    _quiet(store)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(store.wait, PATIENCE_SECONDS)
        store.nudge()
        assert waiting.result() is True

    assert store.wait(0)


@shared
def test_a_nudge_wakes_nobody_elsewhere(store, other):
    _quiet(other)

    store.nudge()

    assert not other.wait(MOMENT_SECONDS)
