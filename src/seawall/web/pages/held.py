"""What every page tells at its top: which upstreams are held, and how many letters wait.

Every page shows it, each time it is shown; so nothing here is counted to its end.
"""

from dataclasses import dataclass
from datetime import datetime

from seawall.store import OwnStanding
from seawall.upstreams import UpstreamStand
from seawall.web.access import Visitor
from seawall.web.house import House

MOST_BANNERS = 5
MOST_LETTERS = 1_000
MOST_WAITING = 100_000
"""Jobs that are counted of each upstream that is held."""
MOST_OWN = 5_000
"""The newest jobs of an owner, which are looked at for what concerns him."""


@dataclass(frozen=True, slots=True)
class Banner:
    """An upstream that is held, as a person is told of it."""

    name: str
    by_hand: bool
    probing: bool
    asked: bool
    """Whether it answered, and asked to be left alone for a while."""
    until: datetime | None
    waiting: int | None
    """How many jobs wait for it; None where that is not the visitor's affair."""
    more_wait: bool
    """Whether there may be more than were counted."""
    reason: str


@dataclass(frozen=True, slots=True)
class Frame:
    """What every page shows around what it is about."""

    now: datetime
    letters: int
    """Dead letters that wait for this visitor, as far as they were counted."""
    more_letters: bool
    """Whether there may be more."""
    held: list[Banner]
    """Upstreams that are held, for whoever sees all; else no more than their names and times."""


def frame_of(house: House, visitor: Visitor) -> Frame:
    """What there is to tell this visitor now."""
    store, now = house.store, house.store.now()
    held = house.app.upstreams.held()
    if visitor.only is None:
        letters = store.open_letters(most=MOST_LETTERS + 1)
        banners = _of_all(house, held)
        return Frame(now, min(letters, MOST_LETTERS), letters > MOST_LETTERS, banners)
    own = store.standing_of(visitor.only, most=MOST_OWN)
    return Frame(now, own.open_letters, not own.whole, _of_owner(held, own))


def _of_all(house: House, held: list[UpstreamStand]) -> list[Banner]:
    """The one for which most wait first."""
    if not held:
        return []
    counts = house.store.waiting_at([each.name for each in held], most=MOST_WAITING)
    held = sorted(held, key=lambda each: (-counts[each.name], each.name))
    return [_banner(each, counts[each.name]) for each in held[:MOST_BANNERS]]


def _of_owner(held: list[UpstreamStand], own: OwnStanding) -> list[Banner]:
    """Those for which his jobs wait: how many others wait is not his affair, nor why."""
    return [_banner(each, None) for each in held if each.name in own.waiting][:MOST_BANNERS]


def _banner(upstream: UpstreamStand, waiting: int | None) -> Banner:
    return Banner(
        name=upstream.name,
        by_hand=upstream.forced == "open",
        probing=upstream.phase == "half_open",
        asked=upstream.asked,
        until=upstream.forced_until if upstream.forced else upstream.held_until,
        waiting=waiting,
        more_wait=waiting is not None and waiting >= MOST_WAITING,
        reason=upstream.reason if waiting is not None else "",
    )
