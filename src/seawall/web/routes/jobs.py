"""Jobs: finding them, what happened to them, what they came to; retry and cancel."""

import json
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response

from seawall.artifacts import recall
from seawall.errors import ArgumentsError
from seawall.model import Job, need_name
from seawall.redact import redacted
from seawall.retrying import retried
from seawall.states import FINISHED, State
from seawall.store.values import MOST_ROWS
from seawall.timeline import events
from seawall.web.access import Reader, Visitor, Writer
from seawall.web.house import House, house_of
from seawall.web.models import (
    LARGEST_NUMBER,
    MOST_LISTED,
    AttemptShown,
    Done,
    FaultShown,
    Given,
    HappeningShown,
    JobDetail,
    JobShown,
    Moment,
    Name,
    Number,
    Page,
    ProgressShown,
    ResultShown,
    WhyShown,
)
from seawall.web.problems import ProblemError

router = APIRouter(prefix="/api/jobs", tags=["jobs"])

T = TypeVar("T")
JobId = Annotated[int, Path(ge=1, le=LARGEST_NUMBER)]
After = Annotated[str | None, Query(max_length=500, description="The `next` of the part before.")]
Limit = Annotated[int, Query(ge=1, le=MOST_LISTED)]


def seen(house: House, visitor: Visitor, job_id: int) -> Job:
    """The job, if it is there for this visitor; 404 otherwise. For a thread."""
    found = house.store.jobs([job_id]).get(job_id)
    if found is None or not visitor.sees(found.owner):
        raise ProblemError(404, f"there is no job {job_id}")
    return found


def are_names(*names: str | None) -> bool:
    """Whether there can be something of these names: what cannot be kept is of nothing."""
    try:
        for name in names:
            if name is not None:
                need_name("name", name)
    except ValueError:
        return False
    return True


def in_a_list(ask: Callable[..., T], **how: Any) -> T:
    """A part of a list; 404 where it has no such place to go on from."""
    try:
        return ask(**how)
    except ArgumentsError as error:
        if how.get("after") is None or not str(error).startswith("after: "):
            raise
        line = "after: there is no such place in this list: begin it anew"
        raise ProblemError(404, line, code="no_such_place") from None


class JobsAsked(Given):
    """Which jobs are listed, and where the list begins."""

    state: State | None = None
    task: Name | None = None
    queue: Name | None = None
    owner: Name | None = None
    tag: Name | None = None
    key: Name | None = None
    run: Number | None = None
    created_after: Moment | None = None
    created_before: Moment | None = None
    after: After = None
    limit: Limit = 50


@router.get("", response_model=Page[JobShown])
async def list_jobs(
    request: Request, visitor: Reader, asked: Annotated[JobsAsked, Query()]
) -> Response | Page[JobShown]:
    """Jobs that match: queued ones as they are due, finished ones from the last, others from the
    newest.
    """
    house = house_of(request)
    if visitor.only is not None and asked.owner not in (None, visitor.only):
        return Page(items=[], next=None)
    if not are_names(asked.task, asked.queue, asked.owner, asked.tag, asked.key):
        return Page(items=[], next=None)
    which = dict(asked) | {"owner": visitor.only or asked.owner}

    def look() -> Page[JobShown]:
        found = in_a_list(house.app.jobs, **which)
        return Page(items=[JobShown.model_validate(job) for job in found.jobs], next=found.next)

    return await house.shared.ask(("jobs", *which.values()), look)


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
        arguments=redacted(parsed(house.store.arguments(job_id))),
        progress=None if progress is None else ProgressShown.model_validate(progress),
    )


def parsed(text: str | None) -> Any:
    """What was kept as JSON; text of another codec as it is."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:  # of another codec
        return text


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

    def send() -> Done:
        job = seen(house, visitor, job_id)
        if not visitor.owns(job.owner):
            raise ProblemError(
                403, f"job {job_id} is not yours: its owner retries it, operators redrive it"
            )
        retried(house.app, job_id, by=visitor.name)
        return Done(job=job_id, state=State.QUEUED)

    return await house.slow.ask(send)


@router.post("/{job_id:int}/cancel")
async def cancel_job(request: Request, visitor: Writer, job_id: JobId) -> Done:
    """Cancel a queued job at once, ask a running one to stop; 409 where it has ended."""
    house = house_of(request)

    def cancel() -> Done:
        seen(house, visitor, job_id)
        (change,) = house.store.cancel([job_id])
        if change.state is None:
            raise ProblemError(404, f"there is no job {job_id}")
        if not change.done:
            raise ProblemError(409, f"job {job_id} is {change.state}", code="already_ended")
        return Done(job=job_id, state=change.state)

    return await house.threads.ask(cancel)
