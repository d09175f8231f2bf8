"""The overview: how it all stands, at a glance."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seawall.states import State
from seawall.store import LetterFilter, LetterState, PaceBucket
from seawall.web.access import Visitor
from seawall.web.house import House, house_of
from seawall.web.pages.held import is_held
from seawall.web.pages.people import Viewer
from seawall.web.pages.pictures import Chart, Line
from seawall.web.pages.site import page

router = APIRouter(include_in_schema=False)

NEWEST = 6
SPANS = {"1h": (1, 60), "6h": (6, 300), "24h": (24, 900), "48h": (48, 1_800)}
"""How many hours a chart shows, and how many seconds each of its points stands for."""
USUAL_SPAN = "6h"
BURN_HOURS = (1, 6, 24)


@router.get("/")
async def show_overview(request: Request, visitor: Viewer) -> Response:
    """How it all stands, for whoever sees all; else, how the visitor's own jobs do."""
    house = house_of(request)
    if not visitor.sees_all:
        found = await house.glances.ask(("mine", visitor.only), lambda: _mine(house, visitor))
        return await page(request, visitor, "mine.html", **found)
    span = request.query_params.get("span", USUAL_SPAN)
    span = span if span in SPANS else USUAL_SPAN
    found = await house.glances.ask("overview", lambda: _all(house))
    charts = await house.glances.ask(("charts", span), lambda: _charts(house, span))
    return await page(request, visitor, "overview.html", span=span, spans=SPANS, **found, **charts)


def _all(house: House) -> dict[str, Any]:
    stats = house.board.stats()
    upstreams = house.app.upstreams.all()
    return {
        "stats": stats,
        "upstreams": sorted(upstreams, key=lambda each: (not is_held(each), each.name)),
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


# --- over time ------------------------------------------------------------------------------------


class Burn(NamedTuple):
    """How fast failures use up what the goal leaves for them, in the last so many hours."""

    hours: int
    ended: int
    good: float | None
    """The share that ended well; None where nothing has ended."""
    rate: float | None
    """1 uses up just what the goal leaves; 10 uses it up ten times as fast."""


def _charts(house: House, span: str) -> dict[str, Any]:
    now = house.store.now()
    hours, step = SPANS[span]
    found = house.store.pace(now - timedelta(hours=hours), step_seconds=step)
    goal = house.app.settings.success_goal
    return {
        "ended_chart": ended_chart(found, step),
        "waiting_chart": asked_chart(found, step),
        "burns": [_burn(house, now, hours, goal) for hours in BURN_HOURS],
        "goal": goal,
    }


def ended_chart(found: Sequence[PaceBucket], step: int) -> Chart:
    """What ended, and how, by the minute."""
    a_minute = 60 / step
    lines = [
        Line("succeeded", "good", [round(each.succeeded * a_minute, 2) for each in found], True),
        Line("failed", "bad", [round(each.failed * a_minute, 2) for each in found]),
        Line("tried again", "warn", [round(each.retried * a_minute, 2) for each in found]),
    ]
    return Chart("Jobs that ended, a minute", [each.at.timestamp() for each in found], lines)


def asked_chart(found: Sequence[PaceBucket], step: int) -> Chart:
    """What came in beside what ended, by the minute."""
    a_minute = 60 / step
    came = [round((each.created + each.redriven) * a_minute, 2) for each in found]
    lines = [
        Line("came in", "sea", came, True),
        Line("ended", "rest", [round(each.ended * a_minute, 2) for each in found]),
    ]
    return Chart("Jobs that came in and ended, a minute", [e.at.timestamp() for e in found], lines)


def _burn(house: House, now: datetime, hours: int, goal: float) -> Burn:
    found = house.store.pace(now - timedelta(hours=hours), step_seconds=3_600)
    return burn(found, hours, goal)


def burn(found: Sequence[PaceBucket], hours: int, goal: float) -> Burn:
    """How fast what failed uses up what the goal leaves; skipped and cancelled jobs say nothing."""
    good, bad = sum(each.succeeded for each in found), sum(each.failed for each in found)
    if not good + bad:
        return Burn(hours, 0, None, None)
    share = good / (good + bad)
    return Burn(hours, good + bad, share, (1 - share) / (1 - goal))
