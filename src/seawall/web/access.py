"""Who may do what: the one place that says so.

| token's scope | jobs, dead letters, runs, events | upstreams, queues, workers, stats, metrics |
| --- | --- | --- |
| `owner` | sees and changes its owner's; sends failed ones again by retry | – |
| `read-only` with an owner | sees the owner's | – |
| `read-only` without | sees all | sees all |
| `operator` | sees and changes all; redrives | sees and changes all |

What somebody may not see is not there: 404. What somebody sees and may not change is 403. Without
a token that stands everything is 401, but for health, readiness, the API's description and the page
on which one signs in. A failed job is retried by its owner only (an operator, where it has none):
operators have `redrive`.

A route asks for a `Reader`, a `Writer`, an `Overseer` (who sees all) or an `Operator`. A token that
was seen to stand is believed for `BELIEVED_SECONDS`; a revoked one is refused after that at the
latest.
"""

import asyncio
import hmac
import time
from collections import OrderedDict
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import APIKeyCookie, HTTPBearer

from seawall import access
from seawall.errors import SeawallError
from seawall.store import Access, AccessScope, Store
from seawall.store.values import MOST_ROWS
from seawall.web import problems
from seawall.web.guard import SAFE, App, Receive, Scope, Send, same_site
from seawall.web.house import House, house_of
from seawall.web.problems import ProblemError
from seawall.web.sessions import COOKIE, CSRF_HEADER
from seawall.web.threads import Threads

