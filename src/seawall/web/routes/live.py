"""Live events, by server-sent events: what becomes of the jobs that the visitor sees."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from seawall.errors import StoreError
from seawall.store import Changes
from seawall.web.access import Reader, Visitor, visitor_of
from seawall.web.glances import Asker
from seawall.web.house import House, house_of
from seawall.web.problems import ProblemError
from seawall.web.tail import MISSED, MOST_OF_A_KIND, Listener, Told, in_words, may_see, since_of

router = APIRouter(prefix="/api", tags=["events"])

BEAT_SECONDS = 15.0
SEND_SECONDS = 10.0
"""How long a listener may take to accept what he is sent."""
_HELLO = b"retry: 2000\n: hello\n\n"
_BEAT = b": beat\n\n"


class EventStream(Response):
    """What a listener is sent, until he leaves, falls behind, or may listen no more."""

    media_type = "text/event-stream"

    def __init__(self, parts: AsyncIterator[bytes], status_code: int = 200) -> None:
        super().__init__(status_code=status_code, headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        start = {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }
        await send(start)
        gone = asyncio.ensure_future(_gone(receive))
        sending = asyncio.ensure_future(self._send(send))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            sending.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        try:
            async for part in self._parts:
                message = {"type": "http.response.body", "body": part, "more_body": True}
                await asyncio.wait_for(send(message), SEND_SECONDS)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:  # a slow one is let go: he comes back and is told what he missed
            return


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@router.get(
    "/events",
    response_class=EventStream,
    responses={
        200: {
            "description": "Events as they happen; reconnect with Last-Event-ID.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def listen(
    request: Request,
    visitor: Reader,
    last_event_id: Annotated[str | None, Header(max_length=40)] = None,
) -> EventStream:
    """What becomes of jobs, as it happens: queued, running, retry, complete, failed and so on.

    An event may come twice; one that happened between two looks at the store is told by where it
    led. `missed` says that more happened than is told.
    """
    house = house_of(request)
    since = None
    if last_event_id is not None:
        now = await house.glances.ask("now", house.store.now)
        since = since_of(last_event_id, now)
        if since is None:
            raise ProblemError(422, "last-event-id: expected the id of an event", code="invalid")
    listener = house.tail.join(visitor.access_id, visitor.only)
    try:
        before = None
        if since is not None:
            since = since.replace(microsecond=0)  # who come back together are told by one look
            look = partial(house.store.changes, since, limit=MOST_OF_A_KIND)
            joined = Asker(since=time.monotonic())  # what was told before that, he did not hear
            before = await house.glances.ask(("changes", since), look, asker=joined)
    except BaseException:
        house.tail.leave(listener)
        raise
    return EventStream(_parts(request, house, listener, before, visitor))


async def _parts(
    request: Request, house: House, listener: Listener, before: Changes | None, visitor: Visitor
) -> AsyncIterator[bytes]:
    try:
        yield _HELLO
        missed = _missed(listener, before)
        for told in missed:
            yield told.text
        if before is not None and not before.whole:
            yield MISSED
        known = {told.key for told in missed}
        clock = asyncio.get_running_loop().time
        beat_at = clock() + BEAT_SECONDS
        while not listener.dropped:
            if clock() >= beat_at:
                if not await _still(request, visitor):
                    return
                yield _BEAT
                beat_at = clock() + BEAT_SECONDS
            try:
                news = await asyncio.wait_for(listener.waiting.get(), beat_at - clock())
            except TimeoutError:
                continue
            if news is None:
                return
            if news.key not in known:
                yield news.text
    finally:
        house.tail.leave(listener)


def _missed(listener: Listener, before: Changes | None) -> list[Told]:
    if before is None:
        return []
    return [told for told in in_words(before) if may_see(listener.only, told)]


async def _still(request: Request, visitor: Visitor) -> bool:
    """Whether the visitor may listen still: a token can expire or be revoked meanwhile."""
    try:
        found = await visitor_of(request)
    except ProblemError as error:
        return error.status not in (401, 403)
    except StoreError:  # it cannot be told now; nor is there anything to tell
        return True
    return found is not None and found.only == visitor.only
