"""The overview: how it all stands, at a glance."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seawall.finding import newest_of
from seawall.store import Backlog, LetterFilter, LetterState, PaceBucket
from seawall.web.access import Visitor
from seawall.web.house import House, house_of
from seawall.web.pages.people import Viewer
from seawall.web.pages.pictures import Chart, Line, a_minute
from seawall.web.pages.site import backlog_of, looked_at, page
from seawall.web.stats import load_of

router = APIRouter(include_in_schema=False)

NEWEST = 6
SPANS = {"1h": (1, 60), "6h": (6, 300), "24h": (24, 900), "48h": (48, 1_800)}
"""How many hours a chart shows, and how many seconds each of its points stands for."""
USUAL_SPAN = "6h"
BURN_HOURS = (1, 6, 24)
BURN_STEP_SECONDS = 60
"""How exactly those hours begin: a step in whose midst they do is counted whole."""


@router.get("/")
async def show_overview(request: Request, visitor: Viewer) -> Response:
    """How it all stands, for whoever sees all; else, how the visitor's own jobs do."""
    house = house_of(request)
    if not visitor.sees_all:
        look = partial(_mine, house, visitor)
        found = await looked_at(request, visitor, ("mine", visitor.only), look)
        return await page(request, visitor, "mine.html", **found)
    span = request.query_params.get("span", USUAL_SPAN)
    span = span if span in SPANS else USUAL_SPAN
    backlog = await backlog_of(request, visitor)
    found = await looked_at(request, visitor, "overview", partial(_all, house, backlog))
    charts = await looked_at(request, visitor, ("charts", span), partial(_charts, house, span))
    return await page(
        request,
        visitor,
        "overview.html",
        span=span,
        spans=SPANS,
        **found,
        **charts,
    )


def _all(house: House, backlog: list[Backlog]) -> dict[str, Any]:
    upstreams = house.app.upstreams.all(backlog)
    return {
        "stats": load_of(house.store, backlog),
        "upstreams": sorted(upstreams, key=lambda each: (not each.is_held, each.name)),
        "letters": house.store.letters(LetterFilter(state=LetterState.OPEN), limit=NEWEST).letters,
        "runs": house.app.runs(unfinished=True, limit=NEWEST),
        "none_yet": not newest_of(house.store),
    }


def _mine(house: House, visitor: Visitor) -> dict[str, Any]:
    owner = visitor.only
    which = LetterFilter(state=LetterState.OPEN, owner=owner)
    return {
        "newest": house.app.jobs(owner=owner, limit=20).jobs,
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

    @property
    def rate_in_words(self) -> str:
        """The rate to two digits, never as a power of ten."""
        rate = self.rate or 0.0
        if rate >= 10:
            return f"{rate:,.0f}"
        return f"{rate:.1f}" if rate >= 1 else f"{rate:.2g}"


def _charts(house: House, span: str) -> dict[str, Any]:
    now = house.store.now()
    hours, step = SPANS[span]
    found = house.store.pace(now - timedelta(hours=hours), step_seconds=step)
    goal = house.app.settings.success_goal
    return {
        "ended_chart": ended_chart(found, step, now),
        "waiting_chart": asked_chart(found, step, now),
        "burns": _burns(house, now, goal),
        "goal": goal,
    }


def ended_chart(found: Sequence[PaceBucket], step: int, now: datetime) -> Chart:
    """What ended, and how, by the minute."""

    def rates(counts: Iterable[int]) -> list[float | None]:
        return [a_minute(each, at.at, step, now) for each, at in zip(counts, found, strict=True)]

    lines = [
        Line("succeeded", "good", rates(each.succeeded for each in found), True),
        Line("failed", "bad", rates(each.failed for each in found)),
        Line("tried again", "warn", rates(each.retried for each in found)),
    ]
    return Chart("Jobs that ended, a minute", [each.at.timestamp() for each in found], lines)


def asked_chart(found: Sequence[PaceBucket], step: int, now: datetime) -> Chart:
    """What came in beside what ended, by the minute."""

    def rates(counts: Iterable[int]) -> list[float | None]:
        return [a_minute(each, at.at, step, now) for each, at in zip(counts, found, strict=True)]

    lines = [
        Line("came in", "sea", rates(each.created + each.redriven for each in found), True),
        Line("ended", "rest", rates(each.ended for each in found)),
    ]
    return Chart("Jobs that came in and ended, a minute", [e.at.timestamp() for e in found], lines)


def _burns(house: House, now: datetime, goal: float) -> list[Burn]:
    """For each of the spans, by one look at the longest."""
    step = timedelta(seconds=BURN_STEP_SECONDS)
    since = now - timedelta(hours=max(BURN_HOURS))
    found = house.store.pace(since, step_seconds=BURN_STEP_SECONDS)
    return [
        burn([each for each in found if each.at + step > now - timedelta(hours=hours)], hours, goal)
        for hours in BURN_HOURS
    ]


def burn(found: Sequence[PaceBucket], hours: int, goal: float) -> Burn:
    """How fast what failed uses up what the goal leaves; skipped and cancelled jobs say nothing."""
    good, bad = sum(each.succeeded for each in found), sum(each.failed for each in found)
    if not good + bad:
        return Burn(hours, 0, None, None)
    share = good / (good + bad)
    return Burn(hours, good + bad, share, (1 - share) / (1 - goal))
