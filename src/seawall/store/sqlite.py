"""The ledger's statements on SQLite, through apsw.

One connection writes; threads take turns at it. A write begins as `BEGIN IMMEDIATE`, so it waits
for other processes at the start, where waiting costs nothing, and never fails half-way because
somebody else wrote. WAL keeps readers and the writer out of each other's way, and FULL makes every
commit survive a power cut. Waiting for a lock is bounded by the statement's time limit and ends in
`StoreUnavailableError`. A lease that lapsed meanwhile still stands: it is lost only to a reclaim,
and until then its holder may renew.
"""

import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import apsw

from seawall.clock import Clock, SystemClock
from seawall.errors import StoreError, StoreUnavailableError
from seawall.store import forks, given, statements
from seawall.store.backend import MIGRATION_SECONDS, STATEMENT_SECONDS, Batch, Row, Step
from seawall.store.bell import Bell
from seawall.store.inside import SAVEPOINTS
from seawall.store.sqlite_connection import Connection, need_a_place, need_a_sound_sqlite, written
from seawall.store.sqlite_errors import our_errors
from seawall.store.touched import Touched, touched

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CHILD_HINT = "it was forked in the midst of a transaction, or from a store in memory"
_FORK_PATIENCE_SECONDS = 2.0
"""How long a fork waits for the threads that use a store."""
_FIRST_LOOK_SECONDS = 0.0002
_SHORTEST_WAIT_SECONDS = 0.001
"""The system can wait for a file no shorter than this."""
_LONGEST_LOOK_SECONDS = 0.05

_PRAGMAS = """
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 4000;
PRAGMA cache_size = -8192;
PRAGMA temp_store = MEMORY;
PRAGMA journal_size_limit = 67108864;
"""


