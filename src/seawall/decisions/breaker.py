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

Asked to wait. An upstream that says for how long it wants to be left alone is, and a little longer;
then it is probed, and let go again within twice that time at most. Nobody is left alone for more
than a day without being asked.

Wrong clocks. A time further ahead than this breaker could have set it binds nobody; clocks that
differ by no more than `CLOCK_SKEW_SECONDS` are all taken at their word.

Closing releases the backlog in a ramp: the share of calls let through grows from a tenth to all
over `ramp_seconds`. Opening again before the ramp is over continues the same episode, for longer.
"""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from seawall.decisions.breaker_values import (
    Admission,
    AskedToWait,
    Breaker,
    BreakerEvent,
    BreakerState,
    Failed,
    Forced,
    Ignored,
    Phase,
    ProbeAsked,
    Slot,
    Succeeded,
)
from seawall.decisions.tally import Tally
from seawall.faults import Fault

__all__ = [
    "Admission",
    "AskedToWait",
    "Breaker",
    "BreakerEvent",
    "BreakerState",
    "Failed",
    "Forced",
    "Ignored",
    "Phase",
    "ProbeAsked",
    "Slot",
    "Succeeded",
    "admission",
    "at",
    "event_of",
    "holds_slot",
    "judged",
    "opened",
    "step",
]

RAMP_STARTS_AT = 0.1
CLOCK_SKEW_SECONDS = 60.0
LONGEST_ASKED_SECONDS = 86_400.0
"""One that asks for more is probed after a day all the same: a wrong header is no outage."""
WAIT_SPREAD = 0.1
"""How much longer than it asked for an upstream is left alone, at most."""
_BYGONE = -1
"""The episode of a slot whose own is over: numbers start again at 1 after a recovery."""


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
        case AskedToWait(seconds):
            return _left_alone(state, seconds, now)
        case ProbeAsked(probe, seconds):
            return _with_probe(breaker, state, probe, now, min(seconds, breaker.probe_seconds))
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
    longest = max(longest, state.asked_seconds * (1 + WAIT_SPREAD))
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
    ramp_seconds = _ramp_seconds(breaker, state)
    if state.closed_at is None or ramp_seconds <= 0:
        return Admission(share=1.0)
    progress = max(0.0, now - state.closed_at) / ramp_seconds
    return Admission(share=min(1.0, RAMP_STARTS_AT + (1 - RAMP_STARTS_AT) * progress))


def judged(
    breaker: Breaker,
    state: BreakerState,
    calls: Iterable[tuple[float, Succeeded | Failed]],
    now: float,
) -> BreakerState:
    """A closed breaker's state after all these calls, the oldest first, each at its time.

    For whoever keeps the calls and not the state: they are all there is to judge by, and only
    where they have led in the end decides.
    """
    state = at(breaker, state, now)
    if state.forced is not None or state.phase is not Phase.CLOSED:
        return state
    seen = replace(state, consecutive=0, recent="", tally=Tally())
    for time, event in calls:
        if state.closed_at is None or time >= state.closed_at:
            seen = _recorded(breaker, seen, event, time)
    after = _judged(breaker, seen, now)
    return after if after.phase is Phase.OPEN else state


def opened(breaker: Breaker, state: BreakerState, now: float) -> BreakerState:
    """The state after somebody else found that the upstream must not be called."""
    return _opened(breaker, at(breaker, state, now), now)


def _ramp_seconds(breaker: Breaker, state: BreakerState) -> float:
    """Whoever asked for a moment only is not made to wait for long."""
    if state.asked_seconds <= 0:
        return breaker.ramp_seconds
    return min(breaker.ramp_seconds, 2 * state.asked_seconds)


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


def _left_alone(state: BreakerState, seconds: float, now: float) -> BreakerState:
    """Open until it asked for, and a little longer: all who were told the same come back then."""
    seconds = min(seconds, LONGEST_ASKED_SECONDS)
    rng = random.Random(f"{state.seed}/{seconds}/{now}")
    until = now + seconds * (1 + rng.uniform(0, WAIT_SPREAD))
    is_open = state.phase is Phase.OPEN
    if state.forced is not None or seconds <= 0 or (is_open and state.until >= until):
        return state
    return BreakerState(
        phase=Phase.OPEN,
        until=until,
        episode=max(1, state.episode),
        asked_seconds=seconds,
        slots=state.slots if is_open else _bygone(state.slots),
        seed=state.seed,
    )


def _with_probe(
    breaker: Breaker, state: BreakerState, probe: str, now: float, seconds: float
) -> BreakerState:
    until = now + seconds
    if holds_slot(state, probe):
        kept = [replace(s, expires=until) if s.holder == probe else s for s in state.slots]
        return replace(state, slots=tuple(kept))
    free = len(state.slots) < breaker.probes
    if state.forced is not None or state.phase is not Phase.HALF_OPEN or not free:
        return state
    return replace(state, slots=(*state.slots, Slot(probe, until, state.episode)))


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
        and now - closed_at >= _ramp_seconds(breaker, state)
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
    return BreakerState(
        closed_at=now,
        episode=state.episode,
        asked_seconds=state.asked_seconds,
        slots=state.slots,
        seed=state.seed,
    )
