"""The verbs of the store about its history of pace; `port` says what holds for all verbs."""

from datetime import datetime
from typing import Protocol

from seawall.store.pace_values import PaceBucket, PhaseSpan, Total, UpstreamBucket, UpstreamTotal
from seawall.store.values import MOST_ROWS


class PaceVerbs(Protocol):
    """How much was done, over all time and by the minute, exactly as of now.

    It is written in the transaction that does it, so that no crash and no pruning changes it.
    Ends are counted, not jobs: one that was redriven and ends again has ended twice. What any of
    this costs does not grow with how many jobs there are or were.
    """

    def pace(
        self,
        since: datetime,
        until: datetime | None = None,
        *,
        step_seconds: int = 60,
        task: str | None = None,
    ) -> list[PaceBucket]:
        """What happened by the minute, or so many of them, the oldest first; of all tasks or one.

        Every step between the two times is there, in whose midst they may lie. Minutes are kept for
        two days. A step is a whole number of minutes, and there are some thousands at most.
        """
        ...

    def totals(self) -> list[Total]:
        """What happened over all time, by task, queue, fault and duration."""
        ...

    def upstream_pace(
        self,
        upstream: str,
        since: datetime,
        until: datetime | None = None,
        *,
        step_seconds: int = 60,
    ) -> list[UpstreamBucket]:
        """How calls at an upstream ended and how long they took, in steps as of `pace`."""
        ...

    def upstream_totals(self) -> list[UpstreamTotal]:
        """The same over all time, and for how long each was shut; by name."""
        ...

    def upstream_phases(self, upstream: str, since: datetime) -> list[PhaseSpan]:
        """How an upstream's breaker stood from that time until now, in order and without gaps.

        Two days are kept. Of one that turned more than a thousand times since, the last thousand
        are told, and it begins later.
        """
        ...

    def fold_pace(self, *, limit: int = MOST_ROWS) -> int:
        """Fold what batches did, and what workers told of calls; answers how much."""
        ...

    def forget_pace(self, *, limit: int = MOST_ROWS) -> int:
        """Remove minutes and phases that are older than two days; answers how much."""
        ...