class SqliteBackend:
    """One SQLite file, or a store in memory that ends with the process."""

    dialect = "sqlite"
    many_at_once = False

    def __init__(
        self,
        path: str,
        *,
        clock: Clock | None = None,
        statement_seconds: float = STATEMENT_SECONDS,
        read_only: bool = False,
    ) -> None:
        self._path = path
        self._read_only = read_only
        self._clock = clock or SystemClock()
        self._statement_seconds = statement_seconds
        self._sql = {name: each.sql for name, each in statements.load(self.dialect).items()}
        self._reads = {n for n, sql in self._sql.items() if sql.startswith("SELECT")}
        self._closed = False
        self._forbidden = False
        self._at_rest = self._unread = False
        self._lent_to: int | None = None
        self._connection: Connection | None = None
        self._seen = -1
        self._take_new_locks()
        forks.watch(self)  # before the file is open: a fork may come at any moment
        with self._turn:
            self._mine()

    def _take_new_locks(self) -> None:
        self._turn = threading.RLock()
        self._reading = threading.Lock()
        self._bell = Bell()
        self._watching = threading.local()

    @property
    def _in_memory(self) -> bool:
        return self._path == ":memory:"

    # --- statements ---------------------------------------------------------------------------

    def all(self, name: str, /, **values: object) -> list[Row]:
        with self._alone(write=name not in self._reads) as session:
            return session.all(name, **values)

    def batch(self, name: str, rows: Batch, /, **values: object) -> list[Row]:
        with self._alone(write=name not in self._reads) as session:
            return session.batch(name, rows, **values)

    def enqueue_plain(self, rows: Sequence[Row]) -> list[Row]:
        found = self.batch("enqueue_plain", rows)
        self.wake()
        return found

    @contextmanager
    def transaction(self) -> "Iterator[_Session]":
        with self._alone(write=True) as session:
            yield session

    def together(self, steps: Sequence[Step]) -> list[list[Row]]:
        with self._alone(write=True) as session:
            return [session.run(step) for step in steps]

    @contextmanager
    def lending(self) -> Iterator[tuple[apsw.Connection, Callable[[Step], list[Row]]]]:
        """Without a time limit: nobody tells us when a statement of the caller's starts."""
        with self._alone(write=True) as session, self._mine().time_limit.raised(math.inf):
            connection = self._mine()
            connection.time_limit.begin()
            self._lent_to = threading.get_ident()
            try:
                yield connection, session.ask
            finally:
                self._lent_to = None

    @contextmanager
    def snapshot(self, timeout_seconds: float) -> "Iterator[_Session]":
        if self._in_memory:
            with self._alone(write=False) as session:
                yield session
            return
        self._need_open()
        with self._reading, our_errors(self._path):
            reader = Connection(self._path, apsw.SQLITE_OPEN_READONLY, timeout_seconds)
            try:
                reader.execute("BEGIN")
                yield _Session(reader, self._sql, self._now())
            finally:
                reader.close()

    @contextmanager
    def migrating(self) -> "Iterator[_Session]":
        with self._alone(write=True) as session, self._mine().time_limit.raised(MIGRATION_SECONDS):
            yield session

    @contextmanager
    def _alone(self, *, write: bool) -> "Iterator[_Session]":
        """A thread's turn at the connection; a write is one transaction. They do not nest."""
        self._need_open()
        if self._lent_to == threading.get_ident():
            raise StoreError(f"{self._path}: this thread has a transaction open: end it first")
        if not self._turn.acquire(timeout=self._statement_seconds):
            raise StoreUnavailableError(f"{self._path}: other threads kept it busy for too long")
        try:
            connection = self._mine()
            with our_errors(self._path), written(connection) if write else nullcontext():
                # The time is told after the wait for other writers: it must not eat into a lease.
                yield _Session(connection, self._sql, self._now())
        finally:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.close()  # what cannot be rolled back must not be gone on with
                self._connection = None
            self._turn.release()

    # --- values -------------------------------------------------------------------------------

    def place(self) -> str:
        return self._path

    def moment(self) -> int:
        return self._now()

    def _now(self) -> int:
        return self.written(self._clock.now())

    def written(self, time: datetime) -> int:
        return (time - _EPOCH) // _MICROSECOND

    def read(self, found: Any) -> datetime:
        return _time(found)

    def names(self, names: Sequence[str] | None) -> str | None:
        return None if names is None else json.dumps(list(names))

    def ids(self, ids: Sequence[int]) -> str:
        return json.dumps(ids)

    def times(self, times: Sequence[datetime | None]) -> None:
        """Not needed here: see `claim`."""

    # --- waking -------------------------------------------------------------------------------

    def wake(self) -> None:
        self._bell.ring()

    def nudge(self) -> None:
        self._bell.ring()

    def wait(self, timeout_seconds: float) -> bool:
        """Watch for this process's own word and for commits of others.

        Where the system tells of writes to the log, sleep until it does. A commit is to be seen
        only after it was synced, a little later: so look more and more seldom, for a while.
        """
        self._need_open()
        deadline = time.monotonic() + timeout_seconds
        file = self._watched()
        with self._bell.rings(file):
            pause = _FIRST_LOOK_SECONDS
            while True:
                left = max(0.0, deadline - time.monotonic())
                if self._bell.wait(0) or self._changed_by_others(left):
                    self._bell.ring()  # for the other threads, too
                    return self._bell.wait(0)
                if left <= 0:
                    return False
                if pause < _SHORTEST_WAIT_SECONDS:
                    time.sleep(min(pause, left))
                elif file is None:
                    self._bell.pause(min(pause, left))
                elif file.wait(left if pause >= _LONGEST_LOOK_SECONDS else min(pause, left)):
                    pause = _FIRST_LOOK_SECONDS
                pause = min(pause * 1.5, _LONGEST_LOOK_SECONDS)

    def _watched(self) -> Touched | None:
        """How the thread that asks may be told, if it can be."""
        if self._in_memory:
            return None
        if not hasattr(self._watching, "file"):
            self._watching.file = touched()
        file: Touched | None = self._watching.file
        return file if file is not None and file.watches(f"{self._path}-wal") else None

    def _changed_by_others(self, patience_seconds: float) -> bool:
        if self._in_memory or not self._turn.acquire(timeout=patience_seconds):
            return False
        try:
            with our_errors(self._path):
                connection = self._mine()
                connection.time_limit.begin()
                found = connection.execute("PRAGMA data_version").fetchall()[0][0]
            changed, self._seen = found != self._seen, cast("int", found)
        finally:
            self._turn.release()
        return changed

    # --- connections --------------------------------------------------------------------------

    def _need_open(self) -> None:
        if self._forbidden:
            raise StoreError(f"{self._path}: cannot be used by this child process; {_CHILD_HINT}")
        if self._closed:
            raise StoreError(f"{self._path}: the store is closed")

    def _mine(self) -> "Connection":
        self._need_open()
        if self._connection is None:
            self._connection = self._opened()
        return self._connection

    def _opened(self) -> "Connection":
        need_a_sound_sqlite()
        need_a_place(self._path)
        with our_errors(self._path):
            if self._read_only:
                return self._opened_to_read()
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
            connection = Connection(self._path, flags, self._statement_seconds)
            connection.begin_to_keep_a_log()
            connection.execute(_PRAGMAS).fetchall()
            given.make(connection)
        return connection

    def _opened_to_read(self) -> "Connection":
        """Nothing is written, but the last to close must be able to clear the log away."""
        alone = not Path(f"{self._path}-shm").exists()
        if alone and not os.access(self._path, os.W_OK):
            raise StoreError(
                f"{self._path}: to read it alone would leave a log that its owner cannot use;"
                " do it as a user who may write the file"
            )
        flags = apsw.SQLITE_OPEN_READWRITE
        connection = Connection(self._path, flags, self._statement_seconds)
        connection.execute("PRAGMA query_only = on").fetchall()
        return connection

    def before_fork(self) -> None:
        """Close, as soon as no thread is at it."""
        self._unread = self._reading.acquire(timeout=_FORK_PATIENCE_SECONDS)
        self._at_rest = self._turn.acquire(timeout=_FORK_PATIENCE_SECONDS)
        connection = self._connection
        if connection is None or self._in_memory or not (self._at_rest and self._unread):
            return
        if not connection.in_transaction:
            connection.close()
            self._connection = None

    def after_fork(self, *, child: bool) -> None:
        at_rest, unread, self._at_rest, self._unread = self._at_rest, self._unread, False, False
        if child:
            if self._connection is not None or not (at_rest and unread):
                self._forbidden = True
                _LEFT_ALONE.append(self._connection)  # closing it would meddle with the parent's
                self._connection = None
            self._take_new_locks()
            return
        if at_rest:
            self._turn.release()
        if unread:
            self._reading.release()

    def close(self) -> None:
        with self._turn:
            self._closed = True
            self._bell.ring()  # whoever waits need not
            if self._connection is not None:
                with suppress(apsw.Error):
                    self._connection.close()
                self._connection = None


