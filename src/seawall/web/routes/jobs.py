"""Jobs: finding them, what happened to them, what they came to; retry and cancel."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from seawall.artifacts import recall
from seawall.finding import Cancelled, cancelled
from seawall.redact import redacted
from seawall.redriving import Redriven
from seawall.states import FINISHED, State
from seawall.store.values import MOST_ROWS
from seawall.timeline import events
from seawall.web.access import Operator, Reader, Visitor, Writer
from seawall.web.doing.jobs import (
    MOST_AT_ONCE,
    in_a_list,
    mine,
    parent_of,
    parsed,
    seen,
    sent_again,
    stopped,
)
from seawall.web.house import House, house_of
from seawall.web.letter_models import RedriveJobs, RedrivenShown
from seawall.web.models import (
    LARGEST_NUMBER,
    AttemptShown,
    CancelAsked,
    CancelledShown,
    Done,
    FaultShown,
    HappeningShown,
    JobDetail,
    JobFilters,
    JobPage,
    JobShown,
    ProgressShown,
    ResultShown,
    WhyShown,
)
from seawall.web.parameters import After, JobId, Limit
from seawall.web.problems import ProblemError

router = APIRouter(prefix="/api/jobs", tags=["jobs"])


class JobsAsked(JobFilters):
    """Which jobs are listed, and where the list begins."""

    after: After = None
    limit: Limit = 50


@router.get("", response_model=JobPage)
async def list_jobs(
    request: Request, visitor: Reader, asked: Annotated[JobsAsked, Query()]
) -> Response | JobPage:
    """Jobs that match: queued ones as they are due, finished ones from the last, others from the
    newest. Each part looks at some thousands of jobs at most.
    """
    house = house_of(request)
    which = mine(visitor, asked.said())
    if which is None:
        return JobPage(items=[], next=None)
    how = {**which, "after": asked.after, "limit": asked.limit}

    def look() -> JobPage:
        found = in_a_list(house.app.jobs, **how)
        items = [JobShown.model_validate(job) for job in found.jobs]
        return JobPage(items=items, next=found.next, whole=found.whole)

    return await house.shared.ask(("jobs", *how.items()), look)


@router.post("/cancel")
async def cancel_jobs(request: Request, visitor: Writer, asked: CancelAsked) -> CancelledShown:
    """Cancel all queued jobs that match, and ask running ones to stop; an owner, his own.

    At most so many at a time: where the answer is not `whole`, ask again. A dry run counts them.
    """
    house = house_of(request)
    which = mine(visitor, asked.which.said())
    if which is None:
        return CancelledShown.model_validate(Cancelled(found=0, dry_run=asked.dry_run))
    act = partial(cancelled, house.store, which, dry_run=asked.dry_run, most=MOST_AT_ONCE)
    return CancelledShown.model_validate(await house.slow.ask(act))


@router.post("/redrive")
async def redrive_jobs(request: Request, visitor: Operator, asked: RedriveJobs) -> RedrivenShown:
    """Send all failed jobs that match again: a dry run, a canary, a rate."""
    house = house_of(request)
    which = mine(visitor, asked.which.said())
    if which is None:
        return RedrivenShown.model_validate(Redriven(found=0, dry_run=asked.dry_run))
    act = partial(house.app.redrive_all, by=visitor.name, **which, **asked.how())
    threads = house.canaries if asked.canary and not asked.dry_run else house.slow
    return RedrivenShown.model_validate(await threads.ask(act))


@router.get("/{job_id:int}")
async def get_job(request: Request, visitor: Reader, job_id: JobId) -> JobDetail:
    """One job, with its arguments (without what looks like a secret) and its progress."""
    house = house_of(request)
    return await house.threads.ask(_detail, house, visitor, job_id)


def _detail(house: House, visitor: Visitor, job_id: int) -> JobDetail:
    job = seen(house, visitor, job_id)
    progress = house.store.progress(job_id)
    shown = JobShown.model_validate(job).model_dump(by_alias=False)
    shown["seq"] = shown.pop("attempts")
    return JobDetail(
        **shown,
        parent=parent_of(house, visitor, job),
        arguments=redacted(parsed(house.store.arguments(job_id))),
        progress=None if progress is None else ProgressShown.model_validate(progress),
    )


@router.get("/{job_id:int}/children")
async def list_children(
    request: Request,
    visitor: Reader,
    job_id: JobId,
    after: Annotated[int, Query(ge=0, le=LARGEST_NUMBER, description="The number of a job.")] = 0,
    limit: Limit = 50,
) -> list[JobShown]:
    """The jobs that a job's handler asked for, the first one first; those that are yours."""
    house = house_of(request)

    def read() -> list[JobShown]:
        seen(house, visitor, job_id)
        found = house.store.children(job_id, owner=visitor.only, after=after, limit=limit)
        return [JobShown.model_validate(each) for each in found]

    return await house.threads.ask(read)


