"""How commands show things: tables for people, JSON for programs, bars for looking."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from seawall.why import span

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The TOML file with settings, policies and upstreams. "
        "Default: $SEAWALL_CONFIG, else ./seawall.toml where there is one.",
    ),
]

REFUSED = 1
"""The exit code of a command that was understood and could not do what it was asked."""
WIDEST_BAR = 32
NARROWEST_BAR = 8
NARROW_TERMINAL = 120
WIDEST_LINE = 10_000
NARROWEST_LAST = 24
"""With less room for its last column a table is not worth printing."""


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


def as_data(value: Any) -> Any:
    """A value of ours as JSON can hold it: fields by name, times in UTC."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: as_data(getattr(value, field.name)) for field in fields}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: as_data(each) for name, each in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(name): as_data(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_data(each) for each in value]
    if isinstance(value, datetime):
        return iso(value)
    return str(value) if isinstance(value, str) else value


def iso(moment: datetime | None) -> str | None:
    """A moment in UTC, for programs."""
    return None if moment is None else moment.astimezone(UTC).isoformat()


def ago(moment: datetime | None, now: datetime) -> str:
    """A moment as people say it: `3 min ago`, `in 2 h`."""
    if moment is None:
        return "–"
    if moment > now:
        return f"in {span(moment - now)}"
    passed = now - moment
    return "now" if passed < timedelta(seconds=1) else f"{span(passed)} ago"


def refusal(line: str) -> int:
    """Say on standard error why something was not done; the exit code that says so, too."""
    hint(line)
    return REFUSED


def harmless(text: str) -> str:
    """Text of others for a terminal: what would steer the terminal is spelled out."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def hint(line: str) -> None:
    """A remark that is no part of the output."""
    typer.echo(f"seawall: {line}", err=True)


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


def is_narrow() -> bool:
    """Whether a person looks on who has little room."""
    out = console()
    return out.is_terminal and out.width < NARROW_TERMINAL


def listing(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()
) -> None:
    """Print rows: a table where there is room, one below the other on a narrow terminal.

    What goes into a pipe or a file is as wide as it needs to be: each row stays one line.
    """
    out = console()
    made = laid_out(out, columns, rows, right=right)
    if not out.is_terminal:
        out.width = max(out.width, _natural(out, made))
    out.print(made)


def laid_out(
    out: Console,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
) -> RenderableType:
    """The rows as they fit there: as a table, or one below the other."""
    made = table(columns, rows, right=right)
    natural = _natural(out, made)
    last = max(len(Text.from_markup(row[-1])) for row in [columns, *rows])
    folded = natural - last + NARROWEST_LAST <= out.width and last > NARROWEST_LAST
    if natural <= out.width or folded or not out.is_terminal:
        return made
    return Group(*(line for row in rows for line in _below(columns, row)))


def _natural(out: Console, made: RenderableType) -> int:
    """As wide as it would like to be."""
    unbounded = out.options.update(max_width=WIDEST_LINE)
    return Measurement.get(out, unbounded, made).maximum


def _below(columns: Sequence[str], row: Sequence[str]) -> Iterator[RenderableType]:
    yield Text.from_markup(f"[bold]{row[0]}[/bold]")
    for name, value in zip(columns[1:], row[1:], strict=True):
        if value.strip():
            yield indented(f"[dim]{name.lower()}[/dim] {value}".lstrip())


def fields(pairs: Iterable[tuple[str, str]]) -> Table:
    """Names and what they are, a pair a line; pairs without a value are left out."""
    made = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value:
            made.add_row(name, value)
    return made


def range_bar(least: float, most: float, longest: float, width: int) -> str:
    """A bar from least to most on a scale that ends at longest; none where there is no room."""
    if longest <= 0 or width < NARROWEST_BAR:
        return ""
    width = min(width, WIDEST_BAR)
    start = min(width - 1, round(least / longest * width))
    end = max(start + 1, round(most / longest * width))
    return "·" * start + "█" * (end - start)
