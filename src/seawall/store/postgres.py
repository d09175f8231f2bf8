"""The ledger's statements on PostgreSQL 15 and later, through psycopg.

A batch travels as one JSON parameter and becomes rows inside the statement: measured beside arrays,
it is the faster way. A verb of one statement is one round trip; transactions use the pipeline, so
that BEGIN and COMMIT travel with their neighbours. Nothing depends on the session, so a pooler in
transaction mode may stand in between (see `postgres_connections`). Only LISTEN needs a connection
of its own, to the server itself (`listen_url`); without one, polling does.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

import psycopg
from psycopg.rows import tuple_row

from seawall.clock import Clock
from seawall.errors import StoreError, StoreUnavailableError
from seawall.store import callers_postgres, forks, statements
from seawall.store.backend import (
    MIGRATION_SECONDS,
    STATEMENT_SECONDS,
    ConflictError,
    Row,
    Step,
    Values,
)
from seawall.store.bell import Bell
from seawall.store.postgres_connections import Connection, Connections, address
from seawall.store.wake import Listener, Waker

ROWS_WORTH_A_COPY = 500
"""Up to here one statement with the rows in it is quicker than COPY: see `bench/store.py`."""
TRIES_ON_CONFLICT = 5

T = TypeVar("T")

_AS_USUAL = "SET LOCAL enable_seqscan TO DEFAULT; SET LOCAL jit TO DEFAULT"
"""What we tell a session for our own statements would slow down a caller's."""

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


class PostgresBackend:
    """One PostgreSQL database, shared by as many processes as there are connections."""

    dialect = "postgres"

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

    def batch(self, name: str, rows: Sequence[Values], /, **values: object) -> list[Row]:
        return self._once(name, {"rows": _json(rows), **values})

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

    def enqueue(self, rows: Sequence[Values]) -> list[Row]:
        plain = all(row["key"] is row["worker"] is row["tags"] is None for row in rows)
        if plain and len(rows) >= ROWS_WORTH_A_COPY:
            return _retried(lambda: self._copied(rows))
        return self.batch("enqueue", rows)

    def _copied(self, rows: Sequence[Values]) -> list[Row]:
        """Bulk: ids first, then two streams, then the count."""
        lanes = list({row["lane"] for row in rows})
        with self._connected() as connection, connection.transaction():
            if self.pooled:
                self._connections.limit(connection)
            session = _Session(connection, self._sql, self._now())
            reserved = session.all(
                "reserve_ids", many=len(rows), lanes=self.ids(lanes), lane_count=len(lanes)
            )
            if not reserved:
                return []
            given = [(row, *found) for row, found in zip(rows, reserved, strict=True)]
            session.copy("load_jobs", (_job_copied(*each) for each in given))
            session.copy("load_data", (_data_copied(row, id_) for row, id_, _ in given))
            session.all("count_in", jobs=len(rows))
        return [(row["position"], id_) for row, id_, _ in given]

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

    def all(self, name: str, /, **values: object) -> list[Row]:
        values["now"] = self._now
        cursor = self._connection.cursor(binary=True)
        cursor.execute(self._sql[name], values)
        return cursor.fetchall()

    def batch(self, name: str, rows: Sequence[Values], /, **values: object) -> list[Row]:
        return self.all(name, rows=_json(rows), **values)

    def copy(self, name: str, rows: Iterable[Row]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(self._sql[name]) as copy:
            for row in rows:
                copy.write_row(row)

    def script(self, sql: str) -> None:
        self._connection.execute(sql, prepare=False)


def _job_copied(row: Values, id_: int, now: datetime) -> Row:
    """A row as `load_jobs` takes it."""
    after = row["run_after"] and datetime.fromisoformat(row["run_after"])
    due_at, due_set_at = (after, None) if after and after > now else (now, now)
    if not after and row["run_after_span"] is not None:
        due_at = now + timedelta(microseconds=row["run_after_span"])
    deadline_at = row["deadline_at"]
    if deadline_at is None and row["deadline_span"] is not None:
        deadline_at = now + timedelta(microseconds=row["deadline_span"])
    return (
        id_, row["lane"], "queued", due_at, due_set_at, row["stage"],
        deadline_at, row["run"], row["owner"], now,
    )  # fmt: skip


def _data_copied(row: Values, id_: int) -> Row:
    """A row as `load_data` takes it."""
    return (id_, row["codec"], row["arguments"], row["request_id"])


def _retried(ask: Callable[[], T]) -> T:
    """Ask once more where others were in the way: nothing had been done."""
    for tries in range(TRIES_ON_CONFLICT):
        try:
            return ask()
        except ConflictError as error:
            if tries == TRIES_ON_CONFLICT - 1:
                raise StoreUnavailableError(str(error)) from error
    raise AssertionError("unreachable")
