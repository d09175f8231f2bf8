"""Is this upstream well? A circuit breaker as a pure step over a small value.

    closed ──too many failures──▶ open ──its time is over──▶ half-open ──successes──▶ closed
                                   ▲                             │
                                   └──────────failure────────────┘  (for longer each time)

Promise. `step(breaker, state, event, now)` is deterministic: jitter comes from the state's seed.
Only calls that speak about the upstream's health move it; `Ignored` says "this call ended and
means nothing", which frees a probe's slot and counts neither way.

Opening. So many failures in a row, or a failure rate, or a rate of slow calls, over the last so
many calls or seconds, once a minimum of calls is in the window.

Half-open. At most `probes` calls are under way, fleet-wide: a caller asks for a slot under a name
of its own and gives it back with the call's end. A slot whose holder dies comes back after
`probe_seconds`. Slots outlive a reopening, so that slow old probes and new ones together never
exceed the limit; but only results of the present episode count. A slow success is no success
where slow calls can open it. A health probe is a probe like any other, and its success rate over
a short window decides: 4 of 5 is `successes_to_close=4` with `failures_to_reopen=2`.

Old news. Results of calls that began before the opening change nothing, however late they come:
an event says how many seconds its call took. Only a person who forced it closed, and then lets go,
makes it forget the opening.

Wrong clocks. A time further ahead than this breaker could have set it binds nobody; clocks that
differ by no more than `CLOCK_SKEW_SECONDS` are all taken at their word.

Closing releases the backlog in a ramp: the share of calls let through grows from a tenth to all
over `ramp_seconds`. Opening again before the ramp is over continues the same episode, for longer.
"""

import math
import random
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from seawall.decisions.backoff import Backoff, is_number
from seawall.decisions.tally import LONGEST_WINDOW_SECONDS, Tally
from seawall.faults import Fault

MOST_CALLS = 10_000
MOST_PROBES = 1_000
RAMP_STARTS_AT = 0.1
CLOCK_SKEW_SECONDS = 60.0

_MAY_BE_NONE = frozenset(
    {"consecutive_failures", "failure_rate", "window_seconds", "slow_call_seconds"}
)
_BYGONE = -1
"""The episode of a slot whose own is over: numbers start again at 1 after a recovery."""


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
class ProbeAsked:
    """Somebody wants to make a call while the breaker is half-open."""

    probe: str


@dataclass(frozen=True, slots=True)
class Forced:
    """A person decides: open or closed until a time, or None for automatic again."""

    to: Literal["open", "closed"] | None
    until: float = math.inf


BreakerEvent = Succeeded | Failed | Ignored | ProbeAsked | Forced


@dataclass(frozen=True, slots=True)
class Admission:
    """Who may call now: a share of all callers, or so many more probes; else none until a time."""

    share: float = 0.0
    probes: int = 0
    until: float | None = None


def event_of(
    fault: Fault | None, *, seconds: float = 0.0, probe: str | None = None
) -> Succeeded | Failed | Ignored:
    """What a call's end says about the upstream: None is an answer, a fault by its code."""
    if fault is None:
        return Succeeded(seconds, probe)
    return Failed(seconds, probe) if fault.code.speaks_of_upstream else Ignored(probe)


def step(breaker: Breaker, state: BreakerState, event: BreakerEvent, now: float) -> BreakerState:
    """The state after the event."""
    state = at(breaker, state, now)
    match event:
        case Forced(to, until):
            return _forced(state, to, until, now)
        case ProbeAsked(probe):
            return _with_probe(breaker, state, probe, now)
        case Ignored(probe):
            return _without_slot(state, probe)
        case Succeeded() | Failed():
            return _observed(breaker, state, event, now)


def at(breaker: Breaker, state: BreakerState, now: float) -> BreakerState:
    """The state as time alone has changed it: holds end, slots of the dead come back."""
    if state.forced is not None and now >= state.until:
        # The ramp starts when the hold ended, not when somebody first looked.
        state = _automatic(state, state.until)
    _, longest = breaker.open.window(max(1, state.episode))
    is_open = state.forced is None and state.phase is Phase.OPEN
    if is_open and not _ahead(state.until, now, longest):
        state = replace(state, phase=Phase.HALF_OPEN, successes=0, failures=0)
    if state.closed_at is not None and state.closed_at > now + CLOCK_SKEW_SECONDS:
        state = replace(state, closed_at=now)
    living = tuple(s for s in state.slots if _ahead(s.expires, now, breaker.probe_seconds))
    return state if len(living) == len(state.slots) else replace(state, slots=living)


def admission(breaker: Breaker, state: BreakerState, now: float) -> Admission:
    """Who may call now."""
    state = at(breaker, state, now)
    if state.forced == "closed":
        return Admission(share=1.0)
    if state.forced == "open" or state.phase is Phase.OPEN:
        return Admission(until=state.until)
    if state.phase is Phase.HALF_OPEN:
        return Admission(probes=max(0, breaker.probes - len(state.slots)))
    if state.closed_at is None or breaker.ramp_seconds <= 0:
        return Admission(share=1.0)
    progress = max(0.0, now - state.closed_at) / breaker.ramp_seconds
    return Admission(share=min(1.0, RAMP_STARTS_AT + (1 - RAMP_STARTS_AT) * progress))


def holds_slot(state: BreakerState, probe: str) -> bool:
    """Whether that caller's probe was let through, and is still under way."""
    return any(slot.holder == probe for slot in state.slots)


