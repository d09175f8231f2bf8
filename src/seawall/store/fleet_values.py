"""What workers tell the store of themselves, of schedules, and of what they call."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from seawall.model import need_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """A worker, as it tells the store about itself."""

    worker: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...] | None
    """None: every queue."""
    tasks: tuple[str, ...]
    concurrency: int
    running: int = 0
    stopping: bool = False

    def __post_init__(self) -> None:
        for name in ("worker", "host", "version"):
            need_name(name, getattr(self, name))
        for name in ("queues", "tasks"):
            for each in getattr(self, name) or ():
                need_name(name, each)
        for name in ("pid", "concurrency", "running"):
            found = getattr(self, name)
            if not isinstance(found, int) or not 0 <= found < 2**31:
                raise ValueError(f"{name}: found {found!r:.80}, expected a number from 0 on")


class Present(NamedTuple):
    """A worker that told of itself, and when it did so first and last."""

    presence: Presence
    started_at: datetime
    seen_at: datetime


class Planned(NamedTuple):
    """A schedule as the store keeps it: when it fires next, and what it last did."""

    name: str
    spec: str
    next_at: datetime
    last_at: datetime | None
    last_job: int | None


class Observation(NamedTuple):
    """How calls at an upstream ended, since the last time that this worker told."""

    upstream: str
    worker: str
    firsts: int = 0
    """Calls that were their job's first."""
    retries: int = 0
    failures: int = 0
    """Those of them that speak against the upstream's health."""
    denied: int = 0
    """Those that it did not accept: credentials, permissions, configuration."""
    slow: int = 0
    micros: int = 0
    """How long they took, together."""
    spans: tuple[tuple[int, int], ...] = ()
    """How many took how long: pairs of `span_bucket` and count."""

    @property
    def amounts(self) -> tuple[int, ...]:
        """What is added up by the second."""
        return self[2:8]


class Observed(NamedTuple):
    """How calls of one worker ended, in one second."""

    worker: str
    second: int
    firsts: int
    retries: int
    failures: int
    denied: int
    slow: int
    micros: int

    @property
    def calls(self) -> int:
        return self.firsts + self.retries


class Lately(NamedTuple):
    """How calls at an upstream ended in the last seconds, whichever worker made them."""

    calls: int = 0
    failures: int = 0
    micros: int = 0
    """What they took together."""
    firsts: int = 0
    """First calls, within a span of its own."""


class Watched(NamedTuple):
    """An upstream about which something is written down."""

    name: str
    state: str
    """What those who decide have written down."""
    gated: bool
    """Its jobs are claimed by whoever has locked it, and by nobody else."""
    held_until: datetime | None
    """None of its jobs is claimed before then."""
    reason: str
