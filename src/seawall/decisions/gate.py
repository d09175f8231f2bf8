"""Who may call an upstream now: its breaker, its limits and its retry budget, as one small value.

A `Gate` is what a fleet knows of an upstream, kept as text in the store and changed by one worker
at a time. Every function here is pure: the same gate, news and time give the same answer.

    gate = watched(…, seen, callers, …)   judge how calls ended lately
    gate = heard(…, event, …)             what a probe came to, what somebody asked for
    let = admitted(…)                     how many calls may begin
    gate = begun(…)                       those that do

How calls ended is not kept in the gate but told each time (`evidence`), and so is how many workers
may call it (`callers`): those that never do make no quorum.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from seawall.decisions import breaker as breakers
from seawall.decisions import evidence
from seawall.decisions import limits as bounds
from seawall.decisions.breaker import BreakerEvent, BreakerState, Phase
from seawall.decisions.evidence import Seen
from seawall.decisions.limits import Limits, LimitState
from seawall.decisions.tally import Tally
from seawall.decisions.upstream import Upstream

LOOK_SECONDS = 120.0
"""How far back calls are looked at where the breaker names no window of its own."""
LEAST_DENIED = 5
"""So many calls, and all of them denied, are a matter for people."""
LONGEST_STOP_SECONDS = 600.0
"""For how long it counts at most that a worker stopped by itself."""
PARTS_OF_A_WINDOW = 6
"""Into so many a retry budget's window is divided, so that it is used evenly."""
SOON_SECONDS = 0.05
"""When to look again where somebody else's end makes room."""
MOST_OWNERS = 10_000
MANY_OPENINGS = 10
"""Held so often in a row, it may be well, and what fails the jobs that are left."""

DENIED = "every recent call was denied: check its credentials and configuration"
FAILING = "its calls fail"
ASKED = "it asked to be left alone"
USED_UP = "its allowance is used up: raise the quota, or wait"


@dataclass(frozen=True, slots=True)
class Gate:
    """Everything a fleet remembers of an upstream."""

    breaker: BreakerState = field(default_factory=BreakerState)
    why: str = ""
    """Why it is not simply open to everybody."""
    limits: LimitState = field(default_factory=LimitState)
    owners: tuple[tuple[str, LimitState], ...] = ()
    retries: Tally = field(default_factory=Tally)
    stopped: tuple[tuple[str, float], ...] = ()
    """The workers that stopped calling it by themselves, and until when."""


class Stop(NamedTuple):
    """A worker stopped by itself."""

    why: str
    until: float


class Let(NamedTuple):
    """How many calls may begin now."""

    calls: int
    retries: int
    """How many of them may be retries."""
    probe: bool = False
    """Each of them is a probe."""
    again_at: float | None = None
    """When to look again, where nothing that happens here could make room before."""


# --- what has happened --------------------------------------------------------------------------


def watched(upstream: Upstream, gate: Gate, seen: Sequence[Seen], callers: int, now: float) -> Gate:
    """The gate after a look at how calls ended lately; only a closed breaker is moved by it."""
    state = breakers.at(upstream.breaker, gate.breaker, now)
    gate = replace(gate, breaker=state)
    if state.forced is not None or state.phase is not Phase.CLOSED:
        return gate
    since = state.closed_at or 0.0
    lately = sorted((s for s in seen if s.second >= since), key=lambda each: each.second)
    if not evidence.enough(upstream, lately, callers):
        return gate
    after = breakers.judged(upstream.breaker, state, evidence.calls(upstream, lately), now)
    if after.phase is Phase.OPEN:
        return replace(gate, breaker=after, why=FAILING)
    calls = sum(each.calls for each in lately)
    if calls >= LEAST_DENIED and all(each.denied >= each.calls for each in lately):
        return replace(gate, breaker=breakers.opened(upstream.breaker, state, now), why=DENIED)
    return gate


def stopped(
    upstream: Upstream, gate: Gate, worker: str, callers: int, now: float, stop: Stop
) -> Gate:
    """The gate after a worker stopped by itself, because of what it alone had seen.

    It knows the order of its own calls, which is lost in what it tells by the second. Where enough
    have stopped, all are; one whose time is over finds out for itself, and says so if it stops
    again.
    """
    state = breakers.at(upstream.breaker, gate.breaker, now)
    if state.forced is not None or state.phase is not Phase.CLOSED:
        return gate
    now_stopped = {**dict(_stopped(gate, now)), worker: min(stop.until, now + LONGEST_STOP_SECONDS)}
    gate = replace(gate, breaker=state, stopped=tuple(sorted(now_stopped.items())))
    if len(now_stopped) < evidence.needed(upstream, callers):
        return gate
    after = breakers.opened(upstream.breaker, state, now)
    return replace(gate, breaker=after, why=stop.why, stopped=())


