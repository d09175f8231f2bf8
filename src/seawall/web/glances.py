"""What pages show, looked at once for all who have them open.

A page that many keep open asks for the same again and again, each time something happens. So what
was seen is shown again for a moment, and longer the longer the look took: looking takes no more
than one in `SHARE` seconds, whoever and however many ask. While it is seen anew, the last is shown,
unless it is too old. Whoever has just changed something sees it changed: `forget`.

On the event loop only; the looks are in threads.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from seawall.web.threads import Threads

T = TypeVar("T")

FRESH_SECONDS = 1.0
SHARE = 20.0
STALE = 2.0
"""How many times as old as fresh a sight may be and be shown while it is seen anew."""
MOST_KEPT = 500


@dataclass(frozen=True, slots=True)
class _Sight:
    """What was seen, when, and how long it took."""

    seen: Any
    at: float
    took: float

    def good_for(self, fresh_seconds: float) -> float:
        return max(fresh_seconds, SHARE * self.took) if fresh_seconds else 0.0


class Glances:
    """What was seen last, by what was looked at."""

    def __init__(self, threads: Threads, *, fresh_seconds: float = FRESH_SECONDS) -> None:
        self.fresh_seconds = fresh_seconds
        self._threads = threads
        self._sights: OrderedDict[Hashable, _Sight] = OrderedDict()
        self._looks: dict[Hashable, asyncio.Task[_Sight]] = {}
        self._changes = 0

    async def ask(
        self, what: Hashable, look: Callable[[], T], *, threads: Threads | None = None
    ) -> T:
        """What the function sees, or saw a moment ago. Whoever names the same sees the same.

        What takes seconds is looked at in `threads` of its own.
        """
        threads = threads or self._threads
        name = (self._changes, what)
        sight = self._sights.get(name)
        if sight is not None:
            age, good = time.monotonic() - sight.at, sight.good_for(self.fresh_seconds)
            if age > good:
                under_way = self._looking(name, look, threads)
                if age > good * STALE:
                    sight = await asyncio.shield(under_way)
        else:
            sight = await asyncio.shield(self._looking(name, look, threads))
        seen: T = sight.seen
        return seen

    def forget(self) -> None:
        """Something was changed here: nothing seen before is shown again."""
        self._changes += 1
        self._sights.clear()

    def _looking(
        self, name: Hashable, look: Callable[[], Any], threads: Threads
    ) -> "asyncio.Task[_Sight]":
        under_way = self._looks.get(name)
        if under_way is None:
            under_way = asyncio.ensure_future(self._looked(name, look, threads))
            self._looks[name] = under_way
            under_way.add_done_callback(lambda done: self._done(name, done))
        return under_way

    async def _looked(self, name: Hashable, look: Callable[[], Any], threads: Threads) -> _Sight:
        began = time.monotonic()
        seen = await threads.ask(look)
        sight = _Sight(seen, began, time.monotonic() - began)
        if name[0] == self._changes:  # type: ignore[index]
            self._sights[name] = sight
            self._sights.move_to_end(name)
            if len(self._sights) > MOST_KEPT:
                self._sights.popitem(last=False)
        return sight

    def _done(self, name: Hashable, done: "asyncio.Task[_Sight]") -> None:
        self._looks.pop(name, None)
        if not done.cancelled():
            done.exception()  # perhaps nobody waits for it any more