BELIEVED_SECONDS = 2.0
NOTED_SECONDS = 300.0
"""How coarsely it is kept when a token was used last."""
MOST_BELIEVED = 10_000
SHARED_FROM = 3
"""From so many tokens in use on, one look is for all of them."""
LATELY_SECONDS = 30.0
"""A token that was not shown for so long is not looked at with the others."""
PRIVATE = "/api/"
METRICS = "/metrics"
DESCRIPTION = "/api/openapi.json"
"""The one thing below `PRIVATE` that anybody may read."""
_CHALLENGE = {"www-authenticate": 'Bearer realm="seawall"'}


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks."""

    access_id: str
    scope: AccessScope
    owner: str | None
    csrf: str | None = None
    """Set where a cookie says who it is."""

    @property
    def sees_all(self) -> bool:
        if self.scope is AccessScope.READ_ONLY:
            return self.owner is None
        return self.scope is AccessScope.OPERATOR

    @property
    def only(self) -> str | None:
        """The owner whose things alone are seen; None where all are."""
        return None if self.sees_all else self.owner

    @property
    def name(self) -> str:
        """Who it was, for notes and logs."""
        return self.owner or f"token {self.access_id}"

    def sees(self, owner: str | None) -> bool:
        """Whether what belongs to that owner is there at all."""
        return self.sees_all or (owner is not None and owner == self.owner)

    def owns(self, owner: str | None) -> bool:
        """Whether it is the visitor's own; what belongs to nobody is the operators'."""
        if owner is None:
            return self.scope is AccessScope.OPERATOR
        return owner == self.owner and self.scope is not AccessScope.READ_ONLY


DEVELOPER = Visitor("development", AccessScope.OPERATOR, None)
"""Who asks where nobody has to say."""


class Believed:
    """Tokens that stood a moment ago.

    Where several are in use, one look finds out about all of them: a hundred who keep a page open
    cost the store no more than a few.
    """

    def __init__(self, store: Store, threads: Threads) -> None:
        self._store = store
        self._threads = threads
        self._known: OrderedDict[str, tuple[Access, float]] = OrderedDict()
        self._noted: OrderedDict[str, float] = OrderedDict()
        """When it was last noted here that a token is used."""
        self._renewal: asyncio.Task[None] | None = None

    def fresh(self, name: str) -> Access | None:
        found = self._known.get(name)
        if found is None or time.monotonic() - found[1] > BELIEVED_SECONDS:
            return None
        return found[0]

    def stood(self, name: str) -> bool:
        """Whether it stood when it was last looked for: whoever shows it does not guess."""
        return name in self._known

    def forget(self, name: str) -> None:
        self._known.pop(name, None)

    async def look(
        self, name: str, *, digest: str | None = None, access_id: str | None = None
    ) -> Access | None:
        """The token, if it stands, by the store; that it is used is noted."""
        found = None
        if self._are_many() and self.stood(name):
            await self._renewed()
            found = self.fresh(name)
        if found is None:
            began = time.monotonic()
            found = await self._threads.ask(self._store.access, digest=digest, access_id=access_id)
            if found is None or not found.stands:
                self.forget(name)
                return None
            self._believe(name, found, began)
        await self._note(found)
        return found

    def _are_many(self) -> bool:
        """Whether so many were seen lately that it pays to look at all of them at once."""
        lately = time.monotonic() - LATELY_SECONDS
        newest = islice(reversed(self._known.values()), SHARED_FROM)
        return sum(at >= lately for _, at in newest) >= SHARED_FROM

    async def _renewed(self) -> None:
        """Whoever comes while a look is under way is served by that one."""
        if self._renewal is None:
            self._renewal = asyncio.ensure_future(self._renew())
            self._renewal.add_done_callback(self._is_over)
        await asyncio.shield(self._renewal)

    async def _renew(self) -> None:
        began = time.monotonic()
        listed = await self._threads.ask(self._store.accesses, limit=MOST_ROWS)
        standing = {each.id: each for each in listed if each.stands}
        for name, (found, at) in list(self._known.items()):
            if at >= began - LATELY_SECONDS and found.id in standing:
                self._known[name] = (standing[found.id], began)

    def _is_over(self, done: "asyncio.Task[None]") -> None:
        self._renewal = None
        if not done.cancelled():
            done.exception()  # perhaps nobody waits for it any more

    def _believe(self, name: str, found: Access, at: float) -> None:
        self._known[name] = (found, at)
        self._known.move_to_end(name)
        if len(self._known) > MOST_BELIEVED:
            self._known.popitem(last=False)

    async def _note(self, found: Access) -> None:
        now = time.monotonic()
        if now - self._noted.get(found.id, -NOTED_SECONDS) < NOTED_SECONDS:
            return
        self._noted[found.id] = now
        self._noted.move_to_end(found.id)
        if len(self._noted) > MOST_BELIEVED:
            self._noted.popitem(last=False)
        await self._threads.ask(self._store.note_access, found.id, every_seconds=NOTED_SECONDS)


def address_of(request: Request) -> str:
    """Whence a request comes."""
    return request.client.host if request.client else "unknown"


async def visitor_of(request: Request) -> Visitor | None:
    """Who asks, by token or cookie; None where neither is shown."""
    house = house_of(request)
    if house.open_to_anybody:
        return DEVELOPER
    header = request.headers.get("authorization")
    if header is not None:
        kind, _, word = header.partition(" ")
        if kind.lower() != "bearer":
            raise unknown("expected Authorization: Bearer TOKEN")
        found = await by_token(request, word.strip())
        return Visitor(found.id, found.scope, found.owner)
    cookie = request.cookies.get(COOKIE)
    session = None if cookie is None else house.sessions.known(cookie, time.time())
    if session is None:
        return None
    found = await _standing(request, f"id {session.access_id}", access_id=session.access_id)
    return Visitor(found.id, found.scope, found.owner, session.csrf)


async def by_token(request: Request, word: str) -> Access:
    """What is kept of a token that stands; 401 where it is none."""
    if not access.is_token(word):
        _note_failure(request)
        raise unknown("the token is not known, has expired, or was revoked")
    return await _standing(request, digest := access.digest(word), digest=digest)


async def _standing(
    request: Request, name: str, *, digest: str | None = None, access_id: str | None = None
) -> Access:
    house = house_of(request)
    found = house.believed.fresh(name)
    if found is None:
        if digest is not None and not house.believed.stood(name):  # a signed cookie is no guess
            _need_patience(request)
        found = await house.believed.look(name, digest=digest, access_id=access_id)
        if found is None:
            _note_failure(request)
            raise unknown("the token is not known, has expired, or was revoked")
    return found


def unknown(detail: str) -> ProblemError:
    """401, and what to show instead."""
    return ProblemError(401, detail, headers=_CHALLENGE)


def _need_patience(request: Request) -> None:
    """Whoever has failed too often has to wait before the store is asked again."""
    house = house_of(request)
    wait = house.failures.is_spent(address_of(request), time.monotonic())
    if wait > 0:
        raise too_often(wait, "too many wrong tokens from this address")


def _note_failure(request: Request) -> None:
    house = house_of(request)
    wait = house.failures.wait(address_of(request), time.monotonic())
    if wait > 0:
        raise too_often(wait, "too many wrong tokens from this address")


def too_often(wait: float, detail: str) -> ProblemError:
    """429, and when to come back."""
    seconds = str(max(1, round(wait + 0.5)))
    return ProblemError(429, f"{detail}: wait {seconds} s", headers={"retry-after": seconds})


def need_rate(house: House, name: str) -> None:
    """429 where this name asks more often than it may."""
    wait = house.rates.wait(name, time.monotonic())
    if wait > 0:
        raise too_often(wait, "too many requests")


def need_csrf(request: Request, visitor: Visitor, given: str | None) -> None:
    """403 where a write rests on a cookie and does not come from our own pages."""
    if visitor.csrf is None:
        return
    known = given is not None and hmac.compare_digest(given.encode(), visitor.csrf.encode())
    if not known or not same_site(request.headers):
        raise ProblemError(403, f"the header {CSRF_HEADER} is missing or wrong", code="csrf")


async def _anybody(request: Request) -> None:
    """Whoever comes, so often and no more often."""
    need_rate(house_of(request), f"address {address_of(request)}")


class Doorkeeper:
    """Lets nobody in to API or metrics who is not known, before anything of a request is read.

    A route that forgets to say whom it is for is closed to strangers all the same.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "http" and _is_guarded(path):
            request = Request(scope)
            try:
                await _admitted(request)
            except (ProblemError, SeawallError) as error:
                response = problems.refusal(request, error)
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _is_guarded(path: str) -> bool:
    return path == METRICS or (path.startswith(PRIVATE) and path != DESCRIPTION)


