"""What seawall keeps, as frozen values.

These are the rows of the ledger that the queue will keep: a job, the lease on its current attempt,
the settlement that ends an attempt, the attempt as history remembers it. They know their own
invariants and nothing else: not how they are stored, not who decides about them. Every time is an
aware `datetime`.
"""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from seawall.faults import Fault, FaultCode
from seawall.states import FINISHED, Move, State, step

__all__ = ["Attempt", "Fault", "FaultCode", "Job", "Lease", "Outcome", "Settlement"]


class Outcome(StrEnum):
    """How one attempt ended."""

    SUCCEEDED = "succeeded"
    ADVANCED = "advanced"
    SKIPPED = "skipped"
    RETRIED = "retried"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RELEASED = "released"
    LOST = "lost"


_MOVES: dict[Outcome, Move] = {
    Outcome.SUCCEEDED: Move.SUCCEED,
    Outcome.SKIPPED: Move.SKIP,
    Outcome.RETRIED: Move.RETRY,
    Outcome.FAILED: Move.FAIL,
    Outcome.CANCELLED: Move.STOP,
}
SETTLING_OUTCOMES = frozenset(_MOVES)
_WITH_FAULT = frozenset({Outcome.RETRIED, Outcome.FAILED})


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to carry out one attempt, until a time, under a fencing token.

    `lease_no` grows with each claim of the job and is never reset, so that a write which names an
    older one is refused whatever else has happened since.
    """

    job_id: int
    lease_no: int
    worker: str
    until: datetime

    def __post_init__(self) -> None:
        _need(self.lease_no >= 1, "lease_no starts at 1")
        _need_zone(self, "until")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A durable row that moves through stages, often one."""

    id: int
    task: str
    state: State
    queue: str = "default"
    stage: int = 0
    priority: int = 0
    due_at: datetime
    created_at: datetime
    started_at: datetime | None = None
    """When its first attempt began."""
    last_attempt_at: datetime | None = None
    finished_at: datetime | None = None
    deadline_at: datetime | None = None
    cycle: int = 0
    """How often it was redriven; each cycle has a fresh allowance of tries."""
    tries: int = 0
    """Attempts at this stage, in this cycle, that counted."""
    losses: int = 0
    """Attempts whose worker was lost."""
    seq: int = 0
    """Attempts ever made; never reset."""
    lease_no: int = 0
    lease: Lease | None = None
    cancel_requested: bool = False
    upstream: str | None = None
    owner: str | None = None
    key: str | None = None
    run: int | None = None
    last_fault: Fault | None = None

    def __post_init__(self) -> None:
        running = self.state is State.RUNNING
        _need(running == (self.lease is not None), "a job has a lease exactly while it runs")
        finished = self.state in FINISHED
        _need(finished == (self.finished_at is not None), "finished_at is set exactly at the end")
        counts = (self.stage, self.cycle, self.tries, self.losses, self.seq, self.lease_no)
        _need(min(counts) >= 0, "counts are never negative")
        _need_zone(self, "due_at", "created_at", "started_at", "last_attempt_at", "finished_at")
        _need_zone(self, "deadline_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How a worker says an attempt ended; guarded by its lease."""

    lease: Lease
    outcome: Outcome
    fault: Fault | None = None
    delay_seconds: float | None = None
    """With `retried`: how long to wait before the next attempt."""
    counts: bool = True
    """Whether the attempt uses up one of the policy's tries."""
    policy: str | None = None
    """Name and version of the policy that judged it."""

    def __post_init__(self) -> None:
        _need(self.outcome in SETTLING_OUTCOMES, f"{self.outcome} does not settle an attempt")
        _need(
            (self.outcome in _WITH_FAULT) == (self.fault is not None),
            "a fault belongs to retried and failed, and to nothing else",
        )
        _need(
            (self.outcome is Outcome.RETRIED) == (self.delay_seconds is not None),
            "a delay belongs to retried, and to nothing else",
        )
        _need(0 <= (self.delay_seconds or 0) < math.inf, "a delay is finite and never negative")

    @property
    def state(self) -> State:
        """The state that the settlement leaves its job in."""
        after = step(State.RUNNING, _MOVES[self.outcome])
        if after is None:  # pragma: no cover - the table has no settlement that prunes
            raise AssertionError(self.outcome)
        return after


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One numbered try at one stage, as history keeps it. Written once, never changed."""

    job_id: int
    seq: int
    cycle: int = 0
    stage: int = 0
    worker: str
    started_at: datetime
    finished_at: datetime
    outcome: Outcome
    counted: bool = True
    fault: Fault | None = None
    delay_seconds: float | None = None
    policy: str | None = None
    caller_request_id: str | None = None
    """The caller's own id, carried from enqueue to every log line; a fault has the upstream's."""

    def __post_init__(self) -> None:
        _need(self.seq >= 1, "attempts are numbered from 1")
        _need_zone(self, "started_at", "finished_at")
        _need(self.started_at <= self.finished_at, "an attempt cannot end before it began")

    @property
    def duration(self) -> timedelta:
        return self.finished_at - self.started_at


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _need_zone(value: object, *names: str) -> None:
    for name in names:
        time = getattr(value, name)
        _need(time is None or time.tzinfo is not None, f"{name} needs a time zone")
