"""For FastAPI applications: calls that are answered now, or with the place of a job.

    app = Seawall()
    api = FastAPI(lifespan=lifespan(app, worker=True))
    handle_errors(api)
    api.include_router(router(app, owner=signed_in))

    @api.post("/summaries")
    async def summaries(request: Request, path: str, user: Annotated[str, Depends(signed_in)]):
        outcome = await summarize.using(owner=user).acall_or_enqueue(path)
        return answer(request, outcome)

A call that is done is answered 200 with its value; one that failed with the status of its public
code; one that was handed over 202, with the place where its job can be asked for. What goes wrong
is told in one line: nothing that an upstream or a stack trace said leaves this way.
"""

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Any

try:
    from fastapi import APIRouter, Depends, FastAPI, Path, Request, Response
    from fastapi.encoders import jsonable_encoder
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from pydantic import BaseModel
    from starlette.routing import NoMatchFound
except ImportError:
    raise ImportError(
        'seawall.fastapi needs FastAPI: pip install "seawall[server]", or fastapi itself'
    ) from None

from seawall.answers import Answered, Done, Failed
from seawall.app import Seawall
from seawall.decisions.classify import classify
from seawall.decisions.public import AI_CODES, PublicMap
from seawall.errors import (
    ArgumentsError,
    ConfigurationError,
    FaultError,
    JobCancelledError,
    JobSkippedError,
    KeyConflictError,
    NoSuchJobError,
    NotRetriedError,
    SeawallError,
    StoreUnavailableError,
)
from seawall.faults import Fault
from seawall.jobs import JobHandle
from seawall.model import need_name
from seawall.redact import one_line
from seawall.retrying import retried
from seawall.states import FINISHED, State
from seawall.telemetry import UpkeepFailed, emit
from seawall.worker.worker import FLUSH_SECONDS, Worker

__all__ = [
    "JobStatus",
    "RequestId",
    "SeawallDep",
    "answer",
    "handle_errors",
    "lifespan",
    "request_id",
    "router",
    "seawall_of",
]

PROBLEM = "application/problem+json"
ROUTE = "seawall_job"
LARGEST_ID = 2**63 - 1
_HURRY_SECONDS = 5.0

# --- the application's life -----------------------------------------------------------------------


