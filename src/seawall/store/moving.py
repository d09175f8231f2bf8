"""Moving a store from SQLite to PostgreSQL: every row of every table, or none.

The old store is locked against writers for as long as it takes, and the new one is written in a
single transaction: tables, rows, sequences, and the proof that it is whole. So a move that is cut
off, by kill -9 too, leaves the old store as it was and the new one without a row: call it again.
When the new store is committed the old one is closed for good: it is not opened any more, and
processes that have it open can put no job into it.

Which tables there are is read from both databases (`catalogue`). Their names are put into SQL here
and nowhere else in the store: they come from the databases' own catalogues.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from seawall.errors import ConfigurationError, NotMovedError, StoreError
from seawall.store import _POSTGRES, _SQLITE, _backend, catalogue, migrate, statements
from seawall.store.backend import MIGRATION_SECONDS, Backend, OpenSession, Row
from seawall.store.catalogue import LIST, TIME, Table, Tables
from seawall.store.fleet import workers_in
from seawall.store.inspect import as_is
from seawall.store.sqlite_errors import MOVED
from seawall.store.verify import verified

ROWS_BETWEEN_WORDS = 10_000
"""How many rows are copied before somebody is told."""
MOST_NAMED = 5

_HIGHEST = "SELECT substr(name, 9), seq FROM sqlite_sequence WHERE substr(name, 1, 8) = 'seawall_'"
_LEASED = "SELECT max(lease_until), count(*) FROM seawall_job WHERE lease_until >= ?"
_CLOSE = f"""
CREATE TRIGGER seawall_moved_no_job BEFORE INSERT ON seawall_job
BEGIN SELECT RAISE(ABORT, '{MOVED}'); END;
CREATE TRIGGER seawall_moved_no_change BEFORE UPDATE ON seawall_job
BEGIN SELECT RAISE(ABORT, '{MOVED}'); END;
"""
"""For processes that have the store open: who opens it anew is told by `migrate`."""


class Tell(Protocol):
    """Somebody who is told how far a table has come."""

    def __call__(self, table: str, done: int, rows: int, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Moved:
    """What was moved, or would be: the rows of each table."""

    rows: Mapping[str, int]
    place: str
    """The server and database that they went to."""


def move_store(
    source: str, target: str, *, alive_seconds: float, tell: Tell, dry_run: bool = False
) -> Moved:
    """Move all that is in the SQLite store `source` into the PostgreSQL store `target`.

    `NotMovedError` where a worker of the source has told of itself within `alive_seconds`, an
    attempt is under way, either store is not whole, or the target has been used. Leases that lapsed
    are moved as they are: workers of the target take them back. A dry run writes nothing.
    """
    if not source.startswith(_SQLITE) or not target.startswith(_POSTGRES):
        raise ConfigurationError("move: expected sqlite:///FILE first, then postgresql://…")
    old = as_is(source, write=not dry_run)
    try:
        new = _backend(target)
        try:
            move = _Move(old, new, alive_seconds, tell)
            return move.dry_run() if dry_run else move.carried_out()
        finally:
            new.close()
    finally:
        old.close()


class _Move:
    """One move between two stores."""

    def __init__(self, old: Backend, new: Backend, alive_seconds: float, tell: Tell) -> None:
        self._old = old
        self._new = new
        self._alive_seconds = alive_seconds
        self._tell = tell

    def dry_run(self) -> Moved:
        """Look at both as they are; nothing is locked, nothing is written."""
        with (
            self._old.snapshot(MIGRATION_SECONDS) as here,
            self._new.snapshot(MIGRATION_SECONDS) as there,
        ):
            rows = self._looked_over(here)
            if there.all("has_tables")[0][0]:
                migrate.refuse_others(there, statements.migrations(self._new.dialect))
                _need_unused(there, catalogue.on_postgres(there.connection))
            return Moved(rows, _place(there))

    def carried_out(self) -> Moved:
        with self._old.migrating() as here, _unhurried(here):
            rows = self._looked_over(here)
            with self._new.migrating() as there:
                self._fill(here, there, rows)
                place = _place(there)
            _close(here, place)
        return Moved(rows, place)

    def _looked_over(self, here: OpenSession) -> dict[str, int]:
        """How many rows each table has, once nothing stands in the way of moving them."""
        self._need_rest(here)
        tables = catalogue.to_be_moved(catalogue.on_sqlite(here.connection))
        _need_text_of_postgres(here, tables)
        _need_whole(here, self._old.dialect, "the store to be moved")
        return {name: _count(here, f"seawall_{name}") for name in tables}

    def _need_rest(self, here: OpenSession) -> None:
        alive = workers_in(here, self._alive_seconds, self._old.read)
        if alive:
            raise NotMovedError(
                f"workers are alive ({len(alive):,}): stop them first (SIGTERM hands back what they"
                f" hold); one that was killed is forgotten after {self._alive_seconds:.0f} s"
            )
        ((until, running),) = here.connection.execute(_LEASED, (self._old.moment(),)).fetchall()
        if running:
            moment = self._old.read(until).isoformat(timespec="seconds")
            raise NotMovedError(
                f"attempts are under way ({running:,}): let them end, or wait until their leases"
                f" have lapsed, the last at {moment}"
            )

    def _fill(self, here: OpenSession, there: OpenSession, rows: dict[str, int]) -> None:
        """Everything that is written into the new store, in its one transaction."""
        migrate.apply_missing(there, statements.migrations(self._new.dialect))
        theirs = catalogue.on_postgres(there.connection)
        ours = catalogue.on_sqlite(here.connection)
        catalogue.need_alike(ours, theirs)
        there.connection.execute(_of_all("LOCK TABLE {} IN EXCLUSIVE MODE", theirs))
        _need_unused(there, theirs)
        for name, many in rows.items():
            self._copy(here, there, theirs[name].of(ours[name]), many)
            _number_on(here, there, theirs[name])
        there.connection.execute(_of_all("ANALYZE {}", theirs))  # or proving it would take for ever
        there.connection.execute("SET LOCAL enable_seqscan = on")
        found = {name: _count(there, f"seawall.{name}") for name in rows}
        if found != rows:
            raise StoreError(f"the new store has {found}, expected {rows}: nothing was moved")
        _need_whole(there, self._new.dialect, "the new store")

    def _copy(self, here: OpenSession, there: OpenSession, table: Table, many: int) -> None:
        """All rows of a table; those that migrations have put there give way to them."""
        from psycopg import sql  # noqa: PLC0415 - an extra

        place = sql.Identifier("seawall", table.name)
        names = sql.SQL(", ").join(map(sql.Identifier, table.names))
        there.connection.execute(sql.SQL("DELETE FROM {}").format(place))
        with there.connection.cursor() as cursor:
            into = sql.SQL("COPY {} ({}) FROM STDIN").format(place, names)
            with cursor.copy(into) as copy:
                for done, row in enumerate(self._rows(here, table)):
                    if done % ROWS_BETWEEN_WORDS == 0:
                        self._tell(table.name, done, many)
                    copy.write_row(row)
        self._tell(table.name, many, many)

    def _rows(self, here: OpenSession, table: Table) -> Iterator[Row]:
        """As PostgreSQL takes them: microseconds become times, JSON where it has lists becomes
        lists, and all else is as it was.
        """
        quoted = ", ".join(f'"{name}"' for name in table.names)
        times = [at for at, column in enumerate(table.columns) if column.kind == TIME]
        lists = [at for at, column in enumerate(table.columns) if column.kind == LIST]
        read, written = self._old.read, self._new.written
        for found in here.connection.execute(f"SELECT {quoted} FROM seawall_{table.name}"):  # noqa: S608
            row = list(found)
            for at in times:
                if row[at] is not None:
                    row[at] = written(read(row[at]))
            for at in lists:
                if row[at] is not None:
                    row[at] = json.loads(row[at])
            yield tuple(row)


@contextmanager
def _unhurried(here: OpenSession) -> Iterator[None]:
    """No time limit: nobody but us can be kept waiting by what is only read."""
    limit = here.connection.time_limit
    with limit.raised(math.inf):
        limit.begin()
        yield


def _need_text_of_postgres(here: OpenSession, tables: Tables) -> None:
    """NUL is a character to SQLite and none to PostgreSQL. No verb writes one; hands may have."""
    for table in tables.values():
        known_by = next(column.name for column in table.columns if column.first)
        for column in table.columns:
            if column.kind != "TEXT":
                continue
            found = here.connection.execute(
                f'SELECT "{known_by}" FROM seawall_{table.name}'  # noqa: S608
                f' WHERE instr("{column.name}", char(0)) LIMIT {MOST_NAMED}'
            ).fetchall()
            if found:
                which = ", ".join(str(each).replace("\0", "\\0") for (each,) in found)
                raise NotMovedError(
                    f"{table.name}.{column.name} holds a NUL character, which PostgreSQL cannot"
                    f" keep, where {known_by} is {which}"
                )


def _need_whole(session: OpenSession, dialect: str, what: str) -> None:
    found = verified(session, dialect)
    if not found.ok:
        rules = ", ".join(each.rule for each in found.violations)
        raise NotMovedError(f"{what} is not whole ({rules}): `seawall verify` says more")


def _need_unused(there: OpenSession, tables: Tables) -> None:
    """Every table that is empty in a new store is empty: whoever used one has left a trace."""
    used = [
        name
        for name in sorted(tables.keys() - _full_from_the_start())
        if _count(there, f"seawall.{name}")
    ]
    if used:
        more = ", …" if len(used) > MOST_NAMED else ""
        raise NotMovedError(
            f"the new store is not empty ({', '.join(used[:MOST_NAMED])}{more}): name another"
            " database, or remove what is in this one: DROP SCHEMA seawall CASCADE"
        )


def _full_from_the_start() -> set[str]:
    """The tables that migrations put something into, as a new SQLite store has them."""
    new = _backend(_SQLITE)
    try:
        migrate.bring_up(new)
        with new.snapshot(MIGRATION_SECONDS) as here:
            tables = catalogue.on_sqlite(here.connection)
            return {name for name in tables if _count(here, f"seawall_{name}")}
    finally:
        new.close()


def _number_on(here: OpenSession, there: OpenSession, table: Table) -> None:
    """The next number is one that was never given before, to what has been pruned neither.

    Not every table of SQLite remembers what it gave: those go on from the highest they have.
    """
    given = dict(here.connection.execute(_HIGHEST).fetchall())
    for column in table.columns:
        if not column.first:
            continue
        there.connection.execute(
            "SELECT setval(pg_get_serial_sequence(%s, %s), high) FROM (SELECT"  # noqa: S608
            f" greatest(%s, max({column.name})) AS high FROM seawall.{table.name}) AS found"
            " WHERE high > 0",
            (f"seawall.{table.name}", column.name, given.get(table.name)),
        )


def _close(here: OpenSession, place: str) -> None:
    try:
        here.script(_CLOSE)
        here.all("record_migration", name=migrate.MOVED, checksum=place)
    except Exception as error:
        raise StoreError(
            "everything is in the new store now, but the old one could not be closed"
            f" ({type(error).__name__}): see that nobody uses it"
        ) from error


def _count(session: OpenSession, table: str) -> int:
    ((found,),) = session.connection.execute(f"SELECT count(*) FROM {table}").fetchall()  # noqa: S608
    return int(found)


def _of_all(statement: str, tables: Tables) -> str:
    return statement.format(", ".join(f"seawall.{name}" for name in tables))


def _place(there: OpenSession) -> str:
    info: Any = there.connection.info
    return f"{info.host}:{info.port}/{info.dbname}"
