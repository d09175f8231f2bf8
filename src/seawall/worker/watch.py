"""What a worker knows of one upstream, and what the end of a call says about it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from seawall.decisions import breaker as breakers
from seawall.decisions import gate as gates
from seawall.decisions.breaker import BreakerEvent, BreakerState, Failed, Ignored, Phase, Succeeded
from seawall.decisions.gate import Gate, Stop
from seawall.decisions.upstream import Upstream
from seawall.faults import Fault, FaultCode
from seawall.model import Token
from seawall.store.pace_values import span_bucket

DENIED = frozenset({FaultCode.UNAUTHORIZED, FaultCode.CONFIG_MISSING})
ASKS = frozenset(
    {
        FaultCode.RATE_LIMITED,
        FaultCode.QUOTA_EXHAUSTED,
        FaultCode.UNAVAILABLE,
        FaultCode.UPSTREAM_ERROR,
    }
)
"""Faults with which an upstream may ask for time."""


@dataclass(slots=True)
class Counted:
    """How calls ended since the store was last told."""

    firsts: int = 0
    retries: int = 0
    failures: int = 0
    denied: int = 0
    slow: int = 0
    micros: int = 0
    spans: Counter[int] = field(default_factory=Counter, init=False)
    """How many took how long, by `span_bucket`."""

    def amounts(self) -> tuple[int, int, int, int, int, int]:
        return self.firsts, self.retries, self.failures, self.denied, self.slow, self.micros


class ToldNews(NamedTuple):
    """What a worker tells the fleet of an upstream."""

    news: list[tuple[BreakerEvent, str]]
    settled: list[tuple[dict[str, float], dict[str, float]]]
    stopped: Stop | None


@dataclass(slots=True)
class Watch:
    """What this worker knows of one upstream."""

    upstream: Upstream
    text: str = ""
    gate: Gate = field(default_factory=Gate)
    gated: bool = False
    local: BreakerState | None = None
    """Stepped by what this worker sees alone; None while that is nothing bad."""
    seen: Counted | None = None
    news: list[tuple[BreakerEvent, str]] = field(default_factory=list)
    suspect: bool = False
    """It failed since it was last looked at."""
    stopped: Stop | None = None
    """That this worker stopped by itself, where it did and has not told so yet."""
    denials: int = 0
    """How many calls in a row were denied."""
    probes: dict[Token, str] = field(default_factory=dict)
    under_way: Mapping[str, int] = field(default_factory=dict)
    """Calls under way, by owner, as the fleet was last told."""
    settled: list[tuple[dict[str, float], dict[str, float]]] = field(default_factory=list)
    """What calls had reserved, and what they used."""
    checked_by: str = ""
    """The health probe that is under way."""
    checked_at: float = 0.0
    """When it began."""
    again_at: float = 0.0
    """Before then there is no use in asking for its jobs, unless something happens."""
    called: bool = False
    """This worker has called it, so it knows what the application says of it."""

    @property
    def is_well(self) -> bool:
        """Whether nobody has anything to say against it."""
        return not (self.text or self.local or self.probes or self.denials)

    def count(self, seconds: float, *, retry: bool) -> Counted:
        """One more call has ended."""
        self.called = True
        seen = self.seen
        if seen is None:
            seen = self.seen = Counted()
        if retry:
            seen.retries += 1
        else:
            seen.firsts += 1
        micros = int(seconds * 1_000_000)
        seen.micros += micros
        seen.spans[span_bucket(micros)] += 1
        slow = self.upstream.breaker.slow_call_seconds
        if slow is not None and seconds >= slow:
            seen.slow += 1
        return seen

    @property
    def has_news(self) -> bool:
        """Whether the fleet is to be told something."""
        return bool(self.news or self.stopped or self.settled)

    def news_for_the_fleet(self) -> "ToldNews":
        """What the fleet is to be told, as it is now."""
        return ToldNews(list(self.news), list(self.settled), self.stopped)

    def have_told(self, told: "ToldNews") -> None:
        """The fleet knows this."""
        del self.news[: len(told.news)]
        del self.settled[: len(told.settled)]
        if self.stopped is told.stopped:
            self.stopped = None

    def phase(self, now: float) -> Phase:
        """What the fleet believes."""
        state = breakers.at(self.upstream.breaker, self.gate.breaker, now)
        if state.forced is not None:
            return Phase.OPEN if state.forced == "open" else Phase.CLOSED
        return state.phase

    def proven(self, now: float) -> bool:
        """Whether a probe of the present episode has succeeded: then a failure is the job's own."""
        state = breakers.at(self.upstream.breaker, self.gate.breaker, now)
        return state.phase is Phase.HALF_OPEN and state.successes > 0

    def is_over(self, now: float) -> bool:
        """Whether what is written down of it need not be any more."""
        return bool(self.text) and self.called and gates.is_plain(self.upstream, self.gate, now)

    def not_before(self, now: float) -> float:
        """From when on there is use in asking for its jobs, as far as this worker knows."""
        held = gates.held_until(self.upstream, self.gate, now) if self.text else None
        alone = 0.0
        if self.local is not None and self.local_phase(now) is Phase.OPEN:
            alone = self.local.until
        return max(held or 0.0, alone, self.again_at)

    def local_phase(self, now: float) -> Phase:
        if self.local is None:
            return Phase.CLOSED
        return breakers.at(self.upstream.breaker, self.local, now).phase

    def shut(self, now: float) -> bool:
        """Whether nothing but probes may begin."""
        if not self.text and self.local is None:
            return False
        forced = self.gate.breaker.forced == "closed"
        return self.phase(now) is not Phase.CLOSED or (
            self.local_phase(now) is not Phase.CLOSED and not forced
        )


def event_of(
    fault: Fault | None, seconds: float, probe: str | None, *, says_nothing: bool
) -> Succeeded | Failed | Ignored:
    if says_nothing:
        return Ignored(probe)
    if probe is not None and fault is not None and fault.code in DENIED:
        return Failed(seconds, probe)  # what was opened for people's attention is not well yet
    return breakers.event_of(fault, seconds=seconds, probe=probe)


def speaks(fault: Fault) -> bool:
    """Whether the fault is the upstream's affair, and not the job's."""
    return fault.code.speaks_of_upstream or fault.code in ASKS
