"""Everything that goes wrong, as a problem in JSON (RFC 9457): one clear line, a word for programs.

No answer holds a stack trace, a server path or a secret: what is told is a line of ours, or has
passed through the sieve for secrets. What nobody foresaw is told as a bare 500.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from seawall.errors import (
    ArgumentsError,
    ArtifactError,
    ConfigurationError,
    KeyConflictError,
    NoSuchJobError,
    NoSuchWebhookError,
    NotRetriedError,
    SeawallError,
    StoreError,
)
from seawall.redact import one_line

MEDIA_TYPE = "application/problem+json"
API = "/api/"
"""What programs ask for; the rest is for people."""
STORE_SECONDS = 1
MOST_ERRORS = 20


class FieldProblem(BaseModel):
    """What is wrong with one part of a request."""

    where: str
    what: str


class Problem(BaseModel):
    """What went wrong, as RFC 9457 has it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str = Field(description="A word for programs.")
    request_id: str
    errors: list[FieldProblem] | None = None


class ProblemError(Exception):
    """A request that is refused."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code or word_for(status)
        self.headers = dict(headers or {})


def word_for(status: int) -> str:
    """The word for programs where there is no better one."""
    return HTTPStatus(status).phrase.lower().replace(" ", "_").replace("-", "_")


def answer(
    request_id: str,
    status: int,
    detail: str,
    *,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
    errors: Sequence[FieldProblem] | None = None,
) -> JSONResponse:
    """A problem as a response."""
    problem = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code or word_for(status),
        request_id=request_id,
        errors=None if errors is None else list(errors),
    )
    body = problem.model_dump(exclude_none=True)
    return JSONResponse(body, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def told(
    request: Request,
    status: int,
    detail: str,
    *,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
    errors: Sequence[FieldProblem] | None = None,
) -> Response:
    """A problem as whoever asked reads it: a page for people, JSON for programs."""
    id_ = _id_of(request)
    if not request.url.path.startswith(API) and "text/html" in request.headers.get("accept", ""):
        shown: Response = request.app.state.wrong(request, status, detail, id_)
        shown.headers.update(headers or {})
        return shown
    return answer(id_, status, detail, code=code, headers=headers, errors=errors)


def _id_of(request: Request) -> str:
    return str(request.scope["state"]["request_id"])


async def _problem(request: Request, error: Exception) -> Response:
    if not isinstance(error, ProblemError):
        raise error
    return refusal(request, error)


_SAID = {
    404: "there is nothing here",
    405: "this cannot be done here",
    400: "the request cannot be read",
}


async def _http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    detail = _SAID.get(error.status_code, one_line(str(error.detail)))
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if error.status_code == 405:  # whoever refused knew of one route only
        headers["allow"] = ", ".join(sorted(request.app.state.methods_at(request.url.path)))
    return told(request, error.status_code, detail, headers=headers)


async def _invalid(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    found = [_field(request, each) for each in error.errors()[:MOST_ERRORS]]
    first = f"{found[0].where}: {found[0].what}" if found else "the request is not valid"
    return told(request, 422, first, code="invalid", errors=found)


def _field(request: Request, error: Mapping[str, Any]) -> FieldProblem:
    where = error.get("loc", ())
    what = str(error.get("msg", ""))
    if error.get("type") == "json_invalid":
        why = (error.get("ctx") or {}).get("error", "it cannot be read")
        what = f"not JSON: {why}, at character {where[-1]}"
        where = where[:-1]
    elif where == ("body",) and not _says_json(request):
        what = "not read as JSON: send the header Content-Type: application/json"
    told = ".".join(str(part) for part in where)
    return FieldProblem(where=one_line(told, longest=200), what=one_line(what))


def _says_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _of_ours(error: SeawallError) -> ProblemError:
    line = one_line(str(error))
    if isinstance(error, NotRetriedError):
        return ProblemError(409, line, code=error.code)
    if isinstance(error, NoSuchJobError | NoSuchWebhookError):
        return ProblemError(404, line)
    if isinstance(error, KeyConflictError):
        return ProblemError(409, line, code="key_conflict")
    if isinstance(error, ArgumentsError | ConfigurationError):
        return ProblemError(422, line, code="invalid")
    if isinstance(error, ArtifactError):
        detail = f"it is kept elsewhere and cannot be read: {line}"
        return ProblemError(503, detail, code="artifact_unavailable")
    if isinstance(error, StoreError):
        # Its own words may name a file or a host.
        detail = "the store does not answer: ask again in a moment"
        return ProblemError(
            503, detail, code="store_unavailable", headers={"retry-after": str(STORE_SECONDS)}
        )
    raise error


def refusal(request: Request, error: ProblemError | SeawallError) -> Response:
    """What a request is told that is refused before it has come to its route."""
    if isinstance(error, SeawallError):
        error = _of_ours(error)
    return told(request, error.status, error.detail, code=error.code, headers=error.headers)


async def _ours(request: Request, error: Exception) -> Response:
    if not isinstance(error, SeawallError):
        raise error
    return refusal(request, error)


def told_by(app: FastAPI) -> None:
    """Have the application tell all that goes wrong as problems."""
    app.add_exception_handler(ProblemError, _problem)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(SeawallError, _ours)
