"""The ledger's statements on PostgreSQL 15 and later, through psycopg.

A batch travels as one JSON parameter and becomes rows inside the statement; what comes by the
thousand (plain jobs, plain successes) travels as an array for each column, which is faster still. A
verb of one statement is one round trip; transactions use the pipeline, so that BEGIN and COMMIT
travel with their neighbours. Nothing depends on the session, so a pooler in transaction mode may
stand in between (see `postgres_connections`). Only LISTEN needs a connection of its own, to the
server itself (`listen_url`); without one, polling does.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import psycopg
from psycopg.rows import tuple_row

from seawall.clock import Clock
from seawall.errors import StoreError, StoreUnavailableError
from seawall.store import callers_postgres, forks, statements
from seawall.store.backend import (
    MIGRATION_SECONDS,
    STATEMENT_SECONDS,
    Batch,
    ConflictError,
    Row,
    Step,
    Values,
)
from seawall.store.bell import Bell
from seawall.store.postgres_connections import Connection, Connections, address
from seawall.store.wake import Listener, Waker

TRIES_ON_CONFLICT = 5

T = TypeVar("T")

_AS_USUAL = "".join(
    f"SET LOCAL {name} TO DEFAULT;" for name in ("enable_seqscan", "jit", "TimeZone")
)
"""What we tell a session for our own statements is not what a caller expects of his."""

_BETWEEN = "\0"
"""What stands in no text that a store keeps."""

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


class PostgresBackend:
    """One PostgreSQL database, shared by as many processes as there are connections."""

    dialect = "postgres"
    many_at_once = True

    def __init__(
        self,
        url: str,
        *,
        listen_url: str | None = None,
        clock: Clock | None = None,
        statement_seconds: float = STATEMENT_SECONDS,
        connection_seconds: float | None = None,
    ) -> None:
        self._connections = Connections(
            address("url", url),
            statement_seconds=statement_seconds,
            connection_seconds=connection_seconds or statement_seconds,
        )
        self._connected = self._connections.lent
        self._listen_address = None if listen_url is None else address("listen_url", listen_url)
        self._clock = clock
        self._sql = {name: each.sql for name, each in statements.load(self.dialect).items()}
        self._bell = Bell()
        self._place: callers_postgres.Place | None = None
        self._listener: Listener | None = None
        self._open()
        forks.watch(self)

    @property
    def pooled(self) -> bool:
        """Whether a pooler stands in between."""
        return self._connections.pooled

    # --- statements ---------------------------------------------------------------------------

    def all(self, name: str, /, **values: object) -> list[Row]:
        return self._once(name, values)

    def batch(self, name: str, rows: Batch, /, **values: object) -> list[Row]:
        return self._once(name, {**_given(name, rows), **values})

    def _once(self, name: str, values: Values) -> list[Row]:
        """One statement, one transaction, one round trip; again where others were in the way."""
        values["now"] = self._now()
        return _retried(lambda: self._asked(self._sql[name], values))

    def _asked(self, sql: str, values: Values) -> list[Row]:
        with self._connected() as connection:
            cursor = connection.cursor(binary=True)
            if not self.pooled:
                cursor.execute(sql, values)
            else:
                with connection.pipeline(), connection.transaction():
                    self._connections.limit(connection)
                    cursor.execute(sql, values)
            return cursor.fetchall()

    @contextmanager
    def transaction(self) -> "Iterator[_Session]":
        with self._connected() as connection, connection.pipeline(), connection.transaction():
            if self.pooled:
                self._connections.limit(connection)
            yield _Session(connection, self._sql, self._now())

    def together(self, steps: Sequence[Step]) -> list[list[Row]]:
        if len(steps) > 1:
            return _retried(lambda: self._in_one_pipeline(steps))
        return [self._once(step.name, _values(step)) for step in steps]

    def _in_one_pipeline(self, steps: Sequence[Step]) -> list[list[Row]]:
        """A pipeline is one transaction, ended by its end: nothing has to be said for that."""
        with self._connected() as connection:
            session = _Session(connection, self._sql, self._now())
            if self.pooled:
                with connection.pipeline(), connection.transaction():
                    self._connections.limit(connection)
                    asked = [session.asked(step) for step in steps]
            else:
                with connection.pipeline():
                    asked = [session.asked(step) for step in steps]
            return [cursor.fetchall() for cursor in asked]

    @contextmanager
    def lending(self) -> Iterator[tuple[Connection, Callable[[Step], list[Row]]]]:
        """As a caller expects a connection to be; it is ours again afterwards."""
        with self._connected() as connection, connection.transaction():
            if self.pooled:
                self._connections.limit(connection)
            else:
                connection.execute(_AS_USUAL, prepare=False)
            try:
                yield connection, callers_postgres.psycopg_ask(connection, self._now())
            finally:
                connection.row_factory, connection.cursor_factory = tuple_row, psycopg.Cursor

    @contextmanager
    def snapshot(self, timeout_seconds: float) -> "Iterator[_Session]":
        with self._connected() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            self._connections.limit(connection, timeout_seconds)
            connection.execute("SET LOCAL enable_seqscan = on")  # these do read everything
            yield _Session(connection, self._sql, self._now())

    def enqueue_plain(self, rows: Sequence[Row]) -> list[Row]:
        tell = self._waker.may_tell()
        ((ids, _),) = self.batch("enqueue_plain", rows, tell=tell)
        if not tell:
            self.wake()
        return list(enumerate(map(int, ids.split(",")))) if ids else []

    @contextmanager
    def migrating(self) -> "Iterator[_Session]":
        """The fleet's one transaction that may change the tables; the others wait for its end."""
        with self._connected() as connection, connection.transaction():
            self._connections.limit(connection, MIGRATION_SECONDS)
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('seawall', 0))")
            yield _Session(connection, self._sql, self._now())

    # --- values -------------------------------------------------------------------------------

    def _now(self) -> datetime | None:
        """None leaves it to the server."""
        return self._clock.now() if self._clock else None

    def place(self) -> callers_postgres.Place:
        if self._place is None:
            with self._connected() as connection:
                self._place = connection.execute(callers_postgres.WHERE).fetchall()[0]
        return self._place

    def moment(self) -> datetime | None:
        return self._now()

    def written(self, time: datetime) -> str:
        return time.isoformat()

    def read(self, found: Any) -> datetime:
        time = cast("datetime", found)
        return time if time.tzinfo is UTC else time.astimezone(UTC)

    def names(self, names: Sequence[str] | None) -> list[str] | None:
        return None if names is None else list(names)

    def ids(self, ids: Sequence[int]) -> str:
        return "{" + ",".join(map(str, ids)) + "}"  # psycopg takes far longer over a list

    def times(self, times: Sequence[datetime | None]) -> str:
        return "{" + ",".join(time.isoformat() if time else "NULL" for time in times) + "}"

    # --- waking -------------------------------------------------------------------------------

    def wake(self) -> None:
        self._waker.wake()

    def nudge(self) -> None:
        self._bell.ring()

    def _tell(self) -> None:
        with suppress(StoreError):  # whoever was to be told will look by itself
            self.all("tell")

    def wait(self, timeout_seconds: float) -> bool:
        with self._opening:
            self._connections.need_open()
            if self._listener is None:
                own = None if self.pooled else self._connections.address
                self._listener = Listener(self._listen_address or own, self._bell)
        return self._bell.wait(timeout_seconds)

    # --- connections --------------------------------------------------------------------------

    def _open(self) -> None:
        """As before the first use: a waker and a listener that belong to this process."""
        self._opening = threading.Lock()
        self._listener = None
        self._waker = Waker(self._tell)

    def before_fork(self) -> None:
        """Nothing to let go of: psycopg touches no connection of another process."""

    def after_fork(self, *, child: bool) -> None:
        if child:
            self._inherited = (self._listener, self._waker)
            self._connections.begin_anew()
            self._open()

    def close(self) -> None:
        if not self._connections.closed:
            self._waker.close()
        with self._opening:
            listener = self._listener
            self._connections.shut()
        if listener is not None:
            listener.close()
        self._connections.close()


