"""How long to wait before the next attempt: a curve, a jitter, a cap.

The curve gives each attempt its delay; the jitter turns that into a window; the delay is drawn
evenly from the window. The cap bounds the window itself, not the drawn value: a value that was
cut off would send everyone who hit the cap back at the same moment. So the result is uniform
wherever the jitter is, and never above the cap.

    curve          delay before jitter, n = the attempt that just failed, from 1
    fixed          base
    linear         base · n
    exponential    base · factor^(n−1)
    decorrelated   drawn from base … 3 · the previous delay; its own jitter
    schedule       the n-th entry; the last one repeats

    jitter         window around a delay d
    none           d
    full           0 … d
    equal          d/2 … d
    proportional   d·(1−r) … d·(1+r)
    additive       d … d + j

What is not said is safe: curves that grow get equal jitter and a cap of five minutes, the others
±20 % around the figures that were given.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from seawall.errors import PolicyError

Curve = Literal["fixed", "linear", "exponential", "decorrelated", "schedule"]
Jitter = Literal["none", "full", "equal", "proportional", "additive"]
CURVES: tuple[str, ...] = get_args(Curve)
JITTERS: tuple[str, ...] = get_args(Jitter)
GROWING: tuple[str, ...] = ("linear", "exponential", "decorrelated")

LONGEST_SECONDS = 366.0 * 86_400.0
"""No delay of our own is longer than a year, whatever the curve says and the cap allows."""
LONGEST_SCHEDULE = 1_000
LARGEST_FACTOR = 1_000.0
DECORRELATED_GROWTH = 3.0
USUAL_CAP_SECONDS = 300.0
USUAL_RATIO = 0.2

Window = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A delay for every attempt, as data: the same words in Python and in TOML."""

    curve: Curve = "exponential"
    base_seconds: float = 2.0
    factor: float = 2.0
    schedule_seconds: Sequence[float] = ()
    cap_seconds: float | None = None
    """Five minutes for curves that grow, none for the others, unless it is given."""
    jitter: Jitter | None = None
    """Equal for curves that grow, proportional for the others, unless it is given."""
    jitter_ratio: float | None = None
    jitter_seconds: float | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        for problem in _wrong_kinds(self):
            raise PolicyError(problem)
        for name in ("base_seconds", "factor", "cap_seconds", "jitter_ratio", "jitter_seconds"):
            found = getattr(self, name)
            put(self, name, None if found is None else float(found) + 0.0)  # -0.0 is 0.0
        put(self, "schedule_seconds", tuple(float(s) + 0.0 for s in self.schedule_seconds))
        for name, usual in _usual(self).items():
            if getattr(self, name) is None:
                put(self, name, usual)
        for problem in _wrong_values(self):
            raise PolicyError(problem)

    def window(self, attempt: int, previous_seconds: float | None = None) -> Window:
        """The least and the greatest delay after this failed attempt, before any Retry-After."""
        if attempt < 1:
            raise ValueError(f"attempts are numbered from 1, found {attempt}")
        if self.curve == "decorrelated":
            return self._decorrelated(previous_seconds)
        centre = self._curve(attempt)
        ratio, extra = self.jitter_ratio or 0.0, self.jitter_seconds or 0.0
        match self.jitter:
            case "full":
                return 0.0, centre
            case "equal":
                return centre / 2, centre
            case "proportional":
                return centre * (1 - ratio), self._capped(centre * (1 + ratio))
            case "additive":
                # Slide the window under the cap rather than squeeze it to a point.
                top = self._capped(centre + extra)
                return max(0.0, min(centre, top - extra)), top
            case _:
                return centre, centre

    def delay_seconds(
        self, attempt: int, rng: random.Random, previous_seconds: float | None = None
    ) -> float:
        """One draw from the window. `previous_seconds` matters to the decorrelated curve only."""
        least, most = self.window(attempt, previous_seconds)
        return min(most, least + (most - least) * rng.random())

    @property
    def ceiling_seconds(self) -> float:
        """The longest delay that this back-off may ever choose."""
        return LONGEST_SECONDS if self.cap_seconds is None else self.cap_seconds

    def _capped(self, seconds: float) -> float:
        return min(seconds, self.ceiling_seconds)

    def _curve(self, attempt: int) -> float:
        match self.curve:
            case "fixed":
                raw = self.base_seconds
            case "linear":
                raw = self.base_seconds * attempt
            case "schedule":
                raw = self.schedule_seconds[min(attempt, len(self.schedule_seconds)) - 1]
            case _:
                raw = _exponential(self.base_seconds, self.factor, attempt - 1)
        return self._capped(raw)

    def _decorrelated(self, previous_seconds: float | None) -> Window:
        previous = self.base_seconds if previous_seconds is None else previous_seconds
        least = self._capped(self.base_seconds)
        return least, max(least, self._capped(DECORRELATED_GROWTH * previous))


