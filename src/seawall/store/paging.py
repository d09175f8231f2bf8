"""Lists of jobs in parts: which order a filter asks for, and where the next part begins.

A place in a list is the last row's own: its time and id, or its id alone. So it stays where it is
while other jobs come and go. To callers it is a word without meaning that fits into an address.
"""

import base64
import binascii
from datetime import datetime
from typing import NamedTuple

from seawall.model import need_time
from seawall.states import FINISHED, State
from seawall.store.values import Filter

QUEUED = "page_queued"
_FINISHED = "page_finished"
_TIMED = (QUEUED, _FINISHED)
"""Those whose order is by a time first."""
_FIRST_ID = 0
LAST_ID = 2**63 - 1


class Place(NamedTuple):
    """After which row of a list to go on."""

    at: datetime | None
    id: int


def order_of(which: Filter) -> str:
    """The statement that walks the jobs in the order that the filter asks for.

    A key has one job at most in each task, so it goes first; then the state, which has an order of
    its own.
    """
    state = None if which.state is None else State(which.state)
    if which.key is not None:
        return "page_keyed"
    if state is State.QUEUED:
        return QUEUED
    if state in FINISHED:
        return _FINISHED
    if state is State.RUNNING:
        return "page_running"
    if which.tag is not None:
        return "page_tagged"
    return "page_newest" if which.owner is None else "page_owned"


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
