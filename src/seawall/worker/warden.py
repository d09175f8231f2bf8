"""Watching over runs: when one has to be aborted or paused, and when it is over.

The counts of a run move with every settlement, so whoever settles looks at once whether its budget
still allows it to go on; the fleet's upkeep looks at all of them from time to time. Where items
fail in a row here, for one cause, no other begins before that look.
"""

import threading
from collections.abc import Iterable, Sequence

from seawall.decisions.failure_budget import (
    FEWEST_OF_A_TELLING_CODE,
    FEWEST_OF_ONE_FINGERPRINT,
    TELLING_CODES,
)
from seawall.faults import Fault
from seawall.model import Outcome, Settlement
from seawall.standings import watched
from seawall.store import Claim, Ending, RunStop, Store


class Warden:
    """One worker's watch over the runs whose items it has."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._streaks: dict[int, tuple[str, int]] = {}
        """By run, what its items failed for one after the other, and how many."""

    def saw(self, run: int, write: object) -> bool:
        """An item ended; whether no other may begin before the run was looked at."""
        if not isinstance(write, Settlement) or write.outcome is not Outcome.FAILED:
            if run in self._streaks and not _goes_back(write):
                with self._lock:
                    self._streaks.pop(run, None)
            return False
        cause, fewest = _cause(write.fault)
        with self._lock:
            last, count = self._streaks.get(run, ("", 0))
            count = count + 1 if last == cause else 1
            self._streaks[run] = (cause, count)
        return count >= fewest

    def look(self, claims: Iterable[Claim | None], writes: Sequence[Ending]) -> frozenset[int]:
        """Judge the runs of which something went wrong, or cost something; those that stop now."""
        concerned = {
            claim.run
            for claim, write in zip(claims, writes, strict=True)
            if claim is not None and claim.run is not None and _matters(write)
        }
        return frozenset(run for run in sorted(concerned) if self._stops(run))

    def _stops(self, run: int) -> bool:
        kept = self._store.run(run)
        if kept is None:
            return False
        if kept.stop is not None:
            return True
        return watched(self._store, kept) in (RunStop.ABORTED, RunStop.PAUSED)


def _matters(write: Ending) -> bool:
    failed = isinstance(write, Settlement) and write.outcome is Outcome.FAILED
    return failed or (write.usage is not None and write.usage.cost > 0)


def _goes_back(write: object) -> bool:
    """Whether an end says nothing about the item: it will be tried again."""
    return not isinstance(write, Settlement) or write.outcome in (
        Outcome.RETRIED,
        Outcome.SNOOZED,
        Outcome.CANCELLED,
    )


def _cause(fault: Fault | None) -> tuple[str, int]:
    if fault is None:
        return "", FEWEST_OF_ONE_FINGERPRINT
    if fault.code in TELLING_CODES:
        return fault.code, FEWEST_OF_A_TELLING_CODE
    return fault.fingerprint, FEWEST_OF_ONE_FINGERPRINT
