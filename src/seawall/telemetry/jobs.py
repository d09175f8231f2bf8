"""What becomes of jobs, of what they leave for people, and of the runs that they belong to."""

import logging
from dataclasses import dataclass
from typing import ClassVar

from seawall.faults import Fault, FaultCode
from seawall.states import State
from seawall.telemetry.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent(Event):
    """The fields that every event about a failed attempt has."""

    job: int | None = None
    task: str
    stage: int | None = None
    state: State | None = None
    attempt: int
    max_attempts: int | None = None
    fault_code: FaultCode
    status: int | None = None
    fingerprint: str
    message: str
    ambiguous: bool = False
    upstream_request_id: str | None = None
    upstream: str | None = None
    breaker: str | None = None
    """The upstream's, as this worker knows it once the attempt has ended."""
    policy: str
    duration_ms: int
    request_id: str | None = None
    """The caller's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(AttemptEvent):
    name: ClassVar[str] = "retry_scheduled"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = (
        "An attempt failed and will be made again after delay_ms; counts: it used up a try."
    )

    delay_ms: int
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveUp(AttemptEvent):
    name: ClassVar[str] = "gave_up"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = "An attempt failed and there will be no other; reason says why."

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMissing(AttemptEvent):
    name: ClassVar[str] = "config_missing"
    level: ClassVar[int] = logging.ERROR
    meaning: ClassVar[str] = "Configuration is missing: every such job fails until it is there."


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent(Event):
    """The fields that events about one job have, where nothing went wrong with its upstream."""

    job: int
    task: str
    stage: int
    state: State | None = None
    attempt: int
    duration_ms: int | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSucceeded(JobEvent):
    name: ClassVar[str] = "job_succeeded"
    level: ClassVar[int] = logging.DEBUG
    meaning: ClassVar[str] = "A job is done."


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAdvanced(JobEvent):
    name: ClassVar[str] = "job_advanced"
    level: ClassVar[int] = logging.DEBUG
    meaning: ClassVar[str] = "A stage of a job is done and kept; the next one follows."


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSkipped(JobEvent):
    name: ClassVar[str] = "job_skipped"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "A handler found nothing to do for a job; reason is its own word."

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnoozed(JobEvent):
    name: ClassVar[str] = "job_snoozed"
    level: ClassVar[int] = logging.DEBUG
    meaning: ClassVar[str] = "A handler asked to be called again after delay_ms; no try is used up."

    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled(JobEvent):
    name: ClassVar[str] = "job_cancelled"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "A running job was stopped because somebody asked for it."


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReleased(JobEvent):
    name: ClassVar[str] = "job_released"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "A worker that stops handed a job back, uncharged."


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCameLate(JobEvent):
    name: ClassVar[str] = "job_came_late"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = (
        "A job that its upstream's limit for a minute let through could not begin within a second:"
        " it was handed back uncharged, to be let through again. Said often, its worker or the"
        " store is too busy."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHandedOver(JobEvent):
    name: ClassVar[str] = "job_handed_over"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = (
        "Whoever called now waits no longer: workers take the job from delay_ms on; attempt is how"
        " many were made before that, reason why there is no further one."
    )

    reason: str
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(JobEvent):
    name: ClassVar[str] = "lease_lost"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = (
        "A job was taken from this worker, which had not been heard of for a whole lease; what it"
        " did for the job is not counted."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadLeftBehind(JobEvent):
    name: ClassVar[str] = "thread_left_behind"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = (
        "An attempt was ended but its handler goes on and cannot be stopped: its slot stays taken."
    )

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired(Event):
    name: ClassVar[str] = "expired"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = "Jobs have failed because their deadlines passed while they waited."

    jobs: int
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettersWait(Event):
    name: ClassVar[str] = "dead_letters_wait"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = (
        "So many failed jobs wait for somebody to redrive or dismiss them; said from time to time"
        " while there are any, with the newest five. `seawall dead --group` shows them."
    )

    letters: int
    newest: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettersNew(Event):
    name: ClassVar[str] = "dead_letters_new"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = (
        "So many jobs have failed since this was last said, by any worker; said after every"
        " `dead_letters_every` of them, with how many wait in all and the newest five."
    )

    new: int
    letters: int
    newest: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(Event):
    """The fields that every event about a run has."""

    run: int
    pipeline: str
    run_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopped(RunEvent):
    name: ClassVar[str] = "run_stopped"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = (
        "A run was aborted by its failure budget, or paused by its spending cap; reason says why."
        " `seawall run ID resume` lets it go on."
    )

    status: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(RunEvent):
    name: ClassVar[str] = "run_finished"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "All items of a run have ended; status is what it came to."

    status: str
    succeeded: int
    skipped: int
    failed: int
    cancelled: int


def fault_fields(fault: Fault) -> dict[str, object]:
    """A fault in the words of `AttemptEvent`."""
    return {
        "fault_code": fault.code,
        "status": fault.status,
        "fingerprint": fault.fingerprint,
        "message": fault.message,
        "ambiguous": fault.ambiguous,
        "upstream_request_id": fault.request_id,
    }
