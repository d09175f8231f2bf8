"""Rendering: the templates, the frame around each page, what pages may load, and files that never
change.

A page may load this server's own style and scripts and nothing else, and its forms lead here only:
the policy in its head says so to the browser. Whatever comes from others is escaped by the
templates; no template marks text as safe.
"""

import hashlib
import mimetypes
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

import seawall
from seawall.errors import SeawallError, StoreError
from seawall.redact import one_line
from seawall.store import AccessScope, Backlog
from seawall.web.access import Visitor
from seawall.web.glances import Asker
from seawall.web.house import house_of
from seawall.web.pages import happenings, pictures, upstream_words, wording
from seawall.web.pages.held import frame_of
from seawall.web.problems import ProblemError
from seawall.web.threads import Threads

T = TypeVar("T")
HERE = Path(__file__).resolve().parent.parent
SAID = "seawall_said"
SAID_SECONDS = 20
THEME = "seawall_theme"
"""The script sets it; pages are drawn by it, those without a script as well."""
LONGEST_SAID = 500
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_FOR_EVER = "public, max-age=31536000, immutable"
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
files = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere the frame leads to."""

    path: str
    title: str
    key: str
    """Pressed after g, it leads there."""
    all_see: bool = True
    """Whether it is also for those who see only what is theirs."""


PLACES = (
    Place("/", "Overview", "o"),
    Place("/jobs", "Jobs", "j"),
    Place("/dead", "Dead letters", "d"),
    Place("/runs", "Runs", "r"),
    Place("/upstreams", "Upstreams", "u", all_see=False),
    Place("/policies", "Policies", "p"),
    Place("/fleet", "Queues and workers", "w", all_see=False),
)


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    kind: str
    version: str


@cache
def _files() -> dict[str, _File]:
    """The files that pages load, by name: read once, and named by what is in them."""
    found = {}
    for path in sorted((HERE / "static").iterdir()):
        kind = _KINDS.get(path.suffix) or mimetypes.guess_type(path.name)[0]
        if path.suffix in _KINDS and kind is not None:
            content = path.read_bytes()
            version = hashlib.sha256(content).hexdigest()[:12]
            found[path.name] = _File(content, kind, version)
    return found


def address(name: str) -> str:
    """Where a file is: another one has another address, so browsers may keep it for ever."""
    return f"/static/{name}?v={_files()[name].version}"


@files.get("/static/{name}")
async def get_file(name: str) -> Response:
    """A file that pages load. For anybody: there is nothing in it but what is in the package."""
    found = _files().get(name)
    if found is None:
        raise ProblemError(404, "there is nothing here")
    headers = {"cache-control": _FOR_EVER, "etag": f'"{found.version}"'}
    return Response(found.content, media_type=found.kind, headers=headers)


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= wording.FILTERS
    made.globals |= {
        "address": address,
        "version": seawall.__version__,
        "pictures": pictures,
        "many": wording.many,
        "title_of": wording.title_of,
        "words": upstream_words,
        "happened": happenings.in_words,
    }
    return made


def _theme(request: Request) -> str:
    """Light or dark, as somebody has chosen in this browser; empty where the system is to say."""
    chosen = request.cookies.get(THEME, "")
    return chosen if chosen in ("light", "dark") else ""


def bare(request: Request, template: str, status: int = 200, **content: Any) -> HTMLResponse:
    """A page without a frame: for whoever is not signed in."""
    text = _templates().get_template(template).render(theme=_theme(request), **content)
    return HTMLResponse(text, status, {"content-security-policy": POLICY})


async def looked_at(
    request: Request,
    visitor: Visitor,
    what: Hashable,
    look: Callable[[], T],
    *,
    threads: Threads | None = None,
) -> T:
    """What the function sees, or saw a moment ago for anybody; what this visitor has just changed
    is seen changed.
    """
    asker = Asker(visitor.access_id, patient="hx-request" in request.headers)
    return await house_of(request).glances.ask(what, look, asker=asker, threads=threads)


async def backlog_of(request: Request, visitor: Visitor) -> list[Backlog]:
    """What waits and runs, lane by lane: counted once for all pages that tell of it."""
    return await looked_at(request, visitor, "backlog", house_of(request).store.backlog)


async def page(
    request: Request,
    visitor: Visitor,
    template: str,
    *,
    refused: str = "",
    typed: Mapping[str, str] | None = None,
    asks: bool = False,
    **content: Any,
) -> HTMLResponse:
    """A page in its frame: where one is, where one can go, what is held, what was just done.

    Where a form was `refused` it is the form's own page again, a 422 that says why, and what was
    `typed` stands in it. A page that `asks` something holds still until it is answered.
    """
    house, status = house_of(request), 422 if refused else 200
    frame = await looked_at(
        request, visitor, ("frame", visitor.only), partial(frame_of, house, visitor)
    )
    said = (False, refused) if refused else _said(request)
    text = (
        _templates()
        .get_template(template)
        .render(
            theme=_theme(request),
            visitor=visitor,
            may_write=visitor.scope is not AccessScope.READ_ONLY,
            may_operate=visitor.scope is AccessScope.OPERATOR,
            here=request.url.path,
            places=[place for place in PLACES if place.all_see or visitor.sees_all],
            frame=frame,
            said=said,
            when=partial(wording.when, now=frame.now),
            live=request.method == "GET" and not asks,
            typed=typed or {},
            **content,
        )
    )
    made = HTMLResponse(text, status, {"content-security-policy": POLICY})
    if said is not None and "hx-request" not in request.headers:
        made.delete_cookie(SAID, httponly=True, samesite="lax")
    return made


# --- what was just done ---------------------------------------------------------------------------


def done(
    request: Request, to: str, said: str, *, well: bool = True, changed: bool | None = None
) -> RedirectResponse:
    """Lead on to a page that tells what was done, or why it was not.

    Whoever changed something is shown it changed: also where not all of it went well.
    """
    if well if changed is None else changed:
        house_of(request).glances.acted(request.scope["state"]["visitor"].access_id)
    made = RedirectResponse(to, 303)
    word = ("+" if well else "-") + said[:LONGEST_SAID]
    made.set_cookie(
        SAID,
        urlsafe_b64encode(word.encode()).decode(),
        max_age=SAID_SECONDS,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return made


async def tried(
    request: Request, back: str, act: Awaitable[T], said: Callable[[T], str]
) -> RedirectResponse:
    """Do it and lead back to where it is seen; where it was refused, tell why there.

    What is not there, or may not be done, is a page of its own.
    """
    try:
        line = said(await act)
    except ProblemError as error:
        if error.status in (403, 404, 503):
            raise
        return done(request, back, error.detail, well=False)
    except StoreError:
        raise
    except SeawallError as error:
        return done(request, back, one_line(str(error)), well=False)
    return done(request, back, line)


def _said(request: Request) -> tuple[bool, str] | None:
    """Whether it went well, and what is to be told of it."""
    try:
        word = urlsafe_b64decode(request.cookies[SAID].encode()).decode()
    except (KeyError, ValueError):
        return None
    return (word[0] == "+", word[1:]) if word[:1] in ("+", "-") else None


# --- what goes wrong ------------------------------------------------------------------------------

_NEXT_STEPS = {
    403: "Sign in with a token that may, or ask somebody who has one.",
    404: "It may have been removed after its time, or belong to somebody else.",
    409: "Somebody or something was faster: go back and look again.",
    422: "Go back, mend it and try again.",
    413: "Send less at once, or use the API or the command line.",
    421: "Ask for this page as localhost, or start the server with access tokens.",
    429: "Wait a moment, then reload this page.",
    500: "Try again; if it stays so, give whoever runs this server the number below.",
    503: "Wait a moment, then reload this page. If it stays so: seawall doctor",
}


def wrong(request: Request, status: int, detail: str, request_id: str) -> Response:
    """What went wrong, as a page: one line, and what to do next."""
    step = _NEXT_STEPS.get(status, "Go back, or to the overview.")
    return bare(request, "wrong.html", status, detail=detail, next_step=step, request_id=request_id)
