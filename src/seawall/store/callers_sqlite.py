"""The ledger's statements on a connection of Python's own sqlite3 that belongs to the caller.

The store itself is not opened here and must not be: see `foreign`. What it would have seen to when
it was opened is asked of the caller's connection instead: that the file is the store's, and that
its tables are those of this version.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

from seawall.errors import StoreError, StoreUnavailableError
from seawall.model import NewJob
from seawall.store import foreign, inside, statements
from seawall.store.backend import BadRowError, Batch, Row, Step, Values
from seawall.store.migrate import need_up_to_date
from seawall.store.values import Enqueued

if TYPE_CHECKING:
    import sqlite3

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_OLDEST_SQLITE = (3, 37, 0)
_LEGACY = -1
"""What `autocommit` is where `isolation_level` rules, as before Python 3.12."""
_NOT_NOW = {
    5: "is locked by another connection",
    6: "is locked by another connection",
    7: "ran out of memory",
    9: "was interrupted",
    10: "cannot be read or written now",
    13: "has no room left: the disk is full",
    15: "is locked by another connection",
}
"""What SQLite's primary result codes say of a file."""


def written(time: datetime) -> int:
    """A time as SQLite's statements take it."""
    return (time - _EPOCH) // _MICROSECOND


def enqueued_on(
    path: str, now: int, connection: "sqlite3.Connection", jobs: Sequence[NewJob]
) -> list[Enqueued]:
    """Write the jobs in the transaction that the caller's connection has open, or opens now."""
    _need_a_new_sqlite()
    session = _Session(path, connection, now)
    with session.as_plain_rows():
        session.need_a_transaction()
        session.need_the_same_file()
        with session.begun():
            need_up_to_date(session)
            return inside.run(inside.enqueued_with_lanes(jobs, written), session.ask)


def _need_a_new_sqlite() -> None:
    import sqlite3  # noqa: PLC0415 - some Pythons have none

    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise StoreError(
            f"this Python's SQLite {sqlite3.sqlite_version} is too old for the store's tables: use"
            " a Python with 3.37 or later, or `with app.transaction() as connection:`"
        )


class _Session:
    """Statements on the caller's connection."""

    dialect = "sqlite"

    def __init__(self, path: str, connection: "sqlite3.Connection", now: int) -> None:
        import sqlite3  # noqa: PLC0415 - as above

        self._path = path
        self._connection = connection
        self._now = now
        self._cursor_class = sqlite3.Cursor
        self._their_errors = (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError)
        self._bad_rows = (sqlite3.IntegrityError, sqlite3.DataError, UnicodeError, OverflowError)

    # --- what must hold -----------------------------------------------------------------------

    @contextmanager
    def as_plain_rows(self) -> Iterator[None]:
        """Text is text, whatever the caller has its connection make of it."""
        theirs = self._connection.text_factory
        self._connection.text_factory = str
        try:
            yield
        finally:
            self._connection.text_factory = theirs

    def need_a_transaction(self) -> None:
        """`StoreError` unless the caller ends a transaction that is open or that a write opens."""
        if not self._connection.in_transaction and not self._opens_by_itself():
            raise StoreError(
                "the connection is in no transaction: open a transaction on the connection first,"
                " so that the job is part of it"
            )

    def _opens_by_itself(self) -> bool:
        if getattr(self._connection, "autocommit", _LEGACY) == _LEGACY:
            return self._connection.isolation_level is not None
        return False  # True opens none; with False one is open at any time

    def need_the_same_file(self) -> None:
        """`StoreError` where it leads elsewhere, or this process has the file open through apsw."""
        ours = foreign.file_at(self._path)
        if ours is None:
            raise StoreError(f"{self._path}: no such file; run `seawall migrate` first")
        (place,) = [file for _, name, file in self._run("PRAGMA database_list") if name == "main"]
        if not place or foreign.file_at(place) != ours:
            raise StoreError(
                f"the connection leads to {place or 'a database in memory'}, and the store is"
                f" {self._path}: give a connection to the store's own file"
            )
        foreign.mark(self._path, ours)

    @contextmanager
    def begun(self) -> Iterator[None]:
        """In a transaction: Python would open it at the first INSERT, but not before a savepoint.

        It is begun as a write, so that it waits for other writers here, where it may. If it fails
        it is ended again, because nobody but us began it.
        """
        ours = not self._connection.in_transaction
        if ours:
            self._run("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if ours and self._connection.in_transaction:
                self._connection.rollback()
            raise

    # --- statements ---------------------------------------------------------------------------

    def ask(self, step: Step) -> list[Row]:
        return self.all(step.name) if step.rows is None else self.batch(step.name, step.rows)

    def all(self, name: str, /, **values: object) -> list[Row]:
        return self.batch(name, [{}], **values)

    def batch(self, name: str, rows: Batch, /, **values: object) -> list[Row]:
        parts, shared = _parts(name), {**values, "now": self._now}
        return [
            found for row in rows for part in parts for found in self._run(part, {**row, **shared})
        ]

    def _run(self, sql: str, values: Values | None = None) -> list[Row]:
        try:
            cursor = self._cursor_class(self._connection)
            cursor.row_factory = None
            try:
                return cursor.execute(sql, values or {}).fetchall()
            finally:
                cursor.close()
        except self._their_errors as error:
            told = self._told(error)
        raise told

    def _told(self, error: Exception) -> StoreError:
        """The error in our words."""
        if isinstance(error, self._bad_rows):
            unicode = isinstance(error, UnicodeError)
            why = "its text has characters that are no Unicode" if unicode else _first_line(error)
            return BadRowError(f"it cannot be stored: {why}")
        primary = getattr(error, "sqlite_errorcode", 1) & 0xFF
        told = (
            StoreUnavailableError(f"{self._path}: {_NOT_NOW[primary]}")
            if primary in _NOT_NOW
            else StoreError(f"{self._path}: {_first_line(error)}")
        )
        told.__cause__ = error
        return told


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


@cache
def _parts(name: str) -> tuple[str, ...]:
    """The statements of that name one by one: sqlite3 runs no more at a time."""
    if name in inside.SAVEPOINTS:
        return (inside.SAVEPOINTS[name],)
    return tuple(divided(statements.load("sqlite")[name].sql))


def divided(sql: str) -> Iterator[str]:
    """Each statement of a text; a semicolon in a string or a comment ends none."""
    from sqlite3 import complete_statement  # noqa: PLC0415 - as above

    part = ""
    for piece in sql.rstrip("; \n").split(";"):
        part += f"{piece};"
        if complete_statement(part):
            yield part.strip().removesuffix(";")
            part = ""
    if part:  # a comment at the end hides our semicolon
        yield part.strip().removesuffix(";")
