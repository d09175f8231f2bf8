"""How often somebody may ask: so many requests a second, with a burst, for each name.

Kept in memory, for each server on its own: it bounds what one caller can take of one process, and
is no quota. What is remembered is bounded, too; the name that has been silent longest goes first.
"""

from collections import OrderedDict

MOST_NAMES = 10_000


class Rates:
    """A bound for each name. Not for several threads: the event loop asks."""

    def __init__(self, per_second: float, burst: float, *, most: int = MOST_NAMES) -> None:
        self._every = 1.0 / per_second
        self._ahead = burst / per_second
        """How far ahead of the time a name's account may be."""
        self._most = most
        self._accounts: OrderedDict[str, float] = OrderedDict()

    def wait(self, name: str, now: float) -> float:
        """Seconds until this name may ask; 0 is now, and counts as asked."""
        account = max(self._accounts.get(name, now), now)
        late = account + self._every - now - self._ahead
        if late > 1e-9:
            return late
        self._accounts[name] = account + self._every
        self._accounts.move_to_end(name)
        if len(self._accounts) > self._most:
            self._accounts.popitem(last=False)
        return 0.0

    def is_spent(self, name: str, now: float) -> float:
        """As `wait`, but nothing is counted."""
        return max(0.0, self._accounts.get(name, now) + self._every - now - self._ahead)
