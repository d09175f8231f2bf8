"""`seawall schedules`: what is asked for again and again."""

from collections.abc import Mapping
from datetime import datetime

import typer
from rich.markup import escape

from seawall.app import Scheduled
from seawall.cli import apps, show
from seawall.cli.apps import AppName, Url
from seawall.cli.show import AsJson, ConfigFile
from seawall.queue_views import plans_in_force
from seawall.store import Planned

EXAMPLE = "Example: [bold]seawall schedules --app jobs:app[/bold]"


def schedules(
    app: AppName = None, url: Url = None, config: ConfigFile = None, as_json: AsJson = False
) -> None:
    """List the schedules: when each fires next, and what it last did.

    With --app also in words, and those that no worker keeps yet.
    """
    with apps.opened(app, url, config) as found:
        declared = {} if found.app is None else found.app.schedules
        planned = plans_in_force(found.store.planned(), declared)
        now = found.store.now()
    names = sorted(planned.keys() | declared.keys())
    if as_json:
        show.print_json([_as_data(name, planned.get(name), declared) for name in names])
        return
    if not names:
        typer.echo("There are no schedules.")
        return
    rows = [_row(name, planned.get(name), declared, now) for name in names]
    show.listing(("SCHEDULE", "NEXT", "LAST", "LAST JOB", "WHAT"), rows, right=(3,))


def _spec(name: str, planned: Planned | None, declared: Mapping[str, Scheduled]) -> str:
    return planned.spec if planned is not None else declared[name].schedule.spec


def _row(
    name: str, planned: Planned | None, declared: Mapping[str, Scheduled], now: datetime
) -> tuple[str, ...]:
    known = declared.get(name)
    what = _spec(name, planned, declared)
    if known is not None:
        what = f"{known.request.task.name} {known.schedule.explain()}"
    if planned is None:
        return (escape(name), "when a worker starts", "", "", escape(what))
    last_job = "" if planned.last_job is None else str(planned.last_job)
    last = "" if planned.last_at is None else show.ago(planned.last_at, now)
    return (escape(name), show.ago(planned.next_at, now), last, last_job, escape(what))


def _as_data(
    name: str, planned: Planned | None, declared: Mapping[str, Scheduled]
) -> dict[str, object]:
    known = declared.get(name)
    return {
        "name": name,
        "spec": _spec(name, planned, declared),
        "next_at": None if planned is None else show.iso(planned.next_at),
        "last_at": None if planned is None else show.iso(planned.last_at),
        "last_job": None if planned is None else planned.last_job,
        "task": None if known is None else known.request.task.name,
        "explained": None if known is None else known.schedule.explain(),
    }
