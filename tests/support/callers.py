"""Connections as an application has them, each with a word for its own statements and its end."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import psycopg
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

_aliases = count()


@dataclass(frozen=True)
class Caller:
    """A connection in an open transaction."""

    given: Any
    run: Callable[[str], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]


@contextmanager
def of_psycopg(url: str, **how: Any) -> Iterator[Caller]:
    with psycopg.connect(url, **how) as connection:
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)


@contextmanager
def of_psycopg_set_otherwise(url: str) -> Iterator[Caller]:
    how = {"row_factory": dict_row, "cursor_factory": psycopg.RawCursor}
    with of_psycopg(url, client_encoding="latin1", **how) as caller:
        yield caller


@contextmanager
def of_psycopg_in_a_block(url: str) -> Iterator[Caller]:
    """Autocommit, and a transaction that was begun by hand."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("BEGIN")
        run = connection.execute
        yield Caller(connection, run, lambda: run("COMMIT"), lambda: run("ROLLBACK"))


@contextmanager
def of_sqlalchemy(url: str) -> Iterator[Caller]:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.connect() as connection:
            yield Caller(
                connection,
                lambda sql: connection.execute(sqlalchemy.text(sql)),
                connection.commit,
                connection.rollback,
            )
    finally:
        engine.dispose()


@contextmanager
def of_a_session(url: str, *, scoped: bool = False) -> Iterator[Caller]:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    session: Any = scoped_session(sessionmaker(engine)) if scoped else Session(engine)
    run = lambda sql: session.execute(sqlalchemy.text(sql))  # noqa: E731
    try:
        yield Caller(session, run, session.commit, session.rollback)
    finally:
        session.close()
        engine.dispose()


@contextmanager
def of_a_scoped_session(url: str) -> Iterator[Caller]:
    with of_a_session(url, scoped=True) as caller:
        yield caller


@contextmanager
def django_connection(url: str) -> Iterator[Any]:
    """Django's own wrapper, as `connections[alias]` has it."""
    import django
    from django.conf import settings
    from django.db import connections

    if not settings.configured:
        settings.configure(USE_TZ=True, LOGGING_CONFIG=None)
        django.setup()
    at = sqlalchemy.make_url(url)
    alias = f"caller{next(_aliases)}"
    kind = "postgresql" if at.drivername == "postgresql" else "sqlite3"
    chosen = {
        "ENGINE": f"django.db.backends.{kind}", "NAME": at.database,
        "HOST": at.host or "", "PORT": at.port or "", "USER": at.username or "",
    }  # fmt: skip
    connections.databases[alias] = connections.configure_settings({"default": chosen})["default"]
    try:
        yield connections[alias]
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.databases[alias]


@contextmanager
def of_django(url: str, *, proxied: bool = False) -> Iterator[Caller]:
    from django.db import connections, transaction
    from django.utils.connection import ConnectionProxy

    with django_connection(url) as connection:
        block = transaction.atomic(using=connection.alias)
        given = ConnectionProxy(connections, connection.alias) if proxied else connection

        def run(sql: str) -> Any:
            cursor = connection.cursor()
            cursor.execute(sql)
            return cursor

        def end(*, good: bool) -> None:
            if not good:
                transaction.set_rollback(True, using=connection.alias)
            block.__exit__(None, None, None)

        block.__enter__()
        yield Caller(given, run, lambda: end(good=True), lambda: end(good=False))


@contextmanager
def of_djangos_proxy(url: str) -> Iterator[Caller]:
    with of_django(url, proxied=True) as caller:
        yield caller


ON_POSTGRES = (
    of_psycopg,
    of_psycopg_set_otherwise,
    of_psycopg_in_a_block,
    of_sqlalchemy,
    of_a_session,
    of_a_scoped_session,
    of_django,
    of_djangos_proxy,
)


@contextmanager
def of_sqlite3(url: str, **how: Any) -> Iterator[Caller]:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), **how)) as connection:
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)


@contextmanager
def of_sqlite3_set_otherwise(url: str) -> Iterator[Caller]:
    """Autocommit, and a transaction that was begun by hand; rows and text of other kinds."""
    with of_sqlite3(url, isolation_level=None) as caller:
        caller.given.row_factory = sqlite3.Row
        caller.given.text_factory = bytes
        caller.run("BEGIN")
        yield caller
        assert (caller.given.row_factory, caller.given.text_factory) == (sqlite3.Row, bytes)


ON_SQLITE = (
    of_sqlite3,
    of_sqlite3_set_otherwise,
    of_sqlalchemy,
    of_a_session,
    of_a_scoped_session,
    of_django,
    of_djangos_proxy,
)

# --- async --------------------------------------------------------------------------------------


@asynccontextmanager
async def of_async_psycopg(url: str) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)


def _of_async_sqlalchemy(driver: str) -> Callable[[str], Any]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Caller]:
        engine = create_async_engine(url.replace("postgresql:", f"postgresql+{driver}:"))
        async with engine.connect() as connection:
            yield Caller(
                connection,
                lambda sql: connection.execute(sqlalchemy.text(sql)),
                connection.commit,
                connection.rollback,
            )
        await engine.dispose()

    return opened


def _of_an_async_session(driver: str) -> Callable[[str], Any]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Caller]:
        engine = create_async_engine(url.replace("postgresql:", f"postgresql+{driver}:"))
        async with AsyncSession(engine) as session:
            yield Caller(
                session,
                lambda sql: session.execute(sqlalchemy.text(sql)),
                session.commit,
                session.rollback,
            )
        await engine.dispose()

    return opened


ASYNC = {
    "psycopg": of_async_psycopg,
    "connection over psycopg": _of_async_sqlalchemy("psycopg"),
    "connection over asyncpg": _of_async_sqlalchemy("asyncpg"),
    "session over psycopg": _of_an_async_session("psycopg"),
    "session over asyncpg": _of_an_async_session("asyncpg"),
}
