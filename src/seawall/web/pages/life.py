"""A job's life as a picture: what it waited for, each attempt, and how that ended.

What lies between two attempts is told apart as far as history tells: until when it lay failed, the
delay that its policy asked for, until when it was not due, while its upstream was held, and what is
left, which is the wait for a worker.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from markupsafe import Markup

from seawall.model import Attempt, Job, Outcome
from seawall.states import State
from seawall.store import DeadLetter, PhaseSpan, UpstreamPhase
from seawall.web.pages.pictures import Bit, timeline
from seawall.web.pages.wording import many, span

MOST_DRAWN = 30
"""The last so many attempts are drawn."""
SHORTEST_SECONDS = 0.001
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
_HELD = {
    UpstreamPhase.OPEN: "while its upstream was held",
    UpstreamPhase.HELD: "while its upstream was held by hand",
    UpstreamPhase.HALF_OPEN: "while its upstream was being tried",
}


class Life(NamedTuple):
    """The picture, and what it leaves out."""

    picture: Markup
    hidden: int
    """Attempts before the first one that is drawn."""


class Known(NamedTuple):
    """What is known of a job besides its attempts."""

    stages: Sequence[str] = ()
    letter: DeadLetter | None = None
    phases: Sequence[PhaseSpan] = ()
    """How its upstream's breaker stood, as long as that is kept."""
    names_workers: bool = True
    """Whether whoever looks may know which worker it was."""


class _Gap(NamedTuple):
    """A time in which it did not run: from then until then."""

    begin: datetime
    end: datetime
    before: Attempt | None
    """The attempt that ended then; None where it had just been asked for."""
    cycle: int
    """The cycle of what follows."""
    row: int
    is_last: bool
    """Whether what the job's row says of its due time is about this one."""


def life_of(job: Job, attempts: Sequence[Attempt], known: Known, now: datetime) -> Life:
    """What happened to the job, drawn from the left to the right."""
    drawn = list(attempts[-MOST_DRAWN:])
    rows = known.stages if len(known.stages) > 1 else [""]
    last = len(rows) - 1
    kept = [bit._replace(row=min(bit.row, last)) for bit in bits_of(job, drawn, known, now)]
    name = f"The life of job {job.id}: {many(job.seq, 'attempt')}, {job.state} now"
    return Life(timeline(name, kept, rows), job.seq - len(drawn))


def bits_of(job: Job, attempts: Sequence[Attempt], known: Known, now: datetime) -> Iterator[Bit]:
    """The pieces of its life that these attempts, the last ones, leave; the first one first."""
    before: Attempt | None = None
    at = job.created_at if len(attempts) == job.seq else attempts[0].started_at
    moves = job.state in (State.QUEUED, State.RUNNING)
    for each in attempts:
        is_last = each is attempts[-1] and not moves
        gap = _Gap(at, each.started_at, before, each.cycle, each.stage, is_last)
        yield from _waits(gap, job, known)
        yield _attempt(each, known)
        before, at = each, each.finished_at
    if job.state is State.RUNNING:
        begun = max(at, job.last_attempt_at or at)
        yield from _waits(_Gap(at, begun, before, job.cycle, job.stage, is_last=True), job, known)
        ran = max(0.0, (now - begun).total_seconds())
        title = f"attempt {job.seq + 1} runs, for {span(ran)}"
        if known.names_workers and job.lease is not None:
            title += f", on {job.lease.worker}"
        yield Bit("attempt", ran, "run", span(ran), title, job.stage)
    elif job.state is State.QUEUED:
        end = max(at, now)
        yield from _waits(_Gap(at, end, before, job.cycle, job.stage, is_last=True), job, known)


# --- what lies between --------------------------------------------------------------------------


def _waits(gap: _Gap, job: Job, known: Known) -> Iterator[Bit]:
    """What a time without an attempt was spent on, piece by piece."""
    at = gap.begin
    first = 0 if gap.before is None else gap.before.cycle
    if gap.cycle > first:
        at = _sent_again_at(gap, known) or gap.end
        lay = "lay failed, for {}, until it was redriven"
        if at == gap.end:
            lay = "lay failed, for {}, until it was redriven and begun"
        yield from _piece("wait", gap.begin, at, "rest", lay, gap.row)
        asked = 0.0
    else:
        asked = (gap.before.delay_seconds if gap.before is not None else None) or 0.0
    due = job.due_at if gap.is_last else None
    if asked > 0:
        until = _later(at, asked, gap.end)
        yield from _piece("delay", at, until, "warn", "waited {} by its policy", gap.row)
        at = until
    if due is not None and at < due:
        until = min(due, gap.end)
        line = "waited {}: it was not to begin before that"
        yield from _piece("later", at, until, "rest", line, gap.row)
        at = until
    yield from _held(gap, at, job, known)


def _sent_again_at(gap: _Gap, known: Known) -> datetime | None:
    """When it was sent again, where that is known: of the last redrive only."""
    handled = None if known.letter is None else known.letter.handled_at
    if handled is None or not gap.begin <= handled <= gap.end:
        return None
    return handled


def _later(at: datetime, seconds: float, most: datetime) -> datetime:
    left = (most - at).total_seconds()
    return most if seconds >= left else at + (most - at) * (seconds / left)


def _held(gap: _Gap, at: datetime, job: Job, known: Known) -> Iterator[Bit]:
    """What is left of the wait: while its upstream was held, and for a worker."""
    here = known.phases if gap.row == job.stage else ()
    for each in here:
        begin, end = max(at, each.since), min(gap.end, each.until or gap.end)
        if each.phase not in _HELD or end <= begin:
            continue
        yield from _piece("wait", at, begin, "rest", "waited {} for a worker", gap.row)
        words = f"waited {{}} {_HELD[each.phase]}, and no attempt was used up"
        yield from _piece("held", begin, end, "warn", words, gap.row)
        at = end
    line = "waited {} for a worker"
    if not gap.is_last and gap.before is None:
        line = "waited {}: until it was due, or for a worker"
    yield from _piece("wait", at, gap.end, "rest", line, gap.row)


def _piece(
    what: str, begin: datetime, end: datetime, kind: str, words: str, row: int
) -> Iterator[Bit]:
    seconds = (end - begin).total_seconds()
    if seconds > SHORTEST_SECONDS:
        yield Bit(what, seconds, kind, span(seconds), words.format(span(seconds)), row)


def _attempt(each: Attempt, known: Known) -> Bit:
    took = each.duration.total_seconds()
    who = f", on {each.worker}" if known.names_workers else ""
    title = f"attempt {each.seq}, {span(took)}{who}: {each.outcome}"
    if each.fault is not None:
        title += f", {each.fault.code}: {each.fault.message}"
    label = f"{each.seq} · {each.fault.code}" if each.fault is not None else f"{each.seq}"
    longer = f"{label} · {each.worker}" if known.names_workers else ""
    return Bit("attempt", took, _KINDS[each.outcome], label, title, each.stage, longer)
