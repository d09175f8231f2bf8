"""Handlers go on while the store is being asked, and when only half of an answer comes."""

import asyncio
import sys
import threading
from collections import Counter
from functools import partial

import pytest

from seawall import Policy, Seawall, Snooze, State, Worker
from seawall.errors import StoreUnavailableError
from seawall.store.values import Result
from seawall.worker import core as core_module
from seawall.worker import worker as worker_module
from tests.life.world import PATIENCE_SECONDS, await_state, enqueued, eventually, outcomes

JOBS = 200
IN_HAND = 50
"""How many wait in the worker's hands when its store stops answering."""
on_postgresql = pytest.mark.parametrize("kind", ["postgres18"], indirect=True)
"""Only there does a worker write and claim at the same time."""


def through(app, verbs, ask):
    """Have these verbs of the worker's own store asked by way of `ask(verb, real, *words)`."""
    opened = app.store_of_its_own

    def its_own():
        store = opened()
        for verb in verbs:
            real = getattr(store, verb)

            def asked(*words, verb=verb, real=real, **more):
                return ask(verb, partial(real, **more), *words)

            setattr(store, verb, asked)
        return store

    app.store_of_its_own = its_own


class Watched(Worker):
    """A worker that remembers its turns and what came of them, and whose store may ail."""

    def __init__(self, ask, app, **how):
        super().__init__(app, **how)
        self.turns = []
        self.turn = None
        self.wrote = threading.Event()
        """The ends of this turn were written, or were not."""
        through(app, ("exchange", "settle"), lambda *words: ask(self, *words))

    def _turned(self, turn):
        self.turn = turn
        self.wrote.clear()
        came_of_it = super()._turned(turn)
        self.turns.append((turn, came_of_it[0]))
        return came_of_it

    @property
    def halves(self):
        """Those that claimed and do not know whether their ends are written."""
        return [(turn, came) for turn, came in self.turns if not getattr(came, "written", True)]


# ── A store that does not answer ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
def test_what_waits_in_hand_begins_in_slots_that_become_free_while_the_store_is_being_asked(
    url, store, is_async, monkeypatch
):
    # The pulse alone would be too slow for all of them, and no slot is kept for lost jobs.
    monkeypatch.setattr(worker_module, "PULSE_SECONDS", 1.0)
    monkeypatch.setattr(core_module, "LOOK_FOR_LOST_SECONDS", 3_600.0)
    app, ran = Seawall(url, lease_seconds=60), Counter()
    stuck, go_on = threading.Event(), threading.Event()

    def ask(worker, verb, real, *words):
        if not stuck.is_set() and len(worker.core.waiting) >= IN_HAND:
            stuck.set()
            assert go_on.wait(PATIENCE_SECONDS)
        return real(*words)

    if is_async:

        @app.task(name="quick")
        async def task(n: int) -> None:
            ran[n] += 1
    else:

        @app.task(name="quick")
        def task(n: int) -> None:
            ran[n] += 1

    ids = enqueued(store, *[task.job(n) for n in range(JOBS)])
    worker = Watched(ask, app, concurrency=2, drain=True)
    worker.core._mean_seconds = 0.001  # it knows that jobs are short, and claims many
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        assert stuck.wait(PATIENCE_SECONDS)
        eventually(lambda: not worker.core.waiting)
        assert len(ran) >= IN_HAND
        assert worker.core.turning, "it was answered"
    finally:
        go_on.set()
        thread.join(2 * PATIENCE_SECONDS)
    assert not thread.is_alive()
    assert ran == dict.fromkeys(range(JOBS), 1)
    await_state(store, State.SUCCEEDED, *ids)
    assert {tuple(outcomes(store, each)) for each in ids} == {("succeeded",)}


# ── A store of which one half is away ────────────────────────────────────────────────────────────


class Ailing:
    """Fails some asks of a verb, after it did the first ones well: before it does them, or after."""

    def __init__(self, ailing, *, done, times=2, spared=0):
        self._ailing, self._done, self._times, self._spared = ailing, done, times, spared
        self._asked = 0
        self.answers = Counter()

    def __call__(self, worker, verb, real, *words):
        try:
            return self._answered(verb, real, *words)
        finally:
            if verb == "settle":
                worker.wrote.set()

    def _answered(self, verb, real, *words):
        self._asked += verb == self._ailing
        first = self._spared + 1
        fails = verb == self._ailing and first <= self._asked < first + self._times
        if fails and not self._done:
            raise StoreUnavailableError("half of it is away")
        answer = real(*words)
        if fails:
            raise StoreUnavailableError("its answer was lost")
        if verb == "settle":
            self.answers.update(each.result for each in answer)
        return answer


