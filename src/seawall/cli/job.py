"""`seawall job`: everything about one job."""

import json
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from seawall.cli import apps, show
from seawall.cli.apps import AppName, Found, Url
from seawall.cli.jobs import JobId, no_such_job, state_of, tries_of
from seawall.cli.show import AsJson, ConfigFile
from seawall.decisions.explain import in_words
from seawall.model import Attempt, Job
from seawall.states import State
from seawall.store import Evidence, Progress, Store
from seawall.store.values import MOST_ROWS

EXAMPLE = (
    "Example: [bold]seawall job 42 --traceback[/bold]. Why it waits: [bold]seawall why 42[/bold]"
)
MOST_SHOWN = 4_000
"""How many characters of arguments or a result are shown; --json has them all."""
MOST_ATTEMPTS = 50


def job(
    job_id: JobId,
    traceback: Annotated[
        bool,
        typer.Option(
            "--traceback", help="Show where each attempt broke, and what the upstream really said."
        ),
    ] = False,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show everything about one job: arguments, result, progress, history."""
    with apps.opened(app, url, config) as found:
        store = found.store
        known = store.jobs([job_id]).get(job_id)
        if known is None:
            raise typer.Exit(no_such_job(job_id))
        history = _history(store, job_id)
        evidence = {
            each.seq: left
            for each in history
            if traceback and (left := store.evidence(job_id, each.seq)) is not None
        }
        arguments, output = store.arguments(job_id), store.output(job_id, known.stage)
        progress, now = store.progress(job_id), store.now()
    if as_json:
        told = _as_data(known, arguments, output, progress)
        told["attempts"] = [_attempt_as_data(a, evidence, traceback) for a in history]
        show.print_json(told)
        return
    console = show.console()
    console.print(show.fields(_fields(known, found, progress, now)))
    _print_text(console, "Arguments", arguments)
    if known.state is State.SUCCEEDED:
        _print_text(console, "Result", output)
    elif known.state is State.SKIPPED:
        _print_text(console, "Skipped because", output)
    _print_history(history, now)
    for seq, left in evidence.items():
        _print_evidence(console, seq, left)


def _history(store: Store, job_id: int) -> list[Attempt]:
    found: list[Attempt] = []
    while part := store.attempts(job_id, after=found[-1].seq if found else 0):
        found += part
        if len(part) < MOST_ROWS:
            break
    return found


def _as_data(
    job: Job, arguments: str | None, output: str | None, progress: Progress | None
) -> dict[str, Any]:
    told: dict[str, Any] = show.as_data(job)
    told["arguments"] = _parsed(arguments)
    told["result"] = _parsed(output) if job.state is State.SUCCEEDED else None
    told["skip_reason"] = _parsed(output) if job.state is State.SKIPPED else None
    told["progress"] = None
    if progress is not None:
        told["progress"] = {
            "attempt": progress.token.seq,
            "done": progress.done,
            "total": progress.total,
            "message": progress.message,
        }
    return told


def _attempt_as_data(
    attempt: Attempt, evidence: dict[int, Evidence], wanted: bool
) -> dict[str, Any]:
    told: dict[str, Any] = show.as_data(attempt)
    told["duration_seconds"] = attempt.duration.total_seconds()
    if wanted:
        left = evidence.get(attempt.seq)
        told["traceback"] = left.traceback if left else None
        told["raw_output"] = left.raw_output if left else None
    return told


def _parsed(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:  # of another codec
        return text


def _fields(
    job: Job, found: Found, progress: Progress | None, now: datetime
) -> list[tuple[str, str]]:
    holder = "" if job.lease is None else escape(job.lease.worker)
    if job.lease is not None:
        holder += f", leased for {_left(job.lease.until, now)}"
    tries = f"; tries used {tries_of(job, found)}"
    under_way = " and the one under way" if job.state is State.RUNNING else ""
    return [
        ("id", str(job.id)),
        ("task", escape(job.task)),
        ("state", state_of(job)),
        ("queue", escape(job.queue)),
        ("priority", str(job.priority) if job.priority else ""),
        ("upstream", escape(job.upstream or "")),
        ("owner", escape(job.owner or "")),
        ("key", escape(job.key or "")),
        ("tags", escape(", ".join(job.tags))),
        ("asked for", _time(job.created_at, now)),
        ("due", _time(job.due_at, now) if job.state is State.QUEUED else ""),
        ("first began", _time(job.started_at, now)),
        ("last began", _time(job.last_attempt_at, now) if job.seq > 1 else ""),
        ("ended", _time(job.finished_at, now)),
        ("deadline", _time(job.deadline_at, now)),
        ("worker", holder),
        ("stage", str(job.stage) if job.stage else ""),
        ("attempts", f"{job.seq}{under_way}{tries}"),
        ("workers lost", str(job.losses) if job.losses else ""),
        ("sent again", f"{job.cycle}×" if job.cycle else ""),
        ("progress", _progress(progress)),
        ("last fault", escape(str(job.last_fault or ""))),
    ]


def _time(moment: datetime | None, now: datetime) -> str:
    return "" if moment is None else f"{show.ago(moment, now)} ({moment:%Y-%m-%d %H:%M:%S} UTC)"


def _left(moment: datetime, now: datetime) -> str:
    return "no longer: it lapsed" if moment <= now else in_words((moment - now).total_seconds())


def _progress(progress: Progress | None) -> str:
    if progress is None:
        return ""
    total = "" if progress.total is None else f" of {progress.total:g}"
    return escape(f"{progress.done:g}{total} {progress.message}".strip())


def _print_text(console: Console, title: str, text: str | None) -> None:
    if text is None:
        return
    value = _parsed(text)
    pretty = value if value is text else json.dumps(value, indent=2, ensure_ascii=False)
    console.print(f"\n[bold]{title}[/bold]")
    console.print(show.harmless(pretty[:MOST_SHOWN]), markup=False, soft_wrap=True)
    if len(pretty) > MOST_SHOWN:
        console.print(f"[dim]… {len(pretty) - MOST_SHOWN:,} characters more: --json[/dim]")


def _print_history(history: list[Attempt], now: datetime) -> None:
    if not history:
        return
    shown = history[-MOST_ATTEMPTS:]
    left_out = len(history) - len(shown)
    typer.echo(f"\nHistory{f', the last {len(shown)} of {len(history)}' if left_out else ''}")
    rows = [
        (
            str(each.seq),
            str(each.stage),
            show.ago(each.started_at, now),
            in_words(each.duration.total_seconds()),
            escape(each.worker),
            str(each.outcome),
            "yes" if each.counted else "no",
            "" if each.delay_seconds is None else in_words(each.delay_seconds),
            escape(each.policy or ""),
            escape(str(each.fault or "")),
        )
        for each in shown
    ]
    columns = (
        "SEQ", "STAGE", "BEGAN", "TOOK", "WORKER", "OUTCOME", "COUNTED", "THEN WAITED", "POLICY",
        "FAULT",
    )  # fmt: skip
    show.listing(columns, rows, right=(0, 1))


def _print_evidence(console: Console, seq: int, left: Evidence) -> None:
    parts = (("broke here", left.traceback), ("got this from the upstream", left.raw_output))
    for title, text in parts:
        if text is not None:
            console.print(f"\n[bold]Attempt {seq} {title}[/bold]")
            console.print(show.harmless(text), markup=False, soft_wrap=True)
