"""Running a handler beside whoever waits for it: on the loop, in a thread, or in a process.

An attempt that must end is told to stop. A handler that does not let go is left behind, as by a
worker: its attempt ends without it, and its place at the upstream is free when it has returned.
"""

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

from seawall.execute import End, Stop, Work, carry_out, ended
from seawall.sync_path.turn import Turn
from seawall.telemetry import ThreadLeftBehind, emit
from seawall.worker.isolated import Pool
from seawall.worker.runner import MOST_THREADS, awaited, called, without_waiting
from seawall.worker.threads import Daemons

if TYPE_CHECKING:
    from concurrent.futures import Future

LET_GO_SECONDS = 1.0
"""How long a handler that was stopped may take to end before it is left behind."""


class Limit(NamedTuple):
    """How long an attempt may take, and what it is called when that is over."""

    seconds: float
    why: Stop


class Handlers:
    """The handlers that run inline, of one application in one process."""

    def __init__(self) -> None:
        self._threads = Daemons(MOST_THREADS)
        self._processes = Pool()

    async def run(self, work: Work, turn: Turn, limit: Limit, stopped: asyncio.Event) -> End:
        """What is to be written about the attempt: how it ended, or that its time was over."""
        running, in_thread = self._begun(work)
        stopping = asyncio.ensure_future(stopped.wait())
        either: set[asyncio.Future[Any]] = {running, stopping}
        first = asyncio.FIRST_COMPLETED
        try:
            await asyncio.wait(either, timeout=limit.seconds, return_when=first)
            if not running.done():
                work.stop = Stop.SHUTDOWN if stopped.is_set() else limit.why
                work.current.ask_to_stop()
                await self._stop(work, running)
        except BaseException:  # its loop ends
            work.stop = Stop.SHUTDOWN
            if in_thread is None:
                running.cancel()
                running.add_done_callback(lambda _: turn.give_back())
            elif in_thread.cancel():  # before its first step; later it tells its end itself
                turn.give_back()
            raise
        finally:
            stopping.cancel()
        if running.done() and not running.cancelled():
            return running.result()
        return self._left_behind(work, turn, running, work.stop or limit.why)

    def _begun(self, work: Work) -> tuple["asyncio.Future[End]", "Future[End] | None"]:
        """The end to come, for whoever waits here; and as its thread has it, if it has one."""
        if work.task.is_async and not work.task.isolated:
            return asyncio.ensure_future(carry_out(work, awaited)), None
        if work.task.isolated:
            self._processes.tidy()
        life = carry_out(work, self._isolated if work.task.isolated else called)
        in_thread = self._threads.submit(copy_context().run, without_waiting, life)
        in_thread.add_done_callback(lambda _: life.close())  # where it has not begun
        return asyncio.wrap_future(in_thread), in_thread

    async def _isolated(self, work: Work, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Any:
        def began() -> None:
            work.begun, work.called = work.app.clock.monotonic(), True

        return self._processes.call(work, began)

    async def _stop(self, work: Work, running: "asyncio.Future[End]") -> None:
        """Have it end, where that is possible."""
        if work.task.isolated:
            self._processes.kill(work.claim.token)
        elif work.task.is_async:
            running.cancel()
        else:
            return
        await asyncio.wait({running}, timeout=LET_GO_SECONDS)

    def _left_behind(
        self, work: Work, turn: Turn, running: "asyncio.Future[End]", why: Stop
    ) -> End:
        """The attempt ends, whether its handler does or not."""
        if running.cancelled():  # before its first step
            return ended(work, why)
        turn.outlasts()
        end = ended(work, why)
        if work.current.caller is not None:
            work.current.caller.leave_behind()
        running.add_done_callback(lambda _: turn.free())
        emit(
            ThreadLeftBehind(
                job=work.current.id,
                task=work.claim.lane.task,
                stage=work.current.stage,
                attempt=work.current.attempt,
                duration_ms=round(work.elapsed() * 1_000),
                request_id=work.claim.request_id,
                reason=str(why),
            )
        )
        return end

    def close(self) -> None:
        """End processes and threads; those that hang are left to the end of the program."""
        self._processes.close()
        self._threads.close()
