"""Runs: how they stand, what their history comes to; pausing, resuming, cancelling."""

import base64
import binascii
from typing import Annotated

from fastapi import APIRouter, Query, Request

from seawall.runs import Run
from seawall.standings import RunView, view_of
from seawall.store import AccessScope
from seawall.web.access import Reader, Visitor, Writer
from seawall.web.house import House, house_of
from seawall.web.models import Given, Name, Page, ReasonAsked, ResumeAsked, in_print
from seawall.web.problems import ProblemError
from seawall.web.routes.jobs import After, JobId, Limit, are_names
from seawall.web.run_models import ReportShown, RunChanged, RunShown

router = APIRouter(prefix="/api/runs", tags=["runs"])


class RunsAsked(Given):
    """Which runs are listed, and where the list begins."""

    pipeline: Name | None = None
    name: Name | None = None
    unfinished: bool = False
    after: After = None
    limit: Limit = 50


@router.get("")
async def list_runs(
    request: Request, visitor: Reader, asked: Annotated[RunsAsked, Query()]
) -> Page[RunShown]:
    """Runs and how they stand, the newest first."""
    house = house_of(request)

    def read() -> Page[RunShown]:
        found, more = listed(house, visitor, asked)
        return Page(items=[RunShown.model_validate(view) for view in found], next=more)

    return await house.slow.ask(read)


def listed(house: House, visitor: Visitor, asked: RunsAsked) -> tuple[list[RunView], str | None]:
    """The runs that match, and where the list goes on. For a thread."""
    if not are_names(asked.pipeline, asked.name):
        return [], None
    kept = house.store.runs(
        pipeline=asked.pipeline,
        name=asked.name,
        unfinished=asked.unfinished,
        owner=visitor.only,
        before=None if asked.after is None else _place(asked.after),
        limit=asked.limit + 1,
    )
    found = [view_of(house.store, one) for one in kept[: asked.limit]]
    return found, _word(found[-1].id) if len(kept) > asked.limit else None


def _word(run_id: int) -> str:
    return base64.urlsafe_b64encode(f"run {run_id}".encode()).decode().rstrip("=")


def _place(after: str) -> int:
    try:
        text = base64.b64decode(after + "=" * (-len(after) % 4), altchars=b"-_", validate=True)
        word, number = text.decode().split(" ")
        place = int(number)
    except (ValueError, binascii.Error):
        word, place = "", 0
    if word != "run" or not 0 < place < 2**63:
        line = "after: there is no such place in this list: begin it anew"
        raise ProblemError(404, line, code="no_such_place")
    return place


def seen(house: House, visitor: Visitor, run_id: int) -> Run:
    """The run, if it is there for this visitor; 404 otherwise. For a thread."""
    kept = house.store.run(run_id)
    if kept is None or not visitor.sees(kept.owner):
        raise ProblemError(404, f"there is no run {run_id}")
    return Run(house.app, run_id)


@router.get("/{run_id:int}")
async def get_run(request: Request, visitor: Reader, run_id: JobId) -> RunShown:
    """How a run stands."""
    house = house_of(request)

    def read() -> RunShown:
        return RunShown.model_validate(seen(house, visitor, run_id).view())

    return await house.threads.ask(read)


@router.get("/{run_id:int}/report")
async def get_report(request: Request, visitor: Reader, run_id: JobId) -> ReportShown:
    """What the history of a run comes to; costs as much as the run has attempts."""
    house = house_of(request)

    def read() -> ReportShown:
        return ReportShown.model_validate(seen(house, visitor, run_id).report())

    return await house.slow.ask(read)


@router.post("/{run_id:int}/pause")
async def pause_run(
    request: Request, visitor: Writer, run_id: JobId, asked: ReasonAsked | None = None
) -> RunChanged:
    """Let no more of its items begin; 409 where it was stopped already, or is over."""
    house, why = house_of(request), in_print((asked or ReasonAsked()).why)

    def pause() -> RunChanged:
        run = seen(house, visitor, run_id)
        return _changed(run, run.pause(why), "it is stopped already, or over")

    return await house.threads.ask(pause)


@router.post("/{run_id:int}/resume")
async def resume_run(
    request: Request, visitor: Writer, run_id: JobId, asked: ResumeAsked | None = None
) -> RunChanged:
    """Let a paused or aborted run go on; 409 where it is neither.

    One that has cost as much as it may needs a higher `spending_cap`, which operators give.
    """
    house, cap = house_of(request), (asked or ResumeAsked()).spending_cap
    if cap is not None and visitor.scope is not AccessScope.OPERATOR:
        raise ProblemError(403, "what a run may cost is for operators to say")

    def resume() -> RunChanged:
        run = seen(house, visitor, run_id)
        done = run.resume(spending_cap=cap)
        return _changed(run, done, "it is neither paused nor aborted")

    return await house.threads.ask(resume)


@router.post("/{run_id:int}/cancel")
async def cancel_run(
    request: Request, visitor: Writer, run_id: JobId, asked: ReasonAsked | None = None
) -> RunChanged:
    """End a run for good: what waits is cancelled, what runs is asked to stop."""
    house, why = house_of(request), in_print((asked or ReasonAsked()).why)

    def cancel() -> RunChanged:
        run = seen(house, visitor, run_id)
        cancelled = run.cancel(why)
        return RunChanged(run=run_id, status=run.status, cancelled=cancelled)

    return await house.slow.ask(cancel)


def _changed(run: Run, done: bool, otherwise: str) -> RunChanged:
    if not done:
        raise ProblemError(409, f"run {run.id}: {otherwise}", code="not_changed")
    return RunChanged(run=run.id, status=run.status)
