"""The web application: uploads, a page of one's own jobs, Retry, and the XML.

    uvicorn examples.converter.web:api

Whose job it is, a session says: a random cookie, of which only a hash is kept.
"""

import asyncio
import hashlib
import secrets
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse
from jinja2 import Environment, FileSystemLoader
from pydantic import BaseModel

from examples.converter.app import app, convert, result_of, source_of, written
from seawall import CONVERTER_CODES, FaultError, Job, JobHandle, NoSuchJobError, State
from seawall.fastapi import RequestId, handle_errors, lifespan, router

HERE = Path(__file__).parent
SESSION = "session"
LARGEST_PDF = 20 * 1024 * 1024
KEPT_FOR = timedelta(days=1)
"""A conversion that takes longer is given up."""
MOST_ROWS = 50
STATUS = {State.RUNNING: "processing", State.SUCCEEDED: "complete"}
"""What users are told; the other states go by their own names."""
SAFE = {
    "Content-Security-Policy": "default-src 'self'; img-src data:",
    "Cache-Control": "no-store",
}

api = FastAPI(lifespan=lifespan(app))
handle_errors(api, codes=CONVERTER_CODES)
templates = Environment(loader=FileSystemLoader(HERE / "pages"), autoescape=True)


def owner_of(request: Request) -> str:
    """Who asks: a dependency. Other sites' pages have no cookie of ours to send (SameSite)."""
    session = request.cookies.get(SESSION)
    if not session:
        raise FaultError("UNAUTHORIZED", "no session", detail="FORBIDDEN")
    return hashlib.sha256(session.encode()).hexdigest()[:32]


Owner = Annotated[str, Depends(owner_of)]
Name = Annotated[str, Query(min_length=1, max_length=200)]
api.include_router(
    router(app, owner=owner_of, codes=CONVERTER_CODES, prefix="/api/jobs", retry=True)
)


class Row(BaseModel):
    """A job as its owner sees it."""

    id: int
    name: str
    status: str
    attemptCount: int  # noqa: N815 - what web clients read
    lastAttemptAt: datetime | None  # noqa: N815 - as above
    retryAfter: datetime | None  # noqa: N815 - as above
    """When it is tried again."""
    error: dict[str, Any] | None
    mayRetry: bool  # noqa: N815 - as above
    whyNot: str | None  # noqa: N815 - as above
    """Why a failed one cannot be sent again."""


def row_of(job: Job) -> Row:
    failed = job.state is State.FAILED
    refusal = app.retry_refusal(job.id) if failed else None
    waits = job.state is State.QUEUED and job.tries > 0
    return Row(
        id=job.id,
        name=app.job(job.id).arguments()["name"],
        status=STATUS.get(job.state, str(job.state)),
        attemptCount=job.tries,
        lastAttemptAt=job.last_attempt_at,
        retryAfter=job.due_at if waits else None,
        error=CONVERTER_CODES.view(job.last_fault).as_json() if job.last_fault else None,
        mayRetry=failed and refusal is None,
        whyNot=refusal,
    )


def rows_of(owner: str) -> list[Row]:
    return [row_of(job) for job in app.jobs(task="convert", owner=owner, limit=MOST_ROWS)]


# --- the API --------------------------------------------------------------------------------------


@api.post("/api/jobs", status_code=201)
async def upload(
    request: Request,
    owner: Owner,
    request_id: RequestId,
    name: Annotated[str, Query(max_length=200)],
) -> dict[str, int]:
    """Take a PDF, as the request's body, and ask for its conversion."""
    document = secrets.token_hex(16)
    await asyncio.to_thread(written, source_of(document), await _pdf(request))
    asking = convert.using(owner=owner, request_id=request_id, deadline=KEPT_FOR)
    job = await asking.aenqueue(document, Path(name).name or "unnamed.pdf")
    return {"id": job.id}


async def _pdf(request: Request) -> bytes:
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > LARGEST_PDF:
            raise FaultError("INVALID_INPUT", "too large", detail="TOO_LARGE")
    if not content.startswith(b"%PDF-"):
        raise FaultError("INVALID_INPUT", "no PDF", detail="NOT_PDF")
    return bytes(content)


@api.get("/api/jobs")
def jobs(owner: Owner) -> list[Row]:
    """One's own jobs, the newest first."""
    return rows_of(owner)


def _owned(job_id: int, owner: str) -> JobHandle[Any]:
    try:
        job = app.job(job_id)
        if job.job().owner == owner:
            return job
    except NoSuchJobError:
        pass
    raise FaultError("UNAUTHORIZED", "not theirs", detail="FORBIDDEN")


@api.get("/api/jobs/{job_id}/xml")
def xml(job_id: int, owner: Owner) -> Response:
    """What the job came to."""
    job = _owned(job_id, owner)
    if job.state is not State.SUCCEEDED:
        raise FaultError("NOT_READY", "no result")
    file = result_of(job.arguments()["document"])
    if not file.exists():
        raise FaultError("EXPIRED", "the result was removed")
    return FileResponse(file, media_type="application/xml", filename=job.result(), headers=SAFE)


# --- the page -------------------------------------------------------------------------------------


@api.get("/")
def page(request: Request) -> Response:
    """The page; whoever comes for the first time is given a session."""
    session = request.cookies.get(SESSION)
    shown = _rendered("page.html", rows_of(owner_of(request)) if session else [])
    if not session:
        secure = request.url.scheme == "https"
        token = secrets.token_urlsafe(32)
        shown.set_cookie(SESSION, token, httponly=True, samesite="lax", secure=secure)
    return shown


@api.get("/rows")
def rows(owner: Owner) -> Response:
    """The part of the page that changes."""
    return _rendered("rows.html", rows_of(owner))


def _rendered(name: str, found: list[Row]) -> HTMLResponse:
    return HTMLResponse(
        templates.get_template(name).render(rows=found, held=app.upstreams.get("gateway").is_held),
        headers=SAFE,
    )


@api.get("/page.{kind}")
def asset(kind: str) -> Response:
    if kind not in ("js", "css"):
        raise FaultError("NOT_FOUND", "no such file")
    return FileResponse(HERE / "pages" / f"page.{kind}")


@api.get("/health")
def health() -> dict[str, str]:
    return {"status": "well"}
