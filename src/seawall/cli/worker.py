"""`seawall worker` and `seawall workers`: running jobs, and who does."""

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.markup import escape

from seawall.app import Seawall
from seawall.cli import apps, logs, show
from seawall.cli.apps import AppName, Url
from seawall.cli.logs import LogFormat, LogLevel
from seawall.cli.show import AsJson, ConfigFile
from seawall.errors import ConfigurationError
from seawall.model import need_name
from seawall.store import Present, lasts
from seawall.telemetry.otlp import exported
from seawall.why import ALIVE_SECONDS
from seawall.worker.supervise import (
    SUPERVISED,
    Supervisor,
    once_in_a_while,
    when_supervisor_is_gone,
)
from seawall.worker.worker import Worker

NOT_WRITTEN = 1
MOST_PROCESSES = 256
YOUNG_OBJECTS = 10_000
"""How many there are before garbage is looked for among them: about what a batch of jobs makes."""
SWITCH_SECONDS = 0.001
"""How long whoever has heard from the store waits for a thread that runs handlers."""

EXAMPLE = "Example: [bold]seawall worker --app jobs:app --queues mail,reports --processes 4[/bold]"
WORKERS_EXAMPLE = "Example: [bold]seawall workers --url postgresql://db.example/jobs[/bold]"


def worker(  # noqa: PLR0917 - Typer turns each into an option
    app: AppName = None,
    queues: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Serve only these queues. Default: every queue."),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", help="How many jobs to run at once. Default: 10.")
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            min=1,
            max=MOST_PROCESSES,
            metavar="N",
            help="So many worker processes, each with its own --concurrency; one that dies is "
            "replaced.",
        ),
    ] = 1,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain", help="End when nothing is left: queued for now or later, running or held."
        ),
    ] = False,
    url: Url = None,
    config: ConfigFile = None,
    lease_seconds: Annotated[
        float | None,
        typer.Option(metavar="S", help="How long it may be silent before others take its jobs."),
    ] = None,
    grace_seconds: Annotated[
        float | None,
        typer.Option(metavar="S", help="How long jobs may go on once it was told to stop."),
    ] = None,
    poll_seconds: Annotated[
        float | None,
        typer.Option(metavar="S", help="How often it looks for jobs when nobody told it of any."),
    ] = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(help="Lines for people, or a JSON object a line. Default: text."),
    ] = None,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(help="debug shows every job that succeeds. Default: info."),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65_535, metavar="PORT", help="Tell Prometheus at http://HOST:PORT/metrics."
        ),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(metavar="HOST", help="Where; nobody is asked for a token there.")
    ] = "127.0.0.1",
    supervised: Annotated[bool, typer.Option(SUPERVISED, hidden=True)] = False,
) -> None:
    """Run the application's jobs until told to stop.

    Ctrl-C or SIGTERM: it claims nothing more, lets its jobs finish within
    --grace-seconds, hands the rest back and ends with exit code 0. A second
    one hurries. Exit code 1: something could not be written, and those jobs
    run again.
    """
    flags: dict[str, object] = {
        "url": url,
        "concurrency": concurrency,
        "lease_seconds": lease_seconds,
        "grace_seconds": grace_seconds,
        "poll_seconds": poll_seconds,
        "log_format": log_format,
        "log_level": log_level,
    }
    with apps.configured_by(config):
        found = apps.needed(app, **flags)
        made = Worker(found, queues=_named(queues), drain=drain)
        with (
            logs.shown(found.settings) as style,
            _told_to_prometheus(found, metrics_port, metrics_host),
        ):
            if style is LogFormat.TEXT and not supervised:
                typer.echo(_welcome(made, processes), err=True)
            if processes == 1:
                code = _work(found, made, supervised=supervised)
            else:
                words = _words(
                    {
                        **flags,
                        "app": app,
                        "queues": queues,
                    }
                )
                code = _supervise(
                    Supervisor([*words, *(["--drain"] if drain else [])], processes, drain=drain)
                )
    raise typer.Exit(code)


def _work(app: Seawall, worker: Worker, *, supervised: bool) -> int:
    _tune()
    with _at_a_signal(once_in_a_while(worker.stop) if supervised else lambda _: worker.stop()):
        if supervised:
            # One that was told to stop already must not be hurried by it.
            when_supervisor_is_gone(lambda: None if worker.core.stopping else worker.stop())
        try:
            with exported():
                return 0 if worker.run() else NOT_WRITTEN
        finally:
            app.close()


