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
from seawall.model import Attempt, Job, Usage
from seawall.pipelines import Pipeline
from seawall.states import State
from seawall.store import DeadLetter, Evidence, KeptRun, LetterState, Progress, Store
from seawall.store.values import MOST_ROWS

EXAMPLE = (
    "Example: [bold]seawall job 42 --traceback[/bold]. Why it waits: [bold]seawall why 42[/bold]"
)
MOST_SHOWN = 4_000
"""How many characters of arguments or a result are shown; --json has them all."""
MOST_ATTEMPTS = 50
MOST_CHILDREN = 20


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
        history = history_of(store, job_id)
        evidence = {
            each.seq: left
            for each in history
            if traceback and (left := store.evidence(job_id, each.seq)) is not None
        }
        arguments, output = store.arguments(job_id), store.output(job_id, known.stage)
        progress, now = store.progress(job_id), store.now()
        letter = store.letters_of([job_id]).get(job_id)
        used, kept = store.used(job_id), None if known.run is None else store.run(known.run)
        stages = _stages(known, found, kept)
        children = [each.id for each in store.children(job_id, limit=MOST_CHILDREN + 1)]
    if as_json:
        told = _as_data(known, arguments, output, progress)
        told["children"] = children[:MOST_CHILDREN]
        told["dead_letter"] = None if letter is None else show.as_data(letter)
        told["attempts"] = [
            _attempt_as_data(a, evidence, traceback)
            | {"stage_name": _named(stages, a.stage), "usage": show.as_data(used.get(a.seq))}
            for a in history
        ]
        told["stages"] = list(stages)
        told["changed_stages"] = changes(history, stages)
        show.print_json(told)
        return
    console = show.console()
    about_letter = [
        ("dead letter", "" if letter is None else escape(letter_of(letter, now))),
        ("children", _children(children)),
    ]
    fields = _fields(known, found, progress, now, stages, kept)
    console.print(show.fields([*fields, *about_letter]))
    print_text(console, "Arguments", arguments)
    if known.state is State.SUCCEEDED:
        print_text(console, "Result", output)
    elif known.state is State.SKIPPED:
        print_text(console, "Skipped because", output)
    print_history(history, now, stages, used)
    for line in changes(history, stages):
        typer.echo(line)
    for seq, left in evidence.items():
        print_evidence(console, seq, left)


def _stages(job: Job, found: Found, kept: KeptRun | None) -> tuple[str, ...]:
    """The names of its stages: as its run has them, or the application; none where neither does."""
    if kept is not None:
        return kept.stages
    task = found.tasks.get(job.task)
    return tuple(each.name for each in task.stages) if isinstance(task, Pipeline) else ()


def _named(stages: tuple[str, ...], at: int) -> str | None:
    return stages[at] if at < len(stages) else None


def changes(history: list[Attempt], stages: tuple[str, ...]) -> list[str]:
    """Where a stage's configuration was another than at the attempt at it before, in words."""
    lines, before = [], dict[int, Attempt]()
    for each in history:
        last = before.get(each.stage)
        if each.config is None:
            continue
        if last is not None and last.config != each.config:
            name = show.harmless(_named(stages, each.stage) or str(each.stage))
            lines.append(
                f"Stage {name} changed since attempt {last.seq}: it was {last.config},"
                f" and {each.config} at attempt {each.seq}."
            )
        before[each.stage] = each
    return lines


def history_of(store: Store, job_id: int) -> list[Attempt]:
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
    job: Job,
    found: Found,
    progress: Progress | None,
    now: datetime,
    stages: tuple[str, ...],
    kept: KeptRun | None,
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
        ("run", _run(job, kept)),
        ("asked for by", "" if job.parent is None else f"job {job.parent}"),
        ("stage", _stage(job, stages)),
        ("attempts", f"{job.seq}{under_way}{tries}"),
        ("workers lost", str(job.losses) if job.losses else ""),
        ("sent again", f"{job.cycle}×" if job.cycle else ""),
        ("progress", _progress(progress)),
        ("last fault", escape(str(job.last_fault or ""))),
    ]


