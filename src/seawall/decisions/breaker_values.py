"""The words of a breaker: its rules, what it remembers, what happens to it, and who may call."""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from seawall.decisions.backoff import Backoff, is_number
from seawall.decisions.tally import LONGEST_WINDOW_SECONDS, Tally

MOST_CALLS = 10_000
MOST_PROBES = 1_000

_MAY_BE_NONE = frozenset(
    {"consecutive_failures", "failure_rate", "window_seconds", "slow_call_seconds"}
)


class Phase(StrEnum):
    """What the breaker believes."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """When to open, for how long, and how to close again."""

    consecutive_failures: int | None = 5
    failure_rate: float | None = 0.5
    window_calls: int = 20
    """The rates look at the last so many calls …"""
    window_seconds: float | None = None
    """… or, where this is given, at the calls of the last so many seconds."""
    minimum_calls: int = 20
    """No rate is judged on fewer calls than this."""
    slow_call_seconds: float | None = None
    """A call that took this long is slow."""
    slow_call_rate: float = 0.5
    open: Backoff = field(
        default=Backoff(
            curve="exponential",
            base_seconds=5,
            cap_seconds=300,
            jitter="proportional",
            jitter_ratio=0.2,
        )
    )
    """How long it stays open: the n-th time in a row is the n-th delay."""
    probes: int = 1
    probe_seconds: float = 60.0
    successes_to_close: int = 1
    failures_to_reopen: int = 1
    ramp_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name, least, most in (
            ("consecutive_failures", 1, MOST_CALLS),
            ("failure_rate", 0.001, 1),
            ("window_calls", 1, MOST_CALLS),
            ("window_seconds", 1, LONGEST_WINDOW_SECONDS),
            ("minimum_calls", 1, MOST_CALLS),
            ("slow_call_seconds", 0, LONGEST_WINDOW_SECONDS),
            ("slow_call_rate", 0.001, 1),
            ("probes", 1, MOST_PROBES),
            ("probe_seconds", 0.001, 86_400),
            ("successes_to_close", 1, MOST_PROBES),
            ("failures_to_reopen", 1, MOST_PROBES),
            ("ramp_seconds", 0, 86_400),
        ):
            found = getattr(self, name)
            if found is None and name in _MAY_BE_NONE:
                continue
            if not is_number(found) or not least <= found <= most:
                raise ValueError(f"{name}: found {found!r}, expected {least} to {most}")
            if not name.endswith(("_rate", "_seconds")) and not isinstance(found, int):
                raise ValueError(f"{name}: found {found!r}, expected a whole number")
        if getattr(self.open, "curve", None) not in ("fixed", "linear", "exponential", "schedule"):
            raise ValueError(
                f"open: found {self.open!r}, expected a Backoff whose curve grows by itself"
            )
        if self.window_seconds is None and self.minimum_calls > self.window_calls:
            raise ValueError(
                f"minimum_calls: found {self.minimum_calls}, more than the "
                f"{self.window_calls} of window_calls: no rate would ever be judged"
            )


@dataclass(frozen=True, slots=True)
class Slot:
    """A probe's place: whose it is, when it comes back by itself, and which episode it probes."""

    holder: str
    expires: float
    episode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerState:
    """Everything a breaker remembers. Times are seconds since the epoch."""

    phase: Phase = Phase.CLOSED
    forced: Literal["open", "closed"] | None = None
    until: float = 0.0
    """Open, or forced, until then."""
    episode: int = 0
    """How often it opened in a row; 0 while it never has."""
    asked_seconds: float = 0.0
    """For how long the upstream asked to be left alone; 0 where it did not."""
    closed_at: float | None = None
    """When the last episode ended: the ramp starts here."""
    consecutive: int = 0
    recent: str = ""
    """The last calls, one letter each: s success, f failure; a capital was slow."""
    tally: Tally = field(default_factory=Tally)
    """The same by second: failures, slow calls, all calls."""
    slots: tuple[Slot, ...] = ()
    successes: int = 0
    failures: int = 0
    """Results of this episode's probes."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Calls that the upstream answered well."""

    seconds: float = 0.0
    probe: str | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Failed:
    """Calls that failed in a way that speaks about the upstream's health."""

    seconds: float = 0.0
    probe: str | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Ignored:
    """A call that ended without saying anything: cancelled, or the job's own fault."""

    probe: str | None = None


@dataclass(frozen=True, slots=True)
class AskedToWait:
    """The upstream said for how long it wants to be left alone."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ProbeAsked:
    """Somebody wants to make a call while the breaker is half-open, or says that it still does."""

    probe: str
    seconds: float = math.inf
    """For how long its slot is kept unless it says so again; never longer than `probe_seconds`."""


@dataclass(frozen=True, slots=True)
class Forced:
    """A person decides: open or closed until a time, or None for automatic again."""

    to: Literal["open", "closed"] | None
    until: float = math.inf


BreakerEvent = Succeeded | Failed | Ignored | AskedToWait | ProbeAsked | Forced


@dataclass(frozen=True, slots=True)
class Admission:
    """Who may call now: a share of all callers, or so many more probes; else none until a time."""

    share: float = 0.0
    probes: int = 0
    until: float | None = None
