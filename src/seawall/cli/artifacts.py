"""`seawall artifacts`: what large outputs leave behind, and how to be rid of it."""

from typing import Annotated

import typer

from seawall.app import Seawall
from seawall.cli import show
from seawall.cli.apps import Url
from seawall.cli.show import AsJson, ConfigFile

app = typer.Typer(no_args_is_help=True, help="What is kept beside the store: large outputs.")

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")
]


@app.callback()
def _group() -> None:
    """What is kept beside the store: large outputs."""


@app.command()
def sweep(
    dry_run: DryRun = False,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Remove artifacts that no output stands for any more, and nobody has put for two days.

    Safe beside any traffic, and to repeat: once a day is often enough.
    """
    application = Seawall(url, config=config)
    swept = application.sweep_artifacts(dry_run=dry_run)
    if as_json:
        show.print_json({**swept._asdict(), "dry_run": dry_run})
        return
    done = "would be removed" if dry_run else "removed"
    typer.echo(
        f"{swept.removed:,} of {swept.seen:,} artifacts {done}, {swept.removed_bytes:,} bytes."
    )
