"""Counts over the last so many seconds, as a small value.

One slice for each second in which something was counted, so that its size is bounded by the
window's length and not by the traffic. A clock that was wrong cannot spoil it for long: slices
further ahead than a whole window are dropped like those behind it.
"""

import math
from dataclasses import dataclass

LONGEST_WINDOW_SECONDS = 3_600

Counts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """Named counts by second; what the places mean is the owner's affair."""

    slices: tuple[tuple[int, Counts], ...] = ()

    def add(self, counts: Counts, now: float, window_seconds: float) -> "Tally":
        """With these counts added in this second, and what is too old left out."""
        second = math.floor(now)
        kept = dict(self._within(now, window_seconds))
        before = kept.get(second, (0,) * len(counts))
        kept[second] = tuple(a + b for a, b in zip(before, counts, strict=True))
        return Tally(tuple(sorted(kept.items())))

    def total(self, places: int, now: float, window_seconds: float) -> Counts:
        """The sum of each count over the window that ends in this second."""
        rows = [counts for _, counts in self._within(now, window_seconds)]
        return tuple(sum(row[place] for row in rows) for place in range(places))

    def _within(self, now: float, window_seconds: float) -> list[tuple[int, Counts]]:
        second = math.floor(now)
        return [
            (when, counts)
            for when, counts in self.slices
            if second - window_seconds < when <= second + window_seconds
        ]