@contextmanager
def _told_to_prometheus(app: Seawall, port: int | None, host: str) -> Iterator[None]:
    """Answer scrapes meanwhile, by a way into the store that no job waits for."""
    if port is None:
        yield
        return
    from seawall.metrics import Metrics  # noqa: PLC0415 - few ask for it
    from seawall.metrics.listening import listening  # noqa: PLC0415 - as above
    from seawall.metrics.telling import need_client  # noqa: PLC0415 - as above

    need_client()
    store, shared = app.store_of_its_own(), not lasts(app.settings.url)
    try:
        with listening(Metrics(store, app.upstreams), port, host):
            yield
    finally:
        if not shared:
            store.close()


def _tune() -> None:
    """Set the interpreter up for a process that does nothing else than to run jobs."""
    sys.setswitchinterval(SWITCH_SECONDS)
    young, *older = gc.get_threshold()
    gc.set_threshold(max(young, YOUNG_OBJECTS), *older)
    gc.collect()
    gc.freeze()  # what is there now stays: modules, the application


def _supervise(supervisor: Supervisor) -> int:
    with _at_a_signal(supervisor.stop):
        return supervisor.run()


@contextmanager
def _at_a_signal(stop: Callable[[int], None]) -> Iterator[None]:
    """Call `stop` at SIGTERM and Ctrl-C instead of dying of them."""

    def heard(number: int, _: object) -> None:
        stop(number)

    before: dict[int, Any] = {
        number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _named(queues: str | None) -> list[str] | None:
    if queues is None:
        return None
    names = [name.strip() for name in queues.split(",")]
    try:
        for name in names:
            need_name("queue", name)
    except ValueError as error:
        raise ConfigurationError(f"--queues: {error}") from None
    return list(dict.fromkeys(names))


def _words(options: dict[str, object]) -> list[str]:
    """The options that were given, as they are typed."""
    return [
        f"--{name.replace('_', '-')}={value}"
        for name, value in options.items()
        if value is not None
    ]


def _welcome(worker: Worker, processes: int) -> str:
    app = worker.app
    served = worker.queues
    names = [name for name, each in app.tasks.items() if served is None or each.queue in served]
    tasks = ", ".join(sorted(names)) or "whatever else is put into its queues"
    queues = "all queues" if worker.queues is None else f"the queues {', '.join(worker.queues)}"
    each = f"{processes} processes, each " if processes > 1 else ""
    return (
        f"seawall: {each}{worker.concurrency} at once, {queues}, {apps.shown_url(app.settings)}\n"
        f"seawall: serves {tasks}\n"
        "seawall: Ctrl-C lets running jobs finish and stops; a second one hands them back at once"
    )


def workers(
    app: AppName = None, url: Url = None, config: ConfigFile = None, as_json: AsJson = False
) -> None:
    """List the living workers: what each serves, and how busy it is."""
    with apps.opened(app, url, config) as found:
        alive = found.store.workers(within_seconds=ALIVE_SECONDS)
        now = found.store.now()
    if as_json:
        show.print_json([_as_data(each) for each in alive])
        return
    if not alive:
        typer.echo("No worker is alive. Start one: seawall worker --app MODULE:APP")
        return
    rows = [
        (
            escape(each.presence.worker),
            escape(each.presence.host),
            str(each.presence.pid),
            escape(each.presence.version),
            f"{each.presence.running}/{each.presence.concurrency}",
            show.ago(each.started_at, now),
            show.ago(each.seen_at, now),
            "stopping" if each.presence.stopping else "",
            escape("all" if each.presence.queues is None else ", ".join(each.presence.queues)),
            escape(", ".join(each.presence.tasks)),
        )
        for each in alive
    ]
    columns = (
        "WORKER", "HOST", "PID", "VERSION", "BUSY", "STARTED", "SEEN", "", "QUEUES", "TASKS"
    )  # fmt: skip
    show.listing(columns, rows, right=(2, 4))


def _as_data(each: Present) -> dict[str, object]:
    told = show.as_data(each.presence)
    return {**told, "started_at": show.iso(each.started_at), "seen_at": show.iso(each.seen_at)}
