"""Looking at a store as it stands: nothing is made, nothing is brought up to date.

`open_as_is` is the way in for people who look; `examined` is what `seawall doctor` asks about the
database itself: its version, its indexes, and whether the claim really goes by its index.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from seawall.errors import StoreError
from seawall.store import _SQLITE, _backend, _need_a_lasting_one, _path, statements
from seawall.store.backend import Backend
from seawall.store.ledger import Ledger
from seawall.store.migrate import need_up_to_date
from seawall.store.port import Store

_MADE = re.compile(r"^(CREATE|DROP)\s+(?:UNIQUE\s+)?INDEX\s+(?:IF\s+\w+\s+(?:EXISTS\s+)?)?"
                   r"(?:\w+\.)?(\w+)", re.MULTILINE)  # fmt: skip
_CLAIM_INDEX = {"sqlite": "seawall_job_due", "postgres": "job_due"}
_SQLITE_INDEXES = "SELECT name, 1 FROM sqlite_schema WHERE type = 'index'"
_POSTGRES_INDEXES = """
SELECT made.relname, pg_index.indisvalid AND pg_index.indisready
FROM pg_index
JOIN pg_class AS made ON made.oid = pg_index.indexrelid
JOIN pg_namespace ON pg_namespace.oid = made.relnamespace
WHERE pg_namespace.nspname = 'seawall'
"""


@dataclass(frozen=True, slots=True)
class Examination:
    """What a database says about itself."""

    engine: str
    """Its name and version."""
    pooled: bool
    """A pooler stands between us and the server."""
    missing: tuple[str, ...]
    """Indexes that the migrations make and that are not there."""
    invalid: tuple[str, ...]
    """Indexes that are there but cannot be used."""
    claims_by: bool
    """The claim reaches its rows by the index that is made for it."""


def open_as_is(url: str, *, write: bool = False, listen_url: str | None = None) -> Store:
    """The store at that address, which must be there and up to date: only then is it opened.

    Without `write`, a SQLite file is opened to read.
    """
    return Ledger(as_is(url, write=write, listen_url=listen_url))


def examined(url: str) -> Examination:
    """What the database says about itself. Reads only."""
    backend = as_is(url, write=True)
    try:
        # Lent as to a caller: nothing else asks a database what we do not know by name.
        with backend.lending() as (connection, _):
            look = _in_sqlite if backend.dialect == "sqlite" else _in_postgres
            engine, found, plan = look(connection)
    finally:
        backend.close()
    wanted = _made_by_migrations(backend.dialect)
    return Examination(
        engine=engine,
        pooled=bool(getattr(backend, "pooled", False)),
        missing=tuple(sorted(wanted - found.keys())),
        invalid=tuple(sorted(name for name, valid in found.items() if not valid)),
        claims_by=any(re.search(rf"\b{_CLAIM_INDEX[backend.dialect]}\b", step) for step in plan),
    )


def as_is(url: str, *, write: bool, listen_url: str | None = None) -> Backend:
    """The database of `open_as_is`."""
    _need_a_lasting_one(url)
    is_file = url.startswith(_SQLITE)
    if is_file and not os.path.lexists(_path(url)):
        raise StoreError(
            f"{_path(url)}: no such file; `seawall migrate` makes a store, as enqueue and worker do"
        )
    backend = _backend(url, read_only=True, listen_url=listen_url)
    try:
        need_up_to_date(backend)
    except BaseException:
        backend.close()
        raise
    if is_file and write:
        backend.close()
        return _backend(url)
    return backend


def _made_by_migrations(dialect: str) -> set[str]:
    """The indexes that stand when every migration was applied."""
    made: set[str] = set()
    for _, sql in statements.migrations(dialect):
        for verb, name in _MADE.findall(sql):
            (made.add if verb == "CREATE" else made.discard)(name)
    return made


def _in_sqlite(connection: Any) -> tuple[str, dict[str, bool], list[str]]:
    ((version,),) = connection.execute("SELECT sqlite_version()").fetchall()
    found = {name: bool(valid) for name, valid in connection.execute(_SQLITE_INDEXES).fetchall()}
    if _CLAIM_INDEX["sqlite"] not in found:
        return f"SQLite {version}", found, []  # the claim names its index: without it, no plan
    sql = statements.load("sqlite")["claim"].sql
    values = dict.fromkeys(re.findall(r":(\w+)", sql))
    rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    return f"SQLite {version}", found, [row[3] for row in rows]


def _in_postgres(connection: Any) -> tuple[str, dict[str, bool], list[str]]:
    version = connection.execute("SHOW server_version").fetchall()[0][0]
    found = dict(connection.execute(_POSTGRES_INDEXES).fetchall())
    connection.execute("SET LOCAL enable_seqscan = off")  # as for our own statements
    sql = statements.load("postgres")["claim"].sql
    values = dict.fromkeys(re.findall(r"%\((\w+)\)s", sql))
    numbered = _with_nothing(sql, values)
    answer = connection.execute(f"EXPLAIN (FORMAT JSON) {numbered}", prepare=False).fetchall()
    told = answer[0][0] if isinstance(answer[0][0], list) else json.loads(answer[0][0])
    return f"PostgreSQL {version}", found, list(_steps(told[0]["Plan"]))


def _with_nothing(sql: str, names: dict[str, None]) -> str:
    """The claim with values that take nothing; PostgreSQL 15 cannot explain without values."""
    values = {
        **dict.fromkeys(names, "NULL"),
        "worker": "'doctor'",
        "lease": "1000000",
        "limit": "1",
        "known": "0",
        "remembered": "1",
        "prefetch": "false",
        "tasks": "'{nothing}'::text[]",
        "visit": "'{1}'",
        "since": "'{NULL}'",
    }
    return re.sub(r"%\((\w+)\)s", lambda name: values[name[1]], sql).replace("%%", "%")


def _steps(node: dict[str, Any]) -> Iterator[str]:
    yield f"{node['Node Type']} {node.get('Index Name', '')}"
    for child in node.get("Plans", ()):
        yield from _steps(child)
