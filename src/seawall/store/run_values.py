"""What is kept of runs: many items through one pipeline, and how they stand."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from seawall.model import MOST_STAGES, need_name, need_text

LONGEST_REASON = 500


class RunStop(StrEnum):
    """Why no item of a run may begin."""

    PAUSED = "paused"
    ABORTED = "aborted"
    CANCELLED = "cancelled"
    """For good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run that is asked for."""

    pipeline: str
    name: str
    stages: tuple[str, ...]
    terms: str
    """When it has failed, and what it may cost: the affair of those who decide."""
    owner: str | None = None

    def __post_init__(self) -> None:
        need_name("pipeline", self.pipeline)
        need_name("name", self.name)
        need_text("terms", self.terms)
        if not 1 <= len(self.stages) < MOST_STAGES:
            raise ValueError(f"stages: found {len(self.stages)}, expected 1 to {MOST_STAGES - 1}")
        for each in self.stages:
            need_name("stages", each)
        if self.owner is not None:
            need_name("owner", self.owner)


class KeptRun(NamedTuple):
    """A run as it was asked for, and what people or its budget did about it."""

    id: int
    pipeline: str
    name: str
    round: int
    """How often there was a run of this name."""
    stages: tuple[str, ...]
    terms: str
    owner: str | None
    stop: RunStop | None
    reason: str
    pardoned_failed: int
    """What had failed when it was last resumed: that is not held against it."""
    pardoned_succeeded: int
    created_at: datetime
    sealed_at: datetime | None
    """When all its items were there."""
    stopped_at: datetime | None
    closed_at: datetime | None
    """When it was first seen that all of them had ended."""

    @property
    def resumable(self) -> bool:
        """Whether none of its items begins until somebody resumes it."""
        return self.stop in (RunStop.PAUSED, RunStop.ABORTED)


class Started(NamedTuple):
    """`start_run`'s answer."""

    run_id: int
    created: bool
    """False where an unfinished run of that name goes on."""


class Items(NamedTuple):
    """How many items of a run ended at a stage, and what attempts at it came to."""

    stage: int
    entered: int = 0
    """Those that came in there."""
    succeeded: int = 0
    skipped: int = 0
    failed: int = 0
    cancelled: int = 0
    advanced: int = 0
    """Those that finished the stage and went on."""
    retried: int = 0
    """Attempts at it that went wrong and were made again."""
    pruned: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0

    @property
    def ended(self) -> int:
        return self.succeeded + self.skipped + self.failed + self.cancelled


class FailedFor(NamedTuple):
    """One trouble that items of a run failed for, at one stage."""

    fingerprint: str
    code: str
    items: int
    message: str
    job_id: int
    """One of them."""
    stage: int


class LiveItems(NamedTuple):
    """Items of a run that have not ended, at one stage."""

    stage: int
    running: int = 0
    waiting: int = 0
    """Queued, for now or later; not counted at the first stage."""
    later: int = 0
    """Of those that wait, at any stage, the ones that are due later."""
