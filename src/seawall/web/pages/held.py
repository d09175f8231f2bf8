"""What every page tells at its top: which upstreams are held, and how many letters wait."""

from dataclasses import dataclass
from datetime import datetime

from seawall.store import LetterFilter, LetterState
from seawall.upstreams import UpstreamView
from seawall.web.access import Visitor
from seawall.web.house import House

MOST_BANNERS = 5
MOST_LETTERS = 1_000


@dataclass(frozen=True, slots=True)
class Banner:
    """An upstream that is held, as a person is told of it."""

    name: str
    by_hand: bool
    probing: bool
    until: datetime | None
    waiting: int | None
    """How many jobs wait for it; None where that is not the visitor's affair."""
    reason: str


def banners(house: House, visitor: Visitor) -> list[Banner]:
    """Those that are held now, the one for which most wait first."""
    held = [each for each in house.app.upstreams.all() if is_held(each)]
    if visitor.only is not None:
        held = [each for each in held if _calls(house, visitor.only, each.name)]
    held.sort(key=lambda each: (-each.waiting, each.name))
    return [_banner(each, visitor) for each in held[:MOST_BANNERS]]


def is_held(upstream: UpstreamView) -> bool:
    """Whether none, or only a few to try it, of its jobs begin."""
    return upstream.phase != "closed" or upstream.forced == "open"


def _calls(house: House, owner: str, upstream: str) -> bool:
    """Whether somebody has one of the newest jobs that wait for it."""
    waiting = house.app.jobs(state="queued", owner=owner, limit=100)
    return any(job.upstream == upstream for job in waiting)


def _banner(upstream: UpstreamView, visitor: Visitor) -> Banner:
    return Banner(
        name=upstream.name,
        by_hand=upstream.forced == "open",
        probing=upstream.phase == "half_open",
        until=upstream.forced_until if upstream.forced else upstream.held_until,
        waiting=upstream.waiting + upstream.later if visitor.sees_all else None,
        reason=upstream.reason if visitor.sees_all else "",
    )


def open_letters(house: House, visitor: Visitor) -> int:
    """How many dead letters wait for this visitor; no more than `MOST_LETTERS` are counted."""
    which = LetterFilter(state=LetterState.OPEN, owner=visitor.only)
    if visitor.only is None:
        return sum(pile.letters for pile in house.store.count_letters(which))
    return len(house.store.letters(which, limit=min(500, MOST_LETTERS)).letters)
