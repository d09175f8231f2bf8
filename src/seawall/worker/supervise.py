"""Several worker processes under one: started, told to stop, replaced when they die.

The supervisor knows nothing of jobs. Its children are the same command without `--processes`, each
in a session of its own, so that Ctrl-C reaches them once, through it. Each child's standard input
is a pipe whose other end the supervisor holds and never writes to: should it be killed, the pipe
ends, and the child stops by itself.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from seawall.telemetry import ProcessEnded, emit

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
SOUND_SECONDS = 60.0
"""A child that has lived for so long starts anew without a longer pause."""
LOOK_SECONDS = 0.1
ONE_SIGNAL_SECONDS = 1.0
SUPERVISED = "--supervised"
_BY_SIGNAL = 128
_BEFORE_IT_LISTENED = (-signal.SIGTERM, -signal.SIGINT, _BY_SIGNAL + signal.SIGINT)
"""How a command ends that is told to stop while it is still loading."""


@dataclass(slots=True)
class _Child:
    """A place for one process, and the process that stands there now."""

    number: int
    process: "subprocess.Popen[bytes] | None" = None
    born: float = 0.0
    start_at: float = 0.0
    pause: float = FIRST_PAUSE_SECONDS
    ended: bool = False
    code: int = 0


class Supervisor:
    """Keeps `count` processes of one command alive until it is told to stop."""

    def __init__(self, words: Sequence[str], count: int, *, drain: bool = False) -> None:
        """`words` follow `seawall worker`. With `drain`, a child that ends well is done."""
        self._command = [sys.executable, "-m", "seawall", "worker", *words, SUPERVISED]
        self._children = [_Child(number) for number in range(1, count + 1)]
        self._drain = drain
        self._signals: list[int] = []
        self._stopping = False

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send every child this signal; none is started any more. Safe in a signal handler."""
        self._signals.append(number)

    def run(self) -> int:
        """Supervise until every child has ended for good; the worst of their exit codes."""
        try:
            while not all(child.ended for child in self._children):
                while self._signals:
                    self._forward(self._signals.pop(0))
                for child in self._children:
                    self._look_after(child)
                time.sleep(LOOK_SECONDS)
        finally:
            self._let_go()
        return max(child.code for child in self._children)

    def _forward(self, number: int) -> None:
        self._stopping = True
        for child in self._children:
            if child.process is not None:
                child.process.send_signal(number)

    def _look_after(self, child: _Child) -> None:
        if child.ended:
            return
        if child.process is None:
            if self._stopping:
                child.ended = True
            elif time.monotonic() >= child.start_at:
                self._start(child)
            return
        code = child.process.poll()
        if code is not None:
            self._bury(child, code)

    def _start(self, child: _Child) -> None:
        child.born = time.monotonic()
        try:
            child.process = subprocess.Popen(  # noqa: S603 - our own command
                self._command, stdin=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:  # no memory, no process numbers left: the others live on
            self._start_later(child, exit_code=error.errno)

    def _bury(self, child: _Child, code: int) -> None:
        """Note how a process ended, and decide whether there will be another in its place."""
        process, child.process = child.process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()
        if self._stopping and code in _BEFORE_IT_LISTENED:
            code = 0  # told to stop before it had begun to listen: it held nothing
        child.code = code if code >= 0 else _BY_SIGNAL - code
        if self._stopping or (self._drain and code == 0):
            child.ended = True
            return
        self._start_later(
            child,
            pid=None if process is None else process.pid,
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
        )

    def _start_later(self, child: _Child, **how: int | None) -> None:
        """Another process in this place, after a pause that doubles while they die young."""
        now = time.monotonic()
        if now - child.born >= SOUND_SECONDS:
            child.pause = FIRST_PAUSE_SECONDS
        child.start_at = now + child.pause
        emit(ProcessEnded(process=child.number, delay_ms=round(child.pause * 1_000), **how))
        child.pause = min(child.pause * 2, LONGEST_PAUSE_SECONDS)

    def _let_go(self) -> None:
        """End the pipes: whatever still lives stops by itself."""
        for child in self._children:
            if child.process is not None and child.process.stdin is not None:
                child.process.stdin.close()


def when_supervisor_is_gone(stop: Callable[[], None]) -> None:
    """Call `stop` when the other end of standard input is closed: nobody supervises us then."""

    def watch() -> None:
        with suppress(OSError):
            while os.read(sys.stdin.fileno(), 1):
                pass
        stop()

    threading.Thread(target=watch, name="seawall-supervised", daemon=True).start()


def once_in_a_while(stop: Callable[[], None]) -> Callable[[int], None]:
    """`stop`, but one signal is not taken for two.

    Whoever stops a whole group of processes signals the supervisor and its children; the
    supervisor then passes the signal on to the children, and that must not hurry them.
    """
    last = -ONE_SIGNAL_SECONDS

    def heard(_: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= ONE_SIGNAL_SECONDS:
            last = now
            stop()

    return heard
