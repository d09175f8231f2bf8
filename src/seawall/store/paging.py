"""Lists of jobs in parts: which order a filter asks for, and where the next part begins.

A place in a list is the last row's own: its time and id, or its id alone. So it stays where it is
while other jobs come and go. To callers it is a word without meaning that fits into an address.
"""

import base64
import binascii
from dataclasses import fields
from datetime import datetime
from typing import NamedTuple

from seawall.model import need_time
from seawall.states import State
from seawall.store.values import Filter

QUEUED = "page_queued"
_FINISHED = "page_finished"
_RUNNING = "page_running"
_TAGGED = "page_tagged"
_OWNED = "page_owned"
_OF_RUN = "page_of_run"
_KEYED = "page_keyed"
_NEWEST = "page_newest"
_UNFINISHED = {State.QUEUED: QUEUED, State.RUNNING: _RUNNING}
_TIMED = (QUEUED, _FINISHED)
"""Those whose order is by a time first."""
_EXACT = {
    QUEUED: {"state", "task", "queue", "run"},
    _FINISHED: {"state"},
    _TAGGED: {"tag"},
    _OWNED: {"owner"},
    _OF_RUN: {"run"},
    _NEWEST: set[str](),
}
"""What each finds without looking at any other job. Running ones, and those of a key, are few."""
_FIRST_ID = 0
LAST_ID = 2**63 - 1


class Place(NamedTuple):
    """After which row of a list to go on."""

    at: datetime | None
    id: int


def order_of(which: Filter) -> str:
    """The statement that walks the jobs in the order that the filter asks for.

    A key has one job at most in each task, so it goes first; then the state, which has an order of
    its own, unless a run leaves but its own items to look at.
    """
    state = None if which.state is None else State(which.state)
    if which.key is not None:
        return _KEYED
    if state in _UNFINISHED:
        return _UNFINISHED[state]
    if which.run is not None:
        return _OF_RUN
    if state is not None:
        return _FINISHED
    if which.tag is not None:
        return _TAGGED
    return _NEWEST if which.owner is None else _OWNED


def look_of(order: str, which: Filter) -> str | None:
    """The statement that says how far a look goes; None where everything that is met is meant.

    Whatever else is asked for has no index: so many are looked at, whether they match or not.
    """
    exact = _EXACT.get(order)
    if exact is None:
        return None
    asked = {each.name for each in fields(which) if getattr(which, each.name) is not None}
    return order.replace("page_", "look_") if asked - exact else None


def word(order: str, place: Place) -> str:
    """A place as callers carry it around."""
    at = place.at.isoformat() if place.at else ""
    return base64.urlsafe_b64encode(f"{order} {place.id} {at}".encode()).decode().rstrip("=")


def place(order: str, after: str | None) -> Place:
    """Where to go on; `ValueError` where the word is none, or is of a list in another order."""
    if after is None:
        return Place(None, _FIRST_ID if order == QUEUED else LAST_ID)
    return _read(order, after, timed=order in _TIMED)


def letters_place(order: str, after: str | None) -> Place:
    """`place` for lists of dead letters, which all go by a time."""
    return Place(None, LAST_ID) if after is None else _read(order, after, timed=True)


def _read(order: str, after: str, *, timed: bool) -> Place:
    try:
        text = base64.b64decode(after + "=" * (-len(after) % 4), altchars=b"-_", validate=True)
        made_for, id_, at = text.decode().split(" ")
        found = Place(datetime.fromisoformat(at) if at else None, int(id_))
        if found.at is not None:
            need_time("after", found.at)
    except (TypeError, ValueError, binascii.Error):
        raise ValueError(_wrong(after)) from None
    if made_for != order or (found.at is None) == timed or not 0 <= found.id < 2**63:
        raise ValueError(_wrong(after))
    return found


def _wrong(after: object) -> str:
    return f"after: found {after!r:.80}, expected the `next` of a page of the same list"
