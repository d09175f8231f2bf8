"""A worker of production under a virtual clock, its loops driven step by step: see `system`."""

import asyncio
import math
import random
from collections import deque
from collections.abc import Coroutine, Generator, Sequence
from contextlib import nullcontext
from contextvars import Context, copy_context
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from seawall.errors import StoreUnavailableError
from seawall.execute import End, Work, begun, carry_out
from seawall.model import Token
from seawall.store import Claim, Presence, Wanted
from seawall.store.ledger import Ledger
from seawall.worker.beats import Beats
from seawall.worker.core import Core
from seawall.worker.events import (
    Abort,
    Action,
    Ended,
    Event,
    Exit,
    Rest,
    Start,
    Taken,
    Turn,
    Woken,
)
from seawall.worker.governor import Governor
from seawall.worker.news import News
from seawall.worker.slots import limit_of
from seawall.worker.turns import Turns
from seawall.worker.upkeep import Upkeep

if TYPE_CHECKING:
    from seawall.simulate.system import System
    from seawall.store import Store

LEASE_SECONDS = 20.0
CONCURRENCY = 3
WAKE, TURN, END, BEAT, UPKEEP, BIRTH = range(6)
"""What can be planned."""


class JumpingClock:
    """A clock whose time of day may jump, in either direction; what passes is steady."""

    def __init__(self) -> None:
        self._passed = 0.0
        self._wall = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self._wall + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        return self._passed

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nobody sleeps in virtual time: {seconds}")

    async def asleep(self, seconds: float) -> None:
        raise AssertionError(f"nobody sleeps in virtual time: {seconds}")

    def pass_until(self, moment: float) -> None:
        self._passed = max(self._passed, moment)

    def jump(self, seconds: float) -> None:
        self._wall += timedelta(seconds=seconds)


class _Pause:
    """Where a handler waits until its virtual time is over."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class FlakyStore:
    """A store whose answers may be lost on the way, after it has done what it was asked."""

    def __init__(self, store: Ledger, system: "System") -> None:
        self._store = store
        self._system = system

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("settle", "exchange", "release", "renew", "reclaim", "claim"):
            return found

        def ask(*args: Any, **kwargs: Any) -> Any:
            answer = found(*args, **kwargs)
            if self._system.loses_answer():
                raise StoreUnavailableError("the answer was lost")
            return answer

        return ask


class _Handler(NamedTuple):
    """A handler under way, in a context of its own as in a thread of its own."""

    work: Work
    life: Coroutine[Any, Any, End]
    context: Context

    def go_on(self, error: BaseException | None = None) -> None:
        if error is None:
            self.context.run(self.life.send, None)
        else:
            self.context.run(self.life.throw, error)


def _presence(name: str, tasks: Sequence[str]) -> Presence:
    return Presence(
        worker=name,
        host="here",
        pid=1,
        version="0",
        queues=None,
        tasks=tuple(tasks),
        concurrency=CONCURRENCY,
    )


class Worker:
    """A worker of production, whose loops are told by the system."""

    def __init__(self, system: "System", name: str) -> None:
        self.system = system
        self.id = name
        self.dead = False
        self.stands_until = 0.0
        self.handlers: dict[Token, _Handler] = {}
        self.inbox: deque[Event] = deque()
        self.wake_no = 0
        app, clock = system.app, system.clock
        ledger = Ledger(
            system.backend,
            rng=random.Random(f"{system.seed}/{name}"),
            monotonic=clock.monotonic,
        )
        self.store = cast("Store", FlakyStore(ledger, system))
        self.core = Core(
            concurrency=CONCURRENCY,
            poll_seconds=app.settings.poll_seconds,
            grace_seconds=5.0,
            lease_seconds=LEASE_SECONDS,
            limit_of=partial(limit_of, app),
        )
        wanted = Wanted(name, None, tuple(sorted(app.tasks)), 1, LEASE_SECONDS)
        self.governor = Governor(
            app,
            self.store,
            wanted,
            slots=CONCURRENCY,
            hands=self,
            poke=lambda: self.inbox.append(Woken(look=True)),
        )
        self.turns = Turns(
            self.store,
            self.core,
            self.governor,
            News(name, clock),
            wanted=wanted,
            prefetched=wanted.tasks,
            work=lambda claim, _: self.work(claim, clock.monotonic()),
            stepping=cast("Any", nullcontext()),
        )
        self.beats = Beats(
            self.store,
            name,
            lease_seconds=LEASE_SECONDS,
            tokens=lambda: self.core.tokens,
            works=lambda: [each.work for each in self.handlers.values()],
            presence=lambda: _presence(name, wanted.tasks),
            heard=self.inbox.append,
            restate=self.governor.restate,
        )
        self.upkeep = Upkeep(app, name, self.store)

    # What is in its hands, as `Worker` says it.

    def under_way(self, upstream: str) -> dict[str, int]:
        return self.core.under_way(upstream)

    def take(self, claims: Sequence[Claim], use_by: float) -> None:
        self.core.coming(claims, use_by)

    def has(self, token: Token) -> bool:
        return self.core.has(token)

    def work(self, claim: Claim, claimed_at: float, use_by: float = math.inf) -> Work:
        witness = self.governor.seeing if claim.lane.upstream else None
        return begun(
            self.system.app,
            claim,
            lease_seconds=LEASE_SECONDS,
            claimed=claimed_at,
            use_by=use_by,
            witness=witness,
        )

    def step(self, *events: Event) -> None:
        """Tell the core what happened, and do what it says."""
        now = self.system.clock.monotonic()
        news = [*events, *(self.inbox.popleft() for _ in range(len(self.inbox)))]
        early = [each for each in news if isinstance(each, Taken) and self.core.ending(each.token)]
        self.inbox.extend(early)
        for event in news:
            if event not in early:
                self.core.hear(event, now)
        for action in self.core.act(now):
            self._obey(action, now)

    def _obey(self, action: Action, now: float) -> None:
        system = self.system
        match action:
            case Start():
                self._start(action, now)
            case Abort(token, why):
                self.handlers[token].work.stop = why
                self._go_on(token, asyncio.CancelledError())
            case Turn():
                system.plan(now + system.dice.uniform(0.001, 0.05), TURN, self, action)
            case Rest(seconds):
                self.wake_no += 1
                at = now + max(0.001, seconds)
                system.plan(at, WAKE, self, self.wake_no)
            case Exit():
                self.dead = True

    def _start(self, start: Start, now: float) -> None:
        claim = start.claim
        self.system.started(claim.token)
        work = self.work(*start)
        handler = _Handler(work, carry_out(work, self._invoke), copy_context())
        self.handlers[claim.token] = handler
        handler.go_on()
        took = self.system.dice.choice((0.01, 0.2, 1.0, 5.0, 30.0))
        self.system.plan(now + took, END, self, claim.token)

    async def _invoke(self, work: Work, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        await _Pause()
        value = work.task.function(*args, **kwargs)
        self.system.effects[work.claim.token.job_id] += 1
        return value

    def ends(self, token: Token) -> None:
        """The handler's time is over."""
        if token in self.handlers:
            self._go_on(token)

    def _go_on(self, token: Token, error: BaseException | None = None) -> None:
        handler = self.handlers[token]
        try:
            handler.go_on(error)
        except StopIteration as done:
            del self.handlers[token]
            end: End = done.value
            self.turns.told(end, handler.work.current.said)
            self.turns.forget_unless_ours(token)
            self.inbox.append(Ended(token, end.write))
            if self.governor.active and self.governor.watches.take_shut():
                self.inbox.extend(self.turns.shut())
        else:
            raise AssertionError("a handler waits once")
