"""Signing in and out of the pages: a token becomes a cookie, so that browsers can show it.

The form is plain HTML with its style inside, which the page's policy names by its hash: nothing
else may be loaded, and nothing runs.
"""

import base64
import hashlib
import time
from html import escape
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from seawall.web.access import Anybody, by_token, need_csrf, unknown, visitor_of
from seawall.web.guard import same_site
from seawall.web.house import house_of
from seawall.web.problems import ProblemError
from seawall.web.sessions import COOKIE

router = APIRouter(tags=["pages"], include_in_schema=False, dependencies=[Anybody])

HOME = "/login"
LONGEST_FORM = 4_096

_STYLE = """
:root { color-scheme: light dark; --ink: #17212b; --paper: #f4f6f8; --card: #fff; --line: #d5dce3;
  --accent: #0b5cad; --wrong: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf0; --paper: #11171d; --card: #1a222b;
  --line: #2e3a46; --accent: #6db3f2; --wrong: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { width: min(26rem, calc(100vw - 2rem)); padding: 2rem; background: var(--card);
  border: 1px solid var(--line); border-radius: 12px; }
h1 { margin: 0 0 .25rem; font-size: 1.4rem; }
p { margin: 0 0 1.25rem; }
label { display: block; font-weight: 600; margin-bottom: .35rem; }
input { width: 100%; padding: .6rem .7rem; font: inherit; color: inherit; background: var(--paper);
  border: 1px solid var(--line); border-radius: 8px; }
button { margin-top: 1rem; width: 100%; padding: .65rem; font: inherit; font-weight: 600;
  color: var(--card); background: var(--accent); border: 0; border-radius: 8px; cursor: pointer; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.wrong { color: var(--wrong); font-weight: 600; }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)


def _page(body: str, status: int = 200, headers: dict[str, str] | None = None) -> HTMLResponse:
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Seawall</title><style>{_STYLE}</style></head><body><main>{body}</main></body></html>"
    )
    return HTMLResponse(page, status, {**(headers or {}), "content-security-policy": _POLICY})


def _form(wrong: str = "") -> str:
    said = f'<p class="wrong" role="alert">{escape(wrong)}</p>' if wrong else ""
    return (
        f"<h1>Seawall</h1><p>Sign in with an access token.</p>{said}"
        '<form method="post" action="/login"><label for="token">Access token</label>'
        '<input id="token" name="token" type="password" autocomplete="current-password" required'
        ' autofocus spellcheck="false"><button>Sign in</button></form>'
    )


@router.get("/login")
async def show_login(request: Request) -> Response:
    """The form; for somebody who is signed in, who that is and the way out."""
    try:
        visitor = await visitor_of(request)
    except ProblemError:
        visitor = None
    if visitor is None:
        return _page(_form())
    csrf = f'<input type="hidden" name="csrf" value="{visitor.csrf}">' if visitor.csrf else ""
    return _page(
        f"<h1>Seawall</h1><p>You are signed in as {escape(visitor.name)}, {visitor.scope}.</p>"
        f'<form method="post" action="/logout">{csrf}<button>Sign out</button></form>'
    )


@router.post("/login")
async def login(request: Request) -> Response:
    """Sign in with a token."""
    house = house_of(request)
    if not same_site(request.headers):
        raise ProblemError(403, "another site asked for this", code="cross_site")
    given = await _field(request, "token")
    try:
        found = await by_token(request, given.strip())
    except ProblemError as error:
        return _page(_form(error.detail), error.status, error.headers)
    made = RedirectResponse(HOME, 303)
    made.set_cookie(
        COOKIE,
        house.sessions.cookie(found.id, time.time()),
        max_age=int(house.sessions.lasts_seconds),
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return made


@router.post("/logout")
async def logout(request: Request) -> Response:
    """Sign out."""
    visitor = await visitor_of(request)
    if visitor is None:
        raise unknown("nobody is signed in")
    need_csrf(request, visitor, await _field(request, "csrf"))
    made = RedirectResponse(HOME, 303)
    made.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=request.url.scheme == "https")
    return made


async def _field(request: Request, name: str) -> str:
    """A field of a form; empty where there is none."""
    body = await request.body()
    if len(body) > LONGEST_FORM:
        raise ProblemError(413, "the form is too large", code="too_large")
    try:
        return parse_qs(body.decode(), max_num_fields=10).get(name, [""])[0]
    except ValueError:
        raise ProblemError(400, "the form cannot be read") from None
