"""A connection to SQLite on which no statement runs, or waits for a lock, longer than its limit."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import apsw

from seawall.errors import StoreError
from seawall.store import foreign

STEPS_BETWEEN_LOOKS = 50_000
"""How many of SQLite's own steps pass between two looks at the time limit: about a millisecond."""
_OLDEST_SQLITE = 3_051_003


class Connection(apsw.Connection):
    """A connection on which no statement runs for longer than its limit."""

    def __init__(self, path: str, flags: int, limit_seconds: float) -> None:
        with foreign.opening(self, path):
            super().__init__(path, flags=flags, statementcachesize=200)
        # A plan must not hang on what is bound: SQLite would prepare the statement anew for each
        # row of a batch, which takes far longer than to run it.
        self.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self.time_limit = _Limit(limit_seconds)
        self.time_limit.begin()
        self.set_busy_handler(self.time_limit.wait)
        self.set_progress_handler(self.time_limit.passed, STEPS_BETWEEN_LOOKS)

    def close(self, force: bool = False) -> None:
        super().close(force)
        foreign.closed(self)

    def begin_to_keep_a_log(self) -> None:
        """Switch to WAL; SQLite asks no busy handler here, so we do."""
        for tries in count():
            try:
                (answer,) = self.execute("PRAGMA journal_mode = WAL").fetchall()[0]
            except apsw.BusyError:
                if not self.time_limit.wait(tries):
                    raise
            else:
                if answer not in ("wal", "memory"):
                    raise StoreError(
                        f"{self.filename}: cannot be kept with a log; use a local disk"
                    )
                return


class _Limit:
    """How long a statement may still take, waiting for locks included."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = 0.0

    def begin(self) -> None:
        """A statement starts."""
        self._deadline = time.monotonic() + self._seconds

    @contextmanager
    def raised(self, seconds: float) -> Iterator[None]:
        """Another limit for a while."""
        usual, self._seconds = self._seconds, seconds
        try:
            yield
        finally:
            self._seconds = usual

    def passed(self) -> bool:
        """Whether to interrupt it."""
        return time.monotonic() >= self._deadline

    def wait(self, tries: int) -> bool:
        """Sleep a little before the lock is tried again; false gives up."""
        if self.passed():
            return False
        # Short and uneven: SQLite's own pauses grow to 100 ms, and writers then starve.
        time.sleep(random.uniform(0.0005, min(0.01, 0.001 * (tries + 1))))
        return True


@contextmanager
def written(connection: Connection) -> Iterator[None]:
    """One transaction: everything in it, or nothing."""
    connection.time_limit.begin()
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.time_limit.begin()
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            with suppress(apsw.Error):  # whatever broke it has already been raised
                connection.execute("ROLLBACK")


def need_a_sound_sqlite() -> None:
    """Older ones can corrupt a file in WAL mode when two connections write."""
    if apsw.SQLITE_VERSION_NUMBER < _OLDEST_SQLITE:
        raise StoreError(f"SQLite {apsw.sqlite_lib_version()} can damage files: upgrade apsw")


def need_a_place(path: str) -> None:
    folder = Path(path).parent
    if path != ":memory:" and not folder.is_dir():
        raise StoreError(f"{path}: the folder {folder} does not exist; make it first")