@on_postgresql
@pytest.mark.parametrize("done", [False, True], ids=["not written", "written"])
def test_jobs_are_run_once_while_they_can_be_claimed_and_their_ends_not_be_written(
    url, store, says, done
):
    app, ran = Seawall(url, lease_seconds=60), Counter()

    @app.task
    async def quick(n: int) -> None:
        ran[n] += 1

    ids = enqueued(store, *[quick.job(n) for n in range(JOBS)])
    ailing = Ailing("settle", done=done)
    worker = Watched(ailing, app, concurrency=4, drain=True)

    assert worker.run()

    assert any(came.claims for _, came in worker.halves), "it never came to that"
    assert (ailing.answers[Result.ALREADY] > 0) == done
    assert ran == dict.fromkeys(range(JOBS), 1)
    await_state(store, State.SUCCEEDED, *ids)
    assert {tuple(outcomes(store, each)) for each in ids} == {("succeeded",)}
    assert len(says.said("store_away")) == len(says.said("store_back")) > 0
    assert says.said("lease_lost") == []


@on_postgresql
def test_ends_that_were_written_while_nothing_could_be_claimed_are_not_written_twice(
    url, store, says
):
    app, ran = Seawall(url, lease_seconds=60), Counter()

    @app.task
    async def quick(n: int) -> None:
        ran[n] += 1

    ids = enqueued(store, *[quick.job(n) for n in range(JOBS)])
    ailing = Ailing("exchange", done=False, times=2, spared=1)

    assert Watched(ailing, app, concurrency=4, drain=True).run()

    assert ailing.answers[Result.ALREADY], "it never came to that"
    assert ran == dict.fromkeys(range(JOBS), 1)
    await_state(store, State.SUCCEEDED, *ids)
    assert {tuple(outcomes(store, each)) for each in ids} == {("succeeded",)}
    assert says.said("lease_lost") == []


@on_postgresql
def test_jobs_that_come_back_in_a_turn_that_does_not_know_of_their_end_run_on_from_there(
    url, store, says
):
    """Their ends were written, the answer was lost, and they were to run again at once."""
    app, ran = Seawall(url, lease_seconds=60), Counter()

    @app.task
    async def twice(n: int) -> None:
        ran[n] += 1
        if ran[n] == 1:
            raise Snooze(0)

    ailing = Ailing("settle", done=True)

    def writes_first(worker, verb, real, *words):
        if verb == "exchange" and worker.turn.settlements:
            assert worker.wrote.wait(PATIENCE_SECONDS)
        return ailing(worker, verb, real, *words)

    ids = enqueued(store, *[twice.job(n) for n in range(20)])
    worker = Watched(writes_first, app, concurrency=20, drain=True)

    assert worker.run()

    assert any(
        {each.token.job_id for each in turn.settlements} & {c.token.job_id for c in came.claims}
        for turn, came in worker.halves
    ), "it never came to that"
    assert ran == dict.fromkeys(range(20), 2)
    await_state(store, State.SUCCEEDED, *ids)
    assert {tuple(outcomes(store, each)) for each in ids} == {("snoozed", "succeeded")}
    assert says.said("lease_lost") == []


# ── The loop of async handlers ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["file"], indirect=True)
@pytest.mark.parametrize("with_uvloop", [True, False], ids=["uvloop", "asyncio"])
def test_async_handlers_run_with_uvloop_and_without(url, store, with_uvloop, monkeypatch):
    if with_uvloop:
        pytest.importorskip("uvloop")
    else:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    app = Seawall(url, policies=[Policy(name="once", max_attempts=1)], policy="once")
    loops, cancelled = set(), []

    @app.task
    async def on_loop(n: int) -> int:
        loops.add(type(asyncio.get_running_loop()).__module__)
        await asyncio.sleep(0)
        halves = await asyncio.gather(asyncio.to_thread(lambda: n), asyncio.sleep(0.001, n))
        return sum(halves)

    @app.task(timeout_seconds=0.2)
    async def too_slow() -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    @app.task
    async def raises() -> None:
        await asyncio.sleep(0)
        raise ValueError("a bug")

    values = app.enqueue_many(on_loop.job(n) for n in range(30))
    slow, bug = too_slow.enqueue(), raises.enqueue()

    assert Worker(app, concurrency=10, drain=True).run()

    assert [each.result() for each in values] == [2 * n for n in range(30)]
    assert {name.partition(".")[0] for name in loops} == {"uvloop" if with_uvloop else "asyncio"}
    assert cancelled == [True]
    assert (slow.state, bug.state) == (State.FAILED, State.FAILED)
    assert [str(attempt.fault.code) for attempt in slow.attempts()] == ["TIMEOUT"]
