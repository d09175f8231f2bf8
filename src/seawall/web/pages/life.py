"""A job's life as a picture: what it waited for, each attempt, and how that ended."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from markupsafe import Markup

from seawall.model import Attempt, Job, Outcome
from seawall.states import State
from seawall.web.pages.pictures import Bit, timeline
from seawall.web.pages.wording import span

MOST_DRAWN = 30
"""The last so many attempts are drawn."""
_KINDS = {
    Outcome.SUCCEEDED: "good",
    Outcome.ADVANCED: "good",
    Outcome.SKIPPED: "rest",
    Outcome.RETRIED: "warn",
    Outcome.SNOOZED: "rest",
    Outcome.FAILED: "bad",
    Outcome.CANCELLED: "rest",
    Outcome.RELEASED: "rest",
    Outcome.LOST: "bad",
}


class Life(NamedTuple):
    """The picture, and what it leaves out."""

    picture: Markup
    hidden: int
    """Attempts before the first one that is drawn."""


def life_of(job: Job, attempts: Sequence[Attempt], stages: Sequence[str], now: datetime) -> Life:
    """What happened to the job, drawn from the left to the right."""
    drawn = list(attempts[-MOST_DRAWN:])
    rows = stages if len(stages) > 1 else [""]
    bits = list(_bits(job, drawn, now))
    last = len(rows) - 1
    kept = [bit._replace(row=min(bit.row, last)) for bit in bits]
    name = f"The life of job {job.id}: {len(attempts):,} attempts, {job.state} now"
    return Life(timeline(name, kept, rows), job.seq - len(drawn))


def _bits(job: Job, attempts: Sequence[Attempt], now: datetime) -> Iterator[Bit]:
    at = job.created_at if len(attempts) == job.seq else attempts[0].started_at
    due = 0.0
    row = attempts[0].stage if attempts else job.stage
    for each in attempts:
        gap = (each.started_at - at).total_seconds()
        yield from _gap(gap, due, row)
        yield _attempt(each)
        at, due, row = each.finished_at, each.delay_seconds or 0.0, each.stage
    if job.state is State.RUNNING:
        begun = max(at, job.last_attempt_at or at)
        yield from _gap((begun - at).total_seconds(), due, job.stage)
        ran = max(0.0, (now - begun).total_seconds())
        yield Bit("attempt", ran, "run", span(ran), f"attempt {job.seq + 1} runs", job.stage)
    elif job.state is State.QUEUED:
        waited = max(0.0, (now - at).total_seconds())
        yield from _gap(waited, due, job.stage)


def _gap(seconds: float, due: float, row: int) -> Iterator[Bit]:
    """The wait before an attempt: what the policy asked for, then what came on top of it."""
    if seconds <= 0:
        return
    asked = min(due, seconds)
    if asked > 0.001:
        yield Bit("delay", asked, "warn", span(asked), f"waited {span(asked)} by its policy", row)
    rest = seconds - asked
    if rest > 0.001:
        title = f"waited {span(rest)} for a worker, or for its upstream"
        yield Bit("wait", rest, "rest", span(rest), title, row)


def _attempt(each: Attempt) -> Bit:
    took = each.duration.total_seconds()
    title = f"attempt {each.seq}, {span(took)}: {each.outcome}"
    if each.fault is not None:
        title += f", {each.fault.code}: {each.fault.message}"
    label = f"{each.seq} · {each.fault.code}" if each.fault is not None else f"{each.seq}"
    return Bit("attempt", took, _KINDS[each.outcome], label, title, each.stage)
