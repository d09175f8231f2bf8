"""What metrics tell at one moment, by their labels; and which names stand for themselves."""

from collections.abc import Iterator, Mapping

from seawall.metrics.declared import METRICS
from seawall.redact import public_name
from seawall.store import BOUNDS_SECONDS, Histogram

MOST_NAMES = 100
OTHER = "other"
_NAMES = tuple(metric.name for metric in METRICS)

Labels = tuple[str, ...]


class Named:
    """The names that stand for themselves: the busiest at first, and then for good.

    A counter that moved from one label to another would seem to have been reset. So whoever has a
    name keeps it as long as the process lives, and who comes when all places are taken is `other`.
    """

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._most = most
        self._named: dict[Labels, None] = {}

    def saw(self, volumes: Mapping[Labels, float]) -> None:
        """Give the free places to those with the largest volume."""
        free = self._most - len(self._named)
        if free > 0:
            fresh = [key for key in volumes if key not in self._named]
            fresh.sort(key=lambda key: (-volumes[key], key))
            self._named |= dict.fromkeys(fresh[:free])

    def of(self, *key: str) -> Labels:
        """The name itself, fit for all eyes, or `other` for each of its parts."""
        return tuple(map(public_name, key)) if key in self._named else (OTHER,) * len(key)

    def __iter__(self) -> Iterator[Labels]:
        return iter({self.of(*key): None for key in self._named})


class Figures:
    """Values by metric and labels, and histograms with the sum of what they count."""

    def __init__(self) -> None:
        self.values: dict[str, dict[Labels, float]] = {name: {} for name in _NAMES}
        self.spans: dict[str, dict[Labels, tuple[list[int], float]]] = {name: {} for name in _NAMES}

    def add(self, name: str, labels: Labels, value: float) -> None:
        """Add to what these labels have so far."""
        found = self.values[name]
        found[labels] = found.get(labels, 0) + value

    def most(self, name: str, labels: Labels, value: float) -> None:
        """Keep the largest."""
        found = self.values[name]
        found[labels] = max(found.get(labels, value), value)

    def took(self, name: str, labels: Labels, counts: Histogram, seconds: float) -> None:
        """Add a histogram to what these labels have so far."""
        before, sum_ = self.spans[name].get(labels, ([0] * (len(BOUNDS_SECONDS) + 1), 0.0))
        added = [a + b for a, b in zip(before, counts, strict=True)]
        self.spans[name][labels] = (added, sum_ + seconds)
