"""Runs on pages: how they stand, what their history comes to; pause, resume, cancel."""

from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ValidationError

from seawall.pipelines import Pipeline
from seawall.report import Report
from seawall.standings import RunView, span_of
from seawall.store import MOST_TRIES
from seawall.web.access import Visitor
from seawall.web.doing import runs as doing
from seawall.web.doing.runs import RunsWanted
from seawall.web.house import House, house_of
from seawall.web.models import ReasonAsked, ResumeAsked
from seawall.web.pages import filters
from seawall.web.pages.people import Form, Sent, Viewer
from seawall.web.pages.pictures import Scale
from seawall.web.pages.site import looked_at, page, tried
from seawall.web.pages.standing import BudgetUse, budget_use, time_left
from seawall.web.pages.wording import many
from seawall.web.parameters import JobId
from seawall.web.problems import ProblemError
from seawall.web.run_models import RunChanged

router = APIRouter(include_in_schema=False)

ON_A_PAGE = 25
LONGEST_FILTER = 200
LONGEST_PLACE = 500


# --- the list -------------------------------------------------------------------------------------


class Listed(NamedTuple):
    """A part of the list: each run, and how long it will take."""

    runs: list[tuple[RunView, str]]
    next: str | None


@router.get("/runs")
async def show_runs(request: Request, visitor: Viewer) -> Response:
    """Runs, the newest first."""
    house = house_of(request)
    said = {
        name: value
        for name in ("pipeline", "unfinished")
        if (value := request.query_params.get(name, "").strip()[:LONGEST_FILTER])
    }
    after = request.query_params.get("after", "")[:LONGEST_PLACE] or None
    asked = RunsWanted(
        pipeline=said.get("pipeline"),
        unfinished="unfinished" in said,
        after=after,
        limit=ON_A_PAGE,
    )
    key = ("runs", asked.pipeline, asked.unfinished, after, visitor.only)
    look = partial(_listed, house, visitor, asked)
    found, nothing_can = Listed([], None), ""
    try:
        found = await looked_at(request, visitor, key, look, threads=house.slow)
    except ProblemError as error:
        nothing_can = filters.in_place(error)
    more = "" if found.next is None else f"/runs?{urlencode({**said, 'after': found.next})}"
    return await page(
        request,
        visitor,
        "runs.html",
        runs=found.runs,
        nothing_can=nothing_can,
        looked_for=said,
        pipelines=sorted(
            name for name, task in house.app.tasks.items() if isinstance(task, Pipeline)
        ),
        query=urlencode(said),
        more=more,
        first=after is None,
    )


def _listed(house: House, visitor: Visitor, asked: RunsWanted) -> Listed:
    found, more = doing.listed(house, visitor, asked)
    return Listed([(view, _left(house, view)) for view in found], more)


def _left(house: House, view: RunView) -> str:
    return "" if view.over else time_left(view, house.paces.saw(view))


# --- one ------------------------------------------------------------------------------------------


class Whole(NamedTuple):
    """All that there is to tell of a run as it stands."""

    run: RunView
    left: str
    budget: BudgetUse | None
    capped: bool
    tokens_in: int
    tokens_out: int
    took: float
    resumable: bool
    may_pause: bool
    may_cancel: bool


@router.get("/runs/{run_id:int}")
async def show_run(request: Request, visitor: Viewer, run_id: JobId) -> Response:
    """One run: how far it has come, and what stands in its way."""
    whole = await _seen(request, visitor, run_id)
    return await page(request, visitor, "run.html", **whole._asdict())


async def _seen(request: Request, visitor: Visitor, run_id: int) -> Whole:
    house = house_of(request)
    look = partial(_whole, house, visitor, run_id)
    return await looked_at(request, visitor, ("run", run_id, visitor.only), look)


def _whole(house: House, visitor: Visitor, run_id: int) -> Whole:
    view = doing.seen(house, visitor, run_id).view()
    kept = house.store.run(run_id)
    if kept is None:
        raise ProblemError(404, f"there is no run {run_id}")
    return Whole(
        run=view,
        left=_left(house, view),
        budget=budget_use(view, kept),
        capped=view.terms.capped(view.cost),
        tokens_in=sum(stage.tokens_in for stage in view.stages),
        tokens_out=sum(stage.tokens_out for stage in view.stages),
        took=span_of(view).total_seconds(),
        resumable=kept.resumable,
        may_pause=view.status == "running",
        may_cancel=kept.stop != "cancelled" and (not view.sealed or view.unfinished > 0),
    )


@router.get("/runs/{run_id:int}/report")
async def show_report(request: Request, visitor: Viewer, run_id: JobId) -> Response:
    """What the history of a run comes to."""
    house = house_of(request)

    def look() -> Report:
        return doing.seen(house, visitor, run_id).report()

    key = ("report", run_id, visitor.only)
    report = await looked_at(request, visitor, key, look, threads=house.slow)
    timed = [each for each in report.stages if each.took.p50 is not None]
    return await page(
        request,
        visitor,
        "report.html",
        report=report,
        run=report.run,
        took=span_of(report.run).total_seconds(),
        scale=Scale.of([s for each in timed for s in each.took if s is not None]),
        most_tries=MOST_TRIES,
        changed=[each for each in report.stages if each.changed],
    )


# --- what people do about it ----------------------------------------------------------------------


@router.post("/runs/{run_id:int}/pause")
async def pause(request: Request, form: Sent, run_id: JobId) -> Response:
    """Let no more of its items begin."""
    act = doing.pause(house_of(request), form.visitor, run_id, reason_of(form))
    return await tried(request, f"/runs/{run_id}", act, lambda _: f"Run {run_id} is paused.")


@router.post("/runs/{run_id:int}/resume")
async def resume(request: Request, form: Sent, run_id: JobId) -> Response:
    """Let a paused or aborted run go on."""
    here, cap = f"/runs/{run_id}", form.one("spending_cap")
    try:
        asked = ResumeAsked(spending_cap=form.number("spending_cap"))
    except (ValidationError, ProblemError):
        whole = await _seen(request, form.visitor, run_id)
        line = f"What it may cost: found {cap!r:.40}, expected a number above 0."
        typed = {"spending_cap": cap}
        return await page(
            request, form.visitor, "run.html", refused=line, typed=typed, **whole._asdict()
        )
    act = doing.resume(house_of(request), form.visitor, run_id, asked.spending_cap)
    return await tried(request, here, act, lambda _: f"Run {run_id} goes on.")


@router.get("/runs/{run_id:int}/cancel")
async def ask_to_cancel(request: Request, visitor: Viewer, run_id: JobId) -> Response:
    """Say what would be cancelled, and ask."""
    whole = await _seen(request, visitor, run_id)
    return await page(request, visitor, "run_cancel.html", asks=True, **whole._asdict())


@router.post("/runs/{run_id:int}/cancel")
async def cancel(request: Request, form: Sent, run_id: JobId) -> Response:
    """End a run for good."""

    def said(changed: RunChanged) -> str:
        return f"Run {run_id} is cancelled, with {many(changed.cancelled or 0, 'item')} of it."

    act = doing.cancel(house_of(request), form.visitor, run_id, reason_of(form))
    return await tried(request, f"/runs/{run_id}", act, said)


def reason_of(form: Form) -> str:
    """Why, as somebody said it; what all say who say nothing."""
    return form.one("why")[:LONGEST_FILTER] or ReasonAsked().why