def _stopped(gate: Gate, now: float) -> list[tuple[str, float]]:
    """The workers that are stopped now; no time counts that is further ahead than any could be."""
    last = now + LONGEST_STOP_SECONDS + breakers.CLOCK_SKEW_SECONDS
    return [(worker, until) for worker, until in gate.stopped if now < until <= last]


def heard(upstream: Upstream, gate: Gate, event: BreakerEvent, now: float, why: str = "") -> Gate:
    """The gate after one thing that was told of this upstream."""
    before = breakers.at(upstream.breaker, gate.breaker, now)
    after = breakers.step(upstream.breaker, before, event, now)
    if isinstance(event, breakers.Forced):
        return replace(gate, breaker=after, why=why if event.to else "")
    if isinstance(event, breakers.AskedToWait) and after.until != before.until:
        why = why or ASKED
    elif after.phase is Phase.OPEN and before.phase is not Phase.OPEN:
        why = gate.why or FAILING
    else:
        why = gate.why if after.phase is not Phase.CLOSED or after.forced else ""
    return replace(gate, breaker=after, why=why)


def under_way(
    upstream: Upstream,
    gate: Gate,
    holder: str,
    calls: Mapping[str, int],
    now: float,
    *,
    hold_seconds: float,
) -> Gate:
    """The gate after a worker said how many calls it has under way, by owner."""
    total = sum(calls.values())
    held = bounds.under_way(
        upstream.limits, gate.limits, holder, total, now, hold_seconds=hold_seconds
    )
    gate = replace(gate, limits=held)
    if upstream.each_owner is None:
        return gate
    owners = dict(gate.owners)
    for owner in [*owners, *(each for each in calls if each and each not in owners)]:
        owners[owner] = bounds.under_way(
            upstream.each_owner,
            owners.get(owner, LimitState()),
            holder,
            calls.get(owner, 0),
            now,
            hold_seconds=hold_seconds,
        )
    return replace(gate, owners=_of_owners(owners))


# --- who may call -------------------------------------------------------------------------------


def admitted(
    upstream: Upstream,
    gate: Gate,
    *,
    wanted: int,
    mine: int,
    slots: int,
    firsts: int,
    now: float,
) -> Let:
    """How many calls a worker may begin, which has so many under way and so many slots in all.

    `firsts` are the first calls of the budget's window, by everybody.
    """
    let = breakers.admission(upstream.breaker, gate.breaker, now)
    if let.until is not None:
        return Let(0, 0, again_at=let.until)
    probing = let.share <= 0
    if probing:
        calls, again_at = min(wanted, let.probes), None
    else:
        most = wanted if let.share >= 1 else max(1, int(let.share * slots)) - mine
        calls, again_at = min(wanted, most), now + 4 * SOON_SECONDS
    room = bounds.room(upstream.limits, gate.limits, now)
    if room < calls:
        calls, again_at = room, _again_at(upstream.limits, gate.limits, now)
    retries = calls if probing else min(calls, retries_left(upstream, gate, firsts, now))
    return Let(max(0, calls), max(0, retries), probing, again_at)


def owner_room(upstream: Upstream, gate: Gate, owner: str, now: float) -> int:
    """How many calls of an owner's may begin now."""
    if upstream.each_owner is None or not owner:
        return bounds.MOST_CALLS
    return bounds.room(upstream.each_owner, dict(gate.owners).get(owner, LimitState()), now)


