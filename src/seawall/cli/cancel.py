"""`seawall cancel`: jobs by their numbers, or all that match, with the count said first."""

import sys
from typing import Annotated, Any

import typer

from seawall.cli import apps, show, when
from seawall.cli.apps import AppName, Url
from seawall.cli.jobs import Argument, cancel_named
from seawall.cli.show import AsJson, ConfigFile
from seawall.errors import ArgumentsError
from seawall.finding import Cancelled, Count, cancelled
from seawall.states import State
from seawall.why import times

EXAMPLE = (
    "Example: [bold]seawall cancel 42 43[/bold], or "
    "[bold]seawall cancel --task mail --state queued --dry-run[/bold]"
)


def cancel(  # noqa: PLR0917 - Typer turns each into an option
    job_ids: Annotated[
        list[int] | None, typer.Argument(metavar="[ID...]", help="The jobs' numbers.")
    ] = None,
    state: Annotated[State | None, typer.Option(help="Only queued ones, or running ones.")] = None,
    task: Annotated[str | None, typer.Option(help="All of this task.")] = None,
    queue: Annotated[str | None, typer.Option(help="All of this queue.")] = None,
    owner: Annotated[str | None, typer.Option(help="All of this owner.")] = None,
    tag: Annotated[str | None, typer.Option(help="All with this tag.")] = None,
    run: Annotated[int | None, typer.Option(metavar="ID", help="All items of this run.")] = None,
    fault: Annotated[
        str | None, typer.Option(metavar="CODE", help="All that this went wrong with last.")
    ] = None,
    argument: Argument = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="All asked for since: 2h, 3d.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Cancel queued jobs, and ask running ones to stop.

    Those named, or all that match, of which it says first how many there are:
    that needs a yes. What is enqueued meanwhile is left alone. Exit code 1 if
    one had already ended, or is not there.
    """
    ids = list(job_ids or [])
    with apps.opened(app, url, config, write=not dry_run) as found:
        store = found.store
        said: dict[str, Any] = {
            "state": state, "task": task, "queue": queue, "owner": owner, "tag": tag, "run": run,
            "fault": fault, "argument": argument,
            "created_after": None if since is None else when.before("--since", since, store.now()),
        }  # fmt: skip
        which = {name: value for name, value in said.items() if value is not None}
        _need_an_aim(ids, which, dry_run=dry_run)
        if ids:
            cancel_named(ids, store, as_json=as_json)
            return
        plan = cancelled(store, which, dry_run=True)
        if dry_run or not plan.found:
            _tell(plan, as_json=as_json)
            return
        _need_consent(plan, yes=yes, as_json=as_json)
        _tell(cancelled(store, which), as_json=as_json)


def _need_an_aim(ids: list[int], which: dict[str, Any], *, dry_run: bool) -> None:
    """`ArgumentsError` unless it is clear which are meant."""
    if not ids and not which:
        raise ArgumentsError("name jobs, or say which: --task, --tag, --argument …, --state queued")
    if ids and which:
        raise ArgumentsError("name jobs, or say which: not both")
    if ids and dry_run:
        raise ArgumentsError("--dry-run: counts all that match, and these are named")


def _need_consent(plan: Cancelled, *, yes: bool, as_json: bool) -> None:
    """Say how many there are, and have somebody agree: what was cancelled is not brought back."""
    if not as_json:
        typer.echo(f"{_meant(plan)} to be cancelled.")
    if yes:
        return
    if as_json or not _is_watched():
        raise typer.Exit(show.refusal("nothing was cancelled: agree to it with --yes"))
    if not typer.confirm("Cancel them?"):
        raise typer.Exit(show.refusal("nothing was cancelled"))


def _is_watched() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _meant(told: Cancelled) -> str:
    if told.whole:
        return times(told.found, "job")
    return f"{Count(told.found, exact=False)} jobs"


def _tell(told: Cancelled, *, as_json: bool) -> None:
    if as_json:
        show.print_json(show.as_data(told))
    elif not told.found:
        typer.echo("There are no such jobs.")
    elif told.dry_run:
        typer.echo(f"{_meant(told)} would be cancelled.")
    else:
        typer.echo(f"{times(told.cancelled, 'job')} cancelled.")
        if told.stopping:
            typer.echo(f"{times(told.stopping, 'job')} asked to stop.")
        if told.ended:
            typer.echo(f"{times(told.ended, 'job')} had ended meanwhile.")
