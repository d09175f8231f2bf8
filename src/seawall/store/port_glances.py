"""The verbs of the store for those who keep looking; `port` says what holds for all verbs.

What pages show around everything, and show again each time something happens. So none of these
costs more the more jobs there are: each counts up to a bound, and says when it came to it.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from seawall.store.values import Lately, OwnStanding


class GlanceVerbs(Protocol):
    """How it stands, as far as a glance tells."""

    def waiting_at(self, upstreams: Collection[str], *, most: int) -> dict[str, int]:
        """How many jobs wait for each of these upstreams, now or for later; at most so many."""
        ...

    def open_letters(self, *, most: int) -> int:
        """How many dead letters wait for somebody; at most so many."""
        ...

    def standing_of(self, owner: str, *, most: int) -> OwnStanding:
        """How the newest jobs of an owner stand, so many of them: whatever others have."""
        ...

    def lately(self, spans: Mapping[str, float], *, within_seconds: float) -> dict[str, Lately]:
        """How calls at each of these upstreams ended lately, by name; and how many were first ones
        within a span of its own, in seconds. One look for all of them.
        """
        ...
