"""Jobs in a transaction of the caller's, on a connection of the caller's.

A connection is known by its class, which only the library that made it can have brought along: so
none of them is imported here for its own sake. A SQLite store is never opened here, because one
process must not have the file open twice (`foreign`).
"""

import sys
from collections.abc import Sequence
from typing import Any

from seawall.clock import Clock, SystemClock
from seawall.errors import ConfigurationError, StoreError
from seawall.model import Lane, NewJob
from seawall.store import callers_sqlite, inside
from seawall.store.backend import Backend
from seawall.store.lanes import Lanes
from seawall.store.values import Enqueued, need_batch

_SYNC = "a connection of psycopg, SQLAlchemy (or a Session), Django or sqlite3"
_ASYNC = "an AsyncConnection of psycopg or SQLAlchemy, or an AsyncSession"


def enqueued_on(
    backend: Backend, lanes: Lanes, connection: Any, jobs: Sequence[NewJob]
) -> list[Enqueued]:
    """Write the jobs in the transaction that the caller has open on its own connection."""
    need_batch(jobs)
    if backend.dialect == "sqlite":
        return enqueued_on_file(backend.place(), backend.moment(), connection, jobs)
    ask = _postgres_ask(connection, backend.moment())
    if not jobs:
        return []
    from seawall.store import callers_postgres  # noqa: PLC0415 - psycopg is an extra

    lane_ids, place = _prepared(backend, lanes, jobs)
    try:
        return inside.run(callers_postgres.steps(jobs, lane_ids, place), ask)
    except inside.GoneError:
        lanes.forget()
        raise


async def aenqueued_on(
    backend: Backend, lanes: Lanes, connection: Any, jobs: Sequence[NewJob]
) -> list[Enqueued]:
    """The async twin of `enqueued_on`."""
    import asyncio  # noqa: PLC0415 - whoever gives an async connection has it loaded

    need_batch(jobs)
    if backend.dialect == "sqlite":
        refuse_async_sqlite(connection)
    ask = await _postgres_async_ask(connection, backend.moment())
    if not jobs:
        return []
    from seawall.store import callers_postgres  # noqa: PLC0415 - psycopg is an extra

    lane_ids, place = await asyncio.to_thread(_prepared, backend, lanes, jobs)
    try:
        return await inside.arun(callers_postgres.steps(jobs, lane_ids, place), ask)
    except inside.GoneError:
        lanes.forget()
        raise


def _prepared(
    backend: Backend, lanes: Lanes, jobs: Sequence[NewJob]
) -> tuple[dict[Lane, int], Any]:
    """What the store's own connections must do first.

    Lanes are numbered in the order of their commits, so a caller's transaction must not hold them.
    """
    return lanes.ids(job.lane for job in jobs), backend.place()


def enqueued_on_file(
    path: str, now: int, connection: Any, jobs: Sequence[NewJob]
) -> list[Enqueued]:
    """`enqueued_on` for the store in that SQLite file, which need not be open and must not be."""
    need_batch(jobs)
    _refuse_async(connection)
    found = _beneath(connection)
    if not _is(found, "sqlite3", "Connection"):
        if found is connection:
            raise _unknown(connection, _SYNC)
        raise StoreError(
            f"the connection leads to another database than the store's, the SQLite file {path}:"
            " give one to that file"
        )
    if path == ":memory:":
        raise StoreError(
            "a store in memory has one connection, its own: use `with app.transaction() as"
            " connection:` instead"
        )
    return callers_sqlite.enqueued_on(path, now, found, jobs) if jobs else []


def enqueued_beside_file(
    path: str, clock: Clock | None, connection: Any, jobs: Sequence[NewJob]
) -> list[Enqueued]:
    """`enqueued_on_file` at the time that the clock tells, or this machine's own."""
    now = callers_sqlite.written((clock or SystemClock()).now())
    return enqueued_on_file(path, now, connection, jobs)


def refuse_async_sqlite(connection: Any) -> None:
    """`ConfigurationError`, always: no async library is known to be safe with the store's file."""
    if not _is_async(connection):
        raise _unknown(connection, _ASYNC)
    raise ConfigurationError(
        "connection: a SQLite store takes no async one; give one of sqlite3, and call the form that"
        " is not async"
    )


# --- which connection it is -------------------------------------------------------------------


