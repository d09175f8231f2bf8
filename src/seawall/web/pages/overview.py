"""The overview: how it all stands, at a glance."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seawall.states import State
from seawall.store import LetterFilter, LetterState
from seawall.web.access import Visitor
from seawall.web.house import House, house_of
from seawall.web.pages.held import is_held
from seawall.web.pages.people import Viewer
from seawall.web.pages.site import page
from seawall.why import ALIVE_SECONDS

router = APIRouter(include_in_schema=False)

NEWEST = 6


@router.get("/")
async def show_overview(request: Request, visitor: Viewer) -> Response:
    """How it all stands, for whoever sees all; else, how the visitor's own jobs do."""
    house = house_of(request)
    if not visitor.sees_all:
        found = await house.glances.ask(("mine", visitor.only), lambda: _mine(house, visitor))
        return await page(request, visitor, "mine.html", **found)
    found = await house.glances.ask("overview", lambda: _all(house))
    return await page(request, visitor, "overview.html", **found)


def _all(house: House) -> dict[str, Any]:
    stats = house.board.stats()
    upstreams = house.app.upstreams.all()
    workers = house.store.workers(within_seconds=ALIVE_SECONDS)
    return {
        "stats": stats,
        "upstreams": sorted(upstreams, key=lambda each: (not is_held(each), each.name)),
        "workers": workers,
        "letters": house.store.letters(LetterFilter(state=LetterState.OPEN), limit=NEWEST).letters,
        "runs": house.app.runs(unfinished=True, limit=NEWEST),
        "none_yet": not any(stats.states.values()),
    }


def _mine(house: House, visitor: Visitor) -> dict[str, Any]:
    owner = visitor.only
    which = LetterFilter(state=LetterState.OPEN, owner=owner)
    return {
        "newest": house.app.jobs(owner=owner, limit=20).jobs,
        "running": house.app.jobs(owner=owner, state=State.RUNNING, limit=NEWEST).jobs,
        "letters": house.store.letters(which, limit=NEWEST).letters,
    }
