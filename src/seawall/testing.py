"""Testing tasks: an application in memory, on a clock that only moves when it is told to.

    from seawall.testing import in_memory

    def test_a_timeout_is_tried_again():
        with in_memory(app) as world:
            job = summarize.enqueue("a.pdf")
            world.drain()
            assert job.state == "succeeded"
            assert [a.outcome for a in job.attempts()] == ["retried", "succeeded"]

The application is the real one with its real policies; only its store is in memory, and an hour of
back-off takes no time. `drain` is the worker's own core, obeyed here and now: handlers are called
one after the other in this thread, isolated ones too. With pytest there is the fixture
`seawall_in_memory`, which does the same: `world = seawall_in_memory(app)`.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from contextvars import copy_context
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from seawall.app import Seawall
from seawall.clock import ManualClock
from seawall.decisions import gate as gates
from seawall.decisions import gate_text
from seawall.errors import SeawallError
from seawall.execute import End, Stop, Work, begun, carry_out
from seawall.store import Claim, Progress, Result, Store, Wanted, open_store
from seawall.telemetry import emit
from seawall.worker.core import Core
from seawall.worker.events import Action, Ended, Event, Halted, Start, Turn, Turned, Woken
from seawall.worker.runner import awaited, called, without_waiting
from seawall.worker.slots import limit_of
from seawall.worker.turns import advanced_in, have_failed
from seawall.worker.upkeep import Upkeep
from seawall.worker.warden import Warden

if TYPE_CHECKING:
    from seawall.hooks import FaultReport
    from seawall.model import Token

__all__ = ["ManualClock", "World", "in_memory"]

MOST_ATTEMPTS = 10_000
_LEASE_SECONDS = 3_600.0
_ME = "testing"

T = TypeVar("T")


@contextmanager
def in_memory(app: Seawall, *, seed: int = 0) -> Iterator["World"]:
    """The application, in memory and on a manual clock, until the end of the block."""
    clock = ManualClock()
    store = open_store("sqlite://", clock=clock)
    with (
        store,
        app.replaced(store, clock, random.Random(seed)),
        closing(World(app, store, clock)) as world,
    ):
        yield world


class World:
    """An application under test."""

    def __init__(self, app: Seawall, store: Store, clock: ManualClock) -> None:
        self.app = app
        self.store = store
        self.clock = clock
        self._loop = asyncio.Runner()  # which has none until it is needed
        self._warden = Warden(store)
        self._failed: dict[Token, FaultReport] = {}
        self._attempts = 0
        self._most = MOST_ATTEMPTS

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def close(self) -> None:
        """End the loop that async handlers ran on; whoever made the world does so."""
        _off_loops(self._loop.close)

    def work(self) -> int:
        """Run what is due now, and what becomes due without waiting; how many attempts that was."""
        return self._worked(MOST_ATTEMPTS, wait=False)

    def drain(self, *, most_attempts: int = MOST_ATTEMPTS) -> int:
        """Run everything to its end, moving the clock from one due time to the next.

        Answers how many attempts it took. What is held stays; a job that is never done is an error
        after `most_attempts`. Schedules do not fire here, or it would never end: see `advance`.
        """
        return self._worked(most_attempts, wait=True)

    def advance(self, seconds: float) -> None:
        """Let time pass: deadlines expire and schedules fire, but no job is run."""
        upkeep = Upkeep(self.app, _ME, self.store)
        upkeep.fire()  # what is declared is planned from before the time that now passes
        self.clock.advance(seconds)
        self._upkeep()
        upkeep.fire()

    def _upkeep(self) -> None:
        upkeep = Upkeep(self.app, _ME, self.store)
        upkeep.reclaim()
        upkeep.expire()
        upkeep.watch_runs()

    # --- the loop -----------------------------------------------------------------------------

    def _worked(self, most_attempts: int, *, wait: bool) -> int:
        self._attempts, self._most = 0, most_attempts
        core = Core(
            concurrency=10,
            poll_seconds=1.0,
            grace_seconds=0.0,
            lease_seconds=_LEASE_SECONDS,
            limit_of=partial(limit_of, self.app),
            prefetch=False,
        )
        self._upkeep()
        actions = core.step(Woken(look=True), self.clock.monotonic())
        looked_after = 0
        while True:
            resting = not any(isinstance(action, Start | Turn) for action in actions)
            # What has ended may have left jobs that are due at once: its children, or itself.
            looks_again = resting and self._attempts > looked_after
            looked_after = self._attempts if resting else looked_after
            if resting and not looks_again and not (wait and self._moved_on()):
                return self._attempts
            for event in self._obeyed(actions, core):
                core.hear(event, self.clock.monotonic())
            if resting:
                core.hear(Woken(look=True), self.clock.monotonic())
            actions = core.act(self.clock.monotonic())

    def _moved_on(self) -> bool:
        """Move the clock to the next due time; false where there is none."""
        now = self.clock.now()
        later = [head.due_at for head in self.store.heads() if head.due_at > now]
        if not later:
            return False
        self.clock.advance((min(later) - now).total_seconds())
        self._upkeep()
        return True

    def _obeyed(self, actions: list[Action], core: Core) -> list[Event]:
        events: list[Event] = []
        for action in actions:
            match action:
                case Start(claim):
                    end = self._carried_out(claim)
                    events.append(Ended(claim.token, end.write))
                    if end.failed is not None:
                        self._failed[claim.token] = end.failed
                case Turn():
                    claims = [core.claim_of(each.token) for each in action.settlements]
                    events.append(self._turned(action))
                    events.append(Halted(self._warden.look(claims, action.settlements)))
        return events

    def _turned(self, turn: Turn) -> Turned:
        claims: list[Claim] = []
        self.store.release(turn.releases)
        answers = self.store.settle(turn.settlements)
        for settlement, answer in zip(turn.settlements, answers, strict=True):
            if answer.result is Result.REFUSED:
                raise SeawallError(f"job {settlement.token.job_id}: {answer.reason}")
            failed = self._failed.pop(settlement.token, None)
            if failed is not None and have_failed(answer):
                self.app.hooks.tell_failed(failed)
        if turn.limit:
            tasks = tuple(self.app.tasks)
            wanted = Wanted(_ME, None, tasks, turn.limit, _LEASE_SECONDS)
            claims = self.store.claim(wanted)
            claims += self._let_through(wanted, turn.limit - len(claims))
        return Turned(tuple(claims), advanced=advanced_in(turn.settlements, answers))

    def _let_through(self, wanted: Wanted, free: int) -> list[Claim]:
        """Jobs of upstreams under watch that are not held, and retries at any that is not: nobody
        counts their calls here.
        """
        claims: list[Claim] = []
        watched = {each.name: each.state for each in self.store.watched()}
        lanes = self.store.due_at(wanted, watched)
        for name in dict.fromkeys([*watched, *(lane.upstream for lane in lanes)]):
            upstream, gate = self.app.upstreams.of(name), gate_text.read(watched.get(name, ""))
            if gates.held_until(upstream, gate, self.clock.now().timestamp()) is not None:
                continue
            with self.store.govern(name, wait=True) as desk:
                for retry in (False, True):
                    if desk is not None and len(claims) < free:
                        left = wanted._replace(limit=free - len(claims), retry=retry)
                        claims += desk.claim(left)
        return claims

    def _carried_out(self, claim: Claim) -> End:
        self._attempts += 1
        if self._attempts > self._most:
            raise SeawallError(
                f"not drained after {self._most:,} attempts: job {claim.token.job_id}"
                f" ({claim.lane.task}) is one that goes on"
            )
        work = begun(self.app, claim, lease_seconds=_LEASE_SECONDS, claimed=self.clock.monotonic())
        work.current.worker = _ME
        alone = work.task.is_async
        end = _on(self._loop, work) if alone else without_waiting(carry_out(work, called))
        for event in end.events:
            emit(event)
        if end.span is not None:
            end.span.tell()
        if (said := work.current.said.progress) is not None:
            done, total, message = said
            progress = Progress(token=claim.token, done=done, total=total, message=message)
            self.store.report([progress])
        return end


def _on(loop: asyncio.Runner, work: Work) -> End:
    """Carry it out on the world's own loop, the same one for all, as a worker does: what handlers
    keep, such as a client with its connections, lives on it.
    """

    async def life() -> End:
        task = asyncio.ensure_future(carry_out(work, awaited))

        def stop() -> None:
            work.stop = Stop.TIMEOUT
            task.cancel()

        alarm = asyncio.get_running_loop().call_later(work.task.timeout_seconds, stop)
        try:
            return await task
        finally:
            alarm.cancel()

    context = copy_context()
    return _off_loops(lambda: loop.run(life(), context=context))


def _off_loops(work: Callable[[], T]) -> T:
    """Do it where no loop runs: here, or in a thread where the test itself runs on one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()
