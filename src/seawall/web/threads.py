"""Where the store is asked: a few threads, and a bounded line of those who wait for one.

The store is synchronous and may take its time; the event loop must not. When more wait than can be
served soon, a request is refused at once, which costs nothing, and its caller comes back.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from seawall.web.problems import ProblemError

P = ParamSpec("P")
R = TypeVar("R")

THREADS = 8
SLOW_THREADS = 4
CANARY_THREADS = 8
MOST_WAITING = 1_000
BUSY_SECONDS = 1


class Threads:
    """So many threads, and a bound on who waits for them."""

    def __init__(self, name: str, threads: int, *, most_waiting: int = MOST_WAITING) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"seawall-{name}")
        self._most = most_waiting + threads
        self._busy = 0

    async def ask(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What the function answers, in a thread; 503 where too many wait already."""
        if self._busy >= self._most:
            raise ProblemError(
                503,
                "the server is busy: ask again in a moment",
                code="busy",
                headers={"retry-after": str(BUSY_SECONDS)},
            )
        loop = asyncio.get_running_loop()
        self._busy += 1
        asked = self._pool.submit(work, *args, **kwargs)
        asked.add_done_callback(lambda _: _told(loop, self._done))
        return await asyncio.wrap_future(asked)

    def _done(self) -> None:
        self._busy -= 1

    def close(self) -> None:
        """Let what is under way end, and drop what waits."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _told(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(what)
