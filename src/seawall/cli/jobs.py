"""`seawall jobs`, `why` and `retry`: finding jobs, and deciding about them; `cancel` by number."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.markup import escape

from seawall.cli import apps, show, when
from seawall.cli.apps import AppName, Found, Url
from seawall.cli.show import AsJson, ConfigFile
from seawall.errors import ConfigurationError
from seawall.faults import code_named
from seawall.model import Job
from seawall.states import FINISHED, State
from seawall.store import Change, Filter, Page, Redrive, Store
from seawall.store.values import MOST_ROWS
from seawall.why import why as reasons

JOBS_EXAMPLE = "Example: [bold]seawall jobs --state failed --since 2h[/bold]"
WHY_EXAMPLE = "Example: [bold]seawall why 42[/bold]"
RETRY_EXAMPLE = (
    "Example: [bold]seawall retry 42[/bold]. What has failed: "
    "[bold]seawall jobs --state failed[/bold]"
)

JobId = Annotated[int, typer.Argument(metavar="ID", help="The job's number.")]
JobIds = Annotated[list[int], typer.Argument(metavar="ID...", help="The jobs' numbers.")]
Argument = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="Only those whose arguments hold this text, as they are shown."
    ),
]
MOST_LOOKS = 20
"""Looks at some thousands of jobs each, for one page."""


def jobs(  # noqa: PLR0917 - Typer turns each into an option
    state: Annotated[State | None, typer.Option(help="Only jobs that stand there.")] = None,
    task: Annotated[str | None, typer.Option(help="Only this task's.")] = None,
    queue: Annotated[str | None, typer.Option(help="Only this queue's.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only this owner's.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only those with this tag.")] = None,
    key: Annotated[str | None, typer.Option(help="Only those with this key.")] = None,
    run: Annotated[int | None, typer.Option(metavar="ID", help="Only items of this run.")] = None,
    fault: Annotated[
        str | None, typer.Option(metavar="CODE", help="Only those that this went wrong with last.")
    ] = None,
    argument: Argument = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Only those asked for since: 2h, 3d, 2026-11-03T14:00Z."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_ROWS, help="At most so many.")] = 50,
    after: Annotated[
        str | None,
        typer.Option(metavar="CURSOR", help="Where to go on: what the page before said."),
    ] = None,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, a page at a time.

    Queued ones by the time they are due, finished ones from the last that
    ended, all others from the newest. A search among very many looks only so
    far, and says from where to go on.
    """
    with apps.opened(app, url, config) as found:
        now = found.store.now()
        try:
            which = Filter(
                state=state, task=task, queue=queue, owner=owner, tag=tag, key=key, run=run,
                fault=None if fault is None else code_named(fault), argument=argument,
                created_after=None if since is None else when.before("--since", since, now),
            )  # fmt: skip
            page = _looked(found.store, which, after, limit)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
    if as_json:
        show.print_json([show.as_data(job) for job in page])
        if page.next:
            show.hint(f"{_more(page)}: the same with --after {page.next}")
        return
    _print(page, found, now)


def _looked(store: Store, which: Filter, after: str | None, limit: int) -> Page:
    """A page; where a look ends before it is full, the next look goes on, so many times."""
    page = store.page(which, after=after, limit=limit)
    for _ in range(MOST_LOOKS):
        if page.whole or page.next is None or len(page) == limit:
            return page
        more = store.page(which, after=page.next, limit=limit - len(page))
        page = Page((*page.jobs, *more.jobs), more.next, more.whole)
    return page


def _more(page: Page) -> str:
    return "there are more" if page.whole else "there may be more, further back"


def _print(page: Page, found: Found, now: datetime) -> None:
    if not page.jobs:
        seen = "There are no such jobs" if page.next is None else "No such job was found so far"
        typer.echo(f"{seen}.")
    else:
        columns = ("ID", "TASK", "QUEUE", "STATE", "TRIES", "WHEN", "LAST FAULT")
        narrow = show.is_narrow()
        rows = [
            (
                str(job.id),
                escape(job.task),
                escape(job.queue),
                state_of(job),
                tries_of(job, found),
                when_of(job, now),
                escape(fault_of(job, narrow=narrow)),
            )
            for job in page
        ]
        show.listing(columns, rows, right=(0, 4))
    if page.next:
        typer.echo(f"\n{_more(page).capitalize()}: the same with --after {page.next}")


