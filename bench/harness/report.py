"""What was measured, as text for the terminal and as docs/benchmarks.md and docs/benchmarks.svg."""

import os
import platform
import sqlite3
import sys
import time
from collections.abc import Iterable

import apsw
from harness import picture, servers
from harness.environments import PEERS, ROOT
from harness.rounds import Cell, Key
from harness.suite import OURS, RAW, Found

import seawall

PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "benchmarks.svg"
BACKENDS = {"postgres": "PostgreSQL", "sqlite": "SQLite", "redis": "Redis, not durable"}


def text(found: Iterable[Found]) -> str:
    lines = []
    for each in found:
        lines += ["", each.title]
        for key, cells in each.table.items():
            shown = "   ".join(
                f"{column} {_spread(cells[column])} {_ratio(cells[column], each.base(key, column))}"
                for column in each.columns
            )
            lines.append(f"  {' on '.join(key):<28} {shown}")
    return "\n".join(lines)


def write(found: list[Found], facts: str) -> None:
    scenarios = {each.scenario: [] for each in found}
    for each in found:
        scenarios[each.scenario].append(each)
    parts = [facts]
    for name, tables in scenarios.items():
        parts.append(f"### {_HEADINGS[name][0]}\n\n{_HEADINGS[name][1]}\n\n{_markdown(tables)}")
    put("bench", "\n\n".join(parts))
    PICTURE.write_text(picture.drawn(found, _shown))


def put(marker: str, words: str) -> None:
    """Into the page, between the lines of this name."""
    begin, end = f"<!-- {marker}:begin -->", f"<!-- {marker}:end -->"
    before, _, rest = PAGE.read_text().partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n{words}\n{end}{after}")


def facts(rounds: int) -> str:
    """The machine, the versions and the command, for whoever compares or repeats it."""
    return (
        f"Measured on {time.strftime('%Y-%m-%d')}: {os.cpu_count()} cores ({platform.machine()},"
        f" {platform.system()}), Python {platform.python_version()}, PostgreSQL"
        f" {servers.postgres_version()}, SQLite {apsw.sqlite_lib_version()} (other queues:"
        f" {sqlite3.sqlite_version}), seawall {seawall.__version__}; {rounds} rounds;"
        f" `{' '.join(['python', *sys.argv])}`."
    )


_HEADINGS = {
    "drain": ("Throughput", "Jobs a second of full queues, by the number of worker processes."),
    "failing": ("Failing jobs", "Jobs a second, each of which fails once and then succeeds."),
    "pickup": ("Pick-up", "Milliseconds until an idle worker runs a job; less is better."),
    "enqueue": ("Asking", "Jobs a second, each committed before the next, and in bulk."),
    "handlers": ("Kinds of handlers", "Jobs a second of seawall, compared with async handlers."),
    "payloads": ("Large payloads", "Jobs a second, of one worker process."),
    "idle": ("Idle", "What a worker with nothing to do uses; less is better."),
}


def _markdown(tables: list[Found]) -> str:
    """A line for each row, and a pair of columns for each column of each table."""
    columns = [(table, column) for table in tables for column in table.columns]
    names = [column if len(tables) == 1 else table.title for table, column in columns]
    lines = [
        "| | " + " | ".join(f"{name} | × seawall" for name in names) + " |",
        "| --- |" + " ---: | ---: |" * len(names),
    ]
    backend = ""
    for key in tables[0].table:
        if key[1] != backend:
            backend = key[1]
            lines.append(f"| *{BACKENDS[backend]}* |" + " | |" * len(names))
        cells = (
            f" {_spread(table.table[key][column])} |"
            f" {_ratio(table.table[key][column], table.base(key, column))} |"
            for table, column in columns
        )
        lines.append(f"| {_shown(key)} |" + "".join(cells))
    return "\n".join(lines)


def _shown(key: Key) -> str:
    """The row's name, with the version of what was measured."""
    name = key[0]
    if name in RAW:
        return "statements alone"
    wanted = PEERS / f"{name}.txt"
    version = wanted.read_text().split()[0].partition("==")[2] if wanted.exists() else ""
    return f"**{name}**" if name == OURS else f"{name.replace('_', '-')} {version}".strip()


def _spread(cell: Cell) -> str:
    """The median, and the least and the most of the rounds."""
    if not cell.rounds:
        return cell.reason
    digits = 0 if cell.median >= 100 else 1
    low, high = cell.spread
    return f"{cell.median:,.{digits}f} ({low:,.{digits}f}–{high:,.{digits}f})"


def _ratio(cell: Cell, base: Cell) -> str:
    ratio = cell.over(base)
    return "" if ratio is None else f"{ratio:.2f}"
