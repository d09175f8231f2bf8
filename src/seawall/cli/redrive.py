"""`seawall redrive` and `seawall dismiss`: sending failed jobs again, or being done with them."""

import getpass
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from seawall.cli import apps, show
from seawall.cli.apps import AppName, Found, Url
from seawall.cli.dead import Fault, Owner, Queue, Run, Since, Stage, TaskName, asked_for
from seawall.cli.enqueue import read_arguments
from seawall.cli.show import AsJson, ConfigFile
from seawall.decisions.explain import in_words as span_of
from seawall.errors import ArgumentsError
from seawall.letters import Dismissed, Letters, Refusal, Which
from seawall.redriving import CANARY_SECONDS, Redriven, redriven
from seawall.why import times

if TYPE_CHECKING:
    from seawall.redriving import How

EXAMPLE = (
    "Example: [bold]seawall redrive --group FINGERPRINT --canary 5 --rate 10/s[/bold]. "
    "What there is: [bold]seawall dead --group[/bold]"
)
DISMISS_EXAMPLE = 'Example: [bold]seawall dismiss 42 --note "a test file"[/bold]'
MANY = 10
"""More than so many are asked about, where somebody is there to ask."""
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(?:/(s|m|h))?")
_SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0}

JobIds = Annotated[list[int] | None, typer.Argument(metavar="[ID...]", help="The jobs' numbers.")]
Group = Annotated[
    str | None,
    typer.Option(metavar="FINGERPRINT", help="All that failed alike: see `seawall dead --group`."),
]
All = Annotated[bool, typer.Option("--all", help="All that are open.")]


