"""`seawall runs` and `seawall run`: many items through one pipeline, and how they stand.

`seawall run ID` is the view that `run.wait()` shows, in words; with a word behind it, it does
something about the run: `seawall run 7 resume`.
"""

import time
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.markup import escape

from seawall.cli import apps, report, show
from seawall.cli.apps import AppName, Found, Url
from seawall.cli.live import STAGE_COLUMNS, held_of, shown, spent_of, stage_row, status_of
from seawall.cli.show import AsJson, ConfigFile
from seawall.errors import ConfigurationError, StoreUnavailableError
from seawall.pipelines import Pipeline
from seawall.runs import Run
from seawall.standings import RunView, span_of, view_of
from seawall.why import ALIVE_SECONDS, span

EXAMPLE = "Example: [bold]seawall runs --unfinished[/bold]; one of them: [bold]seawall run 7[/bold]"
RUN_EXAMPLE = (
    "Examples: [bold]seawall run 7 --watch[/bold], "
    "[bold]seawall run 7 report --html run.html[/bold], "
    '[bold]seawall run 7 pause --why "the bill"[/bold], [bold]seawall run 7 resume[/bold]'
)
START_EXAMPLE = (
    "Example: [bold]seawall runs start reports items.jsonl --name monday --key id --app jobs:app"
    "[/bold]"
)
WATCH_SECONDS = 1.0
MOST_LISTED = 500
BY_HAND = "paused by hand"
_COUNTED = ("ended", "unfinished", "running", "retried", "cost", "success_rate", "over")

app = typer.Typer(invoke_without_command=True)


class Action(StrEnum):
    """What can be done about a run."""

    REPORT = "report"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


# --- all of them ----------------------------------------------------------------------------------


@app.callback()
def runs(  # noqa: PLR0917 - Typer turns each into an option
    context: typer.Context,
    pipeline: Annotated[str | None, typer.Option(help="Only this pipeline's.")] = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Only those that are not over.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LISTED, help="At most so many.")] = 20,
    before: Annotated[
        int | None, typer.Option(metavar="ID", help="Where to go on: those older than this one.")
    ] = None,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first: how far each has come, and how it ended."""
    context.obj = (app, url, config)  # what was said before the name of the command counts, too
    if context.invoked_subcommand is not None:
        return
    with apps.opened(app, url, config) as found:
        store = found.store
        listed = store.runs(
            pipeline=pipeline, unfinished=unfinished, before=before, limit=limit + 1
        )
        views = [view_of(store, each) for each in listed[:limit]]
        now = store.now()
    more = "" if len(listed) <= limit else f"the same with --before {views[-1].id}"
    if as_json:
        show.print_json([as_data(view) for view in views])
        if more:
            show.hint(f"there are more: {more}")
        return
    if not views:
        typer.echo("There are no such runs.")
        return
    columns = (
        "ID", "PIPELINE", "NAME", "STATUS", "ITEMS", "DONE", "FAILED", "BEGAN", "WHY",
    )  # fmt: skip
    show.listing(columns, [_row(view, now) for view in views], right=(0, 4, 5, 6))
    if more:
        typer.echo(f"\nThere are more: {more}")


def _row(view: RunView, now: datetime) -> tuple[str, ...]:
    again = f" ({view.round})" if view.round > 1 else ""
    return (
        str(view.id),
        escape(show.harmless(view.pipeline)),
        escape(show.harmless(view.name)) + again,
        status_of(view),
        f"{view.entered:,}" + ("" if view.sealed else "+"),
        f"{view.ended / view.entered:.0%}" if view.entered else "–",
        f"{view.failed:,}",
        show.ago(view.created_at, now),
        escape(show.harmless(view.reason)),
    )


def as_data(view: RunView) -> dict[str, Any]:
    """A run as JSON can hold it, with what follows from its counts."""
    told: dict[str, Any] = show.as_data(view)
    return told | {name: show.as_data(getattr(view, name)) for name in _COUNTED}


# --- one of them ----------------------------------------------------------------------------------


def run(  # noqa: PLR0917 - Typer turns each into an option
    run_id: Annotated[int, typer.Argument(metavar="ID", help="The run's number.")],
    action: Annotated[
        Action | None,
        typer.Argument(
            metavar="[report|pause|resume|cancel]", help="What to do; nothing: show how it stands."
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it anew every second, until it is over.")
    ] = False,
    why: Annotated[
        str | None, typer.Option("--why", metavar="TEXT", help="With pause: what to tell others.")
    ] = None,
    spending_cap: Annotated[
        float | None,
        typer.Option(metavar="AMOUNT", help="With resume: what it may cost from now on, in all."),
    ] = None,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="With report: write it as one HTML file."),
    ] = None,
    failed: Annotated[
        int,
        typer.Option(min=1, max=1_000, help="With report: list so many failed items at most."),
    ] = 20,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show how a run stands: its items by stage, its figures, what to do next.

    With a word behind its number: `report` tells what its history comes to,
    `pause` lets no more items begin, `resume` lets a paused or aborted one go
    on, `cancel` ends it for good. Exit code 1 if that is not possible.
    """
    _need_sense(action, watch=watch, why=why, cap=spending_cap, html=html, as_json=as_json)
    write = action in (Action.PAUSE, Action.RESUME, Action.CANCEL)
    with apps.opened(app, url, config, write=write) as found:
        if found.store.run(run_id) is None:
            raise typer.Exit(show.refusal(f"there is no run {run_id}"))
        asked = Run(found, run_id)
        if action is Action.REPORT:
            report.show_report(asked.report(most_failed=failed), html, as_json=as_json)
        elif write:
            _decide(asked, action, why, spending_cap, as_json=as_json)
        elif watch and _watched(found, asked):
            return
        else:
            _print(found, asked.view(), as_json=as_json)
    if watch:
        show.hint("the output is no terminal, so --watch showed it once")


