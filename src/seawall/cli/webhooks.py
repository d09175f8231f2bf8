"""`seawall webhooks`: who is told of what happens; made, tried out, paused, deleted."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.markup import escape

from seawall.cli import apps, show, when
from seawall.cli.apps import AppName, Found, Url
from seawall.cli.show import AsJson, ConfigFile, help_when_alone
from seawall.clock import SystemClock
from seawall.model import Job
from seawall.states import FINISHED, State
from seawall.webhooks import USUAL, MadeWebhook, Webhooks, WebhookView
from seawall.webhooks.book import PAUSED

EXAMPLE = (
    "Example: [bold]seawall webhooks create https://example.com/hooks --event job.failed[/bold]"
)
LOOK_SECONDS = 0.1
TEST_SECONDS = 10.0

app = typer.Typer()
Id = Annotated[int, typer.Argument(metavar="ID", min=1, help="The webhook, as `list` shows it.")]


@app.callback(invoke_without_command=True)
def webhooks(context: typer.Context) -> None:
    """Tell others of what happens: make, list, try out, pause and delete webhooks."""
    help_when_alone(context)


@app.command(epilog=EXAMPLE)
def create(
    receiver: Annotated[
        str, typer.Argument(metavar="URL", help="Where messages go: https://HOST/PATH.")
    ],
    event: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EVENT",
            help=f"What it is told of; may be given again. Default: {', '.join(USUAL)}.",
        ),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Of which tasks' jobs; may be given again. Default: all.",
        ),
    ] = None,
    owner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Of whose jobs; may be given again. Default: everybody's, and nobody's.",
        ),
    ] = None,
    application: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Have a receiver told of what happens from now on, and show its secret, once."""
    with apps.opened(application, url, config, write=True) as found:
        made = Webhooks(found).create(
            receiver, events=event or None, tasks=task or None, owners=owner or None
        )
    _show_secret(made, as_json=as_json)


