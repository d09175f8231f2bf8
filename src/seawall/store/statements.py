"""The SQL of each store, by name.

A file of `sql/DIALECT/` holds the statements of one verb. Each begins with its name and a promise,
and one that writes a job's state names the moves of `states.py` that it can carry out; tests check
both against the table. One that is run once for a whole table of rows names its columns. Every
statement answers rows, so that nobody has to know which do. Both dialects have the same names in
the same order; where they differ, a comment says why.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from seawall.states import Move

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_MOVES = "-- moves: "
_GIVEN = "-- given: "


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, or a few that always go together."""

    name: str
    verb: str
    """The file it stands in."""
    promise: str
    moves: tuple[Move, ...]
    given: tuple[str, ...]
    """The columns of the rows that it takes all at once, if it does."""
    sql: str


@cache
def load(dialect: str) -> dict[str, Statement]:
    """Every statement of a dialect, in the order of its files."""
    folder = files("seawall.store") / "sql" / dialect
    found = [
        statement
        for file in sorted(folder.iterdir(), key=lambda each: each.name)
        if file.name.endswith(".sql")
        for statement in _statements(file)
    ]
    return {statement.name: statement for statement in found}


def migrations(dialect: str) -> list[tuple[str, str]]:
    """Each migration's name and SQL, in order."""
    folder = files("seawall.store") / "sql" / dialect / "migrations"
    found = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return [(name.removesuffix(".sql"), (folder / name).read_text("utf-8")) for name in found]


def _statements(file: Traversable) -> Iterator[Statement]:
    parts = _NAME.split(file.read_text("utf-8"))
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = body.splitlines()
        head = next(at for at, line in enumerate(lines) if not line.startswith("--"))
        moves = _listed(_MOVES, lines[:head])
        prose = [line for line in lines[:head] if not line.startswith((_MOVES, _GIVEN))]
        yield Statement(
            name=name,
            verb=file.name.removesuffix(".sql"),
            promise=" ".join(line.removeprefix("-- ") for line in prose),
            moves=tuple(map(Move, moves)),
            given=tuple(_listed(_GIVEN, lines[:head])),
            sql="\n".join(lines[head:]).strip().removesuffix(";"),
        )


def _listed(tag: str, lines: list[str]) -> list[str]:
    """The words after a tag, which may stand on several lines."""
    found = [line.removeprefix(tag) for line in lines if line.startswith(tag)]
    return [word for line in found for word in line.split(", ")]
