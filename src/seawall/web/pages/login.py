"""Signing in and out of the pages: a token becomes a cookie, so that browsers can show it."""

import time
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from seawall.web.access import Anybody, by_token, need_csrf, unknown, visitor_of
from seawall.web.guard import same_site
from seawall.web.house import house_of
from seawall.web.pages.people import back_to
from seawall.web.pages.site import bare
from seawall.web.problems import ProblemError
from seawall.web.sessions import COOKIE

router = APIRouter(tags=["pages"], include_in_schema=False, dependencies=[Anybody])

LEFT = "/login"
LONGEST_FORM = 4_096


@router.get("/login")
async def show_login(request: Request) -> Response:
    """The form; for somebody who is signed in, who that is and the way out."""
    try:
        visitor = await visitor_of(request)
    except ProblemError:
        visitor = None
    if visitor is None:
        return _form(request, back_to(request.query_params.get("next", "/")))
    return bare(request, "login.html", visitor=visitor)


def _form(
    request: Request,
    back: str,
    wrong: str = "",
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Response:
    made = bare(request, "login.html", status, visitor=None, back=back, wrong=wrong)
    made.headers.update(headers or {})
    return made


@router.post("/login")
async def login(request: Request) -> Response:
    """Sign in with a token."""
    house = house_of(request)
    if not same_site(request.headers):
        raise ProblemError(403, "another site asked for this", code="cross_site")
    given, back = await _field(request, "token"), back_to(await _field(request, "next"))
    try:
        found = await by_token(request, given.strip())
    except ProblemError as error:
        return _form(request, back, error.detail, error.status, error.headers)
    made = RedirectResponse(back, 303)
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
    made = RedirectResponse(LEFT, 303)
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