@app.command(name="list", epilog="Example: [bold]seawall webhooks list --json[/bold]")
def list_(
    application: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List the webhooks: what each is told of, and whether its receiver is well."""
    with apps.opened(application, url, config) as found:
        listed, now = Webhooks(found).all(), found.store.now()
    if as_json:
        show.print_json([show.as_data(each) for each in listed])
        return
    if not listed:
        typer.echo("There is no webhook. Make one: seawall webhooks create https://HOST/PATH")
        return
    rows = [
        (
            str(each.id),
            escape(show.harmless(each.url)),
            ", ".join(each.events),
            escape("all" if each.tasks is None else ", ".join(each.tasks)),
            escape("all" if each.owners is None else ", ".join(each.owners)),
            f"{each.state}{f': {escape(show.harmless(each.reason))}' if each.reason else ''}",
            str(each.waiting),
            show.ago(each.created_at, now),
        )
        for each in listed
    ]
    columns = ("ID", "URL", "EVENTS", "TASKS", "OWNERS", "STATE", "WAITING", "CREATED")
    show.listing(columns, rows, right=(0, 6))


@app.command(name="test", epilog="Example: [bold]seawall webhooks test 1[/bold]")
def try_out(
    webhook_id: Id,
    wait: Annotated[
        bool,
        typer.Option(help="Wait some seconds to see whether it is taken."),
    ] = True,
    application: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Send it a message of the type webhook.test, as everything else is sent: by a worker.

    Exit code 1 if it was not taken within ten seconds.
    """
    with apps.opened(application, url, config, write=True) as found:
        job_id = Webhooks(found).test(webhook_id)
        job = _awaited(found, job_id) if wait else found.store.jobs([job_id])[job_id]
    taken = job.state is State.SUCCEEDED
    fault = None if job.last_fault is None else job.last_fault.message
    if as_json:
        show.print_json({"webhook": webhook_id, "job": job_id, "state": job.state, "fault": fault})
    elif taken:
        typer.echo(f"Taken: the receiver of webhook {webhook_id} said yes.")
    elif not wait:
        typer.echo(f"The job {job_id} will deliver it.")
    if wait and not taken:
        trouble = fault or "no worker has taken it up yet: is one running?"
        raise typer.Exit(show.refusal(f"not taken so far: {trouble} See: seawall why {job_id}"))


@app.command(epilog='Example: [bold]seawall webhooks pause 1 --why "they are moving"[/bold]')
def pause(
    webhook_id: Id,
    why: Annotated[str, typer.Option(metavar="TEXT", help="Shown to whoever asks.")] = PAUSED,
    application: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Deliver nothing to it until it is resumed; what happens meanwhile is kept for it."""
    with apps.opened(application, url, config, write=True) as found:
        Webhooks(found).pause(webhook_id, why=why)
        after = Webhooks(found).get(webhook_id)
    _show(after, f"Webhook {webhook_id} is paused; what happens is kept for it.", as_json=as_json)


@app.command(epilog="Example: [bold]seawall webhooks resume 1[/bold]")
def resume(
    webhook_id: Id,
    application: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Deliver again, what has waited first. Exit code 1 if it was neither paused nor held."""
    with apps.opened(application, url, config, write=True) as found:
        done = Webhooks(found).resume(webhook_id)
        after = Webhooks(found).get(webhook_id)
    line = f"Webhook {webhook_id} goes on." if done else ""
    _show(after, line, as_json=as_json)
    if not done:
        raise typer.Exit(show.refusal(f"webhook {webhook_id} was neither paused nor held"))


@app.command(epilog="Example: [bold]seawall webhooks rotate 1 --both 7d[/bold]")
def rotate(
    webhook_id: Id,
    both: Annotated[
        str,
        typer.Option(metavar="SPAN", help="How long both secrets sign: 7d, 12h, 0s."),
    ] = "24h",
    application: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Give it another secret and show it, once; messages are signed with both for a while."""
    with apps.opened(application, url, config, write=True) as found:
        made = Webhooks(found).rotate(webhook_id, both_seconds=_span(both))
    _show_secret(made, as_json=as_json)


@app.command(epilog="Example: [bold]seawall webhooks delete 1[/bold]")
def delete(
    webhook_id: Id,
    application: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Tell it nothing more; what waits for it is skipped. Exit code 1 if there is none."""
    with apps.opened(application, url, config, write=True) as found:
        done = Webhooks(found).delete(webhook_id)
    if as_json:
        show.print_json({"id": webhook_id, "deleted": done})
    elif done:
        typer.echo(f"Webhook {webhook_id} is deleted.")
    if not done:
        raise typer.Exit(show.refusal(f"there is no webhook {webhook_id}"))


def _awaited(found: Found, job_id: int) -> Job:
    """The job, once it has ended or waits to be tried again, or after a while."""
    clock = SystemClock()
    deadline = clock.monotonic() + TEST_SECONDS
    while True:
        job = found.store.jobs([job_id])[job_id]
        if job.state in FINISHED or job.seq or clock.monotonic() > deadline:
            return job
        clock.sleep(LOOK_SECONDS)


def _span(text: str) -> float:
    return 0.0 if text == "0s" else when.lasting("--both", text, datetime.now(UTC))


def _show(after: WebhookView, line: str, *, as_json: bool) -> None:
    if as_json:
        show.print_json(show.as_data(after))
    elif line:
        typer.echo(line)


def _show_secret(made: MadeWebhook, *, as_json: bool) -> None:
    if as_json:
        show.print_json({**show.as_data(made.webhook), "secret": made.secret})
        return
    typer.echo(made.secret)
    events = ", ".join(made.webhook.events)
    show.hint(
        f"this is the secret of webhook {made.webhook.id}, for its receiver; it is not shown again."
        f" It is told of {events}. Try it: seawall webhooks test {made.webhook.id}"
    )
