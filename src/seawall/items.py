"""Where the items of a run come from: any iterable, or a file with one item a line.

Files are read as they are needed, so that their length does not matter. A line that is none is an
item all the same, which can only fail: whoever looks at the dead letters will find it.
"""

import csv
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seawall.errors import ArgumentsError
from seawall.redact import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

UNREADABLE = "$unreadable"
"""In the arguments of an item that could not be made one: why."""
LONGEST_SHOWN = 1_000


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something that was to be an item and is none."""

    reason: str
    text: str


def as_arguments(item: Unreadable) -> str:
    """What is written down of it in the place of arguments."""
    shown = one_line(item.text, longest=LONGEST_SHOWN)
    return json.dumps({UNREADABLE: one_line(item.reason), "item": shown})


def unreadable(arguments: str) -> str | None:
    """Why these arguments are those of an item that could not be taken; None where they are not."""
    if not arguments.startswith(f'{{"{UNREADABLE}"'):
        return None
    return str(json.loads(arguments)[UNREADABLE])


def items_of(given: "Iterable[Any] | str | os.PathLike[str]") -> Iterator[Any]:
    """The items, one after the other; `ArgumentsError` where there can be none."""
    if isinstance(given, str | os.PathLike):
        return _in_file(Path(given))
    try:
        return iter(given)
    except TypeError:
        raise ArgumentsError(
            f"items: found {given!r:.80}, expected an iterable or the path of a file"
        ) from None


def _in_file(path: Path) -> Iterator[Any]:
    kinds = {".jsonl": _json_lines, ".ndjson": _json_lines, ".csv": _csv_rows}
    if path.suffix.lower() not in kinds:
        raise ArgumentsError(f"items: found {path.name}, expected one of {', '.join(kinds)}")
    if not path.is_file():
        raise ArgumentsError(f"items: there is no file {path.name}")
    return kinds[path.suffix.lower()](path)


def _json_lines(path: Path) -> Iterator[Any]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                shown = line[:1_000].decode("utf-8", "replace")
                yield Unreadable(f"line {number} of {path.name} is no JSON: {error}", shown)


def _csv_rows(path: Path) -> Iterator[Any]:
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
        rows = csv.DictReader(lines, strict=True)
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield Unreadable(f"line {rows.line_num} of {path.name} is no row: {error}", "")
                continue
            if None in row or None in row.values():
                shown = json.dumps([*row.values()], ensure_ascii=False)
                yield Unreadable(
                    f"line {rows.line_num} of {path.name} has not as many fields as the first",
                    shown,
                )
            else:
                yield row
