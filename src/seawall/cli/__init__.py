"""The command line: one module for each group of commands.

A door, not a room: commands turn words into calls and results into tables or JSON. A mistake of
the user's is one line on standard error and exit code 2, never a stack trace.
"""

import sys
from typing import Annotated

import typer

import seawall
from seawall.cli import demo, policy
from seawall.errors import SeawallError

MISTAKE = 2

app = typer.Typer(
    name="seawall",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Durable jobs for Python that stand up to failing upstreams.",
    epilog="Try [bold]seawall demo[/bold], then [bold]seawall policy list[/bold].",
)
app.add_typer(policy.app, name="policy")
app.command(name="demo")(demo.demo)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"seawall {seawall.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Say the version and stop."
        ),
    ] = False,
) -> None:
    """Durable jobs for Python that stand up to failing upstreams."""


def main() -> None:
    """The `seawall` command."""
    try:
        app()
    except SeawallError as mistake:
        typer.echo(f"seawall: {mistake}", err=True)
        sys.exit(MISTAKE)
    except BrokenPipeError:
        # Whoever read our output has seen enough (`seawall policy list | head -1`).
        sys.stderr.close()
        sys.exit(0)
