"""Counts the statements that SQLite carries out, each of a script's and of a batch's, and strikes.

The tracer is apsw's own: it is called for every statement before it runs, BEGIN and COMMIT included.
"""

import os
import signal
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import apsw

from seawall.store import sqlite_connection

_ERRORS = (apsw.BusyError, apsw.IOError, apsw.FullError)


class Strike(StrEnum):
    ERROR = "error"
    """It fails before it runs: locked, broken, or out of room, in turn."""
    INTERRUPT = "interrupt"
    """It begins to run and is interrupted, as one is that takes too long."""
    KILL = "kill"
    """The process dies before it runs."""


class Tracer:
    """Watches every connection that is opened while it is in place."""

    def __init__(self, replace: Callable[[object, str, object], None] = setattr) -> None:
        self.seen = 0
        """How many statements ran since it was armed."""
        self._counts = False
        self._n = 0
        self._strike: Strike | None = None
        self._interrupted: apsw.Connection | None = None
        opened = sqlite_connection.Connection.__init__

        def watched(connection: apsw.Connection, *given: Any) -> None:
            opened(connection, *given)
            connection.exec_trace = self._passing

        replace(sqlite_connection.Connection, "__init__", watched)

    def arm(self, n: int = 0, strike: Strike | None = None) -> None:
        """Count from 1 on, and strike at the N-th; without a number, only count."""
        self.seen, self._counts, self._n, self._strike = 0, True, n, strike

    def disarm(self) -> None:
        self._counts = False
        self._let_run()

    def _passing(self, cursor: apsw.Cursor, statement: str, values: object) -> bool:
        self._let_run()
        if self._counts:
            self.seen += 1
            if self.seen == self._n:
                self._hit(cursor.connection)
        return True

    def _hit(self, connection: apsw.Connection) -> None:
        if self._strike is Strike.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._strike is Strike.ERROR:
            raise _ERRORS[self._n % len(_ERRORS)]("struck")
        connection.set_progress_handler(lambda: True, 1)
        self._interrupted = connection

    def _let_run(self) -> None:
        if self._interrupted is not None:
            limit = self._interrupted.time_limit
            self._interrupted.set_progress_handler(
                limit.passed, sqlite_connection.STEPS_BETWEEN_LOOKS
            )
            self._interrupted = None