def _postgres_ask(connection: Any, now: object) -> inside.Ask:
    """How statements are run on the caller's connection to PostgreSQL."""
    from seawall.store import callers_postgres  # noqa: PLC0415 - psycopg is an extra

    _refuse_async(connection)
    found = _beneath(connection)
    if _is(found, "psycopg", "Connection"):
        callers_postgres.need_transaction(found)
        return callers_postgres.psycopg_ask(found, now)
    if _is(found, "sqlalchemy", "Connection"):
        _need_postgres(found.dialect.name)
        return callers_postgres.sqlalchemy_ask(found, _text(now))
    if _is(found, "sqlite3", "Connection"):
        _need_postgres("sqlite")
    raise _unknown(connection, _SYNC)


def postgres_beneath(backend: Backend, connection: Any) -> Any:
    """The connection of psycopg in the caller's, which is in a transaction; `StoreError` if not."""
    if backend.dialect == "sqlite":
        raise StoreError("a SQLite store is not read through a connection of the caller's")
    from seawall.store import callers_postgres  # noqa: PLC0415 - psycopg is an extra

    _refuse_async(connection)
    found = _beneath(connection)
    if not _is(found, "psycopg", "Connection"):
        raise _unknown(connection, "a connection of psycopg or Django")
    callers_postgres.need_transaction(found)
    return found


async def _postgres_async_ask(connection: Any, now: object) -> inside.AsyncAsk:
    from seawall.store import callers_postgres  # noqa: PLC0415 - psycopg is an extra

    if _is(connection, "psycopg", "AsyncConnection"):
        callers_postgres.need_transaction(connection)
        return callers_postgres.psycopg_async_ask(connection, now)
    if _is_any(connection, "sqlalchemy.ext.asyncio", "AsyncSession", "async_scoped_session"):
        connection = await connection.connection()
    if _is(connection, "sqlalchemy.ext.asyncio", "AsyncConnection"):
        _need_postgres(connection.dialect.name)
        return callers_postgres.sqlalchemy_async_ask(connection, _text(now))
    raise _unknown(connection, _ASYNC)


def _text(now: Any) -> str | None:
    return None if now is None else str(now.isoformat())


def _beneath(connection: Any) -> Any:
    """The driver's connection in Django's and in SQLAlchemy's of SQLite; SQLAlchemy's otherwise."""
    if _is_any(connection, "sqlalchemy.orm", "Session", "scoped_session"):
        connection = connection.connection()
    if _is(connection, "sqlalchemy", "Connection"):
        if connection.dialect.name != "sqlite":
            return connection
        if not connection.in_transaction():
            connection.begin()  # as its own statements would: so that its commit is one
        return connection.connection.dbapi_connection
    if _is_of_django(connection):
        return _beneath_django(connection)
    return connection


def _is_of_django(connection: Any) -> bool:
    proxied = _is(connection, "django.utils.connection", "ConnectionProxy")
    return _is(connection, "django.db.backends.base.base", "BaseDatabaseWrapper") or (
        proxied and hasattr(connection, "in_atomic_block")
    )


def _beneath_django(connection: Any) -> Any:
    if not connection.in_atomic_block:
        raise StoreError(
            f"Django's connection {connection.alias!r} is in no transaction: enqueue inside"
            " `with transaction.atomic():`, so that the job is part of it"
        )
    connection.validate_no_broken_transaction()
    connection.ensure_connection()
    found = connection.connection
    if not (_is(found, "psycopg", "Connection") or _is(found, "sqlite3", "Connection")):
        raise ConfigurationError(
            f"connection: Django's {connection.alias!r} is of {type(found).__module__}; expected"
            " psycopg 3 or sqlite3"
        )
    return found


def _is(connection: Any, module: str, name: str) -> bool:
    """Whether it is of that class, which is loaded if there is an object of it."""
    return isinstance(connection, getattr(sys.modules.get(module), name, ()))


def _is_any(connection: Any, module: str, *names: str) -> bool:
    return any(_is(connection, module, name) for name in names)


def _is_async(connection: Any) -> bool:
    return _is(connection, "psycopg", "AsyncConnection") or _is_any(
        connection,
        "sqlalchemy.ext.asyncio",
        "AsyncConnection",
        "AsyncSession",
        "async_scoped_session",
    )


def _refuse_async(connection: Any) -> None:
    if _is_async(connection):
        raise ConfigurationError(
            f"connection: {type(connection).__name__} is async; await the async form of this call,"
            f" or give {_SYNC}"
        )


def _need_postgres(dialect: str) -> None:
    if dialect != "postgresql":
        raise StoreError(
            f"the connection leads to another database than the store's, a PostgreSQL: it is one of"
            f" {dialect}"
        )


def _unknown(connection: Any, expected: str) -> ConfigurationError:
    found = f"{type(connection).__module__}.{type(connection).__qualname__}"
    other = "; call the form that is not async for others" if expected is _ASYNC else ""
    return ConfigurationError(f"connection: found {found}, expected {expected}{other}")
