"""One look for all who ask the same at the same time.

A page that many have open asks the same list again and again. While a look at it is under way,
others that ask for the same wait together for the next one, which begins when this one is over: so
each is answered by a look that began after he asked, and sees what he has just done. What comes of
a look is put into JSON once.
"""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial

from fastapi.responses import Response
from pydantic_core import to_json

from seawall.web.threads import Threads


@dataclass(slots=True)
class _Look:
    """One that is under way, and the answer that those who came too late for it wait for."""

    following: "asyncio.Future[bytes] | None" = None


class Shared:
    """Looks under way, by what they look at. On the event loop only."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._looks: dict[Hashable, _Look] = {}
        self._tasks: set[asyncio.Task[bytes]] = set()

    async def ask(self, what: Hashable, look: Callable[[], object]) -> Response:
        """What the function answers, as JSON. Whoever names the same asks for the same."""
        return Response(await self._answer(what, look), media_type="application/json")

    async def _answer(self, what: Hashable, look: Callable[[], object]) -> bytes:
        under_way = self._looks.get(what)
        if under_way is None:
            mine = self._looks[what] = _Look()
            return await self._looked(what, look, mine)
        if under_way.following is None:
            under_way.following = asyncio.get_running_loop().create_future()
        return await asyncio.shield(under_way.following)

    async def _looked(self, what: Hashable, look: Callable[[], object], mine: _Look) -> bytes:
        try:
            return await self._threads.ask(lambda: to_json(look()))
        finally:
            if mine.following is None:
                del self._looks[what]
            else:  # it takes this one's place at once: nobody may come in between
                following = self._looks[what] = _Look()
                task = asyncio.ensure_future(self._looked(what, look, following))
                self._tasks.add(task)  # the loop alone would forget it
                task.add_done_callback(self._tasks.discard)
                task.add_done_callback(partial(_pass_on, mine.following))


def _pass_on(to: "asyncio.Future[bytes]", done: "asyncio.Task[bytes]") -> None:
    if done.cancelled():
        to.cancel()
    elif (error := done.exception()) is not None:
        to.set_exception(error)
        to.exception()  # perhaps nobody waits for it any more
    else:
        to.set_result(done.result())
