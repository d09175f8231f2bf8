"""Upstreams on pages: whether each is well, what waits for it; hold, resume, let through."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ValidationError

from seawall.store import Backlog, Hold, Scope
from seawall.upstreams import UpstreamView
from seawall.web.access import Visitor
from seawall.web.doing import fleet as doing
from seawall.web.house import House, house_of
from seawall.web.models import ForceAsked, HoldAsked
from seawall.web.pages import upstream_words
from seawall.web.pages.people import Form, SeesAll, SentByOperator
from seawall.web.pages.site import backlog_of, looked_at, page, tried
from seawall.web.pages.upstream_history import History, history_of
from seawall.web.pages.wording import span
from seawall.web.parameters import ItsName
from seawall.web.problems import ProblemError

router = APIRouter(include_in_schema=False)

MOST_SHOWN = 60
FEW = 8
"""So many are found by looking; more are searched by name."""
LONGEST_FILTER = 200
SPANS = (
    (300, "5 min"), (600, "10 min"), (1_800, "30 min"),
    (3_600, "1 h"), (14_400, "4 h"), (86_400, "1 day"),
)  # fmt: skip
"""For how long a person decides, to choose from."""


class Waiting(NamedTuple):
    """Jobs of one task that need an upstream."""

    task: str
    queue: str
    due: int
    later: int
    running: int


class Whole(NamedTuple):
    """All that there is to tell of an upstream."""

    upstream: UpstreamView
    waiting: list[Waiting]
    holds: list[Hold]
    breaker: list[str]
    more: list[str]
    keys: list[str]
    """Upstreams of the same family."""
    history: History


@router.get("/upstreams")
async def show_upstreams(request: Request, visitor: SeesAll) -> Response:
    """Every upstream, those that are held first."""
    house = house_of(request)
    backlog = await backlog_of(request, visitor)
    look = partial(house.app.upstreams.all, backlog)
    every = await looked_at(request, visitor, "upstreams", look)
    word = request.query_params.get("name", "").strip()[:LONGEST_FILTER]
    found = [each for each in every if word.lower() in each.name.lower()]
    found.sort(key=lambda each: (not each.is_held, -each.waiting, each.name))
    return await page(
        request,
        visitor,
        "upstreams.html",
        upstreams=found[:MOST_SHOWN],
        hidden=max(0, len(found) - MOST_SHOWN),
        word=word,
        many_there=len(every) > FEW,
    )


@router.get("/upstreams/{name:path}")
async def show_upstream(request: Request, visitor: SeesAll, name: ItsName) -> Response:
    """One upstream: how it is and why, what was said of it, what waits for it."""
    return await _upstream_page(request, visitor, name)


async def _upstream_page(
    request: Request,
    visitor: Visitor,
    name: str,
    *,
    refused: str = "",
    typed: Mapping[str, str] | None = None,
) -> Response:
    backlog = await backlog_of(request, visitor)
    look = partial(_whole, house_of(request), name, backlog)
    whole = await looked_at(request, visitor, ("upstream", name), look)
    return await page(
        request,
        visitor,
        "upstream.html",
        refused=refused,
        typed=typed,
        spans=SPANS,
        **whole._asdict(),
    )


def _whole(house: House, name: str, backlog: list[Backlog]) -> Whole:
    every = {each.name: each for each in house.app.upstreams.all(backlog)}
    if name not in every:
        raise ProblemError(404, f"there is no upstream {name}, and nothing waits for one")
    said = house.app.upstreams.of(name)
    held = [each for each in house.store.holds() if each.scope is Scope.UPSTREAM]
    return Whole(
        upstream=every[name],
        waiting=_waiting(backlog, name),
        holds=[each for each in held if each.name == name],
        breaker=upstream_words.breaker_in_words(said),
        more=list(upstream_words.more_in_words(said)),
        keys=[each for each in every if each.startswith(f"{name}:")][:MOST_SHOWN],
        history=history_of(house.store, name),
    )


def _waiting(backlog: list[Backlog], name: str) -> list[Waiting]:
    """What needs the upstream, by task and queue; that of which most waits first."""
    found: dict[tuple[str, str], list[int]] = {}
    for row in backlog:
        if row.lane.upstream == name:
            counts = found.setdefault((row.lane.task, row.lane.queue), [0, 0, 0])
            for at, number in enumerate((row.due, row.later, row.running)):
                counts[at] += number
    rows = [Waiting(task, queue, *counts) for (task, queue), counts in found.items()]
    return sorted(rows, key=lambda each: (-each.due - each.later, each.task))[:MOST_SHOWN]


# --- what people decide ---------------------------------------------------------------------------


@router.post("/upstreams/{name:path}/hold")
async def hold(request: Request, form: SentByOperator, name: ItsName) -> Response:
    """Let no job begin that calls it."""
    try:
        asked = HoldAsked(**_chosen(form))
    except (ValidationError, ProblemError):
        return await _misunderstood(request, form, name, "hold")
    said = f"{name} is held {_until(asked.seconds)}."
    act = doing.hold(house_of(request), name, asked.seconds, asked.why)
    return await tried(request, _place(name), act, lambda _: said)


@router.post("/upstreams/{name:path}/force")
async def let_through(request: Request, form: SentByOperator, name: ItsName) -> Response:
    """Call it whatever its breaker thinks."""
    try:
        asked = ForceAsked(to="closed", **_chosen(form))
    except (ValidationError, ProblemError):
        return await _misunderstood(request, form, name, "force")
    said = f"{name} is called whatever its breaker thinks {_until(asked.seconds)}."
    act = doing.force(house_of(request), name, asked.to, asked.seconds, asked.why)
    return await tried(request, _place(name), act, lambda _: said)


@router.post("/upstreams/{name:path}/resume")
async def resume(
    request: Request,
    form: SentByOperator,  # noqa: ARG001 - that it is one
    name: ItsName,
) -> Response:
    """Leave it to its breaker again."""
    said = f"{name} is its breaker's affair again: what waits is let go little by little."
    act = doing.let_go(house_of(request), name)
    return await tried(request, _place(name), act, lambda _: said)


def _chosen(form: Form) -> dict[str, Any]:
    """For how long, and why; what was not said is left as it usually is."""
    why = form.one("why")[:LONGEST_FILTER]
    return {"seconds": form.number("seconds"), **({"why": why} if why else {})}


async def _misunderstood(request: Request, form: Form, name: str, to: str) -> Response:
    """The page again, with what was typed into the form that leads there."""
    line = f"For how long: found {form.one('seconds')!r:.40}, expected seconds, a year at most."
    typed = {"to": to, "why": form.get("why"), "seconds": form.get("seconds")}
    return await _upstream_page(request, form.visitor, name, refused=line, typed=typed)


def _until(seconds: float | None) -> str:
    return "until somebody resumes it" if seconds is None else f"for {span(seconds)}"


def _place(name: str) -> str:
    return f"/upstreams/{quote(name)}"
