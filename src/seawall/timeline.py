"""A job's event log: what happened to it, in order, from what its history keeps.

Nothing is written for it. A job's row, its attempts and its dead letter say it all, but for the
times of redrives other than the last one, which nobody keeps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from seawall.faults import FaultCode
from seawall.model import Attempt, Job, Outcome
from seawall.states import State
from seawall.store import DeadLetter

_ENDS = {
    Outcome.SUCCEEDED: "complete",
    Outcome.ADVANCED: "advanced",
    Outcome.SKIPPED: "skipped",
    Outcome.RETRIED: "retry",
    Outcome.SNOOZED: "snoozed",
    Outcome.FAILED: "failed",
    Outcome.CANCELLED: "cancelled",
    Outcome.RELEASED: "released",
    Outcome.LOST: "lost",
}
EVENTS = (
    "queued", "running", "advanced", "retry", "snoozed", "released", "lost", "redriven", "complete",
    "skipped", "failed", "expired", "cancelled",
)  # fmt: skip
"""Every word there is."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to a job."""

    event: str
    at: datetime | None
    """None where nobody has kept when."""
    attempt: int | None = None
    meta: dict[str, object] = field(default_factory=dict)


def events(job: Job, attempts: Sequence[Attempt], letter: DeadLetter | None) -> Iterator[Happening]:
    """What happened to the job, the first thing first."""
    yield Happening("queued", job.created_at, meta={"queue": job.queue, "priority": job.priority})
    cycle = attempts[0].cycle if attempts else 0
    for at in range(cycle):  # it was sent again before it had had an attempt: it was too late
        yield Happening("expired", None)
        yield Happening("redriven", None, meta={"cycle": at + 1})
    for each in attempts:
        for _ in range(each.cycle - cycle):
            yield Happening("redriven", None, meta={"cycle": each.cycle})
        cycle = each.cycle
        yield Happening("running", each.started_at, each.seq, {"stage": each.stage})
        yield _end(each)
    yield from _since(job, attempts, letter, cycle)


def _end(attempt: Attempt) -> Happening:
    event, fault = _ENDS[attempt.outcome], attempt.fault
    meta: dict[str, object] = {
        "stage": attempt.stage,
        "duration_ms": round(attempt.duration.total_seconds() * 1000),
    }
    if attempt.delay_seconds is not None:
        meta["delay_ms"] = round(attempt.delay_seconds * 1000)
    if fault is not None:
        meta |= {
            "fault_code": str(fault.code),
            "message": fault.message,
            "counted": attempt.counted,
        }
        if fault.status is not None:
            meta["status"] = fault.status
        if event == "failed" and fault.code is FaultCode.EXPIRED:
            event = "expired"
    return Happening(event, attempt.finished_at, attempt.seq, meta)


def _since(
    job: Job, attempts: Sequence[Attempt], letter: DeadLetter | None, cycle: int
) -> Iterator[Happening]:
    """What has happened after its last attempt, or is under way."""
    sent_again = job.cycle - cycle
    for at in range(sent_again):
        last = at == sent_again - 1 and letter is not None and letter.handled_at is not None
        when = letter.handled_at if last and letter is not None else None
        yield Happening("redriven", when, meta={"cycle": cycle + at + 1})
    if job.state is State.RUNNING:
        yield Happening("running", job.last_attempt_at, job.seq + 1, {"stage": job.stage})
    ended = bool(attempts) and not sent_again and attempts[-1].finished_at == job.finished_at
    if job.finished_at is None or ended:
        return
    if job.state is State.CANCELLED:
        yield Happening("cancelled", job.finished_at)
    elif job.state is State.FAILED and job.last_fault is not None:
        late = job.last_fault.code is FaultCode.EXPIRED
        meta: dict[str, object] = {
            "fault_code": str(job.last_fault.code),
            "message": job.last_fault.message,
        }
        if late or not (attempts and attempts[-1].fault):
            yield Happening("expired" if late else "failed", job.finished_at, meta=meta)
