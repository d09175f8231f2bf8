"""How a whole table of rows reaches a statement on SQLite.

Run once for each row, a statement of five parts starts five times a row, and that is most of its
cost; as JSON, each part would read the rows anew. So they are put into a table of the connection's
own, in memory, which is empty again when the statement has run. What goes wrong in between is
rolled back there, too.
"""

from functools import cache
from typing import NamedTuple

import apsw

from seawall.store import statements
from seawall.store.backend import Batch, Row


class _Table(NamedTuple):
    """The words for a statement's table."""

    made: str
    filled: str
    emptied: str


@cache
def _tables() -> dict[str, _Table]:
    """By statement; all names in them come from our own files."""
    return {
        name: _Table(
            f"CREATE TEMP TABLE given_{name} ({', '.join(each.given)})",
            f"INSERT INTO given_{name} VALUES ({', '.join('?' * len(each.given))})",  # noqa: S608
            f"DELETE FROM given_{name}",  # noqa: S608
        )
        for name, each in statements.load("sqlite").items()
        if each.given
    }


def make(connection: apsw.Connection) -> None:
    """Make the tables of all statements that need one."""
    for table in _tables().values():
        connection.execute(table.made)


def takes_a_table(name: str) -> bool:
    """Whether the statement takes its rows all at once."""
    return name in _tables()


def run(
    connection: apsw.Connection, name: str, sql: str, rows: Batch, values: dict[str, object]
) -> list[Row]:
    """Run the statement once, for all of the rows."""
    table = _tables()[name]
    connection.executemany(table.filled, rows)
    found = connection.execute(sql, values).fetchall()
    connection.execute(table.emptied)
    return found
