"""Calls inside a handler, at upstreams that are not, or not only, its job's own."""

import asyncio
import itertools
import threading
import time
from datetime import timedelta

import pytest

from seawall import (
    Backoff,
    Breaker,
    FaultCode,
    FaultError,
    Limits,
    Policy,
    Rule,
    Seawall,
    SeawallError,
    Upstream,
    upstream,
)
from seawall.model import Outcome
from seawall.states import State
from tests.life import tasks
from tests.life.world import await_state, enqueued, eventually, job, outcomes

SOON = Policy(
    name="soon",
    max_attempts=3,
    rules=[Rule(on="all", backoff=Backoff(curve="fixed", base_seconds=0.05, jitter="none"))],
)
QUICK = Breaker(open=Backoff(curve="fixed", base_seconds=0.5, jitter="none"), ramp_seconds=0.0)


class Meter:
    """How many are inside at once, and how many ever were."""

    def __init__(self):
        self._lock = threading.Lock()
        self.now = self.most = self.ever = 0

    def __enter__(self):
        with self._lock:
            self.now += 1
            self.ever += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_):
        with self._lock:
            self.now -= 1


@pytest.fixture
def app(url):
    made = Seawall(url, lease_seconds=5.0, policies=[SOON])
    yield made
    made.close()


def test_calls_inside_handlers_are_observed_by_their_own_upstream(app, store, hire):
    @app.task(policy="soon")
    async def draw(n: int) -> None:
        async with upstream("vision"):
            await asyncio.sleep(0)

    @app.task(policy="soon", upstream="words")
    def write(n: int) -> None:
        with upstream("vision"):
            pass

    ids = enqueued(store, *[draw.job(n) for n in range(5)], *[write.job(n) for n in range(5)])
    hire(app, concurrency=4)
    await_state(store, State.SUCCEEDED, *ids)

    def calls(name):
        return sum(each.calls for each in store.observed(name, within_seconds=600))

    eventually(lambda: calls("vision") == 10)
    assert calls("words") == 5


def test_what_another_upstream_did_is_not_held_against_the_jobs_own(app, store, hire):
    app.upstream(Upstream("vision", breaker=Breaker(consecutive_failures=None, failure_rate=None)))

    @app.task(policy="soon", upstream="words")
    def write() -> None:
        with upstream("vision"):
            raise FaultError(FaultCode.UPSTREAM_ERROR, "it broke")

    ids = enqueued(store, *[write.job() for _ in range(4)])
    hire(app, concurrency=4)
    await_state(store, State.FAILED, *ids)

    def failures(name):
        return sum(each.failures for each in store.observed(name, within_seconds=600))

    eventually(lambda: failures("vision") == 12)
    assert failures("words") == 0


def test_a_held_upstream_sends_the_job_back_without_a_try(app, store, hire):
    ran = []

    @app.task(policy="soon")
    async def draw() -> None:
        async with upstream("vision"):
            ran.append(1)

    app.upstreams.hold("vision", seconds=600, why="maintenance")
    (each,) = enqueued(store, draw.job())
    hire(app, concurrency=4)
    eventually(lambda: outcomes(store, each) == [Outcome.SNOOZED])
    held = job(store, each)
    assert (held.state, held.tries, ran) == (State.QUEUED, 0, [])
    assert held.due_at - store.now() > timedelta(seconds=500)


def test_an_upstream_that_breaks_inside_handlers_is_held_and_comes_back(app, store, hire):
    app.upstream(Upstream("vision", breaker=QUICK))
    down, calls, failed = threading.Event(), Meter(), Meter()
    down.set()

    @app.task(policy="soon")
    async def draw(n: int) -> None:
        async with upstream("vision"):
            with calls:
                await asyncio.sleep(0.001)
                if down.is_set():
                    with failed:
                        raise FaultError(FaultCode.UNAVAILABLE, "down")

    ids = enqueued(store, *[draw.job(n) for n in range(50)])
    hire(app, concurrency=5)
    eventually(lambda: store.watched() and store.watched()[0].held_until)
    time.sleep(2)
    # Those that opened it, those under way then, and one probe in half a second.
    assert failed.ever <= 5 + 5 + 6
    down.clear()
    await_state(store, State.SUCCEEDED, *ids)
    assert calls.most <= 5


def test_no_more_calls_are_inside_at_once_than_the_upstream_takes(app, store, hire):
    app.upstream(Upstream("vision", concurrency=2, each_owner=Limits(concurrency=1)))
    inside = {"ann": Meter(), "bob": Meter(), "all": Meter()}

    @app.task(policy="soon")
    def draw(who: str) -> None:
        with upstream("vision"), inside["all"], inside[who]:
            time.sleep(0.05)

    ids = enqueued(
        store, *[draw.using(owner=who).job(who) for who in ("ann", "bob") for _ in range(6)]
    )
    hire(app, concurrency=6)
    hire(app, concurrency=6)
    await_state(store, State.SUCCEEDED, *ids)
    assert inside["all"].most <= 2
    assert (inside["ann"].most, inside["bob"].most) == (1, 1)


def test_units_are_reserved_before_and_what_was_used_is_settled_after(app, store, hire):
    app.upstream(Upstream("words", per_minute={"tokens": 6_000}))
    began = []

    @app.task(policy="soon", upstream="words")
    async def write(n: int) -> None:
        async with upstream("words").reserve(tokens=10) as call:
            began.append(time.monotonic())
            call.settle(tokens=200)  # two seconds' worth of the allowance

    ids = enqueued(store, *[write.job(n) for n in range(3)])
    hire(app, concurrency=1)
    await_state(store, State.SUCCEEDED, *ids)
    assert [job(store, each).tries for each in ids] == [1, 1, 1]
    gaps = [b - a for a, b in itertools.pairwise(began)]
    assert min(gaps) > 0.8, "what was used beyond the reservation is a debt"


def test_an_isolated_handler_is_told_that_it_cannot(store, crew):
    (each,) = enqueued(store, tasks.calls_apart.job())
    crew.start()
    await_state(store, State.FAILED, each)
    assert "not in an isolated task" in str(job(store, each).last_fault)


def test_outside_of_a_worker_the_block_simply_runs():
    with upstream("vision") as call:
        call.settle(tokens=3)

    async def run():
        async with upstream("vision").reserve(tokens=5):
            return 1

    assert asyncio.run(run()) == 1


@pytest.mark.parametrize("amount", [-1, True, "5", float("inf"), float("nan")])
def test_an_amount_that_is_none_is_refused(amount):
    with pytest.raises(SeawallError, match="tokens: found"):
        upstream("vision").reserve(tokens=amount)
