"""A retry budget: retries may add only so much to an upstream's load.

Whenever a retry is granted, the retries of the window that ends then, itself among them, are
within a share of that window's first calls plus a floor, so that a quiet service may still retry.
Past that a retry waits; it is neither dropped nor charged. Pure: the state is a `Tally` of (first
calls, retries), and given (state, now) the answer is always the same.
"""

from dataclasses import dataclass

from seawall.decisions.tally import LONGEST_WINDOW_SECONDS, Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudget:
    """How much of the load may be retries."""

    share: float = 0.1
    """Retries for each first call."""
    floor_per_second: float = 1.0
    """Retries that are always allowed, a second."""
    window_seconds: float = 60.0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share: found {self.share!r}, expected a number from 0 to 1")
        if not 0 <= self.floor_per_second <= 1_000_000:
            raise ValueError(
                f"floor_per_second: found {self.floor_per_second!r}, expected 0 or more"
            )
        if not 1 <= self.window_seconds <= LONGEST_WINDOW_SECONDS:
            raise ValueError(
                f"window_seconds: found {self.window_seconds!r}, "
                f"expected 1 to {LONGEST_WINDOW_SECONDS}"
            )

    def record_call(self, state: Tally, now: float, count: int = 1) -> Tally:
        """The state after first calls were made."""
        return state.add((count, 0), now, self.window_seconds)

    def take_retry(self, state: Tally, now: float) -> tuple[Tally, bool]:
        """Whether one more retry may be made now, and the state in which it was, if so."""
        if self.room(state, now) < 1:
            return state, False
        return state.add((0, 1), now, self.window_seconds), True

    def room(self, state: Tally, now: float) -> float:
        """How many retries the window still has room for."""
        calls, retries = state.total(2, now, self.window_seconds)
        return self.share * calls + self.floor_per_second * self.window_seconds - retries
