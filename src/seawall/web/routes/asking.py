"""Asking for jobs, of tasks that allow it: `@app.task(http=True)`."""

import hashlib
import json
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from seawall.arguments import problems
from seawall.errors import ArgumentsError, KeyConflictError
from seawall.model import LONGEST_NAME, MOST_NAME_BYTES, NewJob, need_name
from seawall.store import Enqueued, Taken
from seawall.tasks import Options
from seawall.telemetry.trace_context import from_headers
from seawall.telemetry.tracing import asking
from seawall.web.access import Visitor, Writer
from seawall.web.house import House, house_of
from seawall.web.models import JobAsked, JobTaken
from seawall.web.problems import ProblemError

router = APIRouter(prefix="/api/jobs", tags=["jobs"])

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="idempotency-key",
        min_length=1,
        max_length=LONGEST_NAME,
        description="With one, the task has at most one such job of this owner.",
    ),
]


@router.post("", status_code=201, responses={200: {"description": "There already: this is it."}})
async def enqueue(
    request: Request,
    response: Response,
    visitor: Writer,
    asked: JobAsked,
    idempotency_key: IdempotencyKey = None,
) -> JobTaken:
    """Ask for a job. It is kept when this is answered; its owner is the token's.

    The same Idempotency-Key with the same arguments is the same job (200); with others, 409.
    """
    house = house_of(request)
    key = None if idempotency_key is None else _key(visitor.owner, idempotency_key)
    request_id = request.scope["state"]["request_id"]
    new = _new_job(house, visitor, asked, key, request_id)
    headers = request.headers
    sender = from_headers(headers.get("traceparent"), headers.get("tracestate"))
    with asking(asked.task, new.lane.queue, request_id=request_id, parent=sender) as traced:
        if traced.trace is not None:
            new = new.in_trace(traced.trace)
        taken = await house.intake.ask(new)
        job_id = _need_taken(asked.task, taken)
        traced.of(job_id)
    if taken.taken is Taken.EXISTING:
        found = await house.threads.ask(house.store.jobs, [job_id])
        if job_id not in found or not visitor.sees(found[job_id].owner):
            raise ProblemError(409, "the key is taken", code="key_conflict")
        response.status_code = 200
    response.headers["location"] = f"/api/jobs/{job_id}"
    return JobTaken(job=job_id, created=taken.taken is Taken.CREATED)


def _new_job(
    house: House, visitor: Visitor, asked: JobAsked, key: str | None, request_id: str
) -> NewJob:
    """What the store is asked to keep; 422 where the task does not take the arguments."""
    task = house.app.tasks.get(asked.task)
    if task is None or not task.http:
        raise ProblemError(404, f"no task {asked.task!r:.80} can be asked for here", code="no_task")
    try:
        args, kwargs = task.signature.read(json.dumps(asked.arguments))
    except (ValueError, RecursionError) as error:
        raise ArgumentsError(f"{task.name}: {problems(error)}") from None
    options = Options(
        run_after=asked.run_after,
        deadline=asked.deadline,
        key=key,
        owner=visitor.owner,
        tags=tuple(dict.fromkeys(asked.tags)),
        request_id=request_id,
    )
    return task.request(options, args, kwargs).new_job()


def _key(owner: str | None, given: str) -> str:
    """Owners have keys of their own: nobody learns what another has asked for.

    A slash in an owner's name is written otherwise: `a/b` with `c` is not `a` with `b/c`.
    """
    try:
        need_name("idempotency-key", given)
    except ValueError as error:
        raise ArgumentsError(str(error)) from None
    whole = given
    if owner is not None:
        whole = f"{owner.replace('%', '%25').replace('/', '%2F')}/{given}"
    if len(whole) <= LONGEST_NAME and len(whole.encode()) <= MOST_NAME_BYTES:
        return whole
    return f"sha256:{hashlib.sha256(whole.encode()).hexdigest()}"


def _need_taken(task: str, taken: Enqueued) -> int:
    if taken.taken is Taken.CONFLICT:
        raise KeyConflictError(f"{task}: the key is taken by a job with other arguments")
    if taken.job_id is None:
        raise ArgumentsError(f"{task}: {taken.reason}")
    return taken.job_id
