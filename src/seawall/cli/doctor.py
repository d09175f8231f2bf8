"""`seawall doctor`: what is wrong with this installation, and what to do about it.

Every check looks and changes nothing. What cannot be looked at because something before it is
broken is left out: the first broken one is the one to mend.
"""

import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib import import_module
from types import ModuleType

import typer
from rich.markup import escape

import seawall
from seawall.app import Seawall
from seawall.cli import apps, show
from seawall.cli.apps import AppName, Url
from seawall.cli.show import AsJson, ConfigFile
from seawall.decisions.hidden_retries import hidden_retries
from seawall.errors import ConfigurationError, SeawallError
from seawall.settings import Settings
from seawall.store import Store
from seawall.store.inspect import Examination, examined, open_as_is
from seawall.store.values import MOST_ROWS
from seawall.store.webhook_values import DELIVERY_TASK
from seawall.tasks import Task
from seawall.webhooks.delivering import QUEUE
from seawall.why import ALIVE_SECONDS, span, times
from seawall.worker.upkeep import unserved, waiting_letters

EXAMPLE = "Example: [bold]seawall doctor --app jobs:app[/bold]"
MOST_SKEW_SECONDS = 1.0
RECLAIM_SECONDS = 30.0
"""A lease that lapsed longer ago should have been reclaimed by whichever worker is alive."""


