"""Why a job is not running now, in words that say what to do.

Everything is read in a few looks at the store and put into sentences here: the first says where the
job stands, the rest what it waits for, in the order in which it would have to be put right.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from seawall.model import Attempt, Job, Outcome
from seawall.states import FINISHED, State
from seawall.store import Hold, Present, Scope, Store
from seawall.tasks import Task

ALIVE_SECONDS = 30.0
"""A worker that has not been heard of for so long is not counted on."""
_SLOW_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Why:
    """Where a job stands, and what it waits for."""

    job_id: int
    state: State
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def why(store: Store, job: Job, tasks: Mapping[str, Task[..., Any, Any]]) -> Why:
    """The reasons, from what the store knows now."""
    now = store.now()
    attempts = _latest_attempts(store, job)
    task = tasks.get(job.task)
    most = None if task is None else task.policy.max_attempts
    if job.state in FINISHED:
        lines = _ended(job, attempts, task, now)
    elif job.state is State.RUNNING:
        lines = _running(job, now)
    else:
        workers = store.workers(within_seconds=ALIVE_SECONDS)
        lines = _waiting(job, attempts, most, store.holds(), workers, now)
    return Why(job.id, job.state, tuple(lines))


def _latest_attempts(store: Store, job: Job) -> list[Attempt]:
    return store.attempts(job.id, after=max(0, job.seq - 1), limit=1) if job.seq else []


def _ended(
    job: Job, attempts: list[Attempt], task: Task[..., Any, Any] | None, now: datetime
) -> list[str]:
    ended = f"{ago(job.finished_at, now)} ago" if job.finished_at else ""
    if job.state is not State.FAILED:
        said = {State.SUCCEEDED: "succeeded", State.SKIPPED: "was skipped"}.get(
            job.state, "was cancelled"
        )
        return [f"It {said} {ended}: there is nothing left to do."]
    lines = [f"It failed {ended}, after {times(job.seq, 'attempt')}: {job.last_fault}"]
    lines += _given_up(job, attempts, task)
    lines.append(f"To send it again: seawall retry {job.id}")
    return lines


def _given_up(job: Job, attempts: list[Attempt], task: Task[..., Any, Any] | None) -> list[str]:
    """Why there was no further attempt, as far as it can be told."""
    if not attempts or not attempts[-1].policy:
        return []
    policy, fault = attempts[-1].policy, attempts[-1].fault
    if task is None or fault is None or task.policy.id != policy:
        return [f"The policy {policy} gave it no further attempt."]
    if not task.policy.rule_for(fault).retry:
        return [f"The policy {policy} does not retry {fault.code}."]
    most = task.policy.max_attempts
    used = f"{job.tries} of {most}" if most else str(job.tries)
    return [f"The policy {policy} gave it no further attempt; tries used: {used}."]


def _running(job: Job, now: datetime) -> list[str]:
    lease = job.lease
    if lease is None or job.last_attempt_at is None:
        raise AssertionError("a running job has a lease and a start")
    lines = [
        (
            f"It is running, for {ago(job.last_attempt_at, now)}, on the worker {lease.worker}"
            f" (attempt {job.seq + 1} in all)."
        )
    ]
    if job.cancel_requested:
        lines.append("It was asked to stop, and its worker has not done so yet.")
    if lease.until <= now:
        lines.append(
            f"Its lease lapsed {ago(lease.until, now)} ago: its worker was not heard of since;"
            " whichever worker looks next will take it back."
        )
    return lines


def _waiting(
    job: Job,
    attempts: list[Attempt],
    most: int | None,
    holds: list[Hold],
    workers: list[Present],
    now: datetime,
) -> list[str]:
    lines = []
    if job.deadline_at is not None and job.deadline_at <= now:
        lines.append("Its deadline has passed: it will be failed as EXPIRED at the next upkeep.")
    lines += [_held(hold, now) for hold in holds if _holds(hold, job)]
    if job.due_at > now:
        lines.append(_later(job, attempts, most, now))
    lines += _served(job, workers, now, waits_for_now=not lines)
    if not lines:
        lines.append(
            f"It is due since {ago(job.due_at, now)} and will begin as soon as a worker has a free"
            " slot: all that serve it are busy, or are about to take it."
        )
    return ["It is queued.", *lines]


def _later(job: Job, attempts: list[Attempt], most: int | None, now: datetime) -> str:
    wait = f"It is due in {span(job.due_at - now)}, at {job.due_at:%Y-%m-%d %H:%M:%S} UTC"
    last = attempts[-1] if attempts else None
    if last is None or last.cycle != job.cycle:
        return f"{wait}: whoever asked for it wanted it not before then."
    if last.outcome is Outcome.SNOOZED:
        return f"{wait}: its handler snoozed it."
    if last.fault is None:
        return f"{wait}."
    tries = f"{job.tries} of {most}" if most else str(job.tries)
    lost = f", lost {times(job.losses, 'worker')}" if job.losses else ""
    return f"{wait}: its last attempt came to {last.fault} (tries used: {tries}{lost})."


def _held(hold: Hold, now: datetime) -> str:
    what = f"The {hold.scope} {hold.name}"
    if hold.until is None:
        end = f"until somebody resumes it: seawall queues resume {hold.name}"
        if hold.scope is not Scope.QUEUE:
            end = "until somebody resumes it"
    else:
        end = f"for another {span(hold.until - now)}; its jobs go on by themselves then"
    return f"{what} is held ({hold.reason}), {end}."


def _holds(hold: Hold, job: Job) -> bool:
    named = {Scope.QUEUE: job.queue, Scope.TASK: job.task, Scope.UPSTREAM: job.upstream}
    return named[hold.scope] == hold.name


def _served(job: Job, workers: list[Present], now: datetime, *, waits_for_now: bool) -> list[str]:
    alive = [each.presence for each in workers if not each.presence.stopping]
    of_queue = [each for each in alive if each.queues is None or job.queue in each.queues]
    of_task = [each for each in of_queue if job.task in each.tasks]
    if of_task:
        slots = sum(each.concurrency for each in of_task)
        busy = sum(each.running for each in of_task)
        waited = (now - job.due_at).total_seconds()
        if not waits_for_now or waited < _SLOW_SECONDS or busy < slots:
            return []
        return [
            (
                f"It is due since {ago(job.due_at, now)}, but all {slots:,} slots of the"
                f" {times(len(of_task), 'worker')} that serve it are taken: add workers, or raise"
                " --concurrency."
            )
        ]
    if not alive:
        start = "`seawall worker --app MODULE:APP`"
        return [f"No worker is alive: start one that serves its queue, {job.queue}, with {start}."]
    if not of_queue:
        return [
            (
                f"No worker serves its queue, {job.queue}, of the {len(alive):,} that are alive:"
                f" start one with --queues {job.queue}."
            )
        ]
    return [
        (
            f"No worker of its queue, of the {len(of_queue):,} that are alive, knows the task"
            f" {job.task}: start one whose application declares it."
        )
    ]


def ago(moment: datetime | None, now: datetime) -> str:
    """How long ago that was, in words."""
    return "an unknown time" if moment is None else span(now - moment)


def times(count: int, what: str) -> str:
    """`1 worker`, `2 workers`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def span(length: timedelta) -> str:
    """A span of time as people say it."""
    seconds = max(0.0, length.total_seconds())
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86_400
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{hours:.0f} h" if hours < 48 else f"{days:.0f} days"
