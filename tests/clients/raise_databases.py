"""How the databases are made to raise: PostgreSQL, and SQLite by its two clients."""

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import psycopg
import psycopg_pool

from tests.clients.limits import no_larger_files
from tests.clients.world import Raise, World

# ---------------------------------------------------------------- PostgreSQL

PgScript = Callable[[psycopg.Connection[Any], psycopg.Connection[Any]], object]


def by_psycopg(script: PgScript) -> Raise:
    """Two connections to a new database that has one table with one row."""

    def raise_it(world: World) -> None:
        dsn = world.postgres.new_database()
        with psycopg.connect(dsn) as one, psycopg.connect(dsn) as other:
            one.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
            one.execute("INSERT INTO t VALUES (1, 0), (2, 0)")
            one.commit()
            script(one, other)

    return raise_it


def by_psycopg_saying(sql: str) -> Raise:
    return by_psycopg(lambda one, _: one.execute(sql))


def by_psycopg_raising(sqlstate: str) -> Raise:
    """For what cannot be brought about on demand: the server itself raises that SQLSTATE."""
    return by_psycopg_saying(f"DO $$ BEGIN RAISE 'on purpose' USING ERRCODE = '{sqlstate}'; END $$")


def serialization_failure(one: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> None:
    """Both read before either writes: they cannot be put in an order."""
    for connection in (one, other):
        connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        connection.execute("SELECT * FROM t")
    one.execute("UPDATE t SET n = 1")
    one.commit()
    other.execute("UPDATE t SET n = 2")


def deadlock(one: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> None:
    """Each has locked what the other wants next; PostgreSQL ends whichever notices it first."""
    one.execute("UPDATE t SET n = 1 WHERE id = 1")
    other.execute("UPDATE t SET n = 1 WHERE id = 2")
    errors: list[psycopg.Error] = []

    def cross_over(connection: psycopg.Connection[Any], row: int) -> None:
        try:
            connection.execute("UPDATE t SET n = 2 WHERE id = %s", [row])
        except psycopg.Error as error:
            errors.append(error)

    thread = threading.Thread(target=cross_over, args=(other, 1))
    thread.start()
    cross_over(one, 2)
    one.rollback()
    thread.join()
    raise errors[0]


def lock_not_available(one: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> None:
    one.execute("SELECT * FROM t FOR UPDATE")
    other.execute("SELECT * FROM t FOR UPDATE NOWAIT")


def statement_timeout(one: psycopg.Connection[Any], _: object) -> None:
    one.execute("SET statement_timeout = '20ms'")
    one.execute("SELECT pg_sleep(30)")


def idle_in_transaction(one: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> None:
    """The server itself ends a transaction that nobody works on."""
    other.autocommit = True
    one.execute("SET idle_in_transaction_session_timeout = '20ms'")
    of_one = [one.info.backend_pid]
    while other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", of_one).fetchone():
        time.sleep(0.01)
    one.execute("SELECT 1")


def terminated(one: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> None:
    other.execute("SELECT pg_terminate_backend(%s, 5000)", [one.info.backend_pid])
    one.execute("SELECT 1")


def used_after_it_was_lost(one: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> None:
    with suppress(psycopg.Error):
        terminated(one, other)
    one.execute("SELECT 1")


def echo_of(sql: str) -> Raise:
    """The first error is handled badly: the next statement meets a failed transaction."""

    def script(one: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> None:
        other.execute("SELECT * FROM t FOR UPDATE")
        try:
            one.execute(sql)
        except psycopg.Error:
            one.execute("SELECT 1")

    return by_psycopg(script)


def echo_alone(one: psycopg.Connection[Any], _: object) -> None:
    with suppress(psycopg.Error):
        one.execute("SELECT 1/0")
    one.execute("SELECT 1")


def read_only(one: psycopg.Connection[Any], _: object) -> None:
    """What a client sees that still writes to a primary which has become a replica."""
    one.read_only = True
    one.execute("INSERT INTO t VALUES (3, 0)")


def by_psycopg_connecting(**settings: str) -> Raise:
    return lambda world: psycopg.connect(world.postgres.dsn(**settings))


def by_psycopg_connecting_to(place: str) -> Raise:
    def raise_it(world: World) -> None:
        host, _, port = world.url(place).removeprefix("http://").partition(":")
        psycopg.connect(host=host, port=port or "5432", dbname="d", user="u", connect_timeout=5)

    return raise_it


def by_psycopg_pool_that_is_empty(world: World) -> None:
    dsn = world.postgres.dsn()
    with psycopg_pool.ConnectionPool(dsn, min_size=1, max_size=1) as pool, pool.connection():
        pool.getconn(timeout=0.05)


def by_psycopg_pool_with_a_queue(world: World) -> None:
    """No connection is free, and as many wait for one as may."""
    with psycopg_pool.ConnectionPool(
        world.postgres.dsn(), min_size=1, max_size=1, max_waiting=1
    ) as pool:
        taken = pool.getconn()
        waiting = threading.Thread(target=lambda: pool.putconn(pool.getconn(timeout=30)))
        waiting.start()
        try:
            while not pool.get_stats()["requests_waiting"]:
                time.sleep(0.001)
            pool.getconn(timeout=30)
        finally:
            pool.putconn(taken)
            waiting.join()


def too_many_connections(world: World) -> None:
    dsn = world.postgres.new_database()
    name = dsn.partition("dbname=")[2].partition(" ")[0]
    with psycopg.connect(world.postgres.dsn(), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS crowded")
        connection.execute("CREATE ROLE crowded LOGIN CONNECTION LIMIT 0")
    psycopg.connect(world.postgres.dsn(dbname=name, user="crowded"))


# ---------------------------------------------------------------- SQLite

SqliteScript = Callable[[Callable[[], Any], Path], object]


def by_sqlite(client: str, script: SqliteScript) -> Raise:
    """The script gets a way to open one and the same file, and the file; all is closed after it."""

    def raise_it(world: World) -> None:
        path = world.folder / "jobs.db"
        opened: list[Any] = []

        def connect() -> Any:
            opened.append(_connect(client, path))
            return opened[-1]

        try:
            script(connect, path)
        finally:
            for connection in opened:
                connection.close()

    return raise_it


def _connect(client: str, path: Path) -> Any:
    if client == "apsw":
        return apsw.Connection(str(path))
    return sqlite3.connect(path, timeout=0, isolation_level=None)


def busy(connect: Callable[[], Any], _: Path) -> None:
    one, other = connect(), connect()
    one.execute("BEGIN IMMEDIATE")
    other.execute("BEGIN IMMEDIATE")


def busy_snapshot(connect: Callable[[], Any], _: Path) -> None:
    """It read, another wrote, and now it wants to write upon what it read."""
    one, other = connect(), connect()
    one.execute("PRAGMA journal_mode = WAL").fetchall()
    one.execute("CREATE TABLE t (n)")
    one.execute("BEGIN")
    one.execute("SELECT * FROM t").fetchall()
    other.execute("INSERT INTO t VALUES (1)")
    one.execute("INSERT INTO t VALUES (2)")


def locked(connect: Callable[[], Any], _: Path) -> None:
    """The same connection still reads from what it wants to drop."""
    one = connect()
    one.execute("CREATE TABLE t (n)")
    one.execute("INSERT INTO t VALUES (1), (2)")
    reading = one.execute("SELECT * FROM t")
    next(reading)
    try:
        one.execute("DROP TABLE t")
    finally:
        reading.close()


def not_a_database(connect: Callable[[], Any], path: Path) -> None:
    path.write_bytes(b"this was never a database\n" * 100)
    connect().execute("SELECT * FROM sqlite_schema")


def corrupt(connect: Callable[[], Any], path: Path) -> None:
    with closing(connect()) as one:
        one.execute("CREATE TABLE t (n)")
        one.execute("INSERT INTO t VALUES (1)")
    page = 4096
    path.write_bytes(path.read_bytes()[:page] + b"\xff" * page)
    connect().execute("SELECT * FROM t").fetchall()


def cannot_open(connect: Callable[[], Any], path: Path) -> None:
    path.mkdir()
    connect().execute("SELECT * FROM sqlite_schema")


def io_error(connect: Callable[[], Any], _: Path) -> None:
    """The system refuses to let the file grow."""
    one = connect()
    one.execute("CREATE TABLE t (n)")
    with no_larger_files(8_192):
        one.execute("INSERT INTO t VALUES (zeroblob(100000))")


def full(connect: Callable[[], Any], _: Path) -> None:
    one = connect()
    one.execute("PRAGMA max_page_count = 3").fetchall()
    one.execute("CREATE TABLE t (n)")
    one.execute("INSERT INTO t VALUES (zeroblob(100000))")


def constraint(connect: Callable[[], Any], _: Path) -> None:
    one = connect()
    one.execute("CREATE TABLE t (n UNIQUE)")
    one.execute("INSERT INTO t VALUES (1), (1)")


def query_only(connect: Callable[[], Any], _: Path) -> None:
    one = connect()
    one.execute("PRAGMA query_only = ON")
    one.execute("CREATE TABLE t (n)")


def sql_error(connect: Callable[[], Any], _: Path) -> None:
    connect().execute("SELECT * FROM nowhere")
