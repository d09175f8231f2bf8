"""How commands show things: tables for people, JSON for programs, bars for looking."""

import json
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
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

WIDEST_BAR = 32
NARROWEST_BAR = 8


def help_when_alone(context: typer.Context) -> None:
    """A group of commands that is called without one says what there is."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


class _Output(Console):
    """A console that leaves it to the command line what a broken pipe means."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """A console on standard output, at the width it has now."""
    return _Output(highlight=False)


def print_json(value: object) -> None:
    """The value as JSON, one for each call."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def indented(text: str, by: int = 2) -> Padding:
    """Text whose every line, wrapped ones too, stands a little to the right."""
    return Padding(text, (0, 0, 0, by))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()
) -> Table:
    """A plain table; the columns numbered in `right` hold numbers, and only the last one folds."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    last = len(columns) - 1
    for place, name in enumerate(columns):
        justify = "right" if place in right else "left"
        made.add_column(name, justify=justify, no_wrap=place < last)  # type: ignore[arg-type]
    for row in rows:
        made.add_row(*row)
    return made


def range_bar(least: float, most: float, longest: float, width: int) -> str:
    """A bar from least to most on a scale that ends at longest; none where there is no room."""
    if longest <= 0 or width < NARROWEST_BAR:
        return ""
    width = min(width, WIDEST_BAR)
    start = min(width - 1, round(least / longest * width))
    end = max(start + 1, round(most / longest * width))
    return "·" * start + "█" * (end - start)