def _need_sense(
    action: Action | None, *, watch: bool, why: str | None, cap: float | None, html: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    if watch and action is not None:
        raise ConfigurationError(f"--watch shows how a run stands: leave out {action}")
    if watch and as_json:
        raise ConfigurationError("--watch is for people: ask for --json again and again instead")
    if why is not None and action is not Action.PAUSE:
        raise ConfigurationError("--why goes with pause: seawall run ID pause --why TEXT")
    if cap is not None and action is not Action.RESUME:
        raise ConfigurationError(
            "--spending-cap goes with resume: seawall run ID resume --spending-cap AMOUNT"
        )
    if html is not None and action is not Action.REPORT:
        raise ConfigurationError("--html goes with report: seawall run ID report --html FILE")
    if html is not None and as_json:
        raise ConfigurationError("--html and --json are two outputs: ask for one of them")


def _watched(found: Found, asked: Run) -> bool:
    """Show it anew again and again, until it is over or Ctrl-C; false where nobody looks on."""
    out = show.console()
    if not out.is_terminal or out.is_dumb_terminal:
        return False
    with suppress(KeyboardInterrupt), shown(out, lambda: held_of(found.store, asked.id)) as look:
        while True:
            with suppress(StoreUnavailableError):
                view = asked.view()
                look(view)
                if view.over:
                    break
            time.sleep(WATCH_SECONDS)
    return True


def _print(found: Found, view: RunView, *, as_json: bool) -> None:
    if as_json:
        show.print_json(as_data(view))
        return
    alive = found.store.workers(within_seconds=ALIVE_SECONDS)
    held = held_of(found.store, view.id)
    out = show.console()
    out.print(show.fields(_fields(view, held)))
    typer.echo()
    show.listing(STAGE_COLUMNS, [stage_row(stage) for stage in view.stages], right=range(1, 7))
    steps = next_steps(view, workers=len(alive))
    if steps:
        typer.echo()
    for line in steps:
        typer.echo(line)


def _fields(view: RunView, held: list[str]) -> list[tuple[str, str]]:
    again = f", round {view.round} of this name" if view.round > 1 else ""
    counts = [
        f"{count:,} {word}"
        for word in ("succeeded", "skipped", "failed", "cancelled", "unfinished", "pruned")
        if (count := getattr(view, word))
    ]
    rate = view.success_rate
    reason = f": {escape(show.harmless(view.reason))}" if view.reason else ""
    passed = span_of(view).total_seconds()
    pace = f", {view.ended / passed:,.1f} items a second" if view.ended and passed >= 1 else ""
    return [
        ("run", f"{view.id}: {escape(show.harmless(f'{view.pipeline} {view.name}'))}{again}"),
        ("status", status_of(view) + reason),
        ("items", f"{view.entered:,}" + (f": {', '.join(counts)}" if counts else "")),
        ("succeeded", "" if rate is None else f"{rate:.1%} of what ended, skipped items aside"),
        ("retries", f"{view.retried:,}" if view.retried else ""),
        ("began", f"{view.created_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("ended", "" if view.closed_at is None else f"{view.closed_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("took" if view.over else "for", f"{span(span_of(view))}{pace}"),
        ("spent", spent_of(view)),
        ("terms", _terms(view)),
        ("owner", escape(show.harmless(view.owner or ""))),
        *(("held", escape(line)) for line in held),
    ]  # fmt: skip


def _terms(view: RunView) -> str:
    terms = view.terms
    budget = "never aborted for failures"
    if terms.failure_budget is not None:
        share = _percent(terms.failure_budget)
        budget = f"aborted above {share} failed, from {terms.minimum:,} ended on"
    complete, partial = _percent(terms.complete_at), _percent(terms.partial_at)
    return f"{budget}; completed from {complete} on, a partial success from {partial} on"


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def next_steps(view: RunView, *, workers: int) -> list[str]:
    """What somebody who looks at it may want to do, as sentences with commands."""
    steps = []
    if view.status in ("paused", "aborted") and view.unfinished:
        more = " --spending-cap AMOUNT" if view.terms.capped(view.cost) else ""
        steps.append(
            f"To let it go on: seawall run {view.id} resume{more}. To end it for good: seawall run"
            f" {view.id} cancel"
        )
    if view.status == "running" and not view.sealed:
        steps.append(
            "Not all items are here: whoever feeds it is at it, or was cut off; the same call again"
            " goes on where it stood."
        )
    if view.status == "running" and view.unfinished and not workers:
        steps.append("No worker is alive: start one with `seawall worker --app MODULE:APP`.")
    if view.failed:
        steps.append(
            f"What failed: seawall dead --group --run {view.id}. When it is mended: seawall redrive"
            f" --run {view.id}"
        )
    if view.ended:
        steps.append(f"What its history comes to: seawall run {view.id} report")
    return steps


# --- deciding -------------------------------------------------------------------------------------


def _decide(
    asked: Run, action: Action | None, why: str | None, cap: float | None, *, as_json: bool
) -> None:
    """Do it, say what came of it; exit code 1 if it was refused."""
    if action is Action.PAUSE:
        done = asked.pause(BY_HAND if why is None else why)
        again = f"seawall run {asked.id} resume"
        line = f"Run {asked.id} is paused: no more items begin. To go on: {again}"
    elif action is Action.RESUME:
        done, line = asked.resume(spending_cap=cap), f"Run {asked.id} goes on."
        if cap is not None and asked.status == "running":
            line = f"Run {asked.id} goes on, and may cost {cap:,.6g} in all."
    else:
        before = asked.view()
        stopped = asked.cancel() if before.unfinished or not before.over else 0
        done = before.status != "cancelled" and asked.view().status == "cancelled"
        line = f"Run {asked.id} is cancelled for good, with {stopped:,} unfinished items."
    view = asked.view()
    if as_json:
        show.print_json({"id": asked.id, "done": done, "status": view.status})
    elif done:
        typer.echo(line)
    if not done:
        raise typer.Exit(show.refusal(_refused(view, action)))


def _refused(view: RunView, action: Action | None) -> str:
    status = view.status.replace("_", " ")
    if action is Action.RESUME and view.status == "cancelled":
        return f"run {view.id} was cancelled for good; start another of that name"
    if action is Action.RESUME:
        return f"run {view.id} is {status}: there is nothing to resume"
    return f"run {view.id} is {status} already"


# --- starting -------------------------------------------------------------------------------------


@app.command(name="start", epilog=START_EXAMPLE)
def start(  # noqa: PLR0917 - Typer turns each into an option
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline's name.")],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="One item a line: .jsonl, .ndjson or .csv.")
    ],
    name: Annotated[
        str, typer.Option(help="What it is known by: an unfinished run of that name goes on.")
    ],
    key: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="The field that tells items apart. Default: the place."),
    ] = None,
    failure_budget: Annotated[
        str,
        typer.Option(metavar="SHARE", help="Aborted when more fail: 0.1, 10%, or none."),
    ] = "0.1",
    minimum: Annotated[
        int, typer.Option(min=1, help="How many must have ended before that is judged.")
    ] = 1_000,
    complete_at: Annotated[float, typer.Option(help="Completed with this share.")] = 0.95,
    partial_at: Annotated[float, typer.Option(help="A partial success with this share.")] = 0.50,
    spending_cap: Annotated[
        float | None, typer.Option(help="Paused when it has cost so much.")
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Whose it is.")] = None,
    queue: Annotated[str | None, typer.Option(help="Instead of the pipeline's own.")] = None,
    priority: Annotated[int | None, typer.Option(help="Higher is sooner.")] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Watch it until it is over; exit code 1 unless completed."),
    ] = False,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Push the items of a file through a pipeline; prints the run's number.

    Called again while the run is unfinished, also after a crash, it goes on
    where it stood; a finished one starts anew.
    """
    earlier_app, earlier_url, earlier_config = context.obj
    with apps.configured_by(config or earlier_config):
        known = apps.needed(app or earlier_app, url=url or earlier_url)
        found = known.tasks.get(pipeline)
        if not isinstance(found, Pipeline):
            there = ", ".join(n for n, t in known.tasks.items() if isinstance(t, Pipeline))
            raise ConfigurationError(f"no pipeline {pipeline!r:.80}; there are: {there or 'none'}")
        try:
            begun = found.run(
                file, name=name, key=None if key is None else _field(key),
                failure_budget=_budget(failure_budget), minimum=minimum, complete_at=complete_at,
                partial_at=partial_at, spending_cap=spending_cap, owner=owner, queue=queue,
                priority=priority,
            )  # fmt: skip
            if not as_json:
                typer.echo(begun.id)
            view = begun.wait() if wait else begun.view()
        finally:
            known.close()
    if as_json:
        show.print_json(as_data(view))
    if wait and view.status != "completed":
        raise typer.Exit(show.refusal(f"run {begun.id} is {view.status}: seawall run {begun.id}"))


def _field(name: str) -> Any:
    def key(item: Any) -> str:
        if not isinstance(item, dict) or item.get(name) is None:
            raise ValueError(f"it has no field {name!r:.80}")
        return str(item[name])

    return key


def _budget(text: str) -> float | None:
    word = text.strip().lower()
    if word == "none":
        return None
    try:
        return float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        raise ConfigurationError(
            f"--failure-budget: found {text!r:.80}, expected a share such as 0.1 or 10%, or none"
        ) from None
