"""Runs: how they stand, what their history comes to; pausing, resuming, cancelling."""

import base64
import binascii
from typing import Annotated

from fastapi import APIRouter, Query, Request

from seawall.runs import Run
from seawall.standings import view_of
from seawall.web.access import Reader, Visitor, Writer
from seawall.web.house import House, house_of
from seawall.web.models import Given, Name, Page, ReasonAsked, in_print
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
    if not are_names(asked.pipeline, asked.name):
        return Page(items=[], next=None)

    def read() -> Page[RunShown]:
        kept = house.store.runs(
            pipeline=asked.pipeline,
            name=asked.name,
            unfinished=asked.unfinished,
            owner=visitor.only,
            before=None if asked.after is None else _place(asked.after),
            limit=asked.limit + 1,
        )
        shown = [RunShown.model_validate(view_of(house.store, one)) for one in kept[: asked.limit]]
        more = len(kept) > asked.limit
        return Page(items=shown, next=_word(shown[-1].id) if more else None)

    return await house.slow.ask(read)


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


def _seen(house: House, visitor: Visitor, run_id: int) -> Run:
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
        return RunShown.model_validate(_seen(house, visitor, run_id).view())

    return await house.threads.ask(read)


@router.get("/{run_id:int}/report")
async def get_report(request: Request, visitor: Reader, run_id: JobId) -> ReportShown:
    """What the history of a run comes to; costs as much as the run has attempts."""
    house = house_of(request)

    def read() -> ReportShown:
        return ReportShown.model_validate(_seen(house, visitor, run_id).report())

    return await house.slow.ask(read)


@router.post("/{run_id:int}/pause")
async def pause_run(
    request: Request, visitor: Writer, run_id: JobId, asked: ReasonAsked | None = None
) -> RunChanged:
    """Let no more of its items begin; 409 where it was stopped already, or is over."""
    house, why = house_of(request), in_print((asked or ReasonAsked()).why)

    def pause() -> RunChanged:
        run = _seen(house, visitor, run_id)
        return _changed(run, run.pause(why), "it is stopped already, or over")

    return await house.threads.ask(pause)


@router.post("/{run_id:int}/resume")
async def resume_run(request: Request, visitor: Writer, run_id: JobId) -> RunChanged:
    """Let a paused or aborted run go on; 409 where it is neither."""
    house = house_of(request)

    def resume() -> RunChanged:
        run = _seen(house, visitor, run_id)
        return _changed(run, run.resume(), "it is neither paused nor aborted")

    return await house.threads.ask(resume)


@router.post("/{run_id:int}/cancel")
async def cancel_run(
    request: Request, visitor: Writer, run_id: JobId, asked: ReasonAsked | None = None
) -> RunChanged:
    """End a run for good: what waits is cancelled, what runs is asked to stop."""
    house, why = house_of(request), in_print((asked or ReasonAsked()).why)

    def cancel() -> RunChanged:
        run = _seen(house, visitor, run_id)
        cancelled = run.cancel(why)
        return RunChanged(run=run_id, status=run.status, cancelled=cancelled)

    return await house.slow.ask(cancel)


def _changed(run: Run, done: bool, otherwise: str) -> RunChanged:
    if not done:
        raise ProblemError(409, f"run {run.id}: {otherwise}", code="not_changed")
    return RunChanged(run=run.id, status=run.status)