def state_of(job: Job) -> str:
    """The state, in its colour, and whether the job was asked to stop."""
    colour = {State.SUCCEEDED: "green", State.FAILED: "red", State.RUNNING: "cyan"}.get(job.state)
    word = f"[{colour}]{job.state}[/{colour}]" if colour else str(job.state)
    return f"{word}, to stop" if job.cancel_requested else word


def tries_of(job: Job, found: Found) -> str:
    """Tries used; and how many its stage's policy allows, where the task is known."""
    task = found.tasks.get(job.task)
    if task is None:
        return str(job.tries)
    return f"{job.tries}/{task.at(job.stage).policy.max_attempts or '–'}"


def fault_of(job: Job, *, narrow: bool) -> str:
    """What last went wrong; its code alone where there is little room."""
    if job.last_fault is None:
        return ""
    return str(job.last_fault.code) if narrow else str(job.last_fault)


def when_of(job: Job, now: datetime) -> str:
    """When it is due, began, or ended."""
    if job.state in FINISHED:
        return f"ended {show.ago(job.finished_at, now)}"
    if job.state is State.RUNNING:
        return f"began {show.ago(job.last_attempt_at, now)}"
    return f"due {show.ago(job.due_at, now)}"


def why(
    job_id: JobId,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Say why a job is not running now, and what to do about it."""
    with apps.opened(app, url, config) as found:
        job = found.store.jobs([job_id]).get(job_id)
        if job is None:
            raise typer.Exit(no_such_job(job_id))
        told = reasons(found.store, job, found.tasks, found.upstreams)
    if as_json:
        show.print_json({"id": job_id, "state": str(told.state), "lines": list(told.lines)})
    else:
        typer.echo(str(told))


def no_such_job(job_id: int) -> int:
    """Say so; the exit code."""
    return show.refusal(f"there is no job {job_id}; it may have been pruned")


def cancel_named(job_ids: Sequence[int], store: Store, *, as_json: bool) -> None:
    """Cancel these, and say what came of each."""
    _decide(job_ids, store.cancel, _cancelled, as_json=as_json)


def _cancelled(change: Change) -> str:
    if not change.done:
        return f"had already ended as {change.state}"
    return "asked to stop" if change.state is State.RUNNING else "cancelled"


def retry(
    job_ids: JobIds,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Send failed jobs again, by their numbers. Groups, a dry run, a canary: `seawall redrive`.

    They keep all their history and have fresh attempts. Exit code 1 if one has not failed, or is
    not there.
    """
    with apps.opened(app, url, config, write=True) as found:
        store = found.store
        _decide(
            job_ids,
            lambda ids: store.redrive([Redrive(each) for each in ids]),
            _redriven,
            as_json=as_json,
        )


def _redriven(change: Change) -> str:
    if change.done:
        return "queued again"
    return f"not sent again: it is {change.state}, and only failed jobs are"


def _decide(
    job_ids: Sequence[int],
    act: Callable[[list[int]], list[Change]],
    words: Callable[[Change], str],
    *,
    as_json: bool,
) -> None:
    """Ask for each, say what came of each; exit code 1 if one was refused."""
    ids = list(dict.fromkeys(job_ids))
    changes = [
        change
        for start in range(0, len(ids), MOST_ROWS)
        for change in act(ids[start : start + MOST_ROWS])
    ]
    said = [
        "no such job; it may have been pruned" if change.state is None else words(change)
        for change in changes
    ]
    if as_json:
        show.print_json(
            [
                {"id": id_, "done": change.done, "state": show.as_data(change.state), "said": line}
                for id_, change, line in zip(ids, changes, said, strict=True)
            ]
        )
    else:
        for id_, line in zip(ids, said, strict=True):
            typer.echo(f"job {id_}: {line}")
    if not all(change.done for change in changes):
        raise typer.Exit(show.REFUSED)
