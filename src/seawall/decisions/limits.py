"""How much of an upstream a fleet may use: calls at once, and units a minute, as a pure step.

Promise. The state is a small value in a database row; every worker changes it under the row's
lock, and given (limits, state, now) the answer is always the same.

A minute. Each unit is a GCRA: one time, `used_until`, to which a charge of n adds n intervals of
(60 + 1 + 1) / limit seconds, and which may be a second ahead when a charge comes. The two seconds
more than a minute pay for grants that are used up to `LATE_SECONDS` late, and for the burst. So
charges of one that are used in time are never more than the limit (rounded up to a whole number)
in any 60 seconds, and work that always waits uses about 97 % of it.

Lumps. A charge that is larger than the burst goes through once its unit is idle, and becomes
debt. Nothing else could let it through, so that any 60 seconds see less than the limit and that
one charge. Small charges that never pause would keep a larger one waiting for ever: so it is
booked, as soon as a single unit could be had, for the moment at which it fits, a second ahead at
most, and whoever comes later comes after it.

After the call, `settle` charges what was used beyond the reservation, or gives the rest back. A
rest that comes back long after it was reserved is granted anew then: the sum over all time is
within the limit, though a minute into which much comes back may see that much more.

Places. A holder says how many calls it has under way, and for how long that is to be believed.
Its places come back at that time, not before. A holder that comes back from the dead is believed
too, even above the limit: nobody begins then, until enough have ended.

Wrong clocks. No time is set further ahead than an hour of debt or a day of holding, and one that
is further ahead than that and `CLOCK_SKEW_SECONDS` binds nobody. So no interval is longer than an
hour either: a unit of less than one an hour is one an hour.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import TypeGuard

from seawall.decisions.backoff import is_number

WINDOW_SECONDS = 60.0
LATE_SECONDS = 1.0
"""A grant is used within this time after it was given: the caller promises that."""
BURST_SECONDS = 1.0
"""This much of the allowance may come at once."""
DEBT_SECONDS = 3_600.0
LONGEST_HOLD_SECONDS = 86_400.0
CLOCK_SKEW_SECONDS = 60.0
REQUESTS = "requests"
"""The unit of which every call uses one."""
MOST_CALLS = 1_000_000
MOST_PER_MINUTE = 1e12
MOST_UNITS = 20
LONGEST_UNIT = 50

# Times since the epoch are a quarter of a microsecond apart: rounding must not lengthen the burst.
_BURST = BURST_SECONDS - 1e-6

Amounts = Mapping[str, float]
"""By unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What all workers together may use of an upstream, or one owner of it."""

    concurrency: int | None = None
    """Calls under way at once."""
    per_minute: Amounts = field(default_factory=dict)
    """The most of a unit in any 60 seconds."""

    def __post_init__(self) -> None:
        most = self.concurrency
        if most is not None and not (_is_count(most) and 1 <= most <= MOST_CALLS):
            raise ValueError(f"concurrency: found {most!r}, expected 1 to {MOST_CALLS}, whole")
        _check_limits(self.per_minute)
        # A copy that nobody else has: who made it may go on changing his own.
        object.__setattr__(self, "per_minute", MappingProxyType(dict(self.per_minute)))

    def __hash__(self) -> int:
        return hash((self.concurrency, frozenset(self.per_minute.items())))

    def __reduce__(self) -> tuple[object, ...]:
        made = partial(Limits, concurrency=self.concurrency, per_minute=dict(self.per_minute))
        return made, ()

    @property
    def bounded(self) -> bool:
        """Whether anything is limited."""
        return self.concurrency is not None or bool(self.per_minute)


@dataclass(frozen=True, slots=True)
class LimitState:
    """What the fleet has used and holds. Times are seconds since the epoch."""

    used_until: tuple[tuple[str, float], ...] = ()
    """By unit: the time up to which its allowance is used."""
    places: tuple[tuple[str, int, float], ...] = ()
    """By holder: its calls under way, and until when that is believed."""


def room(limits: Limits, state: LimitState, now: float, *, spread: int = MOST_CALLS) -> int:
    """How many calls may begin now, `spread` at most; none while any unit is in debt."""
    used = _used(state, now)
    if any(_ready(limits, used, unit, 1, now) > now for unit in limits.per_minute):
        return 0
    most = spread
    if limits.concurrency is not None:
        most = min(most, limits.concurrency - _taken(_living(state, now)))
    if REQUESTS in limits.per_minute:
        since = now - _ready(limits, used, REQUESTS, 1, now)
        most = min(most, 1 + math.floor(since / _interval(limits, REQUESTS)))
    return max(0, most)


def begin(
    limits: Limits, state: LimitState, holder: str, calls: int, now: float, *, hold_seconds: float
) -> LimitState:
    """The state after calls began: a request is charged for each, and its place is taken.

    Raises ValueError where there is no room for them.
    """
    free = room(limits, state, now)
    if not _is_count(calls) or not 0 <= calls <= free:
        raise ValueError(f"calls: found {calls!r}, expected 0 to {free}, which is the room")
    used = _used(state, now)
    if calls and REQUESTS in limits.per_minute:
        used[REQUESTS] = _charged(limits, used, REQUESTS, calls, now)
    before, _ = _living(state, now).get(holder, (0, now))
    return _state(used, _held(limits, state, holder, before + calls, now, hold_seconds))


def under_way(
    limits: Limits, state: LimitState, holder: str, calls: int, now: float, *, hold_seconds: float
) -> LimitState:
    """The state after a holder said how many calls it has under way; 0 takes it off the list."""
    if not _is_count(calls) or calls < 0:
        raise ValueError(f"calls: found {calls!r}, expected a whole number, 0 or more")
    return _state(_used(state, now), _held(limits, state, holder, calls, now, hold_seconds))


def reserve(limits: Limits, state: LimitState, units: Amounts, now: float) -> LimitState | float:
    """The state after all of the units were charged, or in how many seconds they could be.

    All or none. A unit that is not limited costs nothing.
    """
    _check_amounts("units", units)
    used = _used(state, now)
    wanted = {unit: n for unit, n in units.items() if n > 0 and unit in limits.per_minute}
    ready = max((_ready(limits, used, unit, n, now) for unit, n in wanted.items()), default=now)
    if ready > now:
        return ready - now
    for unit, amount in wanted.items():
        used[unit] = _charged(limits, used, unit, amount, now)
    return _state(used, _living(state, now))


def book(
    limits: Limits, state: LimitState, units: Amounts, now: float
) -> tuple[LimitState, float] | float:
    """`reserve`, if need be for a moment that is no more than the burst away.

    The state, and in how many seconds the moment is; or in how many seconds to ask again, which
    are the same however much is asked for.
    """
    found = reserve(limits, state, units, now)
    if isinstance(found, LimitState):
        return found, 0.0
    used = _used(state, now)
    wanted = {unit: n for unit, n in units.items() if n > 0 and unit in limits.per_minute}
    one = max(_ready(limits, used, unit, min(1, n), now) for unit, n in wanted.items())
    if one > now:
        return one - now
    for unit, amount in wanted.items():
        used[unit] = _charged(limits, used, unit, amount, now + found)
    return _state(used, _living(state, now)), found


def settle(
    limits: Limits, state: LimitState, reserved: Amounts, used: Amounts, now: float
) -> LimitState:
    """The state after a call turned out to use other amounts than were reserved for it.

    What it used more is charged, and later calls wait for it. What it used less is given back,
    as far as the allowance is used ahead of now.
    """
    _check_amounts("reserved", reserved)
    _check_amounts("used", used)
    times = _used(state, now)
    for unit in limits.per_minute:
        more = used.get(unit, 0) - reserved.get(unit, 0)
        until = _until(times, unit, now)
        if more > 0:
            times[unit] = _charged(limits, times, unit, more, now)
        elif more < 0 and until > now:
            back = math.nextafter(until + more * _interval(limits, unit), math.inf)
            times[unit] = max(now, min(until, back))
    return _state(times, _living(state, now))


def next_at(limits: Limits, state: LimitState, now: float) -> float | None:
    """From when on there is room if nobody says anything more; None where there is room now.

    Debts are paid by then, and the time of enough holders is over. A call's end may come first.
    """
    if room(limits, state, now) > 0:
        return None
    used, places = _used(state, now), _living(state, now)
    moments = [_ready(limits, used, unit, 1, now) for unit in limits.per_minute]
    if limits.concurrency is not None:
        free = limits.concurrency - _taken(places)
        for count, until in sorted(places.values(), key=lambda place: place[1]):
            if free > 0:
                break
            free += count
            moments.append(until)
    return max(moments)


def under_way_now(state: LimitState, now: float) -> int:
    """How many calls all holders together have under way, as far as they are believed."""
    return _taken(_living(state, now))


def free_in_seconds(limits: Limits, state: LimitState, unit: str, now: float) -> float:
    """When one of the unit could be charged, if nobody else does; 0 is now."""
    return max(0.0, _ready(limits, _used(state, now), unit, 1, now) - now)


def as_data(state: LimitState) -> dict[str, object]:
    """As plain JSON values."""
    places = {holder: [count, until] for holder, count, until in state.places}
    return {"used_until": dict(state.used_until), "places": places}


def from_data(data: object) -> LimitState:
    """What `as_data` wrote. Anything else is an empty state: limits must not stop the work."""
    match data:
        case {"used_until": dict(used), "places": dict(places)}:
            known = all(map(is_number, used.values())) and all(map(_is_place, places.values()))
            if known and all(isinstance(name, str) for name in (*used, *places)):
                held = {holder: (count, float(until)) for holder, (count, until) in places.items()}
                return _state({unit: float(until) for unit, until in used.items()}, held)
    return LimitState()


_Used = dict[str, float]
_Places = dict[str, tuple[int, float]]


def _is_count(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


def _is_place(found: object) -> TypeGuard[tuple[int, float]]:
    match found:
        case [int(count), until]:
            return _is_count(count) and count >= 1 and is_number(until)
    return False


def _check_limits(found: object) -> None:
    if not isinstance(found, Mapping) or len(found) > MOST_UNITS:
        raise ValueError(f"per_minute: found {found!r}, expected {MOST_UNITS} units at most")
    for unit, limit in found.items():
        if not isinstance(unit, str) or not 1 <= len(unit) <= LONGEST_UNIT:
            raise ValueError(f"per_minute: found {unit!r}, expected 1 to {LONGEST_UNIT} letters")
        if unit != REQUESTS and get_close_matches(unit.lower(), [REQUESTS], cutoff=0.85):
            raise ValueError(f"per_minute: found {unit!r}; did you mean {REQUESTS!r}?")
        if not is_number(limit) or not 0 < limit <= MOST_PER_MINUTE:
            raise ValueError(
                f"per_minute[{unit!r}]: found {limit!r}, expected above 0 to {MOST_PER_MINUTE:g}"
            )


def _check_amounts(name: str, amounts: Amounts) -> None:
    for unit, amount in amounts.items():
        if not is_number(amount) or amount < 0:
            raise ValueError(f"{name}[{unit!r}]: found {amount!r}, expected a number, 0 or more")


def _state(used: _Used, places: _Places) -> LimitState:
    held = ((holder, count, until) for holder, (count, until) in places.items())
    return LimitState(tuple(sorted(used.items())), tuple(sorted(held)))


def _used(state: LimitState, now: float) -> _Used:
    """The times that may still matter, to a clock that is a little behind as well."""
    first, last = now - CLOCK_SKEW_SECONDS, now + DEBT_SECONDS + CLOCK_SKEW_SECONDS
    return {unit: until for unit, until in state.used_until if first < until <= last}


def _until(used: _Used, unit: str, now: float) -> float:
    return max(now, used.get(unit, now))


def _interval(limits: Limits, unit: str) -> float:
    seconds = (WINDOW_SECONDS + LATE_SECONDS + BURST_SECONDS) / limits.per_minute[unit]
    return min(seconds, DEBT_SECONDS)


def _ready(limits: Limits, used: _Used, unit: str, amount: float, now: float) -> float:
    """From when on the amount may be charged: it fits the burst, or the unit is idle."""
    beyond_one = max(0.0, amount - 1) * _interval(limits, unit)
    return _until(used, unit, now) + min(0.0, beyond_one - _BURST)


def _charged(limits: Limits, used: _Used, unit: str, amount: float, now: float) -> float:
    until = _until(used, unit, now) + amount * _interval(limits, unit)
    # Rounded up: many small charges would else add up to less than they are.
    return min(math.nextafter(until, math.inf), now + DEBT_SECONDS)


def _living(state: LimitState, now: float) -> _Places:
    last = now + LONGEST_HOLD_SECONDS + CLOCK_SKEW_SECONDS
    return {name: (count, until) for name, count, until in state.places if now < until <= last}


def _taken(places: _Places) -> int:
    return sum(count for count, _ in places.values())


def _held(
    limits: Limits, state: LimitState, holder: str, calls: int, now: float, hold_seconds: float
) -> _Places:
    """The living places with the holder's as it says now; none of its own where none count."""
    if not is_number(hold_seconds) or not 0 < hold_seconds <= LONGEST_HOLD_SECONDS:
        raise ValueError(f"hold_seconds: found {hold_seconds!r}, expected above 0, a day at most")
    places = _living(state, now)
    places.pop(holder, None)
    if calls and limits.concurrency is not None:
        places[holder] = (calls, now + hold_seconds)
    return places
