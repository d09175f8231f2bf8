"""How handlers are called: async ones on an event loop, plain ones in threads, isolated ones in
processes.

Each kind runs `execute.carry_out` and hands its end over through `told`. An attempt ends once,
whoever comes first: its handler, or the worker that stops it. A thread cannot be stopped: its
attempt is ended without it, and it is told when the thread has returned after all.
"""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Protocol

from seawall.current import Said
from seawall.execute import End, Stop, Work, carry_out, ended
from seawall.model import Token
from seawall.telemetry import LoopBlocked, ThreadLeftBehind, emit
from seawall.worker.isolated import Pool
from seawall.worker.threads import Daemons, Threads

BLOCKED_SECONDS = 1.0
"""How long a handler may keep the loop to itself before it is named."""
MOST_THREADS = 20_000
MOST_BLOCKING_CALLS = 200
"""How many `asyncio.to_thread` calls of async handlers run at once."""
_LOOK_SECONDS = 0.5
_CLOSING_SECONDS = 5.0


@dataclass(slots=True)
class _Attempt:
    """An attempt under way, and what is needed to stop it."""

    work: Work
    ended: bool = False
    task: "asyncio.Task[None] | None" = None
    started: bool = False


class Told(Protocol):
    """An attempt has ended; not `freed` where its handler goes on."""

    def __call__(self, end: End, said: Said, *, freed: bool) -> None: ...


