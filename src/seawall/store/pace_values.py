"""What the history of pace tells: totals over all time, minutes, and how upstreams did."""

from bisect import bisect_left
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

KEEP_PACE_MINUTES = 48 * 60
"""For how long minutes and phases are kept. Totals are kept for ever."""
MOST_BUCKETS = KEEP_PACE_MINUTES + 60
"""As many points as one question about the past is answered with, at most."""
MOST_PHASES = 1_000
"""As many turns of one breaker as are told, the newest."""

_BOUNDS = (*(digits * 10**zeros for zeros in range(2, 11) for digits in (10, 25, 50)), 10**12)
BOUNDS_SECONDS = tuple(bound / 1_000_000 for bound in _BOUNDS)
"""What each bucket of a histogram goes up to, that included; one more has what took longer."""


def span_bucket(micros: int) -> int:
    """The bucket of something that took so long; the statements say the same."""
    return bisect_left(_BOUNDS, micros)


class Histogram(tuple[int, ...]):
    """How many took how long, by bucket: one for each of `BOUNDS_SECONDS`, and one beyond."""

    __slots__ = ()

    @classmethod
    def of(cls, found: "Iterable[tuple[int, int]]") -> Self:
        """From pairs of bucket and count, in which a bucket may come more than once."""
        counts = [0] * (len(BOUNDS_SECONDS) + 1)
        for bucket, many in found:
            counts[bucket] += many
        return cls(counts)

    @property
    def many(self) -> int:
        return sum(self)

    def percentile(self, share: float) -> float | None:
        """Below how many seconds that share of them stayed: to within a bucket, even inside it.

        None where there are none. What took longer than the last bound is told as that bound.
        """
        rank, below = share * self.many, 0
        for bucket, here in enumerate(self):
            if here and below + here >= rank:
                low = BOUNDS_SECONDS[bucket - 1] if bucket else 0.0
                high = BOUNDS_SECONDS[bucket] if bucket < len(BOUNDS_SECONDS) else low
                return low + (high - low) * max(0.0, rank - below) / here
            below += here
        return None


class Total(NamedTuple):
    """How often something happened, over all time, to jobs or attempts that are alike."""

    kind: str
    """`job` or `attempt`."""
    what: str
    """Of a job `created`, `redriven` or the state that it ended in; of an attempt its outcome."""
    task: str
    """Empty for jobs that were pruned before anybody counted by task."""
    queue: str
    code: str
    """The fault: of attempts that had one, and of jobs that failed; otherwise empty."""
    bucket: int
    """Of the attempt's duration, or of the time from a job's creation to its end."""
    many: int
    seconds: float
    """All of these durations together."""
    tokens_in: int
    tokens_out: int
    cost: float
    captures: int
    """How many raw outputs were kept."""


class PaceBucket(NamedTuple):
    """What happened in a minute, or so many of them."""

    at: datetime
    """When it begins."""
    created: int = 0
    redriven: int = 0
    succeeded: int = 0
    skipped: int = 0
    failed: int = 0
    cancelled: int = 0
    retried: int = 0
    """Attempts after which the job is tried again."""
    lost: int = 0
    """Attempts whose worker was not heard of again."""

    @property
    def ended(self) -> int:
        return self.succeeded + self.skipped + self.failed + self.cancelled


class UpstreamBucket(NamedTuple):
    """How calls at an upstream ended in a minute, or so many of them."""

    at: datetime
    calls: int
    failures: int
    """Those that speak against its health."""
    denied: int
    seconds: float
    """How long they took, together."""
    took: Histogram


class UpstreamTotal(NamedTuple):
    """The same over all time."""

    name: str
    calls: int
    failures: int
    denied: int
    seconds: float
    took: Histogram
    open_seconds: float
    """For how long it was shut, by its breaker or by hand, up to now."""


class UpstreamPhase(StrEnum):
    """What a breaker may turn to."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    HELD = "held"
    """By hand."""
    FORCED_CLOSED = "forced_closed"

    @property
    def is_shut(self) -> bool:
        """Whether nothing is let through."""
        return self in (UpstreamPhase.OPEN, UpstreamPhase.HELD)

    @property
    def then(self) -> "UpstreamPhase":
        """What it turns to by itself, when its time is over."""
        return UpstreamPhase.HALF_OPEN if self is UpstreamPhase.OPEN else UpstreamPhase.CLOSED


class Turn(NamedTuple):
    """What a breaker turned to, and until when it stays so by itself."""

    phase: UpstreamPhase = UpstreamPhase.CLOSED
    until: datetime | None = None

    def at(self, now: datetime) -> "Turn":
        """What time alone has made of it."""
        over = self.until is not None and self.until <= now
        return Turn(self.phase.then) if over else self


class PhaseSpan(NamedTuple):
    """A breaker stood so, from then until then; None: it still does."""

    phase: UpstreamPhase
    since: datetime
    until: datetime | None
