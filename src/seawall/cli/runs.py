"""`seawall runs` and `seawall run`: many items through one pipeline, and how they stand.

`seawall run ID` is the view that `run.wait()` shows, in words; with a word behind it, it does
something about the run: `seawall run 7 resume`.
"""

import time
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer
from rich.markup import escape

from seawall.cli import apps, report, runs_start, show
from seawall.cli.apps import AppName, Found, Url
from seawall.cli.live import STAGE_COLUMNS, as_data, held_of, shown, spent_of, stage_row, status_of
from seawall.cli.show import AsJson, ConfigFile
from seawall.errors import ConfigurationError, StoreUnavailableError
from seawall.runs import Run
from seawall.standings import RunView, span_of, view_of
from seawall.why import ALIVE_SECONDS, span

EXAMPLE = "Example: [bold]seawall runs --unfinished[/bold]; one of them: [bold]seawall run 7[/bold]"
RUN_EXAMPLE = (
    "Examples: [bold]seawall run 7 --watch[/bold], "
    "[bold]seawall run 7 report --html run.html[/bold], "
    '[bold]seawall run 7 pause --why "the bill"[/bold], [bold]seawall run 7 resume[/bold]'
)
WATCH_SECONDS = 1.0
MOST_LISTED = 500
BY_HAND = "paused by hand"


app = typer.Typer(invoke_without_command=True)
app.command(name="start", epilog=runs_start.EXAMPLE)(runs_start.start)


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
