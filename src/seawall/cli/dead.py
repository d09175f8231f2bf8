"""`seawall dead`: what failed and waits for somebody, what it has in common, one of it whole."""

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from seawall.cli import apps, show, when
from seawall.cli.apps import AppName, Found, Url
from seawall.cli.job import history_of, print_evidence, print_history, print_text
from seawall.cli.jobs import JobId, no_such_job
from seawall.cli.show import AsJson, ConfigFile
from seawall.errors import NoSuchJobError
from seawall.faults import FaultCode
from seawall.letters import Letters, Which
from seawall.model import Attempt, Job
from seawall.store import DeadLetter, Evidence, LetterGroup, LetterGroups, LetterPage, LetterState
from seawall.store.values import MOST_ROWS
from seawall.why import times

EXAMPLE = (
    "Example: [bold]seawall dead --group --since 2h[/bold], then "
    "[bold]seawall redrive --group FINGERPRINT --canary 5[/bold]"
)
SHOW_EXAMPLE = "Example: [bold]seawall dead show 42[/bold]"

MOST_EVIDENCE = 10
"""Of so many attempts, the last ones, it is shown what they left."""

app = typer.Typer(invoke_without_command=True)


class State(StrEnum):
    """The states of dead letters, and all of them."""

    OPEN = "open"
    REDRIVEN = "redriven"
    DISMISSED = "dismissed"
    ALL = "all"


Fault = Annotated[
    str | None, typer.Option("--fault", metavar="CODE", help="Only those of this fault code.")
]
Stage = Annotated[
    str | None,
    typer.Option(metavar="S", help="Only those that failed at this stage: number, or name."),
]
Run = Annotated[int | None, typer.Option(metavar="ID", help="Only those of this run.")]
TaskName = Annotated[str | None, typer.Option("--task", help="Only this task's.")]
Queue = Annotated[str | None, typer.Option(help="Only this queue's.")]
Owner = Annotated[str | None, typer.Option(help="Only this owner's.")]
Since = Annotated[
    str | None,
    typer.Option(metavar="WHEN", help="Only those that failed since: 2h, 3d, 2026-11-03T14:00Z."),
]


@app.callback()
def dead(  # noqa: PLR0917 - Typer turns each into an option
    context: typer.Context,
    group: Annotated[
        bool, typer.Option("--group", help="Put together what failed alike, by fingerprint.")
    ] = False,
    fault: Fault = None,
    fingerprint: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only those of this group.")
    ] = None,
    stage: Stage = None,
    run: Run = None,
    task: TaskName = None,
    queue: Queue = None,
    owner: Owner = None,
    since: Since = None,
    state: Annotated[State, typer.Option(help="What became of them.")] = State.OPEN,
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
    """List what failed and waits for somebody to redrive or dismiss it.

    From the newest on, with how many more there are. With --group by what they
    have in common: how many, since when, an example of each.
    """
    context.obj = (app, url, config)
    if context.invoked_subcommand is not None:
        return
    with apps.opened(app, url, config) as found:
        now = found.store.now()
        which = asked_for(
            now, fault=fault, group=fingerprint, stage=stage, run=run, task=task,
            queue=queue, owner=owner, since=since,
        )  # fmt: skip
        which["state"] = str(state)
        letters = Letters(found)
        stages = Stages(found)
        if group:
            _tell_groups(letters.groups(limit=limit, **which), now, stages, as_json=as_json)
            return
        page = letters.page(after=after, limit=limit, **which)
        total = letters.count(**which) if page.next or after else len(page)
        _tell_page(page, total, now, stages, is_first=after is None, as_json=as_json)