class _Session:
    """Statements of one transaction, all at one moment."""

    def __init__(
        self, connection: Connection, statements: dict[str, str], now: datetime | None
    ) -> None:
        self._connection = connection
        self._sql = statements
        self._now = now

    @property
    def connection(self) -> Connection:
        return self._connection

    def all(self, name: str, /, **values: object) -> list[Row]:
        values["now"] = self._now
        cursor = self._connection.cursor(binary=True)
        cursor.execute(self._sql[name], values)
        return cursor.fetchall()

    def batch(self, name: str, rows: Batch, /, **values: object) -> list[Row]:
        return self.all(name, **_given(name, rows), **values)

    def asked(self, step: Step) -> psycopg.Cursor[Row]:
        """Ask now, and fetch the answer from the cursor when the pipeline has brought it."""
        values = {"now": self._now, **_values(step)}
        return self._connection.cursor(binary=True).execute(self._sql[step.name], values)

    def script(self, sql: str) -> None:
        self._connection.execute(sql, prepare=False)


def _values(step: Step) -> Values:
    values = dict(step.values or {})
    if step.rows is not None:
        values |= _given(step.name, step.rows)
    return values


def _given(name: str, rows: Batch) -> Values:
    """Rows as a statement takes them: its columns, or, where it names none, JSON."""
    columns = statements.load(PostgresBackend.dialect)[name].given
    if not columns:
        return {"rows": _json(rows)}
    return dict(zip(columns, map(_array, zip(*rows, strict=True)), strict=True))


def _array(column: Sequence[Any]) -> str | None:
    """A column as the text of an array; psycopg takes far longer over a list."""
    first, many = column[0], len(column)
    if column.count(first) == many:  # as often
        return None if first is None else "{" + ",".join([_element(first)] * many) + "}"
    try:
        text = _BETWEEN.join(column)
    except TypeError:  # numbers, or text that is not there in every row
        return "{" + ",".join(map(_element if None in column else str, column)) + "}"
    if text.count(_BETWEEN) >= many:  # what no store keeps: the server will say so
        return "{" + ",".join(map(_element, column)) + "}"
    return '{"' + _quoted(text).replace(_BETWEEN, '","') + '"}'


def _element(found: Any) -> str:
    if found is None:
        return "NULL"
    return f'"{_quoted(found)}"' if isinstance(found, str) else str(found)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _retried(ask: Callable[[], T]) -> T:
    """Ask once more where others were in the way: nothing had been done."""
    for tries in range(TRIES_ON_CONFLICT):
        try:
            return ask()
        except ConflictError as error:
            if tries == TRIES_ON_CONFLICT - 1:
                raise StoreUnavailableError(str(error)) from error
    raise AssertionError("unreachable")