@router.get("/{job_id:int}/attempts")
async def list_attempts(
    request: Request,
    visitor: Reader,
    job_id: JobId,
    after: Annotated[int, Query(ge=0, lt=2**31, description="The number of an attempt.")] = 0,
    limit: Limit = 50,
) -> list[AttemptShown]:
    """A job's attempts, the first one first."""
    house = house_of(request)

    def read() -> list[AttemptShown]:
        seen(house, visitor, job_id)
        found = house.store.attempts(job_id, after=after, limit=limit)
        shown = [AttemptShown.model_validate(each) for each in found]
        if visitor.sees_all:
            return shown
        return [each.model_copy(update={"worker": None}) for each in shown]

    return await house.threads.ask(read)


@router.get("/{job_id:int}/events")
async def list_events(request: Request, visitor: Reader, job_id: JobId) -> list[HappeningShown]:
    """What happened to a job, the first thing first: its event log."""
    house = house_of(request)

    def read() -> list[HappeningShown]:
        job = seen(house, visitor, job_id)
        attempts = house.store.attempts(job_id, limit=MOST_ROWS)
        letter = house.store.letters_of([job_id]).get(job_id)
        return [HappeningShown.model_validate(each) for each in events(job, attempts, letter)]

    return await house.threads.ask(read)


@router.get("/{job_id:int}/result")
async def get_result(request: Request, visitor: Reader, job_id: JobId) -> ResultShown:
    """What a job came to, once it has ended; 409 before that."""
    house = house_of(request)
    return await house.slow.ask(_result, house, visitor, job_id)


def _result(house: House, visitor: Visitor, job_id: int) -> ResultShown:
    job = seen(house, visitor, job_id)
    if job.state not in FINISHED:
        raise ProblemError(409, f"job {job_id} is {job.state} still", code="not_finished")
    shown = ResultShown(job=job_id, state=job.state)
    if job.state is State.FAILED and job.last_fault is not None:
        shown.fault = FaultShown.model_validate(job.last_fault)
    text = house.store.output(job_id, job.stage)
    if text is not None and job.state is State.SUCCEEDED:
        shown.result = parsed(recall(text, house.app.artifacts))
    elif text is not None and job.state is State.SKIPPED:
        shown.skip_reason = str(parsed(text))
    return shown


@router.get("/{job_id:int}/why")
async def get_why(request: Request, visitor: Reader, job_id: JobId) -> WhyShown:
    """Why a job is not running now, in words."""
    house = house_of(request)

    def read() -> WhyShown:
        seen(house, visitor, job_id)
        return WhyShown.model_validate(house.app.why(job_id, only=visitor.only))

    return await house.threads.ask(read)


@router.post("/{job_id:int}/retry")
async def retry_job(request: Request, visitor: Writer, job_id: JobId) -> Done:
    """Send a failed job again: its owner only, and only while what it needs is there.

    It gets a fresh allowance of attempts, and keeps its whole history; 409 says why not.
    """
    house = house_of(request)
    state = await house.slow.ask(sent_again, house, visitor, job_id)
    return Done(job=job_id, state=state)


@router.post("/{job_id:int}/cancel")
async def cancel_job(request: Request, visitor: Writer, job_id: JobId) -> Done:
    """Cancel a queued job at once, ask a running one to stop; 409 where it has ended."""
    house = house_of(request)
    return Done(job=job_id, state=await house.threads.ask(stopped, house, visitor, job_id))