class Runner:
    """Calls handlers, and tells how their attempts ended."""

    def __init__(
        self,
        worker: str,
        told: Told,
        freed: Callable[[Token], None],
        began: Callable[[Token], None],
        go_on: Callable[[], None],
    ) -> None:
        self._worker = worker
        self._told = told
        self._freed = freed
        self._began = began
        self._go_on = go_on
        self._going_on = False
        self._attempts: dict[Token, _Attempt] = {}
        self._ending = threading.Lock()
        self._loop = _Loop(worker, self._work_of)
        self._threads = Threads(MOST_THREADS)
        self._processes = Pool()

    # --- called by the worker -----------------------------------------------------------------

    def start(self, works: Iterable[Work]) -> None:
        """Call their handlers."""
        on_loop = []
        for work in works:
            attempt = _Attempt(work)
            self._attempts[work.claim.token] = attempt
            if work.task.isolated:
                self._threads.run(self._in_thread, attempt, self._isolated)
            elif work.task.is_async:
                on_loop.append(attempt)
            else:
                self._threads.run(self._in_thread, attempt, called)
        if on_loop:
            self._loop.call(self._begin, on_loop)

    def abort(self, token: Token, why: Stop, *, leave: bool) -> None:
        """Stop an attempt; with `leave`, end it whether its handler stops or not."""
        attempt = self._attempts.get(token)
        if attempt is None:
            return
        work = attempt.work
        work.stop = why
        work.current.ask_to_stop()
        if work.task.isolated:
            self._processes.kill(token)
        elif work.task.is_async:
            self._loop.call(self._cancel, attempt)
        elif why is not Stop.CANCEL:
            leave = True
        if leave:  # on a thread: the application's hooks hear of it, and may be slow
            self._threads.run(self._leave, attempt, why)

    def under_way(self) -> list[Work]:
        """The attempts whose handlers run."""
        return [attempt.work for attempt in list(self._attempts.values())]

    def _work_of(self, task: "asyncio.Task[None]") -> Work | None:
        """What runs in this task of the loop, unless a handler made the task itself."""
        for attempt in list(self._attempts.values()):
            if attempt.task is task:
                return attempt.work
        return None

    def tidy(self) -> None:
        """Let go of processes that nobody has needed for a while."""
        self._processes.tidy()

    def close(self) -> None:
        """End the loop and the processes; threads that hang are left to the end of the process."""
        self._loop.close()
        self._processes.close()
        self._threads.close()

    # --- ends ---------------------------------------------------------------------------------

    def _finish(self, attempt: _Attempt, end: End) -> None:
        """The handler has returned."""
        token = attempt.work.claim.token
        self._attempts.pop(token, None)
        if self._is_first(attempt):
            self._told(end, attempt.work.current.said, freed=True)
        else:
            self._freed(token)

    def _is_first(self, attempt: _Attempt) -> bool:
        """An attempt ends once: whoever comes first says how."""
        with self._ending:
            first, attempt.ended = not attempt.ended, True
        return first

    def _leave(self, attempt: _Attempt, why: Stop) -> None:
        """The attempt ends, its handler does not."""
        work = attempt.work
        if not self._is_first(attempt):
            return
        if work.current.caller is not None:
            work.current.caller.leave_behind()
        self._told(ended(work, why), work.current.said, freed=False)
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

    # --- in a thread --------------------------------------------------------------------------

    def _in_thread(self, attempt: _Attempt, invoke: Any) -> None:
        end = copy_context().run(without_waiting, carry_out(attempt.work, invoke))
        self._finish(attempt, end)
        self._go_on()

    async def _isolated(self, work: Work, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Any:
        def began() -> None:
            work.begun, work.called = work.app.clock.monotonic(), True
            self._began(work.claim.token)

        return self._processes.call(work, began)

    # --- on the loop --------------------------------------------------------------------------

    def _begin(self, attempts: list[_Attempt]) -> None:
        for attempt in attempts:
            attempt.task = self._loop.loop.create_task(self._on_loop(attempt))

    async def _on_loop(self, attempt: _Attempt) -> None:
        attempt.started = True
        work = attempt.work
        if (why := work.stop) is not None:  # stopped before it could begin
            self._finish(attempt, ended(work, why))
        else:
            self._finish(attempt, await carry_out(work, awaited))
        if not self._going_on:
            self._going_on = True
            self._loop.loop.call_soon(self._all_went_on)

    def _all_went_on(self) -> None:
        """Every handler that could has taken a step; those that ended may be followed by others."""
        self._going_on = False
        self._go_on()

    def _cancel(self, attempt: _Attempt) -> None:
        """Cancelled before its first step, it could not even say that it ended."""
        if attempt.task is not None and attempt.started:
            attempt.task.cancel()


def awaited(work: Work, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Awaitable[Any]:
    coroutine: Awaitable[Any] = work.task.function(*args, **kwargs)
    return coroutine


async def called(work: Work, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return work.task.function(*args, **kwargs)


def without_waiting(coroutine: Coroutine[Any, Any, End]) -> End:
    """Run a coroutine that never really waits, to its end."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        end: End = done.value
        return end
    raise AssertionError("a plain handler never waits")


class _Loop:
    """An event loop on a thread of its own, and a look at whether somebody blocks it."""

    def __init__(self, worker: str, work_of: Callable[["asyncio.Task[None]"], Work | None]) -> None:
        self._worker = worker
        self._work_of = work_of
        self.loop = _new_loop()
        self.loop.set_default_executor(Daemons(MOST_BLOCKING_CALLS))
        self._answered = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="seawall-loop", daemon=True)
        self._watch = threading.Thread(target=self._look, name="seawall-watch", daemon=True)
        self._thread.start()
        self._watch.start()

    def call(self, function: Callable[[Any], object], given: object) -> None:
        """Call the function on the loop's thread: now, if this is it."""
        if threading.current_thread() is self._thread:
            function(given)
            return
        with suppress(RuntimeError):  # the loop is closed: whatever ran there has ended
            self.loop.call_soon_threadsafe(function, given)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        if left:
            self.loop.run_until_complete(asyncio.wait(left, timeout=1.0))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def _look(self) -> None:
        """Ask the loop for a sign, and name the handler that keeps it from giving one."""
        silent_seconds, named = 0.0, False
        self._ask()
        while not self._closed.wait(_LOOK_SECONDS):
            if self._answered.is_set():
                silent_seconds, named = 0.0, False
                self._ask()
                continue
            silent_seconds += _LOOK_SECONDS
            if silent_seconds >= BLOCKED_SECONDS and not named:
                named = True
                self._name(silent_seconds)

    def _ask(self) -> None:
        self._answered.clear()
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._answered.set)

    def _name(self, seconds: float) -> None:
        task = asyncio.current_task(self.loop)
        work = None if task is None else self._work_of(task)
        event = LoopBlocked(
            worker=self._worker,
            task=None if work is None else work.claim.lane.task,
            job=None if work is None else work.current.id,
            seconds=round(seconds, 2),
            where=_place(self._thread.ident),
        )
        emit(event)

    def close(self) -> None:
        self._closed.set()
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_CLOSING_SECONDS)


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, where it is installed: it takes less time over each handler."""
    try:
        import uvloop  # noqa: PLC0415 - it may not be there
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _place(thread: int | None) -> str:
    """The line that a thread stands at, by its file's name alone."""
    frame = sys._current_frames().get(thread or 0)  # noqa: SLF001 - there is no other way
    if frame is None:
        return "unknown"
    name = frame.f_code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{name}:{frame.f_lineno} in {frame.f_code.co_name}"
