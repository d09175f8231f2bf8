"""Who comes first at an upstream, and that nobody is kept from it for good."""

import threading
import time
from datetime import timedelta

import pytest

from seawall import (
    Backoff,
    Breaker,
    FaultCode,
    FaultError,
    Policy,
    Rule,
    Seawall,
    Upstream,
    upstream,
)
from seawall.model import Lane, NewJob
from seawall.states import State
from tests.life.world import await_state, enqueued, eventually, states

SOON = Policy(
    name="soon",
    max_attempts=3,
    rules=[Rule(on="all", backoff=Backoff(curve="fixed", base_seconds=0.05, jitter="none"))],
)
QUICK = Breaker(open=Backoff(curve="fixed", base_seconds=0.3, jitter="none"), ramp_seconds=0.0)


@pytest.fixture
def app(url):
    made = Seawall(url, lease_seconds=5.0, policies=[SOON], policy="soon")
    yield made
    made.close()


class Order:
    """Who began, one after the other."""

    def __init__(self):
        self._lock = threading.Lock()
        self.begun = []

    def __call__(self, who):
        with self._lock:
            self.begun.append(who)


def test_a_backlog_of_other_jobs_does_not_keep_those_of_a_limited_upstream_waiting(
    app, store, hire
):
    app.upstream(Upstream("words", concurrency=2))
    began = Order()

    @app.task
    def plain() -> None:
        began("plain")
        time.sleep(0.01)

    @app.task(upstream="words")
    def limited() -> None:
        began("limited")

    ids = enqueued(store, *[plain.job() for _ in range(600)], *[limited.job() for _ in range(5)])
    hire(app, concurrency=4)
    await_state(store, State.SUCCEEDED, *ids[-5:])
    assert began.begun.count("plain") < 400


def test_nor_does_the_backlog_of_a_limited_upstream_keep_others_waiting(app, store, hire):
    app.upstream(Upstream("words", concurrency=100))
    began = Order()

    @app.task
    def plain() -> None:
        began("plain")

    @app.task(upstream="words")
    def limited() -> None:
        began("limited")
        time.sleep(0.01)

    many = 900
    ids = enqueued(store, *[limited.job() for _ in range(many)], *[plain.job() for _ in range(5)])
    hire(app, concurrency=4)
    await_state(store, State.SUCCEEDED, *ids[-5:])
    assert began.begun.count("limited") < many * 2 // 3


def test_a_backlog_of_first_calls_does_not_keep_retries_waiting(app, store, hire):
    app.upstream(Upstream("words"))
    began, failed = Order(), set()

    @app.task(upstream="words")
    def write(n: int) -> None:
        began(n)
        if n == 0 and not failed:
            failed.add(n)
            raise FaultError(FaultCode.UPSTREAM_ERROR, "just once")
        time.sleep(0.01)

    first, *_ = enqueued(store, *[write.job(n) for n in range(600)])
    hire(app, concurrency=4)
    await_state(store, State.SUCCEEDED, first)
    assert len(began.begun) < 400


def test_owners_take_turns_also_where_there_is_one_place_and_one_worker(app, store, hire):
    app.upstream(Upstream("words", concurrency=1))
    began = Order()

    @app.task(upstream="words")
    def write(who: str) -> None:
        began(who)

    many = [write.using(owner=who).job(who) for who in ("ann", "bob", "cid") for _ in range(40)]
    ids = enqueued(store, *many)
    hire(app, concurrency=4)
    await_state(store, State.SUCCEEDED, *ids)
    early = began.begun[:60]
    assert min(early.count(who) for who in ("ann", "bob", "cid")) >= 10


@pytest.mark.parametrize("priority", [0, 5])
def test_jobs_that_always_fail_do_not_keep_the_breaker_open(app, store, hire, priority):
    """Whoever comes first otherwise: any job may be the next probe."""
    app.upstream(Upstream("words", breaker=QUICK))

    @app.task(upstream="words")
    def write(good: bool) -> None:
        if not good:
            raise FaultError(FaultCode.UPSTREAM_ERROR, "this one always fails")

    enqueued(store, *[write.using(priority=priority).job(False) for _ in range(6)])
    hire(app, concurrency=1)
    eventually(lambda: any(each.held_until for each in store.watched()))
    good = enqueued(store, *[write.job(True) for _ in range(20)])
    await_state(store, State.SUCCEEDED, *good)


def test_a_worker_that_alone_calls_something_inside_its_handlers_decides_about_it_for_all(
    app, store, hire, url
):
    """Another that never calls it is alive, and is not waited for."""
    app.upstream(Upstream("vision", breaker=QUICK))
    down, ever = threading.Event(), Order()
    down.set()

    @app.task
    def draw(n: int) -> None:
        with upstream("vision"):
            ever(n)
            if down.is_set():
                raise FaultError(FaultCode.UNAVAILABLE, "down")

    idle = Seawall(url, lease_seconds=5.0)
    idle.task(name="nothing")(lambda: None)
    hire(idle)
    eventually(lambda: len(store.workers(within_seconds=30)) == 1)
    hire(app, concurrency=4)
    eventually(lambda: len(store.workers(within_seconds=30)) == 2)
    ids = enqueued(store, *[draw.job(n) for n in range(30)])
    eventually(lambda: any(each.held_until for each in store.watched()))
    time.sleep(1.0)
    assert len(ever.begun) <= 5 + 4 + 8, "and one probe for each opening"
    assert states(store, ids)[State.FAILED] == 0
    down.clear()
    await_state(store, State.SUCCEEDED, *ids)
    idle.close()


@pytest.mark.parametrize("what", ["retry", "gated"])
def test_what_waits_for_an_upstream_that_no_task_names_any_more_is_found_all_the_same(
    app, store, hire, what
):
    """Retries wait in lanes of their own, what is gated at its desk: somebody must look there."""
    lane = Lane(task="write", upstream="words", retry=what == "retry")
    (answer,) = store.enqueue([NewJob(lane=lane, arguments="{}")])
    if what == "gated":
        with store.govern("words") as desk:
            desk.keep("{}", gated=True)
    app.task(name="write")(lambda: None)
    hire(app)
    await_state(store, State.SUCCEEDED, answer.job_id)


def test_a_quota_that_is_used_up_holds_the_upstream_for_long_and_calls_for_people(
    app, store, hire, says
):
    """Only people can raise it, so nobody asks again for a while; the rest keeps all its tries."""

    @app.task(upstream="paid", policy="soon")
    async def ask(n: int) -> None:
        raise FaultError(FaultCode.QUOTA_EXHAUSTED, "no credit is left")

    enqueued(store, *[ask.job(n) for n in range(30)])
    hire(app, concurrency=3)
    eventually(lambda: says.said("upstream_needs_you"))
    (held,) = eventually(lambda: [each for each in store.watched() if each.held_until])
    assert held.held_until - store.now() > timedelta(seconds=540)
    counts = store.counts()
    assert counts[State.QUEUED] + counts[State.RUNNING] >= 30 - 2 * 3
