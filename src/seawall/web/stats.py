"""How the whole store stands, in numbers.

Counting reads an index from end to end: whoever asks often does so through `glances`, which has it
counted once for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from seawall.states import State
from seawall.store import Backlog, LetterFilter, LetterState, Scope, Store
from seawall.why import ALIVE_SECONDS


@dataclass(frozen=True, slots=True)
class Load:
    """What waits and runs, and who works."""

    at: datetime
    due: int
    stopped: int
    """Of those that are due, items of runs that are paused or aborted."""
    later: int
    running: int
    oldest_due_at: datetime | None
    workers: int
    slots: int
    busy: int


@dataclass(frozen=True, slots=True)
class Stats(Load):
    """How the store stands."""

    states: dict[State, int]
    open_letters: int


def load_of(store: Store, backlog: Sequence[Backlog]) -> Load:
    """What waits and runs, by a backlog that was counted a moment ago."""
    return Load(**_load(store, backlog))


def stats_of(store: Store) -> Stats:
    """All of it, counted now."""
    letters = store.count_letters(LetterFilter(state=LetterState.OPEN))
    return Stats(
        **_load(store, store.backlog()),
        states=store.counts(),
        open_letters=sum(each.letters for each in letters),
    )


def _load(store: Store, backlog: Sequence[Backlog]) -> dict[str, Any]:
    runs = {hold.name for hold in store.holds() if hold.scope is Scope.RUN}
    alive = [each.presence for each in store.workers(within_seconds=ALIVE_SECONDS)]
    oldest = [each.oldest_due_at for each in backlog if each.oldest_due_at is not None]
    return {
        "at": store.now(),
        "due": sum(each.due for each in backlog),
        "stopped": sum(each.due for each in backlog if str(each.lane.run) in runs),
        "later": sum(each.later for each in backlog),
        "running": sum(each.running for each in backlog),
        "oldest_due_at": min(oldest, default=None),
        "workers": len(alive),
        "slots": sum(each.concurrency for each in alive),
        "busy": sum(each.running for each in alive),
    }