def _exponential(base: float, factor: float, exponent: int) -> float:
    """Base · factor^exponent without overflow: past the longest delay the exact value is moot."""
    if base <= 0 or factor <= 1:
        return base
    if exponent * math.log(factor) > math.log(LONGEST_SECONDS) - math.log(base):
        return LONGEST_SECONDS
    return base * factor**exponent


def _usual(backoff: Backoff) -> dict[str, object]:
    """What holds where nothing is said."""
    grows = backoff.curve in GROWING
    jitter = "none" if backoff.curve == "decorrelated" else "equal" if grows else "proportional"
    chosen = backoff.jitter or jitter
    return {
        "jitter": jitter,
        "jitter_ratio": USUAL_RATIO if chosen == "proportional" else None,
        "cap_seconds": max(USUAL_CAP_SECONDS, backoff.base_seconds) if grows else None,
    }


def is_number(found: object) -> bool:
    """Whether this is a finite number; neither true, nor NaN, nor text."""
    if isinstance(found, bool) or not isinstance(found, int | float):
        return False
    try:
        return math.isfinite(found)
    except OverflowError:
        return False


def _wrong_kinds(backoff: Backoff) -> Iterator[str]:
    """What cannot be used at all: a curve that is none, a number that is none."""
    for name, allowed in (("curve", CURVES), ("jitter", JITTERS)):
        found = getattr(backoff, name)
        if found not in allowed and not (name == "jitter" and found is None):
            yield f"{name}: found {found!r}, expected one of {', '.join(allowed)}"
    for name in ("base_seconds", "factor", "cap_seconds", "jitter_ratio", "jitter_seconds"):
        found = getattr(backoff, name)
        if not is_number(found) and not (found is None and name not in ("base_seconds", "factor")):
            yield f"{name}: found {found!r}, expected a number"
    entries = backoff.schedule_seconds
    if not isinstance(entries, list | tuple) or not all(map(is_number, entries)):
        yield f"schedule_seconds: found {entries!r}, expected a list of numbers"


def _wrong_values(backoff: Backoff) -> Iterator[str]:
    """What lies out of bounds, contradicts itself or leads nowhere."""
    seconds = (0.0, LONGEST_SECONDS)
    for name, (least, most) in {
        "base_seconds": seconds,
        "factor": (1.0, LARGEST_FACTOR),
        "cap_seconds": seconds,
        "jitter_ratio": (0.001, 1.0),
        "jitter_seconds": (0.001, LONGEST_SECONDS),
    }.items():
        found = getattr(backoff, name)
        if found is not None and not least <= found <= most:
            yield f"{name}: found {found!r}, expected {least:g} to {most:g}"
    yield from _lonely(backoff, "jitter_ratio", "jitter", "proportional")
    yield from _lonely(backoff, "jitter_seconds", "jitter", "additive")
    yield from _lonely(backoff, "schedule_seconds", "curve", "schedule")
    if backoff.curve == "decorrelated" and backoff.jitter != "none":
        yield f'jitter: found {backoff.jitter!r}, expected "none": the curve is its own jitter'
    entries, cap = backoff.schedule_seconds, backoff.cap_seconds
    if len(entries) > LONGEST_SCHEDULE or not all(0 <= s <= LONGEST_SECONDS for s in entries):
        yield f"schedule_seconds: expected at most {LONGEST_SCHEDULE} entries from 0 to a year"
    if cap is not None and not entries and cap < backoff.base_seconds:
        base = f"base_seconds ({backoff.base_seconds:g})"
        yield f"cap_seconds: found {cap!r}, expected at least {base}"


def _lonely(backoff: Backoff, name: str, beside: str, value: str) -> Iterator[str]:
    """A field that belongs to one value of another: both or neither."""
    found, belongs = getattr(backoff, name), getattr(backoff, beside) == value
    if belongs and found in (None, ()):
        yield f'{name}: is missing, expected it beside {beside} = "{value}"'
    if not belongs and found not in (None, ()):
        yield f'{name}: found {found!r}, expected none without {beside} = "{value}"'
