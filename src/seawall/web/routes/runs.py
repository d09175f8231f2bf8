"""Runs: how they stand, what their history comes to; pausing, resuming, cancelling."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from seawall.web.access import Reader, Writer
from seawall.web.doing import runs as doing
from seawall.web.doing.runs import RunsWanted
from seawall.web.house import house_of
from seawall.web.models import Given, Name, Page, ReasonAsked, ResumeAsked
from seawall.web.parameters import After, JobId, Limit
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
        found, more = doing.listed(house, visitor, RunsWanted(**asked.model_dump()))
        return Page(items=[RunShown.model_validate(view) for view in found], next=more)

    return await house.slow.ask(read)


@router.get("/{run_id:int}")
async def get_run(request: Request, visitor: Reader, run_id: JobId) -> RunShown:
    """How a run stands."""
    house = house_of(request)

    def read() -> RunShown:
        return RunShown.model_validate(doing.seen(house, visitor, run_id).view())

    return await house.threads.ask(read)


@router.get("/{run_id:int}/report")
async def get_report(request: Request, visitor: Reader, run_id: JobId) -> ReportShown:
    """What the history of a run comes to; costs as much as the run has attempts."""
    house = house_of(request)

    def read() -> ReportShown:
        return ReportShown.model_validate(doing.seen(house, visitor, run_id).report())

    return await house.slow.ask(read)


@router.post("/{run_id:int}/pause")
async def pause_run(
    request: Request, visitor: Writer, run_id: JobId, asked: ReasonAsked | None = None
) -> RunChanged:
    """Let no more of its items begin; 409 where it was stopped already, or is over."""
    why = (asked or ReasonAsked()).why
    return await doing.pause(house_of(request), visitor, run_id, why)


@router.post("/{run_id:int}/resume")
async def resume_run(
    request: Request, visitor: Writer, run_id: JobId, asked: ResumeAsked | None = None
) -> RunChanged:
    """Let a paused or aborted run go on; 409 where it is neither.

    One that has cost as much as it may needs a higher `spending_cap`, which operators give.
    """
    cap = (asked or ResumeAsked()).spending_cap
    return await doing.resume(house_of(request), visitor, run_id, cap)


@router.post("/{run_id:int}/cancel")
async def cancel_run(
    request: Request, visitor: Writer, run_id: JobId, asked: ReasonAsked | None = None
) -> RunChanged:
    """End a run for good: what waits is cancelled, what runs is asked to stop."""
    why = (asked or ReasonAsked()).why
    return await doing.cancel(house_of(request), visitor, run_id, why)