class Stages:
    """What stages are called, where somebody knows: the run of a job, or the application."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._names: dict[tuple[str, int | None], tuple[str, ...]] = {}

    def of(self, letter: DeadLetter) -> str:
        """The name of the stage at which it failed; nothing where a job has but one."""
        return self.named(letter, letter.stage)

    def named(self, letter: DeadLetter, stage: int) -> str:
        """The name of a stage of that job; its number where nobody knows it."""
        where = (letter.task, letter.run)
        if where not in self._names:
            self._names[where] = self._looked_up(*where)
        names = self._names[where]
        if len(names) < 2 and not stage:
            return ""
        return names[stage] if stage < len(names) else str(stage)

    def _looked_up(self, task: str, run: int | None) -> tuple[str, ...]:
        kept = None if run is None else self._found.store.run(run)
        if kept is not None:
            return kept.stages
        known = self._found.tasks.get(task)
        return () if known is None else tuple(each.name for each in known.stages)


def asked_for(now: datetime, *, since: str | None = None, **said: Any) -> Which:
    """What was said on the command line, as `Letters` takes it."""
    which: Which = {name: value for name, value in said.items() if value is not None}  # type: ignore[assignment]
    if since is not None:
        which["since"] = when.before("--since", since, now)
    return which


# --- lists ----------------------------------------------------------------------------------------


def _tell_page(
    page: LetterPage, total: int, now: datetime, stages: Stages, *, is_first: bool, as_json: bool
) -> None:
    more = f"the same with --after {page.next}, or see --group" if page.next else ""
    left = f"{total - len(page):,} more" if is_first else f"more, of {total:,} in all"
    if as_json:
        show.print_json([show.as_data(letter) for letter in page])
        if more:
            show.hint(f"there are {left}: {more}")
        return
    if not page.letters:
        typer.echo("There are no such dead letters.")
        return
    columns = ("ID", "TASK", "STAGE", "STATE", "FAILED", "ATTEMPTS", "FAULT")
    narrow = show.is_narrow()
    rows = [
        (
            str(each.job_id),
            escape(each.task),
            escape(show.harmless(stages.of(each))),
            _state_of(each),
            show.ago(each.last_at, now),
            f"{each.attempts:,}",
            escape(str(each.code) if narrow else str(each.fault)),
        )
        for each in page
    ]
    show.listing(columns, rows, right=(0, 5))
    if more:
        typer.echo(f"\nThere are {left}: {more}")


def _state_of(letter: DeadLetter) -> str:
    colour = {LetterState.OPEN: "red", LetterState.REDRIVEN: "cyan"}.get(letter.state)
    word = f"[{colour}]{letter.state}[/{colour}]" if colour else str(letter.state)
    return f"{word}, {letter.times:,}×" if letter.times > 1 else word


def _tell_groups(groups: LetterGroups, now: datetime, stages: Stages, *, as_json: bool) -> None:
    left = groups.total - len(groups)
    more = f"{left:,} more groups, {groups.letters:,} letters in all: the same with --limit"
    if as_json:
        show.print_json([show.as_data(group) for group in groups])
        if left:
            show.hint(f"there are {more}")
        return
    if not groups.groups:
        typer.echo("There are no such dead letters.")
        return
    columns = ("GROUP", "LETTERS", "SHARE", "BACK", "FIRST", "LAST", "WHERE", "EXAMPLE")
    rows = [
        (
            escape(group.fingerprint),
            f"{group.count:,}",
            f"{group.share:.0%}",
            f"{group.came_back:,}" if group.came_back else "",
            show.ago(group.first_at, now),
            show.ago(group.last_at, now),
            escape(_where(group, stages)),
            escape(_example(group)),
        )
        for group in groups
    ]
    show.listing(columns, rows, right=(1, 2, 3))
    if left:
        typer.echo(f"\nThere are {more}")


def _where(group: LetterGroup, stages: Stages) -> str:
    names = [str(each) for each in group.stages] if group.stages != (0,) else []
    if len(group.tasks) == 1 and group.samples:
        names = [stages.named(group.samples[0], each) for each in group.stages]
    at = ", ".join(filter(None, names))
    return ", ".join(group.tasks) + (f" at {show.harmless(at)}" if at else "")


def _example(group: LetterGroup) -> str:
    if not group.samples:  # they were dealt with between two looks
        return ", ".join(group.codes)
    first, *others = group.samples
    ids = ", ".join(str(each.job_id) for each in others)
    also = f" (also {ids})" if ids else ""
    return f"job {first.job_id}: {first.fault}{also}"


# --- one ------------------------------------------------------------------------------------------


@app.command(name="show", epilog=SHOW_EXAMPLE)
def show_one(
    context: typer.Context,
    job_id: JobId,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter: what failed, where, every attempt, and what to do next."""
    before = context.obj
    where = tuple(here or there for here, there in zip((app, url, config), before, strict=True))
    with apps.opened(*where) as found:
        store = found.store
        try:
            letter = Letters(found).get(job_id)
        except NoSuchJobError as error:
            raise typer.Exit(show.refusal(str(error))) from None
        job, now = store.jobs([job_id]).get(job_id), store.now()
        if job is None:  # pruned between two looks
            raise typer.Exit(no_such_job(job_id))
        history = history_of(store, job_id)
        evidence = {
            each.seq: left
            for each in history[-MOST_EVIDENCE:]
            if (left := store.evidence(job_id, each.seq)) is not None
        }
        arguments = store.arguments(job_id)
        stage = Stages(found).of(letter)
    steps = list(next_steps(letter))
    if as_json:
        show.print_json(_as_data(letter, job, history, evidence, steps))
        return
    console = show.console()
    for line in _told(letter, stage, now):
        console.print(escape(line), soft_wrap=True)
    print_text(console, "Arguments", arguments)
    print_history(history, now)
    for seq, left in evidence.items():
        print_evidence(console, seq, left)
    if len(history) > MOST_EVIDENCE:
        console.print(f"\n[dim]What earlier attempts left: seawall job {job_id} --traceback[/dim]")
    _print_steps(console, steps)


