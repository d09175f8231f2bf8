"""What a database must offer to the ledger, and what the ledger must not know about it.

A backend runs named statements. On its own, each is one transaction; `transaction` makes several
one. How a batch is carried out is the backend's affair: PostgreSQL takes all rows in one statement,
SQLite runs the statement once for each, inside one transaction, unless the statement takes a table
of them. Every statement has a time limit,
and every error of a driver becomes one of ours before it leaves here.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from seawall.errors import StoreError, StoreUnavailableError

Row = tuple[Any, ...]
"""A row of an answer, its columns in the order that the statement names them."""
Values = dict[str, Any]
"""A row to be written, by column."""
Batch = Sequence[Any]
"""Rows to be written: by column, or as plain tuples where the statement names what it is given."""

STATEMENT_SECONDS = 30.0
"""How long a statement may take before it is given up."""
MIGRATION_SECONDS = 3_600.0
"""How long a migration's statement may take."""


class BadRowError(StoreError):
    """A batch holds a row that the database will not take."""


class ConflictError(StoreUnavailableError):
    """Another transaction was in the way, and nothing was done: ask again at once."""


class Step(NamedTuple):
    """A statement by name, to be run once, or for each of the rows."""

    name: str
    rows: Batch | None = None
    values: Values | None = None
    """What the statement needs besides."""


class Session(Protocol):
    """Something that statements run in."""

    def all(self, name: str, /, **values: object) -> list[Row]:
        """Run a statement and answer all its rows."""
        ...

    def batch(self, name: str, rows: Batch, /, **values: object) -> list[Row]:
        """Run a statement for every row, with the values that they share; answer all its rows.

        The answers come in any order.
        """
        ...


class OpenSession(Session, Protocol):
    """A session for what no statement names."""

    @property
    def connection(self) -> Any:
        """The driver's own."""
        ...

    def script(self, sql: str) -> None:
        """Run a migration's statements."""
        ...


class Backend(Session, Protocol):
    """A database. Statements run on the backend itself are a transaction each."""

    @property
    def dialect(self) -> str:
        """Which of the SQL files it speaks."""
        ...

    @property
    def many_at_once(self) -> bool:
        """Whether it works for several threads at the same time."""
        ...

    def transaction(self) -> AbstractContextManager[Session]:
        """Statements that are written together or not at all."""
        ...

    def together(self, steps: Sequence[Step]) -> list[list[Row]]:
        """Statements that do not depend on one another's answers, in one transaction.

        Where the database is far away, in one round trip.
        """
        ...

    def lending(self) -> AbstractContextManager[tuple[Any, Callable[[Step], list[Row]]]]:
        """A transaction for statements of a caller: the driver's connection, and ours on it.

        What else is asked of a SQLite store by the same thread meanwhile is refused.
        """
        ...

    def snapshot(self, timeout_seconds: float) -> AbstractContextManager[OpenSession]:
        """Statements that read, all in the same instant, each for at most so long."""
        ...

    def enqueue_plain(self, rows: Sequence[Row]) -> list[Row]:
        """The statement of that name, and the word to whoever waits, in as few trips as may be.

        Answers position and id of each job that was written.
        """
        ...

    def migrating(self) -> AbstractContextManager[OpenSession]:
        """The one transaction that may change the tables; others that want to wait for its end."""
        ...

    def place(self) -> Any:
        """What tells this database from others, whichever way one connects to it."""
        ...

    def moment(self) -> Any:
        """The time that statements are told; None leaves it to the database."""
        ...

    def written(self, time: datetime) -> object:
        """A time as this database's statements take it."""
        ...

    def read(self, found: Any) -> datetime:
        """A time as this database's statements answer it."""
        ...

    def names(self, names: Sequence[str] | None) -> object:
        """A list of names as this database's statements take it; None stays None."""
        ...

    def ids(self, ids: Sequence[int]) -> object:
        """A list of ids as this database's statements take it."""
        ...

    def times(self, times: Sequence[datetime | None]) -> object:
        """A list of times as this database's statements take it."""
        ...

    def wake(self) -> None:
        """Tell whoever waits that there may be work; cheap, and cheap to repeat."""
        ...

    def nudge(self) -> None:
        """Tell those who wait in this process, and nobody else."""
        ...

    def wait(self, timeout_seconds: float) -> bool:
        """Return when told, or after the timeout; true if told."""
        ...

    def close(self) -> None:
        """Let go of every connection."""
        ...