class Verdict(StrEnum):
    """What a check came to."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    check: str
    verdict: Verdict
    found: str
    what_to_do: str = ""


def doctor(
    app: AppName = None, url: Url = None, config: ConfigFile = None, as_json: AsJson = False
) -> None:
    """Look for what is wrong, and say what to do about it.

    The store and its indexes, clocks, jobs that nobody serves; with --app
    also clients that retry by themselves. Reads only. Exit code 1 if something
    is broken. It does not prove that no job was lost: that is `seawall verify`,
    which reads every job.
    """
    with apps.configured_by(config):
        checks = list(_checks(app, url, config))
    if as_json:
        show.print_json(show.as_data(checks))
    else:
        _print(checks)
    if any(each.verdict is Verdict.BROKEN for each in checks):
        raise typer.Exit(show.REFUSED)


def _print(checks: list[Check]) -> None:
    console = show.console()
    colour = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.BROKEN: "red"}
    width = max(len(each.check) for each in checks)
    for each in checks:
        mark = f"[{colour[each.verdict]}]{each.verdict:<7}[/{colour[each.verdict]}]"
        line = f"{mark}  {each.check:<{width}}  {escape(each.found)}"
        console.print(line, soft_wrap=True)
        if each.what_to_do:
            console.print(f"{'':>{width + 11}}→ {escape(each.what_to_do)}", soft_wrap=True)
    console.print(
        "\n[dim]Not looked at: whether any job was lost. `seawall verify` proves it.[/dim]"
    )


def _checks(app: str | None, url: str | None, config: str | None) -> Iterator[Check]:
    versions = f"seawall {seawall.__version__}, Python {platform.python_version()}"
    yield Check("versions", Verdict.OK, versions)
    known: Seawall | None = None
    if app is not None:
        try:
            known = apps.loaded(app, url=url)
        except ConfigurationError as error:
            yield Check("application", Verdict.BROKEN, str(error), "mend it, and ask again")
        else:
            yield from _of_application(known, app.partition(":")[0])
    settings = apps.settings_of(known, url, config)
    yield from _of_store(settings)


# --- the store ------------------------------------------------------------------------------------


def _of_store(settings: Settings) -> Iterator[Check]:
    place = apps.shown_url(settings)
    try:
        told = examined(settings.url)
    except SeawallError as error:
        what = "mend what it says, and ask again"
        yield Check("store", Verdict.BROKEN, f"{place}: {error}", what)
        return
    yield Check("store", Verdict.OK, f"{place}: {told.engine}, its tables are up to date")
    yield from _of_indexes(told)
    if told.pooled and not settings.listen_url:
        yield Check(
            "pooler",
            Verdict.WARNING,
            "PostgreSQL is behind a pooler, so workers are not told of new jobs: they look every "
            f"{settings.poll_seconds:g} s",
            "set listen_url to the server's own address",
        )
    with open_as_is(settings.url) as store:
        if told.engine.startswith("PostgreSQL"):
            yield _of_clock(store)
        yield from _of_fleet(store)
        yield _of_letters(store)
        yield from _of_webhooks(store)


def _of_indexes(told: Examination) -> Iterator[Check]:
    """Without its indexes a store answers still, and ever more slowly."""
    trouble = [f"{name} is missing" for name in told.missing]
    trouble += [f"{name} is invalid" for name in told.invalid]
    if trouble:
        what = "make them as in the migration that names them (REINDEX for an invalid one)"
        yield Check("indexes", Verdict.BROKEN, ", ".join(trouble), what)
    else:
        yield Check("indexes", Verdict.OK, "all are there and can be used")
    if told.claims_by:
        yield Check("claim", Verdict.OK, "goes by the index job_due")
    elif "job_due" not in "".join(told.missing):
        what = "run ANALYZE; if it stays so, report it with your database's version"
        yield Check("claim", Verdict.BROKEN, "does not go by the index job_due", what)


def _of_clock(store: Store) -> Check:
    before = datetime.now(UTC)
    theirs = store.now()
    after = datetime.now(UTC)
    off = (theirs - (before + (after - before) / 2)).total_seconds()
    # How long the answer took is how exactly the difference can be known.
    unsure = (after - before).total_seconds() / 2
    said = f"the store's clock is {abs(off):.2f} s {'ahead of' if off > 0 else 'behind'} this one"
    if abs(off) - unsure > MOST_SKEW_SECONDS:
        what = "jobs go by the store's clock; set both by NTP, or times shown here mislead"
        return Check("clock", Verdict.WARNING, said, what)
    return Check("clock", Verdict.OK, said)


def _of_fleet(store: Store) -> Iterator[Check]:
    alive = store.workers(within_seconds=ALIVE_SECONDS)
    yield Check("workers", Verdict.OK, f"{times(len(alive), 'worker')} alive")
    idle = unserved(store)
    for queue, task, seconds, advice in idle:
        found = f"jobs of {task} in the queue {queue} wait since {seconds:.0f} s for nobody"
        yield Check("served", Verdict.WARNING, found, advice)
    if not idle:
        yield Check("served", Verdict.OK, "whatever is due has a worker that serves it")
    now = store.now()
    late = [
        lapse
        for lapse in store.lapsed(limit=MOST_ROWS)
        if (now - lapse.lapsed_at).total_seconds() > RECLAIM_SECONDS
    ]
    if not late:
        yield Check("leases", Verdict.OK, "none has lapsed without being taken back")
        return
    more = " or more" if len(late) == MOST_ROWS else ""
    found = (
        f"{times(len(late), 'lease')}{more} lapsed and not taken back, the first "
        f"{span(now - late[0].lapsed_at)} ago (job {late[0].token.job_id})"
    )
    if alive:
        what = "the workers' upkeep is stuck: look for upkeep_failed in their logs"
        yield Check("leases", Verdict.BROKEN, found, what)
    else:
        what = "start a worker: it takes them back"
        yield Check("leases", Verdict.WARNING, found, what)


def _of_letters(store: Store) -> Check:
    waiting = waiting_letters(store)
    if not waiting:
        return Check("letters", Verdict.OK, "no failed job waits for anybody")
    found = f"{times(waiting, 'failed job')} {'waits' if waiting == 1 else 'wait'} for somebody"
    what = "see what they have in common: seawall dead --group"
    return Check("letters", Verdict.WARNING, found, what)


def _of_webhooks(store: Store) -> Iterator[Check]:
    """Nothing is said where there are none."""
    webhooks = store.webhooks()
    if not webhooks:
        return
    alive = [each.presence for each in store.workers(within_seconds=ALIVE_SECONDS)]
    deliver = [
        each
        for each in alive
        if DELIVERY_TASK in each.tasks and (each.queues is None or QUEUE in each.queues)
    ]
    many = times(len(webhooks), "webhook")
    if deliver:
        found = f"{many}; {times(len(deliver), 'worker')} can deliver"
        yield Check("webhooks", Verdict.OK, found)
        return
    what = f"start a worker that serves the queue {QUEUE}, with pip install 'seawall[webhooks]'"
    yield Check("webhooks", Verdict.WARNING, f"{many}, and no living worker delivers", what)


# --- the application ------------------------------------------------------------------------------


def _of_application(app: Seawall, module: str) -> Iterator[Check]:
    if not app.tasks:
        yield Check(
            "application",
            Verdict.BROKEN,
            "it has no tasks",
            "declare one with @app.task, in a module that the application's module imports",
        )
        return
    yield Check("application", Verdict.OK, f"{times(len(app.tasks), 'task')} declared")
    yield from _of_clients(_modules(app, module))
    yield from _of_isolated(app)


def _of_clients(modules: list[ModuleType]) -> Iterator[Check]:
    """Clients at the top of the modules that declare the application and its tasks."""
    seen: dict[int, str] = {}
    for module in modules:
        for name, each in list(vars(module).items()):
            if id(each) in seen or isinstance(each, ModuleType | type):
                continue
            told = hidden_retries(each)
            if told is not None:
                seen[id(each)] = name
                found = f"{module.__name__}.{name}: {told.client} retries {told.count}× by itself"
                yield Check("clients", Verdict.WARNING, found, told.advice)
    if not seen:
        found = "none at the top of a module retries by itself, of those that are known"
        yield Check("clients", Verdict.OK, found)


def _modules(app: Seawall, own: str) -> list[ModuleType]:
    stages = [stage for task in app.tasks.values() for stage in task.stages]
    names = [own, *(stage.function.__module__ for stage in stages)]
    return [sys.modules[name] for name in dict.fromkeys(names) if name in sys.modules]


def _of_isolated(app: Seawall) -> Iterator[Check]:
    """A fresh process must find an isolated task at the top of its module."""
    isolated = [task for task in app.tasks.values() if any(stage.isolated for stage in task.stages)]
    lost = [task.name for task in isolated if not _can_be_found(task)]
    for name in lost:
        yield Check(
            "isolated",
            Verdict.BROKEN,
            f"the task {name} cannot be imported by a process of its own",
            "declare it at the top of a module, under a name of its own",
        )
    if isolated and not lost:
        found = f"{times(len(isolated), 'isolated task')} can be imported"
        yield Check("isolated", Verdict.OK, found)


def _can_be_found(task: "Task[..., object, object]") -> bool:
    module = import_module(task.home)
    there = list(vars(module).values())
    return any(isinstance(each, Task) and each.name == task.name for each in there)
