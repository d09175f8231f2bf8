"""What seawall says about its work: named events with typed fields.

An event is a value; `emit` is the only place where one becomes a log record. Its name, level and
fields are its contract: docs/events.md lists them, and a test fails when one is missing there.
Records go to the standard `logging` under the name `seawall`, with the fields both in the line
and, for structured handlers, in `record.seawall`. No field holds a secret or an upstream's body.
"""

import dataclasses
import logging
from dataclasses import dataclass
from typing import ClassVar

from seawall.faults import Fault, FaultCode
from seawall.states import State

LOGGER = logging.getLogger("seawall")
LOGGER.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. Subclasses name it and say how loud it is."""

    name: ClassVar[str]
    level: ClassVar[int]
    meaning: ClassVar[str]

    def fields(self) -> dict[str, object]:
        """The fields that have a value, in the order of their declaration."""
        names = _FIELDS.get(self.name) or _field_names(self)
        pairs = [(name, getattr(self, name)) for name in names]
        return {name: value for name, value in pairs if value is not None}


_FIELDS: dict[str, tuple[str, ...]] = {}
"""By event, the names of its fields: looked up once."""


def _field_names(event: Event) -> tuple[str, ...]:
    names = tuple(field.name for field in dataclasses.fields(event))
    return _FIELDS.setdefault(event.name, names)


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
class HookFailed(Event):
    name: ClassVar[str] = "hook_failed"
    level: ClassVar[int] = logging.ERROR
    meaning: ClassVar[str] = "A hook of the application's raised; that changes nothing for the job."

    hook: str
    job: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopBlocked(Event):
    name: ClassVar[str] = "loop_blocked"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = (
        "An async handler has kept the event loop from every other one for so long; where is the"
        " line it stands at. Await what waits, or make the task a plain function."
    )

    worker: str
    task: str | None
    job: int | None
    seconds: float
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvent(Event):
    """The field that every event about a worker has."""

    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(WorkerEvent):
    name: ClassVar[str] = "worker_started"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "A worker begins to claim jobs of these queues and tasks."

    queues: str
    tasks: str
    concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStopping(WorkerEvent):
    name: ClassVar[str] = "worker_stopping"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "A worker claims nothing more and lets its jobs finish."

    running: int
    grace_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStopped(WorkerEvent):
    name: ClassVar[str] = "worker_stopped"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "A worker has written everything and is gone."


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnded(Event):
    name: ClassVar[str] = "process_ended"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = (
        "A worker process of `--processes` ended without being told to, by an exit code or a"
        " signal; another is started in its place after delay_ms."
    )

    process: int
    pid: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAway(WorkerEvent):
    name: ClassVar[str] = "store_away"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = (
        "The store does not answer. The worker keeps what it has finished and asks again."
    )

    unwritten: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreBack(WorkerEvent):
    name: ClassVar[str] = "store_back"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "The store answers again, after so long."

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NotWritten(WorkerEvent):
    name: ClassVar[str] = "not_written"
    level: ClassVar[int] = logging.ERROR
    meaning: ClassVar[str] = (
        "A worker had to end without writing what so many jobs came to: they will be run again."
    )

    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaimed(Event):
    name: ClassVar[str] = "reclaimed"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = (
        "A worker was lost with a job: it is queued again after delay_ms, or failed for good."
    )

    job: int
    task: str
    stage: int
    state: State | None
    worker: str
    losses: int
    delay_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired(Event):
    name: ClassVar[str] = "expired"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = "Jobs have failed because their deadlines passed while they waited."

    jobs: int
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPutRight(Event):
    name: ClassVar[str] = "clock_put_right"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = (
        "A clock had been wrong: these times, set in the future, were put right."
    )

    due_times: int
    leases: int
    holds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned(Event):
    name: ClassVar[str] = "pruned"
    level: ClassVar[int] = logging.DEBUG
    meaning: ClassVar[str] = "Jobs that ended long enough ago were removed, and counted."

    state: State
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFired(Event):
    name: ClassVar[str] = "schedule_fired"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "A schedule asked for its job, or left a fire out; reason says why."

    schedule: str
    task: str
    due_at: str
    job: int | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NobodyServes(Event):
    name: ClassVar[str] = "nobody_serves"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = (
        "Jobs are due and no living worker serves their queue, or knows their task."
    )

    queue: str
    task: str
    waiting_seconds: float
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamHeld(Event):
    name: ClassVar[str] = "upstream_held"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = (
        "An upstream is held for the whole fleet: its jobs wait, and no attempt of theirs is used."
    )

    upstream: str
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamNeedsYou(Event):
    name: ClassVar[str] = "upstream_needs_you"
    level: ClassVar[int] = logging.ERROR
    meaning: ClassVar[str] = (
        "An upstream is held for a reason that waiting may not mend: credentials, configuration,"
        " quota, or, every tenth time in a row, perhaps the jobs that are left."
    )

    upstream: str
    seconds: float
    reason: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamReleased(Event):
    name: ClassVar[str] = "upstream_released"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = (
        "An upstream is well again: its jobs are let go, few at first and then all."
    )

    upstream: str


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
class ServerStarted(Event):
    name: ClassVar[str] = "server_started"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "The server listens; auth says who may use it: tokens, or anybody."

    host: str
    port: int
    auth: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStopping(Event):
    name: ClassVar[str] = "server_stopping"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "The server takes no more requests and lets those under way finish."

    grace_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStopped(Event):
    name: ClassVar[str] = "server_stopped"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "The server has answered everything and is gone."


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEvent(Event):
    """The fields that every event about a request has; its path is told as the route has it."""

    method: str
    route: str
    status: int
    duration_ms: int
    token: str | None = None
    """The public part of the access token."""
    owner: str | None = None
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestServed(RequestEvent):
    name: ClassVar[str] = "request_served"
    level: ClassVar[int] = logging.DEBUG
    meaning: ClassVar[str] = "The server answered somebody who looked."


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestChanged(RequestEvent):
    name: ClassVar[str] = "request_changed"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "The server did what somebody asked for: a job, a retry, a hold."


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused(RequestEvent):
    name: ClassVar[str] = "request_refused"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "The server refused a request, or could not answer it just now."


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBroke(RequestEvent):
    name: ClassVar[str] = "request_broke"
    level: ClassVar[int] = logging.ERROR
    meaning: ClassVar[str] = "A bug: answering a request raised something; where is the line."

    message: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepFailed(Event):
    name: ClassVar[str] = "upkeep_failed"
    level: ClassVar[int] = logging.ERROR
    meaning: ClassVar[str] = (
        "A chore of the worker's upkeep broke; it is tried again at its next turn."
    )

    chore: str
    message: str


EVENTS: tuple[type[Event], ...] = (
    JobSucceeded,
    JobAdvanced,
    JobSkipped,
    JobSnoozed,
    JobCancelled,
    JobReleased,
    JobCameLate,
    JobHandedOver,
    RetryScheduled,
    GaveUp,
    ConfigMissing,
    LeaseLost,
    ThreadLeftBehind,
    HookFailed,
    LoopBlocked,
    WorkerStarted,
    WorkerStopping,
    WorkerStopped,
    ProcessEnded,
    StoreAway,
    StoreBack,
    NotWritten,
    Reclaimed,
    Expired,
    ClockPutRight,
    Pruned,
    ScheduleFired,
    NobodyServes,
    UpstreamHeld,
    UpstreamNeedsYou,
    UpstreamReleased,
    DeadLettersWait,
    DeadLettersNew,
    RunStopped,
    RunFinished,
    UpkeepFailed,
    ServerStarted,
    ServerStopping,
    ServerStopped,
    RequestServed,
    RequestChanged,
    RequestRefused,
    RequestBroke,
)


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


def emit(event: Event, logger: logging.Logger = LOGGER) -> None:
    """Log the event, if anyone listens at its level."""
    if not logger.isEnabledFor(event.level):
        return
    fields = event.fields()
    words = " ".join(f"{name}={_shown(value)}" for name, value in fields.items())
    extra = {"seawall": {"event": event.name, **fields}}
    # As `logger.log` does, but for looking up who called it: it is always this line.
    what = (logger.name, event.level, __file__, 0, "%s %s", (event.name, words), None)
    logger.handle(logger.makeRecord(*what, "emit", extra))


def _shown(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and " " not in text and text
    return text if plain else repr(text)
