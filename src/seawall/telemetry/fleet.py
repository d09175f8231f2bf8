"""What workers, their upkeep and the upstreams that they call go through."""

import logging
from dataclasses import dataclass
from typing import ClassVar

from seawall.states import State
from seawall.telemetry.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFailed(Event):
    name: ClassVar[str] = "hook_failed"
    level: ClassVar[int] = logging.ERROR
    meaning: ClassVar[str] = (
        "A hook of the application's raised, or could not be told; that changes nothing for the"
        " job."
    )

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
class WebhooksNotDelivered(Event):
    name: ClassVar[str] = "webhooks_not_delivered"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = (
        "Webhooks are to be told something, and this worker cannot deliver it; said once. Another"
        " one may. advice says what to install."
    )

    worker: str
    advice: str


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
class TracingOn(Event):
    name: ClassVar[str] = "tracing_on"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "Spans are sent to the collector that the environment names."

    endpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingOff(Event):
    name: ClassVar[str] = "tracing_off"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = "The environment asks for spans to be sent, and they cannot be."

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepFailed(Event):
    name: ClassVar[str] = "upkeep_failed"
    level: ClassVar[int] = logging.ERROR
    meaning: ClassVar[str] = (
        "A chore of the worker's upkeep broke; it is tried again at its next turn."
    )

    chore: str
    message: str