def begun(
    upstream: Upstream,
    gate: Gate,
    holder: str,
    calls: Mapping[str, int],
    now: float,
    *,
    retries: int,
    probes: Iterable[str],
    hold_seconds: float,
) -> Gate:
    """The gate after a worker began calls, by owner; `probes` are the names of those that are."""
    total = sum(calls.values())
    held = bounds.begin(upstream.limits, gate.limits, holder, total, now, hold_seconds=hold_seconds)
    tally = gate.retries
    if retries and upstream.retry_budget is not None:
        tally = tally.add((0, retries), now, upstream.retry_budget.window_seconds)
    owners = dict(gate.owners)
    if upstream.each_owner is not None:
        for owner, count in calls.items():
            if owner:
                before = owners.get(owner, LimitState())
                owners[owner] = bounds.begin(
                    upstream.each_owner, before, holder, count, now, hold_seconds=hold_seconds
                )
    state = gate.breaker
    for probe in probes:
        event = breakers.ProbeAsked(probe, hold_seconds)
        state = breakers.step(upstream.breaker, state, event, now)
    return replace(gate, breaker=state, limits=held, owners=_of_owners(owners), retries=tally)


def reserved(
    upstream: Upstream, gate: Gate, units: Mapping[str, float], now: float
) -> tuple[Gate, float] | float:
    """The gate after a call reserved so much, and in how many seconds it may begin.

    Or in how many seconds to ask again.
    """
    found = bounds.book(upstream.limits, gate.limits, units, now)
    if isinstance(found, float):
        return found
    return replace(gate, limits=found[0]), found[1]


def settled(
    upstream: Upstream,
    gate: Gate,
    held: Mapping[str, float],
    used: Mapping[str, float],
    now: float,
) -> Gate:
    """The gate after a call had reserved so much, and used so much."""
    return replace(gate, limits=bounds.settle(upstream.limits, gate.limits, held, used, now))


def _again_at(limits: Limits, state: LimitState, now: float) -> float:
    """When there is room again: by itself, or because somebody's call has ended."""
    by_itself = bounds.next_at(limits, state, now)
    rates = Limits(per_minute=limits.per_minute)
    if bounds.room(rates, state, now) > 0 or by_itself is None:
        return now + SOON_SECONDS  # only places are missing: whoever has one may end at any time
    return by_itself


def retries_left(upstream: Upstream, gate: Gate, firsts: int, now: float) -> int:
    """How many retries may begin now, after so many first calls in the budget's window."""
    budget = upstream.retry_budget
    if budget is None:
        return bounds.MOST_CALLS
    window = budget.window_seconds
    allowed = budget.share * firsts + budget.floor_per_second * window
    # Also of each part of the window: else a burst would use all of it, and then none could go.
    parts = max(1, min(PARTS_OF_A_WINDOW, int(window)))
    left = min(
        allowed - gate.retries.total(2, now, window)[1],
        max(1.0, allowed / parts) - gate.retries.total(2, now, window / parts)[1],
    )
    return max(0, int(left))


def _of_owners(owners: Mapping[str, LimitState]) -> tuple[tuple[str, LimitState], ...]:
    """Those of whom there is anything to remember, the last so many."""
    busy = [(owner, state) for owner, state in owners.items() if state != LimitState()]
    return tuple(sorted(busy[-MOST_OWNERS:]))


# --- what it amounts to -------------------------------------------------------------------------


def window_seconds(upstream: Upstream) -> float:
    """How far back it matters how calls ended."""
    budget = 0.0 if upstream.retry_budget is None else upstream.retry_budget.window_seconds
    return max(upstream.breaker.window_seconds or LOOK_SECONDS, budget)


def is_gated(upstream: Upstream, gate: Gate, now: float) -> bool:
    """Whether its calls have to be let through one by one."""
    state = breakers.at(upstream.breaker, gate.breaker, now)
    share = breakers.admission(upstream.breaker, state, now).share
    return share < 1 or upstream.limited


def is_plain(upstream: Upstream, gate: Gate, now: float) -> bool:
    """Whether there is nothing to remember."""
    budget = upstream.retry_budget
    retries = (0, 0) if budget is None else gate.retries.total(2, now, budget.window_seconds)
    forced = gate.breaker.forced is not None
    # As long as calls from before it closed are looked at, somebody must know that they are old.
    closed_at = gate.breaker.closed_at
    healed = closed_at is not None and now - closed_at <= window_seconds(upstream) + 1
    probing = bool(breakers.at(upstream.breaker, gate.breaker, now).slots)
    told = forced or healed or probing or any(retries) or bool(_stopped(gate, now))
    return not (is_gated(upstream, gate, now) or told)


def held_until(upstream: Upstream, gate: Gate, now: float) -> float | None:
    """Until when nothing at all is let through; None where something is."""
    return breakers.admission(upstream.breaker, gate.breaker, now).until
