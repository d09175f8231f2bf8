"""What every request passes through, whatever becomes of it.

It gets an id, its body a bound in bytes and time, its answer the headers that keep browsers out of
mischief, and its end a log line. What nobody foresaw ends here, as a 500 that says no more. In
development mode, where nobody has to show a token, it also sees to it that no page of another site
can speak to the server through the browser: only loopback names are answered to (a name that was
rebound to this machine is another one), and no write is taken that another site asked for.
"""

import asyncio
import secrets
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastapi import HTTPException, Request
from starlette.datastructures import Headers, MutableHeaders

from seawall.faults import LONGEST_ID
from seawall.redact import holds_secret, one_line
from seawall.telemetry import (
    RequestBroke,
    RequestChanged,
    RequestRefused,
    RequestServed,
    emit,
)
from seawall.web import problems

if TYPE_CHECKING:
    from seawall.telemetry import RequestEvent

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_SECONDS = 30.0
"""How long a request may take to arrive."""
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/+=@-")
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
_MOST_DIGITS = 18
"""A number of more is no number of bytes."""
_HSTS = "max-age=31536000"


@dataclass(slots=True)
class _Passage:
    """One request, from its arrival to its end."""

    scope: Scope
    request_id: str
    began: float = field(default_factory=time.monotonic)
    status: int = 0
    """0 until the answer has begun."""


class Guard:
    """Stands before the application."""

    def __init__(self, app: App, *, request_bytes: int, loopback_only: bool) -> None:
        self._app = app
        self._request_bytes = request_bytes
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        passage = _Passage(scope, request_id(headers.get("x-request-id")))
        scope.setdefault("state", {})["request_id"] = passage.request_id
        telling = _telling(passage, send)
        try:
            refused = self._refused(passage, headers)
            if refused is not None:
                await refused(scope, receive, telling)
            else:
                bounded = _bounded(receive, self._request_bytes)
                await self._app(scope, bounded, telling)
        except Exception as error:  # noqa: BLE001 - the last one who can answer
            _broke(passage, error)
            if passage.status:  # the answer had begun: what is missing tells
                return
            await _broken(scope, passage.request_id)(scope, receive, telling)
        else:
            _told(passage)

    def _refused(self, passage: _Passage, headers: Headers) -> Any:
        """What is to be answered at once, if it is."""
        request = Request(passage.scope)
        length = headers.get("content-length", "")
        if length.isdecimal() and (len(length) > _MOST_DIGITS or int(length) > self._request_bytes):
            return problems.told(request, 413, _too_large(self._request_bytes), code="too_large")
        if not self._loopback_only:
            return None
        if _host_name(headers.get("host", "")) not in LOOPBACK_NAMES:
            line = "without authentication only localhost is answered to"
            return problems.told(request, 421, line, code="wrong_host")
        if passage.scope["method"] not in SAFE and not same_site(headers):
            return problems.told(request, 403, "another site asked for this", code="cross_site")
        return None


def _broken(scope: Scope, id_: str) -> Any:
    """What nobody foresaw, as whoever asked reads it; bare where not even that can be written."""
    line = "something went wrong here; its log knows this request's id"
    try:
        return problems.told(Request(scope), 500, line)
    except Exception:  # noqa: BLE001 - the page of errors may be what is broken
        return problems.answer(id_, 500, line)


def request_id(given: str | None) -> str:
    """The caller's id of the request where it can be kept, else a new one."""
    good = (
        given is not None
        and 0 < len(given) <= LONGEST_ID
        and _ID_CHARACTERS.issuperset(given)
        and not holds_secret(given)
    )
    return str(given) if good else secrets.token_hex(8)


def same_site(headers: Headers) -> bool:
    """Whether a browser says that this site's own page asked, or that nobody else did."""
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    try:
        return origin is None or urlsplit(origin).netloc == headers.get("host", "")
    except ValueError:  # it is none
        return False


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _too_large(most: int) -> str:
    return f"the request is larger than {most:,} bytes"


def _bounded(receive: Receive, most: int) -> Receive:
    """What is received, up to a bound in bytes and time, whatever the headers promise."""
    seen = 0
    whole = False
    deadline = time.monotonic() + BODY_SECONDS

    async def bounded() -> Message:
        nonlocal seen, whole
        if whole:
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise HTTPException(408, "the request took too long to arrive") from None
        seen += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if seen > most:
            raise HTTPException(413, _too_large(most))
        return message

    return bounded


def _telling(passage: _Passage, send: Send) -> Send:
    """Send, with the headers that every answer has."""

    async def telling(message: Message) -> None:
        if message["type"] == "http.response.start":
            passage.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers["x-request-id"] = passage.request_id
            if passage.scope.get("scheme") == "https":
                headers["strict-transport-security"] = _HSTS
        await send(message)

    return telling


# --- log lines ------------------------------------------------------------------------------------


def _fields(passage: _Passage) -> dict[str, Any]:
    scope = passage.scope
    visitor = scope["state"].get("visitor")
    route = getattr(scope.get("route"), "path", None)
    return {
        "method": scope["method"] if scope["method"].isalpha() else "?",
        "route": route or "unknown",
        "status": passage.status,
        "duration_ms": round((time.monotonic() - passage.began) * 1000),
        "token": getattr(visitor, "access_id", None),
        "owner": getattr(visitor, "owner", None),
        "request_id": passage.request_id,
    }


def _told(passage: _Passage) -> None:
    kind: type[RequestEvent] = RequestServed
    if passage.status >= 400:
        kind = RequestRefused
    elif passage.scope["method"] not in SAFE:
        kind = RequestChanged
    emit(kind(**_fields(passage)))


def _broke(passage: _Passage, error: Exception) -> None:
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    where = "" if last is None else one_line(f"{last.filename}:{last.lineno} in {last.name}")
    fields = _fields(passage) | {"status": 500}
    emit(RequestBroke(**fields, message=one_line(repr(error)), where=where))
