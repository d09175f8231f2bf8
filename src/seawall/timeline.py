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
    before: Attempt | None = None
    for each in attempts:
        yield from _sent_again(before, each.cycle, None)
        yield Happening("running", each.started_at, each.seq, {"stage": each.stage})
        yield _end(each)
        before = each
    handled = None if letter is None else letter.handled_at
    yield from _sent_again(before, job.cycle, handled)
    yield from _since(job, before)


def _sent_again(
    before: Attempt | None, cycle: int, last_at: datetime | None
) -> Iterator[Happening]:
    """The redrives between an attempt, or the beginning, and a cycle; only of the last is known
    when it was. What was sent again without having failed in an attempt had been too late.
    """
    first = 0 if before is None else before.cycle
    for at in range(first + 1, cycle + 1):
        if before is None or at > first + 1 or not _failed(before):
            yield Happening("expired", None)
        yield Happening("redriven", last_at if at == cycle else None, meta={"cycle": at})


def _failed(attempt: Attempt) -> bool:
    lost = attempt.outcome is Outcome.LOST and attempt.delay_seconds is None
    return lost or attempt.outcome is Outcome.FAILED


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


def _since(job: Job, last: Attempt | None) -> Iterator[Happening]:
    """What has happened after its last attempt, or is under way."""
    if job.state is State.RUNNING:
        yield Happening("running", job.last_attempt_at, job.seq + 1, {"stage": job.stage})
    here = last is not None and last.cycle == job.cycle
    if job.state is State.CANCELLED and not (
        here and last is not None and last.outcome is Outcome.CANCELLED
    ):
        yield Happening("cancelled", job.finished_at)
    late = job.last_fault is not None and job.last_fault.code is FaultCode.EXPIRED
    if job.state is State.FAILED and late and not (here and last is not None and _failed(last)):
        meta: dict[str, object] = {"fault_code": str(FaultCode.EXPIRED)}
        yield Happening("expired", job.finished_at, meta=meta)