@lru_cache(maxsize=1_024)
def _time(microseconds: int) -> datetime:
    """Rows of one batch share most of their times."""
    return _EPOCH + timedelta(microseconds=microseconds)


_LEFT_ALONE: "list[Connection | None]" = []
"""Connections of a parent process, kept from being closed by the child's garbage collector."""


class _Session:
    """Statements on a connection that this thread has to itself, all at one moment."""

    def __init__(self, connection: "Connection", sql: dict[str, str], now: int) -> None:
        self._connection = connection
        self._sql = sql
        self._now = now

    @property
    def connection(self) -> "Connection":
        return self._connection

    def all(self, name: str, /, **values: object) -> list[Row]:
        values["now"] = self._now
        self._connection.time_limit.begin()
        return self._connection.execute(self._sql[name], values).fetchall()

    def batch(self, name: str, rows: Batch, /, **values: object) -> list[Row]:
        values["now"] = self._now
        self._connection.time_limit.begin()
        if given.takes_a_table(name):
            return given.run(self._connection, name, self._sql[name], rows, values)
        each = [{**row, **values} for row in rows]
        return list(self._connection.executemany(self._sql[name], each))

    def run(self, step: Step) -> list[Row]:
        values = step.values or {}
        if step.rows is None:
            return self.all(step.name, **values)
        return self.batch(step.name, step.rows, **values)

    def ask(self, step: Step) -> list[Row]:
        """For whoever has the connection on loan, and is to hear of errors in our words."""
        with our_errors(self._connection.filename):
            if step.name in SAVEPOINTS:
                return self._connection.execute(SAVEPOINTS[step.name]).fetchall()
            return self.run(step)

    def script(self, sql: str) -> None:
        self._connection.time_limit.begin()
        self._connection.execute(sql).fetchall()  # to its end, whatever it answers on the way
