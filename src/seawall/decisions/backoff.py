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
"""

import math
import random
from dataclasses import dataclass
from typing import Literal, get_args

Curve = Literal["fixed", "linear", "exponential", "decorrelated", "schedule"]
Jitter = Literal["none", "full", "equal", "proportional", "additive"]
CURVES: tuple[str, ...] = get_args(Curve)
JITTERS: tuple[str, ...] = get_args(Jitter)

LONGEST_SECONDS = 366.0 * 86_400.0
"""No delay of our own is longer than a year, whatever the curve says and the cap allows."""
LONGEST_SCHEDULE = 1_000
DECORRELATED_GROWTH = 3.0

Window = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A delay for every attempt, as data: the same words in Python and in TOML."""

    curve: Curve
    base_seconds: float = 1.0
    factor: float = 2.0
    schedule_seconds: tuple[float, ...] = ()
    cap_seconds: float | None = None
    jitter: Jitter = "none"
    jitter_ratio: float = 0.0
    jitter_seconds: float = 0.0

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("base_seconds", "factor", "jitter_ratio", "jitter_seconds"):
            put(self, name, float(getattr(self, name)))
        if self.cap_seconds is not None:
            put(self, "cap_seconds", float(self.cap_seconds))
        put(self, "schedule_seconds", tuple(float(s) for s in self.schedule_seconds))
        for name, problem in problems(self):
            raise ValueError(f"{name}: {problem}")

    def window(self, attempt: int, previous_seconds: float | None = None) -> Window:
        """The least and the greatest delay after this failed attempt, before any Retry-After."""
        if attempt < 1:
            raise ValueError(f"attempts are numbered from 1, found {attempt}")
        if self.curve == "decorrelated":
            return self._decorrelated(previous_seconds)
        centre = self._curve(attempt)
        match self.jitter:
            case "none":
                return centre, centre
            case "full":
                return 0.0, centre
            case "equal":
                return centre / 2, centre
            case "proportional":
                return centre * (1 - self.jitter_ratio), self._capped(
                    centre * (1 + self.jitter_ratio)
                )
            case "additive":
                # Slide the window under the cap rather than squeeze it to a point.
                top = self._capped(centre + self.jitter_seconds)
                return max(0.0, min(centre, top - self.jitter_seconds)), top

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


def problems(backoff: Backoff) -> list[tuple[str, str]]:
    """Every (field, what is wrong with it and what is allowed)."""
    found: list[tuple[str, str]] = []

    def need(name: str, holds: bool, allowed: str) -> None:
        if not holds:
            found.append((name, f"found {getattr(backoff, name)!r}, expected {allowed}"))

    seconds = f"a number of seconds from 0 to {LONGEST_SECONDS:.0f}"
    need("curve", backoff.curve in CURVES, f"one of {', '.join(CURVES)}")
    need("jitter", backoff.jitter in JITTERS, f"one of {', '.join(JITTERS)}")
    need("base_seconds", 0 <= backoff.base_seconds <= LONGEST_SECONDS, seconds)
    need("factor", 1 <= backoff.factor <= 1_000, "a number from 1 to 1000")
    cap = backoff.cap_seconds
    need("cap_seconds", cap is None or 0 <= cap <= LONGEST_SECONDS, seconds)
    need("jitter_seconds", 0 <= backoff.jitter_seconds <= LONGEST_SECONDS, seconds)
    need("jitter_ratio", 0 <= backoff.jitter_ratio <= 1, "a number from 0 to 1")
    need(
        "jitter_ratio",
        (backoff.jitter_ratio > 0) == (backoff.jitter == "proportional"),
        'a number above 0 with jitter = "proportional", and none with any other',
    )
    need(
        "jitter_seconds",
        (backoff.jitter_seconds > 0) == (backoff.jitter == "additive"),
        'a number above 0 with jitter = "additive", and none with any other',
    )
    need(
        "jitter",
        backoff.curve != "decorrelated" or backoff.jitter == "none",
        '"none": the decorrelated curve is its own jitter',
    )
    entries = backoff.schedule_seconds
    need(
        "schedule_seconds",
        bool(entries) == (backoff.curve == "schedule"),
        'a list of seconds with curve = "schedule", and none with any other',
    )
    need(
        "schedule_seconds",
        len(entries) <= LONGEST_SCHEDULE and all(0 <= s <= LONGEST_SECONDS for s in entries),
        f"at most {LONGEST_SCHEDULE} entries, each {seconds}",
    )
    return found
