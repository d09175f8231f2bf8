"""A figure that was measured several times: its mean, and how far that can be trusted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

# The 97.5 % points of Student's t, by degrees of freedom; beyond the last the normal one will do.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL = 1.960


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean of some runs, and the interval that holds the true one in 95 of 100 cases."""

    mean: float
    low: float
    high: float

    @property
    def margin(self) -> float:
        """Half of the interval."""
        return (self.high - self.low) / 2


def spread_of(values: Sequence[float]) -> Spread:
    """The mean of these and its 95 % interval, by Student's t; of a single one there is none."""
    count = len(values)
    if not count:
        raise ValueError("values: found none, expected at least one")
    mean = math.fsum(values) / count
    if count == 1:
        return Spread(mean, mean, mean)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    t = _T[count - 2] if count - 2 < len(_T) else _NORMAL
    margin = t * math.sqrt(variance / count)
    return Spread(mean, mean - margin, mean + margin)
