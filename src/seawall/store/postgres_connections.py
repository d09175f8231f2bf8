"""Connections to one PostgreSQL: where it is, how they are made, lent, watched and let go of.

What a session is told is told here, and that a pooler in between, which would forget it, is noticed
by the process id that it makes up: then nothing is told to the session, statements are not
prepared, and the time limit is set inside each transaction.
"""

import logging
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from seawall.errors import ConfigurationError, StoreError, StoreUnavailableError
from seawall.store.backend import Row
from seawall.store.postgres_errors import cause, our_errors

OLDEST_SERVER = 150_000
CONNECTIONS = 8
_CONNECT_SECONDS = 10

Connection = psycopg.Connection[Row]

_SESSION = {
    "idle_in_transaction_session_timeout": "60000",
    # Times come as UTC, so that nobody has to turn each of them into it.
    "TimeZone": "UTC",
    "default_transaction_isolation": "read committed",
    # A plan is made once and kept. Left to itself the server thinks that one made for just these
    # rows would be cheaper, and makes it every time: that takes longer than the statement.
    "plan_cache_mode": "force_generic_plan",
    # It was made, perhaps, when the tables were empty: it must not read them whole.
    "enable_seqscan": "off",
    # And a plan that must is made to look so dear that it would be compiled, each time it runs.
    "jit": "off",
}

_POOL_NAME = "seawall"


def _not_our_pool(record: logging.LogRecord) -> bool:
    """What psycopg's pool warns of again and again while a server is away, our errors say."""
    return record.levelno >= logging.ERROR or _POOL_NAME not in (record.args or ())


logging.getLogger("psycopg.pool").addFilter(_not_our_pool)

_KEEPALIVE: dict[str, Any] = {
    "application_name": "seawall",
    "connect_timeout": _CONNECT_SECONDS,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


class Connections:
    """A pool of connections that is made when it is first needed."""

    def __init__(
        self, address: str, *, statement_seconds: float, connection_seconds: float
    ) -> None:
        self.address = address
        self._statement_seconds = statement_seconds
        self._connection_seconds = connection_seconds
        # A class of its own remembers for this store alone.
        self._watched: type[_Watched] = type("_Ours", (_Watched,), {})
        self.closed = False
        self.pooled = self._looked_at()
        self.begin_anew()

    def begin_anew(self) -> None:
        """As before the first use; a child of a fork leaves its parent's connections alone."""
        self._opening = threading.Lock()
        self._inherited = getattr(self, "_pool", None)
        self._pool: ConnectionPool[Connection] | None = None

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        with our_errors(), self._borrowed() as connection:
            try:
                yield connection
            except Exception as error:
                if connection.broken:  # whatever else a lost connection looks like
                    raise StoreUnavailableError("PostgreSQL: the connection broke") from error
                raise

    @contextmanager
    def _borrowed(self) -> Iterator[Connection]:
        pool = self._opened()
        try:
            connection = pool.getconn()
        except PoolTimeout as error:
            why = self._watched.last_failure
            raise StoreUnavailableError(f"PostgreSQL: no connection in time{why}") from error
        try:
            yield connection
        finally:
            pool.putconn(connection)

    def _opened(self) -> "ConnectionPool[Connection]":
        if self._pool is None:
            with self._opening:
                self.need_open()
                if self._pool is None:
                    self._pool = self._new_pool()
        return self._pool

    def need_open(self) -> None:
        if self.closed:
            raise StoreError("PostgreSQL: the store is closed")

    def _looked_at(self) -> bool:
        """Whether a pooler stands in between; `StoreError` where the server is too old.

        A pooler must make up the process id that it gives its clients, because it has many
        servers behind it. So the id of the handshake and that of the server then differ.
        """
        with our_errors(), psycopg.connect(self.address, autocommit=True) as connection:
            version = connection.info.server_version
            if version < OLDEST_SERVER:
                raise StoreError(f"PostgreSQL {version // 10_000} is too old: 15 is the oldest")
            encoding = connection.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise StoreError(f"the database keeps text as {encoding}: make one with UTF8")
            answer = connection.execute("SELECT pg_backend_pid()").fetchone()
            return answer != (connection.info.backend_pid,)

    def _new_pool(self) -> "ConnectionPool[Connection]":
        return ConnectionPool(
            self.address,
            min_size=1,
            max_size=CONNECTIONS,
            timeout=self._connection_seconds,
            kwargs={"autocommit": True},
            configure=self._configure,
            check=_still_there,
            connection_class=self._watched,
            name=_POOL_NAME,
            open=True,
        )

    def _configure(self, connection: Connection) -> None:
        """A pooler forgets what a session was told, so behind one nothing is told to it."""
        connection.prepare_threshold = None if self.pooled else 0
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        if not self.pooled:
            limit = _milliseconds(self._statement_seconds)
            for name, value in {**_SESSION, "statement_timeout": limit}.items():
                connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    def limit(self, connection: Connection, seconds: float | None = None) -> None:
        """A time limit for each statement of this transaction; by default the usual one."""
        limit = _milliseconds(self._statement_seconds if seconds is None else seconds)
        connection.execute("SELECT set_config('statement_timeout', %s, true)", (limit,))

    def shut(self) -> None:
        """Lend no more."""
        with self._opening:
            self.closed = True

    def close(self) -> None:
        """Let go of every connection."""
        self.shut()
        if self._pool is not None:
            self._pool.close()


class _Watched(psycopg.Connection[Row]):
    """A connection whose last failed attempt is remembered, to tell why there is none."""

    last_failure: ClassVar[str] = ""

    @classmethod
    def connect(cls, *words: Any, **how: Any) -> Self:
        try:
            made = super().connect(*words, **how)
        except psycopg.Error as error:
            cls.last_failure = f": {cause(error)}"
            raise
        cls.last_failure = ""
        return made


def address(setting: str, url: str) -> str:
    """The address with our defaults for what it leaves open."""
    try:
        return make_conninfo("", **{**_KEEPALIVE, **conninfo_to_dict(url)})
    except psycopg.Error:  # its words may quote a password
        raise ConfigurationError(
            f"{setting}: is no address of a PostgreSQL; expected postgresql://USER@HOST/DATABASE,"
            " with %25 for a percent sign"
        ) from None


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(seconds * 1000)))


def _still_there(connection: Connection) -> None:
    """Ask the server only if it said something unasked, as it does when it goes away."""
    if _has_something_to_say(connection.fileno()):
        connection.execute("SELECT 1")


def _has_something_to_say(file: int) -> bool:
    if not hasattr(select, "poll"):  # Windows, whose select knows no bound
        return bool(select.select([file], [], [], 0)[0])
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))
