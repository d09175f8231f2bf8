"""Handlers in processes of their own, which can be killed and have their memory limited.

A child is a fresh interpreter (`child`) that imports the task's module and then serves one attempt
after the other; between attempts it waits, so only the first pays for the imports. Calls go to its
standard input, and what the handler says and what it came to come back on its standard output. It
leads a session of its own: a signal for the worker does not reach it, and killing it kills what it
has started, too. A child whose standard input ends has lost its worker, and ends itself.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.spawn import get_preparation_data
from pathlib import Path
from typing import Any

from seawall.current import CurrentJob, Said
from seawall.errors import Skip, Snooze
from seawall.evidence import ElsewhereError
from seawall.execute import KilledError, TooLateError, Work
from seawall.faults import Fault, FaultCode
from seawall.flow import Encoded
from seawall.model import Token
from seawall.telemetry.otlp import FLUSH_SECONDS

MOST_CALLS = 1_000
"""After so many attempts a child is replaced: what leaks, leaks no further."""
IDLE_SECONDS = 300.0
"""A child that has waited for so long is ended."""
BEGAN = "began"
_KILLED = -9
_ENDING_SECONDS = 1.0
_LOOK_SECONDS = 0.005
LAST_WORDS_SECONDS = FLUSH_SECONDS + 1.0
"""How long a child that is let go may take to send what it has to say in traces."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a child is asked to do."""

    module: str
    task: str
    stage: int
    arguments: str
    before: str | None
    """What the stage before left."""
    current: CurrentJob
    memory_mib: int | None
    use_by: float
    """Until when it may begin."""
    trace: str | None = None
    """The span that it is to run in, where anybody traces."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of it."""

    said: Said
    output: str | None = None
    ended_by: Skip | Snooze | TooLateError | None = None
    fault: Fault | None = None
    shown: str = ""
    raw_output: str | None = None


_PROGRAM = (
    f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r});"
    " from seawall.worker.child import main; main()"
)


class Pool:
    """Children that wait for work, and those that do some."""

    def __init__(self) -> None:
        self._idle: list[_Child] = []
        self._busy: dict[Token, _Child] = {}
        self._lock = threading.Lock()
        self._closed = False

    def call(self, work: Work, began: Callable[[], None]) -> Encoded:
        """The handler's value, or what it raised; waits for it in this thread.

        `began` is called when the child has imported the task and calls it.
        """
        try:
            return self._called(work, began, warm=True)
        except _DiedIdleError:  # before it could begin: nothing was done, so another may do it
            return self._called(work, began, warm=False)

    def _called(self, work: Work, began: Callable[[], None], *, warm: bool) -> Encoded:
        token = work.claim.token
        child = self._lent(token, warm=warm)
        try:
            if work.stop is not None:  # stopped before there was a process to kill
                raise KilledError(FaultCode.CANCELLED)
            return child.call(work, began)
        finally:
            self._returned(token, child)

    def kill(self, token: Token) -> None:
        """End the attempt by ending its process."""
        with self._lock:  # or it might be lent to another attempt before it dies
            child = self._busy.get(token)
            if child is not None:
                child.kill()

    def close(self) -> None:
        """End every child."""
        with self._lock:
            self._closed = True
            idle, busy = self._idle, list(self._busy.values())
            self._idle = []
        for child in idle:
            child.let_go()
        for child in busy:
            child.kill()
        until = time.monotonic() + LAST_WORDS_SECONDS
        for child in [*idle, *busy]:
            child.bury(max(0.0, until - time.monotonic()))

    def tidy(self) -> None:
        """End children that have waited for long."""
        before = time.monotonic() - IDLE_SECONDS
        with self._lock:
            old = [child for child in self._idle if child.idle_since < before]
            self._idle = [child for child in self._idle if child.idle_since >= before]
        for child in old:
            child.kill()
            child.bury()

    def _lent(self, token: Token, *, warm: bool) -> "_Child":
        child = None
        with self._lock:
            while warm and child is None and self._idle:
                child = self._idle.pop()
                if child.process.poll() is not None:
                    child = None
        child = child or _Child()
        with self._lock:
            self._busy[token] = child
        return child

    def _returned(self, token: Token, child: "_Child") -> None:
        with self._lock:
            self._busy.pop(token, None)
            if child.usable and not self._closed:
                child.idle_since = time.monotonic()
                self._idle.append(child)
                return
        if child.spent:
            child.let_go()
            child.bury(LAST_WORDS_SECONDS)
        else:
            child.kill()
            child.bury()


