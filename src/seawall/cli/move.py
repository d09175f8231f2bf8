"""`seawall move`: from SQLite to PostgreSQL, with everything that is there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from seawall.cli import show
from seawall.cli.show import AsJson
from seawall.errors import NotMovedError
from seawall.store.moving import Moved, Tell, move_store
from seawall.why import ALIVE_SECONDS

EXAMPLE = "Example: [bold]seawall move sqlite:///seawall.db postgresql://ann@db/jobs[/bold]"


def move(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Where the jobs are: sqlite:///FILE.")
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Where they are to be: postgresql://…, a store that nobody has used yet. A"
            " password is better kept in ~/.pgpass, or in $PGPASSWORD.",
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be moved, and write nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Move every job, with its history, from SQLite to PostgreSQL.

    Stop the workers first. Numbers, keys, dead letters, runs, schedules, upstreams and access
    tokens stay as they are. Both stores are verified, and the new one is written in one
    transaction: cut off, it leaves everything as it was. Afterwards the old store is closed.
    """
    try:
        with _told() as tell:
            moved = move_store(
                source, target, alive_seconds=ALIVE_SECONDS, tell=tell, dry_run=dry_run
            )
    except NotMovedError as refused:
        raise typer.Exit(show.refusal(f"nothing was moved: {refused}")) from None
    if as_json:
        show.print_json({"dry_run": dry_run, "target": moved.place, "rows": dict(moved.rows)})
    else:
        _print(moved, dry_run=dry_run)


@contextmanager
def _told() -> Iterator[Tell]:
    """Somebody on a terminal sees each table fill."""
    err = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}"))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as shown:
        line = shown.add_task("")

        def tell(table: str, done: int, rows: int) -> None:
            shown.update(line, description=table, completed=done, total=rows)

        yield tell


def _print(moved: Moved, *, dry_run: bool) -> None:
    console = show.console()
    rows = [(name, f"{many:,}") for name, many in moved.rows.items() if many]
    if rows:
        console.print(show.table(("TABLE", "ROWS"), rows, right=(1,)))
    if dry_run:
        typer.echo(f"All of it would be moved to {moved.place}. Nothing was written.")
        return
    typer.echo(f"All of it is in {moved.place} now, and every rule of the ledger holds there.")
    typer.echo(
        "The old store is closed: set url, or SEAWALL_URL, to the new one and start the workers."
    )
