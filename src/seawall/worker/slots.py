"""The places of a worker in which handlers run: how many, for how long, and how they are stopped.

At most `concurrency` handlers run. Each has a time limit, its task's own or its job's deadline. A
handler that is to stop is told once; where it does not, it is left behind: its attempt ends without
it, but a thread cannot be killed, so it keeps its place until it returns. Like the core, which owns
it, this does nothing: it says what is to be done.
"""

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from seawall.app import Seawall
from seawall.execute import Stop
from seawall.model import Lane, Token
from seawall.store import Claim
from seawall.worker.events import Abort

BEGIN_SECONDS = 60.0
"""How long a handler may have to wait for its process, before its own time limit."""
LET_GO_SECONDS = 5.0
"""How long a handler that was stopped may take to end before it is left behind."""
_SPENT_LIMITS = 2_000
"""How many limits of attempts that have ended may lie about."""
_AT_ONCE = -math.inf
_RANK = {Stop.CANCEL: 0, Stop.TIMEOUT: 1, Stop.EXPIRED: 1, Stop.SHUTDOWN: 1, Stop.LOST: 2}
"""A reason to stop gives way to a stronger one."""


class Limit(NamedTuple):
    """How long an attempt may take."""

    seconds: float
    begins_late: bool = False
    """Whether its handler has to wait for a process first."""


@dataclass(slots=True)
class Slot:
    """A place that is taken: by which claim, until when, and whether it is to be given up."""

    claim: Claim
    came_at: float
    limit_at: float
    limit: Stop
    stop: Stop | None = None
    let_go_at: float = 0.0


class Slots:
    """The places of one worker."""

    def __init__(
        self,
        concurrency: int,
        *,
        lease_seconds: float,
        limit_of: Callable[[Lane], Limit],
    ) -> None:
        self._concurrency = concurrency
        self._lease_seconds = lease_seconds
        self._limit_of = limit_of
        self.running: dict[Token, Slot] = {}
        self.left_behind: dict[Token, Claim] = {}
        self._freed_early: set[Token] = set()
        self._to_stop: dict[Token, Slot] = {}
        self._limits: list[tuple[float, int, Token]] = []
        self._order = count()

    @property
    def free(self) -> int:
        return self._concurrency - len(self.running) - len(self.left_behind)

    # --- taking and giving up -----------------------------------------------------------------

    def made(self, claim: Claim, came_at: float, now: float) -> Slot:
        """The place that this claim would take now, with the time that it may take."""
        limit = self._limit_of(claim.lane)
        limit_at, why = now + limit.seconds, Stop.TIMEOUT
        if limit.begins_late:
            limit_at += BEGIN_SECONDS
        if claim.deadline_at is not None:
            # Both times are the store's: the claim was made a lease before its end.
            left = (claim.deadline_at - claim.lease_until).total_seconds() + self._lease_seconds
            if came_at + left < limit_at:
                limit_at, why = came_at + left, Stop.EXPIRED
        return Slot(claim, came_at, limit_at, why)

    def take(self, slot: Slot) -> None:
        self.running[slot.claim.token] = slot
        self._set_limit(slot)

    def began(self, token: Token, now: float) -> None:
        """A handler that had to wait for its process is called now: its time runs from here."""
        slot = self.running.get(token)
        if slot is None:
            return
        limit_at = now + self._limit_of(slot.claim.lane).seconds
        if limit_at < slot.limit_at:
            slot.limit_at, slot.limit = limit_at, Stop.TIMEOUT
            self._set_limit(slot)

    def end(self, token: Token, *, freed: bool) -> Slot | None:
        """The place of an attempt that has ended; it stays taken where its handler goes on."""
        slot = self.running.pop(token, None)
        if not freed and token not in self._freed_early and slot is not None:
            self.left_behind[token] = slot.claim
        if self._freed_early:
            self._freed_early.discard(token)
        if self._to_stop:
            self._to_stop.pop(token, None)
        return slot

    def freed(self, token: Token) -> None:
        """A handler has returned; perhaps before it was said that its attempt ended without it."""
        if token in self.running:
            self._freed_early.add(token)
        self.left_behind.pop(token, None)

    # --- stopping -----------------------------------------------------------------------------

    def stop(self, token: Token, why: Stop) -> None:
        """Have this attempt stopped, if it runs and has no stronger reason to."""
        slot = self.running.get(token)
        if slot is not None and (slot.stop is None or _RANK[slot.stop] < _RANK[why]):
            slot.stop = why
            slot.let_go_at = _AT_ONCE
            self._to_stop[token] = slot

    def stop_all(self, why: Stop) -> None:
        for token in self.running:
            self.stop(token, why)

    def look_at_limits(self, now: float) -> None:
        """Have those stopped whose time is over."""
        while self._limits and self._limits[0][0] <= now:
            token = heapq.heappop(self._limits)[2]
            slot = self.running.get(token)
            if slot is not None and slot.limit_at <= now:
                self.stop(token, slot.limit)
        if len(self._limits) > 4 * self._concurrency + _SPENT_LIMITS:
            self._limits = [each for each in self._limits if each[2] in self.running]
            heapq.heapify(self._limits)

    def aborts(self, now: float) -> Iterator[Abort]:
        """Tell the handlers that are to stop, and leave behind those that do not."""
        for token, slot in self._to_stop.items():
            why = slot.limit if slot.stop is None else slot.stop
            if slot.let_go_at == _AT_ONCE:
                # One that is to be cancelled may end in its own time, and as it likes.
                slot.let_go_at = math.inf if why is Stop.CANCEL else now + LET_GO_SECONDS
                yield Abort(token, why)
            elif now >= slot.let_go_at:
                slot.let_go_at = math.inf
                yield Abort(token, why, leave=True)

    def times(self) -> list[float]:
        """When something is to be done here even if nothing happens."""
        times = [slot.let_go_at for slot in self._to_stop.values()]
        return [*times, self._limits[0][0]] if self._limits else times

    def _set_limit(self, slot: Slot) -> None:
        heapq.heappush(self._limits, (slot.limit_at, next(self._order), slot.claim.token))


def limit_of(app: Seawall, lane: Lane) -> Limit:
    """How long an attempt at a job in this lane may take."""
    stage = app.tasks[lane.task].at(lane.stage)
    return Limit(stage.timeout_seconds, begins_late=stage.isolated)
