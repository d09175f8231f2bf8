"""The verbs of the store by which workers know of one another and of what they call; `port` says
what holds for all verbs.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from seawall.model import Lane, NewJob
from seawall.store.values import (
    MOST_ROWS,
    Enqueued,
    Observation,
    Observed,
    Planned,
    Presence,
    Present,
    Wanted,
    Watched,
)
from seawall.store.watching import Desk


class FleetVerbs(Protocol):
    """What the workers of a fleet share: upstreams, turns, schedules, and who is alive."""

    # --- upstreams ----------------------------------------------------------------------------

    def observe(self, observations: Sequence[Observation]) -> None:
        """Add how calls ended to what this second already knows of them."""
        ...

    def observed(self, upstream: str, *, within_seconds: float) -> list[Observed]:
        """How calls at an upstream ended lately, by second and worker, the newest first."""
        ...

    def called(self, *, within_seconds: float) -> list[str]:
        """The upstreams at which calls ended lately, the first so many by name."""
        ...

    def forget_observations(self, *, older_than_seconds: float, limit: int = MOST_ROWS) -> int:
        """Remove what is too old to matter; answers how much."""
        ...

    def watched(self) -> list[Watched]:
        """Every upstream about which something is written down, by name."""
        ...

    def due_at(self, wanted: Wanted, upstreams: Collection[str]) -> list[Lane]:
        """The lanes in which a job is due that is claimed by upstream: of these, or guarded.

        Of those queues and tasks; retries at any upstream. Costs a look into each lane.
        """
        ...

    def govern(self, upstream: str, *, wait: bool = False) -> AbstractContextManager[Desk | None]:
        """Decide about an upstream, alone: a transaction that has its row locked.

        What the desk's verbs claim and write is there together or not at all. While an upstream
        is gated its jobs are claimed in this way only, and so are retries at any upstream.
        None where somebody else is at it, unless the caller waits.
        """
        ...

    # --- a fleet's life -----------------------------------------------------------------------

    def appear(self, presence: Presence) -> None:
        """Tell that this worker is alive now, and what it serves."""
        ...

    def leave(self, worker: str) -> None:
        """Tell that this worker is gone for good."""
        ...

    def workers(self, *, within_seconds: float) -> list[Present]:
        """The workers that have told of themselves within that time, the oldest first."""
        ...

    def forget_workers(self, *, older_than_seconds: float, limit: int = MOST_ROWS) -> int:
        """Remove those that have been silent for so long; answers how many."""
        ...

    def take_turn(self, chore: str, worker: str, *, every_seconds: float) -> bool:
        """Whether it is this worker's turn at a chore: the fleet gets one in so many seconds.

        A turn is a time in the store, so nobody has to live for the next one to come.
        """
        ...

    def plan(self, name: str, spec: str, next_at: datetime) -> Planned:
        """The schedule of that name and specification, as it stands; made where there is none."""
        ...

    def planned(self) -> list[Planned]:
        """Every schedule, by name."""
        ...

    def fire(self, planned: Planned, *, next_at: datetime, job: NewJob | None) -> Enqueued | None:
        """Move the schedule on from where it stands, and enqueue its job, in one transaction.

        None where it no longer stands there: another was faster. Without a job (one that was
        missed, or must not overlap) it only moves on, and the answer is None, too.
        """
        ...