def _surroundings() -> dict[str, Any]:
    """What a child must know to import what this process has imported."""
    found = get_preparation_data("seawall-isolated")
    found.pop("authkey", None)  # it refuses to travel
    return found


class _DiedIdleError(Exception):
    """A child that had waited was dead when it was needed."""


@dataclass(slots=True)
class _Child:
    """One process, and this end of its pipes."""

    process: "subprocess.Popen[bytes]" = field(init=False)
    calls: int = 0
    usable: bool = True
    spent: bool = False
    """It has served as many calls as it may, and well."""
    idle_since: float = 0.0

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - our own
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def call(self, work: Work, began: Callable[[], None]) -> Encoded:
        """Send the call, and hear what it says until it has ended."""
        first, begun = self.calls == 0, False
        self.calls += 1
        self.usable = False
        task, current = work.task, work.current
        claim = work.claim
        asked = Call(
            task.home,
            claim.lane.task,
            claim.lane.stage,
            claim.arguments,
            work.before,
            current,
            task.memory_mib,
            work.use_by,
            None if work.span is None else work.span.inner_text,
        )
        try:
            if first:
                self._send(_surroundings())
            self._send(asked)
            while not isinstance(told := self._heard(), Answer):
                if told == BEGAN:
                    begun = True
                    began()
                else:
                    current.said.progress = told
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            if not (first or begun or work.stop):
                raise _DiedIdleError from error
            raise self._died(begun=begun) from error
        self.spent = self.calls >= MOST_CALLS
        self.usable = not self.spent
        current.said = told.said
        if told.ended_by is not None:
            raise told.ended_by
        if told.fault is not None:
            raise ElsewhereError(told.fault, told.shown, told.raw_output)
        return Encoded(told.output)

    def _send(self, value: object) -> None:
        if self.process.stdin is not None:
            pickle.dump(value, self.process.stdin)
            self.process.stdin.flush()

    def _heard(self) -> Any:
        return pickle.load(self.process.stdout)  # type: ignore[arg-type]  # noqa: S301 - our own

    def _died(self, *, begun: bool) -> KilledError:
        self.kill()
        code = self.bury()
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        if not begun:
            line = f"its process ended by {how} before it had begun"
            return KilledError(FaultCode.WORKER_LOST, line)
        if code == _KILLED:
            line = f"its process ended by {how}: perhaps the system ran out of memory"
            return KilledError(FaultCode.RESOURCE_EXHAUSTED, line, ambiguous=True)
        return KilledError(FaultCode.WORKER_LOST, f"its process ended by {how}", ambiguous=True)

    def kill(self) -> None:
        """End it at once, with whatever it has started."""
        self.usable = False
        if self.process.returncode is not None:
            return  # buried: its number may be another's by now
        with suppress(OSError):
            if hasattr(os, "killpg"):  # also where it is dead: what it started may not be
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()

    def _is_dead(self) -> bool:
        """Whether it has ended; it is not buried by that."""
        if not hasattr(os, "waitid"):
            return self.process.poll() is not None
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.process.pid, how) is not None
        return True

    def let_go(self) -> None:
        """Have it end by itself: at once, unless it has something to send."""
        self.usable = False
        with suppress(OSError, ValueError):
            if self.process.stdin is not None:
                self.process.stdin.close()

    def bury(self, seconds: float = 0.0) -> int | None:
        """Its exit code, once it is gone; after so long it is killed."""
        until = time.monotonic() + seconds
        while not self._is_dead() and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        self.kill()  # while its number is still its own
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_ENDING_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError, ValueError):
                if pipe is not None:
                    pipe.close()
        return self.process.returncode
