"""What pages show, looked at once for all who have them open.

A page that many keep open asks for the same again and again, each time something happens. So what
was seen is shown again for a moment, and longer the longer the look took: looking takes no more
than one in `SHARE` seconds, whoever and however many ask. While it is seen anew, the last is shown,
unless it is too old.

Two things make a sight old before its time. Whoever has just changed something (`acted`) is shown
no sight from before that; nobody else has to pay for it. And what the server has heard of (`news`)
makes all sights older than it worth another look: a page that refreshes itself waits until there
may be one, so that nobody is left with what was true before.

On the event loop only; the looks are in threads.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from seawall.web.threads import Threads

T = TypeVar("T")

FRESH_SECONDS = 1.0
SHARE = 20.0
STALE = 2.0
"""How many times as old as fresh a sight may be and be shown while it is seen anew."""
NEWS_SECONDS = 0.25
"""How long a sight is shown, whatever is heard."""
PATIENCE_SECONDS = 1.5
"""How long a page that refreshes itself waits for the next look."""
ACTED_SHARE = 4.0
"""Whoever changes something again and again has looks begin no more often than this allows."""
LONGEST_WAIT_SECONDS = 2.0
"""But waits for no longer."""
MOST_KEPT = 500
MOST_WHO_ACTED = 1_000


class Asker(NamedTuple):
    """Who asks, and what he needs."""

    who: str = ""
    """By which token."""
    patient: bool = False
    """Whether it is a page that only refreshes itself."""
    since: float = 0.0
    """No sight from before this moment of the monotonic clock will do."""


ANYBODY = Asker()


@dataclass(frozen=True, slots=True)
class _Sight:
    """What was seen, when the look began, and how long it took."""

    seen: Any
    at: float
    took: float

    def good_for(self, fresh_seconds: float) -> float:
        return max(fresh_seconds, SHARE * self.took)


class Glances:
    """What was seen last, by what was looked at."""

    def __init__(self, threads: Threads, *, fresh_seconds: float = FRESH_SECONDS) -> None:
        """With no `fresh_seconds` nothing is shown twice."""
        self.fresh_seconds = fresh_seconds
        self._threads = threads
        self._sights: OrderedDict[Hashable, _Sight] = OrderedDict()
        self._looks: dict[Hashable, asyncio.Task[_Sight]] = {}
        self._acted: OrderedDict[str, float] = OrderedDict()
        self._news_at = 0.0

    async def ask(
        self,
        what: Hashable,
        look: Callable[[], T],
        *,
        asker: Asker = ANYBODY,
        threads: Threads | None = None,
    ) -> T:
        """What the function sees, or saw a moment ago. Whoever names the same sees the same.

        What takes seconds is looked at in `threads` of its own.
        """
        sight = await self._sight(what, look, asker, threads or self._threads)
        seen: T = sight.seen
        return seen

    def acted(self, who: str) -> None:
        """Somebody has changed something: to him, nothing seen before is shown again."""
        self._acted[who] = time.monotonic()
        self._acted.move_to_end(who)
        if len(self._acted) > MOST_WHO_ACTED:
            self._acted.popitem(last=False)

    def news(self, at: float) -> None:
        """Something has happened, before this moment of the monotonic clock."""
        self._news_at = max(self._news_at, at)

    # --- which sight it is --------------------------------------------------------------------

    async def _sight(
        self, what: Hashable, look: Callable[[], Any], asker: Asker, threads: Threads
    ) -> _Sight:
        now, sight = time.monotonic(), self._sights.get(what)
        acted = max(asker.since, self._acted.get(asker.who, 0.0))
        news = self._news_at
        if not self.fresh_seconds:
            return await self._seen_since(now, what, look, threads)
        if sight is None:
            return await self._seen_since(acted, what, look, threads)
        if sight.at < acted:
            again_at = sight.at + min(ACTED_SHARE * sight.took, LONGEST_WAIT_SECONDS)
            await asyncio.sleep(max(0.0, again_at - now))
            return await self._seen_since(acted, what, look, threads)
        if sight.at < news and (wait := self._wait(sight, now, asker)) is not None:
            await asyncio.sleep(wait)
            return await self._seen_since(news, what, look, threads)
        age, good = now - sight.at, sight.good_for(self.fresh_seconds)
        if age > good:
            under_way = self._looking(what, look, threads)
            if age > good * STALE:
                return await asyncio.shield(under_way)
        return sight

    def _wait(self, sight: _Sight, now: float, asker: Asker) -> float | None:
        """How long until a sight that news has made old may be seen anew; None is not now."""
        if asker.patient:
            wait = max(0.0, sight.at + sight.good_for(self.fresh_seconds) - now)
            return wait if wait <= PATIENCE_SECONDS else None
        return 0.0 if now >= sight.at + sight.good_for(NEWS_SECONDS) else None

    # --- looking ------------------------------------------------------------------------------

    async def _seen_since(
        self, since: float, what: Hashable, look: Callable[[], Any], threads: Threads
    ) -> _Sight:
        """A sight that began no earlier than that: perhaps somebody else's."""
        sight = self._sights.get(what)
        while sight is None or sight.at < since:
            sight = await asyncio.shield(self._looking(what, look, threads))
        return sight

    def _looking(
        self, what: Hashable, look: Callable[[], Any], threads: Threads
    ) -> "asyncio.Task[_Sight]":
        under_way = self._looks.get(what)
        if under_way is None:
            under_way = asyncio.ensure_future(self._looked(what, look, threads))
            self._looks[what] = under_way
            under_way.add_done_callback(lambda done: self._done(what, done))
        return under_way

    async def _looked(self, what: Hashable, look: Callable[[], Any], threads: Threads) -> _Sight:
        sight = await threads.ask(_timed, look)
        self._sights[what] = sight
        self._sights.move_to_end(what)
        if len(self._sights) > MOST_KEPT:
            self._sights.popitem(last=False)
        return sight

    def _done(self, what: Hashable, done: "asyncio.Task[_Sight]") -> None:
        self._looks.pop(what, None)
        if not done.cancelled():
            done.exception()  # perhaps nobody waits for it any more


def _timed(look: Callable[[], Any]) -> _Sight:
    """The look itself, without the wait for a thread. For a thread."""
    began = time.monotonic()
    seen = look()
    return _Sight(seen, began, time.monotonic() - began)