def _ahead(time: float, now: float, longest: float) -> bool:
    """Whether the time is yet to come, and no further away than a sound clock can have set it."""
    return now < time <= now + longest + CLOCK_SKEW_SECONDS


def _forced(
    state: BreakerState, to: Literal["open", "closed"] | None, until: float, now: float
) -> BreakerState:
    if to is not None:
        return replace(state, forced=to, until=until)
    # Said twice, it must not cut short the ramp that the first time began.
    return state if state.forced is None else _automatic(state, now)


def _automatic(state: BreakerState, since: float) -> BreakerState:
    """Not forced any more, with nothing held against it; after a forced opening, in a ramp."""
    closed_at = since if state.forced == "open" else None
    return BreakerState(closed_at=closed_at, slots=state.slots, seed=state.seed)


def _with_probe(breaker: Breaker, state: BreakerState, probe: str, now: float) -> BreakerState:
    free = len(state.slots) < breaker.probes and not holds_slot(state, probe)
    if state.forced is not None or state.phase is not Phase.HALF_OPEN or not free:
        return state
    slot = Slot(probe, now + breaker.probe_seconds, state.episode)
    return replace(state, slots=(*state.slots, slot))


def _without_slot(state: BreakerState, probe: str | None) -> BreakerState:
    if probe is None:
        return state
    return replace(state, slots=tuple(slot for slot in state.slots if slot.holder != probe))


def _bygone(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    return tuple(replace(slot, episode=_BYGONE) for slot in slots)


def _observed(
    breaker: Breaker, state: BreakerState, event: Succeeded | Failed, now: float
) -> BreakerState:
    slot = next((s for s in state.slots if s.holder == event.probe), None)
    state = _without_slot(state, event.probe)
    is_bygone = slot is not None and slot.episode != state.episode
    if state.forced is not None or state.phase is Phase.OPEN or is_bygone or event.count < 1:
        return state
    if state.phase is Phase.CLOSED:
        is_old = state.closed_at is not None and now - event.seconds < state.closed_at
        return state if is_old else _judged(breaker, _recorded(breaker, state, event, now), now)
    if slot is None:
        return state
    well = isinstance(event, Succeeded) and not _is_slow(breaker, event)
    return _probed(breaker, state, well, now)


def _probed(breaker: Breaker, state: BreakerState, succeeded: bool, now: float) -> BreakerState:
    if succeeded:
        state = replace(state, successes=state.successes + 1)
        return _closed(state, now) if state.successes >= breaker.successes_to_close else state
    state = replace(state, failures=state.failures + 1)
    return _opened(breaker, state, now) if state.failures >= breaker.failures_to_reopen else state


def _recorded(
    breaker: Breaker, state: BreakerState, event: Succeeded | Failed, now: float
) -> BreakerState:
    failed = isinstance(event, Failed)
    slow = _is_slow(breaker, event)
    consecutive = state.consecutive + event.count if failed else 0
    if breaker.window_seconds is not None:
        counts = (failed * event.count, slow * event.count, event.count)
        tally = state.tally.add(counts, now, breaker.window_seconds)
        return replace(state, consecutive=consecutive, tally=tally)
    letter = "f" if failed else "s"
    letters = (letter.upper() if slow else letter) * min(event.count, breaker.window_calls)
    recent = (state.recent + letters)[-breaker.window_calls :]
    return replace(state, consecutive=consecutive, recent=recent)


def _is_slow(breaker: Breaker, event: Succeeded | Failed) -> bool:
    return breaker.slow_call_seconds is not None and event.seconds >= breaker.slow_call_seconds


def _judged(breaker: Breaker, state: BreakerState, now: float) -> BreakerState:
    failures, slow, calls = _counts(breaker, state, now)
    in_a_row = breaker.consecutive_failures
    if in_a_row is not None and state.consecutive >= in_a_row:
        return _opened(breaker, state, now)
    if calls < breaker.minimum_calls:
        return state
    # Divided, not multiplied: 7 / 100 is 0.07, but 0.07 * 100 is a little more than 7.
    too_many = breaker.failure_rate is not None and failures / calls >= breaker.failure_rate
    too_slow = breaker.slow_call_seconds is not None and slow / calls >= breaker.slow_call_rate
    return _opened(breaker, state, now) if too_many or too_slow else state


def _counts(breaker: Breaker, state: BreakerState, now: float) -> tuple[int, int, int]:
    if breaker.window_seconds is None:
        failures = state.recent.count("f") + state.recent.count("F")
        slow = state.recent.count("S") + state.recent.count("F")
        return failures, slow, len(state.recent)
    failures, slow, calls = state.tally.total(3, now, breaker.window_seconds)
    return failures, slow, calls


def _opened(breaker: Breaker, state: BreakerState, now: float) -> BreakerState:
    closed_at = state.closed_at
    recovered = (
        state.phase is Phase.CLOSED
        and closed_at is not None
        and now - closed_at >= breaker.ramp_seconds
    )
    episode = 1 if recovered else state.episode + 1
    rng = random.Random(f"{state.seed}/{episode}/{now}")
    return BreakerState(
        phase=Phase.OPEN,
        until=now + breaker.open.delay_seconds(episode, rng),
        episode=episode,
        slots=_bygone(state.slots),
        seed=state.seed,
    )


def _closed(state: BreakerState, now: float) -> BreakerState:
    return BreakerState(closed_at=now, episode=state.episode, slots=state.slots, seed=state.seed)