def _as_data(
    letter: DeadLetter,
    job: Job,
    history: list[Attempt],
    evidence: dict[int, Evidence],
    steps: list[tuple[str, str]],
) -> dict[str, Any]:
    told: dict[str, Any] = show.as_data(letter)
    told["job"] = show.as_data(job)
    told["attempts_made"] = [
        {**show.as_data(each), **show.as_data(evidence.get(each.seq) or Evidence(None, None))}
        for each in history
    ]
    told["next"] = [{"why": why, "command": command} for why, command in steps]
    return told


def _told(letter: DeadLetter, stage: str, now: datetime) -> Iterator[str]:
    """What failed and what became of it, in sentences."""
    at = f" at stage {stage}" if stage else ""
    calls = f", calling {letter.upstream}" if letter.upstream else ""
    after = f"after {times(letter.attempts, 'attempt')}"
    ended = show.ago(letter.last_at, now)
    yield f"Job {letter.job_id} ({letter.task}) failed {ended}{at}{calls}, {after}."
    yield f"{letter.fault}"
    yield f"What {letter.code} means: {letter.code.meaning}"
    if letter.times > 1:
        first = show.ago(letter.first_at, now)
        yield (
            f"It has failed for good {letter.times:,} times, first {first}: it came back after a"
            " redrive."
        )
    who = f" by {letter.handled_by}" if letter.handled_by else ""
    if letter.state is not LetterState.OPEN:
        yield f"It was {letter.state} {show.ago(letter.handled_at, now)}{who}."
    if letter.note:
        yield f"Note: {' '.join(letter.note.split())}"
    yield f"Group: {letter.fingerprint}"


_MEND_INPUT = frozenset({FaultCode.INVALID_INPUT, FaultCode.NOT_FOUND, FaultCode.INVALID_REQUEST})
_MEND_SETUP = frozenset(
    {FaultCode.CONFIG_MISSING, FaultCode.UNAUTHORIZED, FaultCode.QUOTA_EXHAUSTED}
)
_MEND_CODE = frozenset({FaultCode.INTERNAL_ERROR, FaultCode.UNKNOWN})


def next_steps(letter: DeadLetter) -> Iterator[tuple[str, str]]:
    """What a person can do about it: in words, and the command."""
    job_id, group = letter.job_id, letter.fingerprint
    if letter.state is LetterState.REDRIVEN:
        yield "It was sent again: see where it stands", f"seawall why {job_id}"
        return
    if letter.code in _MEND_INPUT:
        yield (
            "If its input is wrong, send it again with another",
            (f"seawall redrive {job_id} --app MODULE:APP --edit NAME=VALUE"),
        )
    mended = "Once what broke it is mended, send it again"
    if letter.code in _MEND_CODE:
        mended = "Once the code is mended and the workers run it, send it again"
    if letter.code in _MEND_SETUP:
        mended = "Once its credentials, quota or configuration are mended, send it again"
    yield mended, f"seawall redrive {job_id}"
    yield (
        "or all that failed alike, a few of them first",
        f"seawall redrive --group {group} --canary 5",
    )
    if letter.state is LetterState.DISMISSED:
        yield "If it was dismissed by mistake", f"seawall dismiss {job_id} --undo"
    else:
        yield "If nothing is to be done", f'seawall dismiss {job_id} --note "WHY"'


def _print_steps(console: Console, steps: list[tuple[str, str]]) -> None:
    console.print("\n[bold]What to do next[/bold]")
    for why, command in steps:
        console.print(f"{escape(why)}:\n  {escape(command)}", soft_wrap=True)