def redrive(  # noqa: PLR0917 - Typer turns each into an option
    job_ids: JobIds = None,
    group: Group = None,
    fault: Fault = None,
    stage: Stage = None,
    task: TaskName = None,
    queue: Queue = None,
    owner: Owner = None,
    run: Run = None,
    since: Since = None,
    everything: All = False,
    from_stage: Annotated[
        str | None,
        typer.Option(metavar="S", help="Begin at this stage, not where each failed."),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin at the first stage.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")] = False,
    canary: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Send so many first, the rest if all succeed."),
    ] = None,
    canary_seconds: Annotated[
        float, typer.Option(min=0, metavar="S", help="How long these may take.")
    ] = CANARY_SECONDS,
    rate: Annotated[
        str | None,
        typer.Option(metavar="N/s", help="So many become due in a second: 10/s, 100/m."),
    ] = None,
    edit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Another input, checked as by enqueue; JSON or pairs, repeatable.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Send failed jobs again, with fresh attempts and all their history.

    Those named, those that failed alike, or all that match. It says first how
    many there are. With --rate their due times are spread in the store, so that
    nothing has to keep running for it. Exit code 1 if one was not sent again.
    """
    with apps.opened(app, url, config, write=True) as found:
        which = asked_for(
            found.store.now(), fault=fault, group=group, stage=stage, task=task, queue=queue,
            owner=owner, run=run, since=since,
        )  # fmt: skip
        ids = _need_an_aim(job_ids, which, everything=everything)
        said = {
            **which, "from_stage": from_stage, "from_start": from_start, "canary": canary,
            "canary_seconds": canary_seconds, "by": _who(),
            "rate": None if rate is None else _rate(rate),
            "edit": _edit(edit) if edit else None,
        }  # fmt: skip
        how = cast("How", {name: value for name, value in said.items() if value is not None})
        plan = redriven(found, ids, {**how, "dry_run": True})
        if dry_run or not plan.found:
            _tell(plan, as_json=as_json)
        else:
            _need_consent(plan, ids, yes=yes, as_json=as_json)
            _tell(redriven(found, ids, how), as_json=as_json)


def _need_an_aim(job_ids: list[int] | None, which: Which, *, everything: bool) -> list[int]:
    """The jobs named, if any; `ArgumentsError` unless it is clear which are meant."""
    ids = list(job_ids or [])
    if everything:
        which["state"] = "open"
    elif not ids and not which:
        raise ArgumentsError("name jobs, or say which: --group, --fault, --task, --run …, or --all")
    if ids and which:
        raise ArgumentsError("name jobs, or say which: not both")
    return ids


def _rate(text: str) -> float:
    found = _RATE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise ArgumentsError(f"--rate: found {text!r:.80}, expected such as 10/s, 100/m or 0.5/s")
    return float(found[1]) / _SECONDS[found[2]]


def _edit(words: list[str]) -> dict[str, Any]:
    args, kwargs = read_arguments(words)
    if args:
        raise ArgumentsError("--edit: expected NAME=VALUE, or a JSON object with names")
    return kwargs


def _who() -> str | None:
    with suppress(Exception):  # no user of that number, nor a variable that names one
        return getpass.getuser()
    return None


def _need_consent(plan: Redriven, ids: list[int], *, yes: bool, as_json: bool) -> None:
    """Say how many there are; where they are many and somebody is there, ask."""
    if as_json or ids:
        return
    typer.echo(f"{times(plan.found, 'job')} to be sent again.")
    if plan.found > MANY and _is_watched() and not yes and not typer.confirm("Send them?"):
        raise typer.Exit(show.refusal("nothing was sent"))


def _is_watched() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _tell(told: Redriven, *, as_json: bool) -> None:
    if as_json:
        show.print_json({**show.as_data(told), "held_back": told.held_back, "ok": told.ok})
    elif told.found:
        for line in in_words(told):
            typer.echo(line)
    if not told.found:
        raise typer.Exit(show.refusal("there are no such dead letters"))
    if not told.ok:
        raise typer.Exit(show.REFUSED)


def in_words(told: Redriven) -> list[str]:
    """What came of it, or would come of it, as people read it."""
    meant = times(told.found, "job")
    if told.dry_run:
        lines = [f"{meant} would be sent again." if told.found else "There are no such jobs."]
    else:
        lines = [f"{told.sent:,} of {meant} sent again."]
    if told.dry_run:
        lines += [
            f"  {each.letters:,} × {each.task}, queue {each.queue}, stage {each.stage}: {each.code}"
            for each in told.piles
        ]
    if told.canary:
        few = times(len(told.canaries), "canary").replace("canarys", "canaries")
        end = {
            "succeeded": f"{few} went first and succeeded.",
            "failed": f"{few} went first, and not all succeeded: the other"
            f" {told.held_back:,} stay as they are.",
            "undecided": f"{few} went first and had not all ended in time: the other"
            f" {told.held_back:,} stay as they are.",
        }
        lines.append(end[told.canary])
    if told.last_due_seconds:
        lines.append(f"The last of them is due in {span_of(told.last_due_seconds)}.")
    lines += [
        f"No living worker serves {task}: its jobs will wait until one does."
        for task in told.unserved
    ]
    lines += [
        f"Run {run} is stopped: its items wait until it is resumed: seawall run {run} resume"
        for run in told.stopped
    ]
    if told.refused:
        would = "would not be" if told.dry_run else "not sent again"
        lines += [f"{told.refused:,} {would}:", *_refusals(told.refusals, told.refused)]
    return lines


def _refusals(refusals: tuple[Refusal, ...], many: int) -> list[str]:
    """Each of the first, and how many more there are."""
    lines = [f"  job {job_id}: {reason}" for job_id, reason in refusals]
    more = many - len(refusals)
    return [*lines, f"  and {more:,} more"] if more else lines


# --- being done with them -------------------------------------------------------------------------


def dismiss(  # noqa: PLR0917 - as above
    job_ids: JobIds = None,
    group: Group = None,
    fault: Fault = None,
    task: TaskName = None,
    run: Run = None,
    since: Since = None,
    everything: All = False,
    note: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why nothing is to be done.")
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Open those again that were dismissed.")
    ] = False,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Take dead letters for dealt with, and say why; --undo takes it back.

    Their jobs stay failed, and are removed in time as finished ones are. Exit
    code 1 if one could not be dismissed.
    """
    if undo == (note is not None):
        raise ArgumentsError("say why with --note TEXT, or take it back with --undo")
    with apps.opened(app, url, config, write=True) as found:
        which = asked_for(
            found.store.now(), fault=fault, group=group, task=task, run=run, since=since
        )
        ids = _need_an_aim(job_ids, which, everything=everything)
        if undo:
            which.pop("state", None)  # of --all, all that are dismissed
            told = _undone(found, ids, which)
        else:
            told = Letters(found).dismiss(*ids, note=note or "", by=_who(), **which)
    done = "opened again" if undo else "dismissed"
    if as_json:
        show.print_json(show.as_data(told))
    else:
        typer.echo(f"{times(told.done, 'dead letter')} {done}.")
        for line in _refusals(told.refusals, told.refused):
            typer.echo(line)
    if not told.done and not told.refused:
        raise typer.Exit(show.refusal("there are no such dead letters"))
    if told.refused:
        raise typer.Exit(show.REFUSED)


def _undone(found: Found, ids: list[int], which: Which) -> Dismissed:
    if not ids:
        which["state"] = "dismissed"
    return Letters(found).undismiss(*ids, **which)
