"""The verbs of the store that are about runs; `port` says what holds for all verbs."""

from typing import Protocol

from seawall.model import Usage
from seawall.store.audit_values import Audit
from seawall.store.run_values import (
    FailedFor,
    Items,
    KeptRun,
    LiveItems,
    NewRun,
    RunStop,
    Started,
)
from seawall.store.values import MOST_ROWS


class RunVerbs(Protocol):
    """Runs: how they begin, stand and end, and what was used up for them."""

    def start_run(self, new: NewRun) -> Started:
        """Begin a run, or go on with the last of that pipeline and name if it is not over.

        Over is one that was cancelled, or whose items were all there and have all ended.
        """
        ...

    def seal_run(self, run_id: int) -> bool:
        """Note that all items are there; false where that was known.

        One that was closed while the last of them came in is open again.
        """
        ...

    def stop_run(self, run_id: int, stop: RunStop, *, reason: str) -> bool:
        """Let no more items of the run be claimed; false where it was stopped already, or is over.

        Those that run go on. One that is paused or aborted can be resumed, or cancelled for good.
        """
        ...

    def resume_run(self, run_id: int) -> bool:
        """Let a paused or aborted run go on; what failed before is not held against it any more."""
        ...

    def revise_run(self, run_id: int, terms: str) -> bool:
        """Give a run that is not over other terms; false where it is, or has these already."""
        ...

    def close_run(self, run_id: int) -> bool:
        """Write down that a run is over; false where that was known, or is not so.

        Over is one that is sealed and whose items have all ended; it is neither paused nor aborted
        any more. A redrive opens it again.
        """
        ...

    def run(self, run_id: int) -> KeptRun | None:
        """A run as it was asked for."""
        ...

    def runs(
        self,
        *,
        pipeline: str | None = None,
        name: str | None = None,
        unfinished: bool = False,
        owner: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[KeptRun]:
        """Runs, the newest first; those before an id; of those not yet closed, where asked."""
        ...

    def items(self, run_id: int) -> list[Items]:
        """How many items of a run ended at each stage, exactly as of now."""
        ...

    def live_items(self, run_id: int) -> list[LiveItems]:
        """How many run or wait, by stage. What waits at the first stage is not read."""
        ...

    def causes(self, run_id: int, *, limit: int = MOST_ROWS) -> list[FailedFor]:
        """What the last items that failed did so for, the commonest first."""
        ...

    def unfinished_items(self, run_id: int, *, limit: int = MOST_ROWS) -> list[int]:
        """Some of the items that have not ended and were not asked to stop."""
        ...

    def audit(
        self, run_id: int, *, failed: int = MOST_ROWS, timeout_seconds: float = 600.0
    ) -> Audit:
        """What the attempts of a run's items come to, and the first so many of those that failed.

        All of it is read in one instant, and costs as much as the run has attempts.
        """
        ...

    def fold_runs(self, *, limit: int = MOST_ROWS) -> int:
        """Fold what batches of items changed into the counts of their runs; answers how many."""
        ...

    def forget_lanes(self, *, limit: int = MOST_ROWS) -> int:
        """Remove the lanes of runs that are over and of which no item is left."""
        ...

    def used_for(self, owner: str) -> Usage:
        """What all attempts for an owner used up, as far as they are kept."""
        ...

    def used(self, job_id: int) -> dict[int, Usage]:
        """What the attempts at a job used up, by their numbers."""
        ...