def lifespan(
    app: Seawall,
    *,
    opens: bool = True,
    worker: bool = False,
    queues: Sequence[str] | None = None,
    concurrency: int | None = None,
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Open the store when the web application starts, and let go of it when it ends.

    `opens=False` leaves it shut: for a process that only enqueues on SQLite connections of its own.
    With `worker` it also runs a worker in this process, of these queues: for small deployments.
    At the end it is given its grace period to finish what it runs; the rest is handed back.
    """
    if worker and not opens:
        raise ConfigurationError("lifespan: a worker needs the store: leave out opens=False")

    @asynccontextmanager
    async def life(api: FastAPI) -> AsyncIterator[None]:
        if opens:
            await asyncio.to_thread(_opened, app)
        api.state.seawall = app
        hand = _Hand(Worker(app, queues=queues, concurrency=concurrency)) if worker else None
        try:
            yield
        finally:
            if hand is not None:
                await asyncio.to_thread(hand.end, app.settings.grace_seconds)
            await asyncio.to_thread(app.close)

    return life


def _opened(app: Seawall) -> None:
    """A store that cannot be used is better known now."""
    app.store.now()


class _Hand:
    """A worker on a thread of the web application's process."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._thread = threading.Thread(target=self._run, name="seawall-worker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._worker.run()
        except BaseException as error:  # noqa: BLE001 - nobody else would hear of it
            message = one_line(f"{type(error).__name__}: {error}")
            emit(UpkeepFailed(chore="the worker of the web application", message=message))

    def end(self, grace_seconds: float) -> None:
        """Let it finish what it runs; then let it hand back the rest."""
        if self._thread.is_alive():
            self._worker.stop()
            self._thread.join(grace_seconds + FLUSH_SECONDS)
        if self._thread.is_alive():
            self._worker.stop()
            self._thread.join(_HURRY_SECONDS)


def seawall_of(request: Request) -> Seawall:
    """The application that `lifespan` opened: a dependency."""
    found = getattr(request.app.state, "seawall", None)
    if not isinstance(found, Seawall):
        raise ConfigurationError(
            "the web application has no seawall: FastAPI(lifespan=seawall.fastapi.lifespan(app))"
        )
    return found


def request_id(request: Request) -> str | None:
    """The caller's own `x-request-id`, for `using(request_id=…)`; None where it has no good one."""
    found = request.headers.get("x-request-id")
    try:
        need_name("x-request-id", found)
    except ValueError:
        return None
    return found


SeawallDep = Annotated[Seawall, Depends(seawall_of)]
"""A route's parameter of this type is the application that the lifespan opened."""
RequestId = Annotated[str | None, Depends(request_id)]
"""A route's parameter of this type is the request's own id, for `using(request_id=…)`."""

# --- answers --------------------------------------------------------------------------------------


def answer(
    request: Request,
    outcome: Answered[Any],
    *,
    codes: PublicMap = AI_CODES,
    status_code: int = 200,
) -> Response:
    """The response to what a call came to: the value, the public fault, or the job's place."""
    match outcome:
        case Done(value):
            return JSONResponse(jsonable_encoder(value), status_code)
        case Failed(fault, job):
            return _failed(fault, codes, job=job.id)
    job = outcome.job
    headers = {
        "Location": _place(request, job.id),
        "Retry-After": str(_whole(outcome.retry_after_seconds)),
    }
    body = {"id": job.id, "state": State.QUEUED}
    return JSONResponse(body, 202, headers)


def _failed(fault: Fault, codes: PublicMap, **also: object) -> Response:
    shown = codes.view(fault)
    wait = fault.retry_after_seconds
    more = {name: value for name, value in shown.as_json().items() if name != "message"}
    return problem(
        codes.http_status(shown.code),
        shown.message,
        retry_after_seconds=wait if shown.retryable else None,
        **also,
        **more,
    )


def _place(request: Request, job_id: int) -> str:
    """Where the job can be asked for: a path, whatever host the caller believes us to be."""
    try:
        path = request.app.url_path_for(ROUTE, job_id=str(job_id))
    except NoMatchFound:
        raise ConfigurationError(
            "no route tells of jobs: api.include_router(seawall.fastapi.router(app, owner=…))"
        ) from None
    return f"{request.scope.get('root_path', '').rstrip('/')}{path}"


def _whole(seconds: float) -> int:
    """Retry-After is in whole seconds, and never shorter than it should be."""
    return max(1, math.ceil(seconds))


def problem(
    status: int, line: str, *, retry_after_seconds: float | None = None, **more: object
) -> Response:
    """What went wrong, in one line, as RFC 9457 has it."""
    headers = {}
    if retry_after_seconds is not None:
        headers["Retry-After"] = str(_whole(retry_after_seconds))
    body = {"type": "about:blank", "title": line, "status": status, **more}
    return JSONResponse(body, status, headers, media_type=PROBLEM)


# --- the job's place ------------------------------------------------------------------------------


class PublicError(BaseModel):
    """A fault as users see it."""

    code: str
    message: str
    retryable: bool
    retryAfterMs: int | None = None  # noqa: N815 - what web clients read


class JobStatus(BaseModel):
    """Where a job stands, as its owner sees it."""

    id: int
    state: State
    result: Any = None
    """What it came to; only where it succeeded."""
    error: PublicError | None = None
    """Why it failed; only where it did."""


def router(
    app: Seawall,
    *,
    owner: Callable[..., Any],
    codes: PublicMap = AI_CODES,
    prefix: str = "/jobs",
    retry: bool = False,
) -> APIRouter:
    """A route that tells a job's owner where it stands: `GET /jobs/{id}`.

    `owner` is a dependency that gives the name of whoever asks: a job is shown to whoever has its
    owner's name, and nobody else learns that it is there. One that gives None sees the jobs of no
    owner. With `retry` its owner may also send a failed job again, `POST /jobs/{id}/retry`, while
    the task's `retry_when` says yes: 409 with the reason otherwise.
    """
    routes = APIRouter(prefix=prefix)

    @routes.get(
        "/{job_id}",
        name=ROUTE,
        response_model=JobStatus,
        response_model_exclude_unset=True,
        responses={404: {"description": "There is no such job."}},
    )
    def job_status(
        job_id: Annotated[int, Path(ge=1, le=LARGEST_ID)],
        who: Annotated[str | None, Depends(owner)],
        response: Response,
    ) -> Any:
        """Where the job stands, and what it came to."""
        handle = _owned(app, job_id, who)
        if handle is None:
            return _nothing_there()
        job = handle.job()
        status: dict[str, Any] = {"id": job.id, "state": job.state}
        if job.state is State.SUCCEEDED:
            status["result"] = jsonable_encoder(handle.result())
        elif job.state is State.FAILED and job.last_fault is not None:
            status["error"] = codes.view(job.last_fault).as_json()
        elif job.state not in FINISHED:
            wait = (job.due_at - app.store.now()).total_seconds()
            response.headers["Retry-After"] = str(_whole(wait))
        response.headers["Cache-Control"] = "no-store"
        return status

    if retry:
        _add_retry(routes, app, owner)
    return routes


def _add_retry(routes: APIRouter, app: Seawall, owner: Callable[..., Any]) -> None:
    @routes.post(
        "/{job_id}/retry",
        response_model=JobStatus,
        response_model_exclude_unset=True,
        responses={
            404: {"description": "There is no such job."},
            409: {"description": "It may not be sent again now."},
        },
    )
    def job_retry(
        job_id: Annotated[int, Path(ge=1, le=LARGEST_ID)],
        who: Annotated[str | None, Depends(owner)],
    ) -> Any:
        """Send a failed job again, with a fresh allowance of attempts and all its history."""
        if _owned(app, job_id, who) is None:
            return _nothing_there()
        try:
            retried(app, job_id, by=who)
        except NotRetriedError as error:
            return problem(409, one_line(str(error)), code=error.code.upper(), retryable=False)
        return {"id": job_id, "state": State.QUEUED}


def _owned(app: Seawall, job_id: int, who: str | None) -> JobHandle[Any] | None:
    """The job, where there is one and it is theirs."""
    try:
        handle = app.job(job_id)
        return handle if handle.job().owner == who else None
    except NoSuchJobError:
        return None


def _nothing_there() -> Response:
    return problem(404, "There is no such job.", code="NOT_FOUND", retryable=False)


# --- errors ---------------------------------------------------------------------------------------


def handle_errors(api: FastAPI, *, codes: PublicMap = AI_CODES) -> None:
    """Answer seawall's own errors, and input that does not fit, in one line each.

    Arguments that a task does not take and bad requests are 422, a key that is taken by other
    arguments 409, a job that was cancelled 409, one that found nothing to do 204, a store that is
    away 503. A `FaultError` that a route raises is answered by its public code.
    """

    def fault_raised(_request: Request, error: Exception) -> Response:
        return _failed(classify(error), codes)

    def bad_arguments(_request: Request, error: Exception) -> Response:
        return problem(422, one_line(str(error)), code="INVALID_REQUEST", retryable=False)

    def bad_request(_request: Request, error: Exception) -> Response:
        return problem(422, _wrong(error), code="INVALID_REQUEST", retryable=False)

    def key_taken(_request: Request, _error: Exception) -> Response:
        line = "The same key was used with other arguments."
        return problem(409, line, code="CONFLICT", retryable=False)

    def cancelled(_request: Request, _error: Exception) -> Response:
        return problem(409, "The job was cancelled.", code="CANCELLED", retryable=False)

    def nothing_to_do(_request: Request, _error: Exception) -> Response:
        return Response(status_code=204)

    def away(_request: Request, _error: Exception) -> Response:
        line = "The service cannot keep jobs at the moment."
        return problem(503, line, retry_after_seconds=1, code="UNAVAILABLE", retryable=True)

    def ours(_request: Request, _error: Exception) -> Response:
        line = "Something went wrong on our side."
        return problem(500, line, code="INTERNAL_ERROR", retryable=False)

    for kind, handler in (
        (RequestValidationError, bad_request),
        (ArgumentsError, bad_arguments),
        (KeyConflictError, key_taken),
        (JobCancelledError, cancelled),
        (JobSkippedError, nothing_to_do),
        (StoreUnavailableError, away),
        (FaultError, fault_raised),
        (SeawallError, ours),
    ):
        api.add_exception_handler(kind, handler)


def _wrong(error: Exception) -> str:
    """What is wrong with a request and where, without quoting what was sent."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    said = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found[:5]]
    return one_line("; ".join(said) or "This request cannot be read.")
