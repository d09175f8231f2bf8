"""How commands show things: tables for people, JSON for programs, bars for looking."""

import json
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The TOML file with settings and policies. "
        "Default: $SEAWALL_CONFIG, else ./seawall.toml where there is one.",
    ),
]

BAR_WIDTH = 32


def console() -> Console:
    """A console on standard output, at the width it has now."""
    return Console(highlight=False, soft_wrap=False)


def print_json(value: object) -> None:
    """The value as JSON, one for each call."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()
) -> Table:
    """A plain table; the columns numbered in `right` hold numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, name in enumerate(columns):
        made.add_column(name, justify="right" if place in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def range_bar(least: float, most: float, longest: float, width: int = BAR_WIDTH) -> str:
    """A bar from least to most on a scale that ends at longest."""
    if longest <= 0:
        return ""
    start = min(width - 1, round(least / longest * width))
    end = max(start + 1, round(most / longest * width))
    return "·" * start + "█" * (end - start)