async def _admitted(request: Request) -> None:
    house = house_of(request)
    found = await visitor_of(request)
    if found is None:
        need_rate(house, f"address {address_of(request)}")
        raise unknown("show an access token: Authorization: Bearer TOKEN")
    request.scope["state"]["visitor"] = found
    need_rate(house, f"token {found.access_id}")
    if request.method not in SAFE:
        need_csrf(request, found, request.headers.get(CSRF_HEADER))


_BEARER = HTTPBearer(
    auto_error=False, scheme_name="token", description="An access token: `seawall token create`."
)
_COOKIE = APIKeyCookie(
    name=COOKIE, auto_error=False, scheme_name="session", description="Set by the sign-in page."
)


async def _reader(
    request: Request,
    _token: Annotated[object, Depends(_BEARER)],
    _session: Annotated[object, Depends(_COOKIE)],
) -> Visitor:
    visitor: Visitor = request.scope["state"]["visitor"]
    return visitor


async def _writer(visitor: Annotated[Visitor, Depends(_reader)]) -> Visitor:
    if visitor.scope is AccessScope.READ_ONLY:
        raise ProblemError(403, "this token is read-only")
    return visitor


async def _overseer(visitor: Annotated[Visitor, Depends(_reader)]) -> Visitor:
    if not visitor.sees_all:
        raise ProblemError(403, "this is for those who see everything: an operator's token")
    return visitor


async def _operator(visitor: Annotated[Visitor, Depends(_reader)]) -> Visitor:
    if visitor.scope is not AccessScope.OPERATOR:
        raise ProblemError(403, "this is for operators")
    return visitor


Anybody = Depends(_anybody)
Reader = Annotated[Visitor, Depends(_reader)]
Writer = Annotated[Visitor, Depends(_writer)]
Overseer = Annotated[Visitor, Depends(_overseer)]
Operator = Annotated[Visitor, Depends(_operator)]
