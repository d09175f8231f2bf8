"""What tables a store has, as its database tells: so that a move can forget none of them.

Every table of a SQLite store has one of the same name and columns on PostgreSQL. Whatever only one
of the two has must be named here with the reason, or nothing is moved.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from seawall.errors import StoreError

LEFT_BEHIND = {
    "migration": "each database has migrations of its own",
    "worker": "who lives says so again, where he lives then",
}
"""Tables whose rows stay where they are."""
ONLY_ON_POSTGRES = {
    "intake": "what came in since the last count; SQLite counts at once, in tally",
    "run_change": "what changed since the last count; SQLite counts at once, in run_tally",
}
"""Tables that SQLite does without."""
ONLY_ON_SQLITE = {
    "span_bucket": "the bounds of the buckets of spans, which are a function on PostgreSQL",
}
"""Tables that PostgreSQL does without."""
NUMBERED_ON_POSTGRES = {
    "pace_change": "batches append there; on SQLite what is alike is one row from the beginning",
}
"""Tables that have numbers of their own on PostgreSQL alone: it gives them to what is moved."""

TIME = "timestamp with time zone"
LIST = "ARRAY"
"""What SQLite keeps as JSON."""
_KINDS = {
    "INTEGER": {"bigint", "integer", "boolean", TIME},
    "REAL": {"double precision"},
    "TEXT": {"text", LIST},
}
"""What each of SQLite's types may be on PostgreSQL, which reads 0 and 1 as false and true."""

_ON_SQLITE = """
SELECT substr(made.name, 9), held.name, held.type, held.pk = 1
FROM sqlite_schema AS made JOIN pragma_table_info(made.name) AS held
WHERE made.type = 'table' AND substr(made.name, 1, 8) = 'seawall_'
ORDER BY made.name, held.cid
"""
_ON_POSTGRES = """
SELECT held.table_name, held.column_name, held.data_type, held.is_identity = 'YES'
FROM information_schema.tables AS made JOIN information_schema.columns AS held
    ON held.table_schema = made.table_schema AND held.table_name = made.table_name
WHERE made.table_schema = 'seawall' AND made.table_type = 'BASE TABLE'
ORDER BY held.table_name, held.ordinal_position
"""


class Column(NamedTuple):
    """A column, as its database describes it."""

    name: str
    kind: str
    first: bool
    """On SQLite, the first of the primary key; on PostgreSQL, numbered by a sequence."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table, under the name that it has in both databases."""

    name: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """The columns' names, in their order."""
        return [column.name for column in self.columns]

    def of(self, other: "Table") -> "Table":
        """The same with those columns alone that the other has as well."""
        return Table(self.name, tuple(each for each in self.columns if each.name in other.names))


Tables = dict[str, Table]


def on_sqlite(connection: Any) -> Tables:
    """The tables of a store on SQLite."""
    return _read(connection.execute(_ON_SQLITE).fetchall())


def on_postgres(connection: Any) -> Tables:
    """The tables of a store on PostgreSQL."""
    return _read(connection.execute(_ON_POSTGRES).fetchall())


def to_be_moved(tables: Tables) -> Tables:
    """Those whose rows are moved."""
    stay = LEFT_BEHIND.keys() | ONLY_ON_SQLITE.keys()
    return {name: table for name, table in tables.items() if name not in stay}


def need_alike(old: Tables, new: Tables) -> None:
    """`StoreError` where a row of the old store would have no place in the new one."""
    for name in sorted(
        (old.keys() - ONLY_ON_SQLITE.keys()) | (new.keys() - ONLY_ON_POSTGRES.keys())
    ):
        if name not in old or name not in new:
            there = "PostgreSQL" if name in new else "SQLite"
            raise StoreError(f"the table {name} is known on {there} alone: it cannot be moved")
        _need_same_columns(old[name], new[name])


def _need_same_columns(old: Table, new: Table) -> None:
    kinds = {column.name: column.kind for column in new.columns}
    for column in old.columns:
        if kinds.get(column.name) not in _KINDS.get(column.kind, ()):
            raise StoreError(
                f"the column {old.name}.{column.name} has no place on PostgreSQL: cannot be moved"
            )
    numbers = {"id"} if new.name in NUMBERED_ON_POSTGRES else set()
    for name in kinds.keys() - set(old.names) - numbers:
        raise StoreError(f"the column {new.name}.{name} is not on SQLite: cannot be moved")


def _read(rows: list[tuple[str, str, str, bool]]) -> Tables:
    found: dict[str, list[Column]] = {}
    for table, name, kind, first in rows:
        found.setdefault(table, []).append(Column(name, kind, bool(first)))
    return {name: Table(name, tuple(columns)) for name, columns in found.items()}
