"""Calls inside a handler, at upstreams of which it names several, or uses some more than others.

    with upstream("vision"):
        picture = look(path)

    async with upstream("openai").reserve(tokens=1_500) as call:
        answer = await ask(picture)
        call.settle(tokens=answer.usage.total_tokens)

What happens inside is observed, limited and held as a job of that upstream is. A call that must
wait for a moment waits here; where it would be for longer, the job goes back to the queue until
then, as if it had snoozed, and no try is used up.
"""

import asyncio
import math
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from seawall.current import maybe_current_job
from seawall.errors import ArgumentsError, SeawallError, Snooze
from seawall.model import Token
from seawall.telemetry.call_span import call_begun

if TYPE_CHECKING:
    from seawall.telemetry.call_span import CallSpan

PATIENCE_SECONDS = 5.0
"""For how long a call waits in its handler, in all, before the job goes back to the queue."""
SHORTEST_WAIT_SECONDS = 0.01
LATE_SECONDS = 1.0
"""What a right costs of that patience that came too late to be used."""
LONGEST_AWAY_SECONDS = 600.0
"""For how long a job stays away at most: somebody may let go before what was said is over."""


class Ticket(NamedTuple):
    """The right to one call."""

    upstream: str
    owner: str
    units: dict[str, float]
    own: bool
    """It is at the upstream of the job's own lane, which counts it already."""
    token: Token
    """A name for it."""
    use_by: float = math.inf
    """Until when it may be used, by the clock of whoever gave it."""
    begins_in: float = 0.0
    """In how many seconds it may be."""
    retry: bool = False
    """It has failed there before."""


class Caller(Protocol):
    """Who lets calls through: the worker, for the job whose handler asks."""

    def enter(self, upstream: str, units: dict[str, float]) -> Ticket | float:
        """The right to a call, or in how many seconds it may be had."""
        ...

    def stands(self, ticket: Ticket) -> bool:
        """Whether the right to the call may still be used."""
        ...

    def phase(self, upstream: str) -> str:
        """What the upstream's breaker is now."""
        ...

    def leave(
        self,
        ticket: Ticket,
        error: BaseException | None,
        seconds: float,
        used: dict[str, float] | None,
    ) -> bool:
        """The call has ended, so; whether an attempt that fails by it counts."""
        ...

    def leave_behind(self) -> None:
        """The attempt has ended, its handler goes on, and perhaps its calls."""
        ...


class UpstreamHeld(Snooze):
    """The job goes back to the queue until the upstream may be called."""


class Call:
    """One call at an upstream: a block, sync or async."""

    def __init__(self, name: str, units: dict[str, float] | None = None) -> None:
        self.name = name
        self._units = units or {}
        self._used: dict[str, float] | None = None
        self._ticket: Ticket | None = None
        self._caller: Caller | None = None
        self._began = 0.0
        self._span: CallSpan | None = None

    def reserve(self, **units: float) -> "Call":
        """The same, but for so much of it: `upstream("openai").reserve(tokens=1_500)`."""
        return Call(self.name, {**self._units, **_checked(units)})

    def settle(self, **units: float) -> None:
        """Say how much it really was; what is not named was as reserved."""
        self._used = {**self._units, **(self._used or {}), **_checked(units)}

    def __enter__(self) -> Self:
        waited = 0.0
        while True:
            seconds = self._asked(waited)
            time.sleep(seconds or self._begins_in)
            if not seconds and self._stands():
                return self._traced()
            waited += seconds or LATE_SECONDS

    async def __aenter__(self) -> Self:
        waited = 0.0
        while True:
            seconds = await self._asked_aside(waited)
            try:
                await asyncio.sleep(seconds or self._begins_in)
            except asyncio.CancelledError as stopped:
                self.__exit__(None, stopped, None)
                raise
            if not seconds and self._stands():
                return self._traced()
            waited += seconds or LATE_SECONDS

    def _traced(self) -> Self:
        """It begins; where somebody traces, in a span of its own."""
        job = maybe_current_job()
        if job is None:
            return self
        own = self._ticket is not None and self._ticket.own
        job.marks_calls |= own or self._caller is None
        self._span = call_begun(job.id, job.task, self.name, self._caller)
        return self

    @property
    def _begins_in(self) -> float:
        return 0.0 if self._ticket is None else self._ticket.begins_in

    def _stands(self) -> bool:
        """Whether what was let through may begin; if it came too late, it is given back."""
        ticket, caller = self._ticket, self._caller
        if ticket is None or caller is None or caller.stands(ticket):
            self._began = time.monotonic()
            return True
        self._ticket = None
        caller.leave(ticket, asyncio.CancelledError(), 0.0, {})
        return False

    async def _asked_aside(self, waited: float) -> float:
        """`_asked`, in a thread. Whoever is stopped meanwhile gives back what it may get yet."""
        asking = asyncio.ensure_future(asyncio.to_thread(self._asked, waited))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(self._give_back)
            raise

    def _give_back(self, asked: "asyncio.Future[float]") -> None:
        if asked.cancelled() or asked.exception() is None:
            self.__exit__(None, asyncio.CancelledError(), None)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        ticket, self._ticket = self._ticket, None
        span, self._span = self._span, None
        if span is not None:
            span.end(error)
        if ticket is not None and self._caller is not None:
            took = time.monotonic() - self._began
            counts = self._caller.leave(ticket, error, took, self._used)
            if error is not None:
                with suppress(AttributeError):  # it was raised by this call, and by no other
                    error.seawall_call = (self.name, counts)  # type: ignore[attr-defined]

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def _asked(self, waited: float) -> float:
        """Ask to be let through; how long to wait before asking again, 0 where we are."""
        if self._ticket is not None:
            raise SeawallError(f"upstream {self.name}: one block for each call; make another")
        job = maybe_current_job()
        caller: Caller | None = None if job is None else job.caller
        self._caller = caller
        if caller is not None:
            if waited > PATIENCE_SECONDS:
                raise UpstreamHeld(LATE_SECONDS)
            found = caller.enter(self.name, self._units)
            if not isinstance(found, Ticket):
                if waited + found > PATIENCE_SECONDS:
                    raise UpstreamHeld(min(found, LONGEST_AWAY_SECONDS))
                return max(found, SHORTEST_WAIT_SECONDS)
            self._ticket = found
        self._began = time.monotonic()
        return 0.0


def upstream(name: str) -> Call:
    """Mark a call in the code of a task, as the block of a `with`.

    Outside of a worker nothing is watched, and the block simply runs.
    """
    return Call(name)


def _checked(units: dict[str, Any]) -> dict[str, float]:
    for unit, amount in units.items():
        good = isinstance(amount, int | float) and not isinstance(amount, bool)
        if not good or not 0 <= amount < math.inf:
            raise ArgumentsError(f"{unit}: found {amount!r:.80}, expected a number from 0 on")
    return units
