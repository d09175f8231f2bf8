"""How the whole store stands, counted once for all who ask.

Counting reads an index from end to end, so what was counted is shown again for a while: the longer
it took, the longer.
"""

import threading
import time
from dataclasses import dataclass
from datetime import datetime

from seawall.states import State
from seawall.store import LetterFilter, LetterState, Store
from seawall.why import ALIVE_SECONDS

SHOWN_SECONDS = 2.0
SHARE = 20.0
"""Counting takes no more than one in so many seconds."""


@dataclass(frozen=True, slots=True)
class Stats:
    """How the store stands."""

    at: datetime
    states: dict[State, int]
    due: int
    later: int
    running: int
    oldest_due_at: datetime | None
    open_letters: int
    workers: int
    slots: int
    busy: int


class StatsBoard:
    """What was counted last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._stats: Stats | None = None
        self._good_until = 0.0

    def stats(self) -> Stats:
        """How the store stands, or stood a moment ago. For a thread."""
        with self._lock:
            began = time.monotonic()
            if self._stats is None or began >= self._good_until:
                self._stats = _counted(self._store)
                now = time.monotonic()
                self._good_until = now + max(SHOWN_SECONDS, SHARE * (now - began))
            return self._stats


def _counted(store: Store) -> Stats:
    backlog = store.backlog()
    alive = [each.presence for each in store.workers(within_seconds=ALIVE_SECONDS)]
    letters = store.count_letters(LetterFilter(state=LetterState.OPEN))
    oldest = [each.oldest_due_at for each in backlog if each.oldest_due_at is not None]
    return Stats(
        at=store.now(),
        states=store.counts(),
        due=sum(each.due for each in backlog),
        later=sum(each.later for each in backlog),
        running=sum(each.running for each in backlog),
        oldest_due_at=min(oldest, default=None),
        open_letters=sum(each.letters for each in letters),
        workers=len(alive),
        slots=sum(each.concurrency for each in alive),
        busy=sum(each.running for each in alive),
    )
