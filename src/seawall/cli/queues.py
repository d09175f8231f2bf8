"""`seawall queues`: what waits where, what is held, who serves it; pausing and resuming."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer
from rich.markup import escape

from seawall.cli import apps, show
from seawall.cli.apps import AppName, Url
from seawall.cli.show import AsJson, ConfigFile
from seawall.errors import ConfigurationError
from seawall.queue_views import QueueView, queue_views
from seawall.store import Hold, Scope
from seawall.why import span

EXAMPLE = 'Example: [bold]seawall queues pause mail --why "the provider is down"[/bold]'
NO_REASON = "paused by hand"

app = typer.Typer(invoke_without_command=True)
QueueName = Annotated[str, typer.Argument(metavar="NAME", help="The queue.")]


@dataclass(frozen=True, slots=True)
class _Where:
    """What was said before the name of the command counts for it, too."""

    app: str | None
    url: str | None
    config: str | None

    def over(self, app: str | None, url: str | None, config: str | None) -> "_Where":
        return _Where(app or self.app, url or self.url, config or self.config)


@app.callback()
def queues(
    context: typer.Context,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List the queues: what waits, runs or is held; pause and resume them.

    Called alone, it lists how many jobs of each queue are due, wait for later
    and run, what is held and why, and how many workers serve it.
    """
    context.obj = _Where(app, url, config)
    if context.invoked_subcommand is not None:
        return
    with apps.opened(app, url, config) as found:
        listed = queue_views(found.store, found.tasks)
        now = found.store.now()
    if as_json:
        show.print_json([_as_data(name, each, now) for name, each in sorted(listed.items())])
        return
    if not listed:
        typer.echo("Nothing waits, nothing runs, nothing is held.")
        return
    columns = ("QUEUE", "DUE", "LATER", "RUNNING", "OLDEST DUE", "WORKERS", "HELD")
    rows = [
        (
            escape(name),
            f"{each.due:,}",
            f"{each.later:,}",
            f"{each.running:,}",
            "" if each.oldest_due_at is None else show.ago(each.oldest_due_at, now),
            str(each.workers),
            escape("; ".join(_held(hold, now) for hold in each.holds)),
        )
        for name, each in sorted(listed.items())
    ]
    show.listing(columns, rows, right=(1, 2, 3, 5))


def _held(hold: Hold, now: datetime) -> str:
    what = "" if hold.scope is Scope.QUEUE else f"{hold.scope} {hold.name} "
    end = "" if hold.until is None else f", for another {span(hold.until - now)}"
    return f"{what}held since {span(now - hold.since)}: {hold.reason}{end}"


def _as_data(name: str, each: QueueView, now: datetime) -> dict[str, object]:
    oldest = each.oldest_due_at
    return {
        "queue": name,
        "due": each.due,
        "later": each.later,
        "running": each.running,
        "oldest_due_at": show.iso(oldest),
        "oldest_due_seconds": None if oldest is None else max(0.0, (now - oldest).total_seconds()),
        "paused": each.paused,
        "holds": show.as_data(each.holds),
        "workers": each.workers,
    }


@app.command(epilog=EXAMPLE)
def pause(
    context: typer.Context,
    name: QueueName,
    why: Annotated[str, typer.Option(metavar="TEXT", help="What to tell others.")] = NO_REASON,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Let no job of a queue begin until somebody resumes it; those that run go on."""
    where = _where(context).over(app, url, config)
    with apps.opened(where.app, where.url, where.config, write=True) as found:
        try:
            found.store.hold(Scope.QUEUE, name, reason=why)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        known = {each.lane.queue for each in found.store.backlog()}
        known |= {task.queue for task in found.tasks.values()}
    if as_json:
        show.print_json({"queue": name, "paused": True, "reason": why})
    else:
        typer.echo(f"The queue {name} is paused. To go on: seawall queues resume {name}")
        if name not in known:
            show.hint(f"nothing waits or runs in a queue {name} now; is it the name you meant?")


@app.command(epilog="Example: [bold]seawall queues resume mail[/bold]")
def resume(
    context: typer.Context,
    name: QueueName,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Let the jobs of a paused queue begin again. Exit code 1 if it was not paused."""
    where = _where(context).over(app, url, config)
    with apps.opened(where.app, where.url, where.config, write=True) as found:
        try:
            was_held = found.store.resume(Scope.QUEUE, name)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
    if as_json:
        show.print_json({"queue": name, "paused": False, "was_paused": was_held})
    elif was_held:
        typer.echo(f"The queue {name} goes on.")
    if not was_held:
        raise typer.Exit(show.refusal(f"the queue {name} was not paused"))


def _where(context: typer.Context) -> _Where:
    found = context.obj
    return found if isinstance(found, _Where) else _Where(None, None, None)
