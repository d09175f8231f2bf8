"""What a whole worker costs for its jobs, in counts: turns, asks of the store, memory.

As in `tests/store/test_costs.py`: nothing that is done once for many jobs may become something that
is done for each. How many jobs go together depends on the machine, so the bounds are wide; but a
turn for every job is far beyond them.
"""

import gc
import sys
from collections import Counter

import pytest

from seawall import Seawall, State, Worker
from seawall.worker import slots
from tests.life.world import Hand, eventually

JOBS = 2_000
MOST_TURNS_PER_THOUSAND = 50
"""Today 4."""
MOST_ASKS_PER_THOUSAND = 100
"""Today 4 on SQLite and 6 on PostgreSQL, where a turn may be two: it writes while it claims."""
_VERBS = ("claim", "settle", "exchange", "release", "report")
MOST_BLOCKS_KEPT = 1_000
"""Fewer than there are jobs between the two looks: so nothing is kept of each. Today about 300."""


@pytest.fixture
def app(url):
    return Seawall(url)


def with_a_task(app):
    @app.task
    async def nothing() -> None:
        """Ends at once."""

    return nothing


class Counted(Worker):
    """A worker that counts its turns, and what it asks of its store."""

    def __init__(self, app, **how):
        super().__init__(app, **how)
        self.turns = 0
        self.asks = Counter()
        real = app.store_of_its_own

        def opened():
            store = real()
            for verb in _VERBS:
                self._count(store, verb)
            return store

        app.store_of_its_own = opened

    def _count(self, store, verb):
        real = getattr(store, verb)

        def counted(*words, **values):
            self.asks[verb] += 1
            return real(*words, **values)

        setattr(store, verb, counted)

    def _turned(self, turn):
        self.turns += 1
        return super()._turned(turn)


def test_a_worker_asks_the_store_for_many_jobs_at_a_time(app):
    task = with_a_task(app)
    app.enqueue_many(task.job() for _ in range(JOBS))
    worker = Counted(app, concurrency=100, drain=True)

    assert worker.run()

    assert app.store.counts()[State.SUCCEEDED] == JOBS
    assert worker.turns <= MOST_TURNS_PER_THOUSAND * JOBS / 1_000
    assert worker.asks.total() <= MOST_ASKS_PER_THOUSAND * JOBS / 1_000, worker.asks


def test_a_worker_keeps_nothing_of_the_jobs_that_it_has_done(app, monkeypatch):
    """So one that has been at work for weeks is no larger than one of today."""
    monkeypatch.setattr(slots, "_SPENT_LIMITS", 10)  # these are bounded, but by many
    task = with_a_task(app)
    done = 0
    hand = Hand(app, concurrency=10)

    def blocks_after(many: int) -> int:
        nonlocal done
        done += many
        app.enqueue_many(task.job() for _ in range(many))
        eventually(lambda: app.store.counts()[State.SUCCEEDED] == done and hand.worker.core.idle)
        gc.collect()
        return sys.getallocatedblocks()

    try:
        blocks_after(500)
        warm = blocks_after(500)
        later = [blocks_after(JOBS - 500) for _ in range(2)]
    finally:
        hand.stop()
    assert min(later) - warm <= MOST_BLOCKS_KEPT
