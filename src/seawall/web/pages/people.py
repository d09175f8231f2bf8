"""Who looks at a page, and what they send with a form.

Whoever is not known is led to the page on which one signs in, and from there back. A form that
changes something carries the word that only our own pages can read; a script sends it as a header.
"""

from typing import Annotated
from urllib.parse import parse_qs, quote

from fastapi import Depends, Request
from fastapi.responses import RedirectResponse, Response

from seawall.store import AccessScope
from seawall.web.access import Visitor, address_of, need_csrf, need_rate, visitor_of
from seawall.web.house import house_of
from seawall.web.problems import ProblemError

MOST_WRITTEN = 3
"""Characters at most that a byte of what was typed comes to in a form."""
BESIDES_BYTES = 16_384
"""What a form may hold besides an edited payload."""
MOST_FIELDS = 200


class SignInError(Exception):
    """Nobody is signed in: the way there, and back."""

    def __init__(self, back: str) -> None:
        super().__init__("sign in first")
        self.back = back


async def to_the_door(request: Request, error: Exception) -> Response:
    """Lead whoever is not signed in to where one signs in."""
    if not isinstance(error, SignInError):
        raise error
    to = "/login" if error.back == "/" else f"/login?next={quote(error.back)}"
    if "hx-request" in request.headers:  # a part of a page was asked for: the whole one moves
        return Response(status_code=401, headers={"hx-redirect": to})
    return RedirectResponse(to, 303)


async def _viewer(request: Request) -> Visitor:
    house = house_of(request)
    try:
        found = await visitor_of(request)
    except ProblemError as error:
        if error.status != 401:
            raise
        found = None
    if found is None:
        need_rate(house, f"address {address_of(request)}")
        back = request.url.path
        if request.method != "GET":
            back = "/"
        elif request.url.query:
            back += f"?{request.url.query}"
        raise SignInError(back)
    request.scope["state"]["visitor"] = found
    need_rate(house, f"token {found.access_id}")
    return found


Viewer = Annotated[Visitor, Depends(_viewer)]


async def _seer(visitor: Viewer) -> Visitor:
    if not visitor.sees_all:
        raise ProblemError(403, "this page is for those who see everything")
    return visitor


SeesAll = Annotated[Visitor, Depends(_seer)]


class Form:
    """The fields of a form, as text."""

    def __init__(self, fields: dict[str, list[str]], visitor: Visitor) -> None:
        self._fields = fields
        self.visitor = visitor

    def get(self, name: str, usual: str = "") -> str:
        """The field as it was sent."""
        return self._fields.get(name, [usual])[0]

    def one(self, name: str, usual: str = "") -> str:
        return self.get(name, usual).strip()

    def every(self, name: str) -> list[str]:
        return self._fields.get(name, [])

    def is_set(self, name: str) -> bool:
        return bool(self.one(name))

    def number(self, name: str) -> float | None:
        """A number; None where nothing was said. 422 where it is none."""
        text = self.one(name)
        if not text:
            return None
        try:
            return float(text)
        except ValueError:
            raise ProblemError(422, f"{name}: found {text!r:.40}, expected a number") from None


async def read_form(request: Request, visitor: Visitor) -> Form:
    """What was sent; 403 where it does not come from our own pages."""
    body = await request.body()
    payload = house_of(request).app.settings.payload_bytes
    if len(body) > MOST_WRITTEN * payload + BESIDES_BYTES:
        raise ProblemError(413, "the form is too large", code="too_large")
    try:
        fields = parse_qs(body.decode(), max_num_fields=MOST_FIELDS, keep_blank_values=True)
    except ValueError:
        raise ProblemError(400, "the form cannot be read") from None
    need_csrf(request, visitor, fields.get("csrf", [""])[0])
    return Form(fields, visitor)


async def _sent(request: Request, visitor: Viewer) -> Form:
    form = await read_form(request, visitor)
    if visitor.scope is AccessScope.READ_ONLY:
        raise ProblemError(403, "this token is read-only")
    return form


async def _sent_by_operator(form: Annotated[Form, Depends(_sent)]) -> Form:
    if form.visitor.scope is not AccessScope.OPERATOR:
        raise ProblemError(403, "this is for operators")
    return form


Sent = Annotated[Form, Depends(_sent)]
"""A form of somebody who may change what is theirs."""
SentByOperator = Annotated[Form, Depends(_sent_by_operator)]


def back_to(path: str) -> str:
    """Where to lead after signing in: a page of ours, and nowhere else."""
    good = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if good and len(path) <= 2_000 else "/"