def letter_of(letter: DeadLetter, now: datetime) -> str:
    """Where its dead letter stands, and the next step."""
    back = f", for the {letter.times:,}. time" if letter.times > 1 else ""
    who = f" by {letter.handled_by}" if letter.handled_by else ""
    if letter.state is LetterState.OPEN:
        return (
            f"open, failed {show.ago(letter.last_at, now)}{back}: seawall dead show {letter.job_id}"
        )
    note = f": {' '.join(letter.note.split())}" if letter.note else ""
    return f"{letter.state} {show.ago(letter.handled_at, now)}{who}{back}{note}"


def _children(ids: list[int]) -> str:
    shown = ", ".join(map(str, ids[:MOST_CHILDREN]))
    return f"{shown} and more" if len(ids) > MOST_CHILDREN else shown


def _run(job: Job, kept: KeptRun | None) -> str:
    if job.run is None:
        return ""
    if kept is None:
        return str(job.run)
    stop = "" if kept.stop is None else f", {kept.stop}: {kept.reason}"
    return escape(show.harmless(f"{kept.id}: {kept.pipeline} {kept.name}{stop}"))


def _stage(job: Job, stages: tuple[str, ...]) -> str:
    if len(stages) < 2:
        return str(job.stage) if job.stage else ""
    name = escape(show.harmless(_named(stages, job.stage) or ""))
    return f"{name}, {job.stage + 1} of {len(stages)}".lstrip(", ")


def _time(moment: datetime | None, now: datetime) -> str:
    return "" if moment is None else f"{show.ago(moment, now)} ({moment:%Y-%m-%d %H:%M:%S} UTC)"


def _left(moment: datetime, now: datetime) -> str:
    return "no longer: it lapsed" if moment <= now else in_words((moment - now).total_seconds())


def _progress(progress: Progress | None) -> str:
    if progress is None:
        return ""
    total = "" if progress.total is None else f" of {progress.total:g}"
    return escape(f"{progress.done:g}{total} {progress.message}".strip())


def print_text(console: Console, title: str, text: str | None) -> None:
    if text is None:
        return
    value = _parsed(text)
    pretty = value if value is text else json.dumps(value, indent=2, ensure_ascii=False)
    console.print(f"\n[bold]{title}[/bold]")
    console.print(show.harmless(pretty[:MOST_SHOWN]), markup=False, soft_wrap=True)
    if len(pretty) > MOST_SHOWN:
        console.print(f"[dim]… {len(pretty) - MOST_SHOWN:,} characters more: --json[/dim]")


def _used(usage: Usage | None) -> str:
    if usage is None:
        return ""
    parts = [f"{usage.tokens_in:,} in, {usage.tokens_out:,} out"]
    if usage.cost:
        parts.append(f"cost {usage.cost:,.6g}")
    return ", ".join(parts)


def print_history(
    history: list[Attempt],
    now: datetime,
    stages: tuple[str, ...] = (),
    used: dict[int, Usage] | None = None,
) -> None:
    if not history:
        return
    shown = history[-MOST_ATTEMPTS:]
    left_out = len(history) - len(shown)
    typer.echo(f"\nHistory{f', the last {len(shown)} of {len(history)}' if left_out else ''}")
    rows = [
        (
            str(each.seq),
            escape(show.harmless(_named(stages, each.stage) or str(each.stage))),
            show.ago(each.started_at, now),
            in_words(each.duration.total_seconds()),
            escape(each.worker),
            str(each.outcome),
            "yes" if each.counted else "no",
            "" if each.delay_seconds is None else in_words(each.delay_seconds),
            escape(each.policy or ""),
            *([_used(used.get(each.seq))] if used else []),
            escape(str(each.fault or "")),
        )
        for each in shown
    ]
    columns = (
        "SEQ", "STAGE", "BEGAN", "TOOK", "WORKER", "OUTCOME", "COUNTED", "THEN WAITED", "POLICY",
        *(["USED"] if used else []), "FAULT",
    )  # fmt: skip
    show.listing(columns, rows, right=(0,) if stages else (0, 1))


def print_evidence(console: Console, seq: int, left: Evidence) -> None:
    parts = (("broke here", left.traceback), ("got this from the upstream", left.raw_output))
    for title, text in parts:
        if text is not None:
            console.print(f"\n[bold]Attempt {seq} {title}[/bold]")
            console.print(show.harmless(text), markup=False, soft_wrap=True)
