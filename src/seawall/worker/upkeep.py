"""Looking after the store, for the whole fleet.

Every worker does the chores; the store gives each chore to one of them at a time. A turn is a time
in the store, so nobody leads and nobody's death matters: when the next turn is due, whoever asks
first has it. Each chore works in bounded pages, knows no task by name, and whatever breaks in it
is logged and tried again at its next turn.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from seawall.app import Scheduled, Seawall
from seawall.decisions.policy import Fail
from seawall.errors import StoreError, StoreUnavailableError
from seawall.faults import Fault, FaultCode
from seawall.hooks import FaultReport
from seawall.model import NewJob
from seawall.redact import one_line
from seawall.standings import watched
from seawall.states import FINISHED, State
from seawall.store import (
    Answer,
    Enqueued,
    Lapse,
    LetterFilter,
    LetterState,
    Planned,
    Reclaim,
    Result,
    Store,
    Taken,
)
from seawall.store.values import MOST_ROWS
from seawall.telemetry import (
    ClockPutRight,
    DeadLettersNew,
    DeadLettersWait,
    Expired,
    NobodyServes,
    Pruned,
    Reclaimed,
    ScheduleFired,
    UpkeepFailed,
    WebhooksNotDelivered,
    emit,
)
from seawall.telemetry.tracing import asking
from seawall.webhooks.delivering import spread
from seawall.why import ALIVE_SECONDS

MOST_PAGES = 20
"""No chore keeps the store busy for longer than so many pages in one turn."""
UNSERVED_SECONDS = 10.0
FORGET_WORKERS_SECONDS = 86_400.0
FORGET_OBSERVATIONS_SECONDS = 2 * 3_600.0
LETTERS_WAIT_SECONDS = 300.0
"""How often the fleet says that dead letters wait."""
NEW_LETTERS_SECONDS = 5.0
"""How often it says, at most, that there are new ones."""
WEBHOOKS_SECONDS = 0.5
NEWEST_TOLD = 5
LONGEST_MESSAGE_TOLD = 100
_TICK_SECONDS = 0.25
_CLOSING_SECONDS = 1.0
_OPEN = LetterFilter(state=LetterState.OPEN)


@dataclass(slots=True)
class _Chore:
    name: str
    every_seconds: float
    do: Callable[[], object]
    ask_at: float = 0.0
    is_due: Callable[[], bool] = lambda: True
    """Whether there is anything to do: where that is seldom so, asking is cheaper than a turn."""


class Upkeep:
    """The chores of one worker."""

    def __init__(self, app: Seawall, worker: str, store: Store, *, delivers: bool = True) -> None:
        self._app = app
        self._worker = worker
        self._store = store
        self._delivers = delivers
        """Whether this worker can deliver to webhooks, or has said that it cannot."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="seawall-upkeep", daemon=True)
        lease = app.settings.lease_seconds
        self._chores = [
            _Chore("reclaim", min(5.0, max(0.2, lease / 4)), self.reclaim),
            _Chore("expire", 1.0, self.expire),
            _Chore("straighten", 30.0, self.straighten),
            _Chore("prune", 30.0, self.prune),
            _Chore("fold", 10.0, self.fold),
            _Chore("runs", 1.0, self.watch_runs),
            _Chore("forget lanes", 600.0, self.forget_lanes),
            _Chore("forget workers", 3_600.0, self.forget_workers),
            _Chore("forget observations", 60.0, self.forget_observations),
            _Chore("forget pace", 600.0, self.forget_pace),
            _Chore("notice", 15.0, self.notice_unserved),
            _Chore("dead letters", LETTERS_WAIT_SECONDS, self.tell_of_waiting_letters),
            _Chore(
                "webhooks", WEBHOOKS_SECONDS, self.tell_webhooks, is_due=self._any_webhook_is_due
            ),
        ]
        self._chores += [_Chore(name, *chore) for name, chore in app.chores.items()]
        if app.settings.dead_letters_every:
            self._chores.append(
                _Chore("new dead letters", NEW_LETTERS_SECONDS, self.tell_of_new_letters)
            )
        if app.schedules:
            # Whoever knows other schedules must not take this turn from us.
            names = "/".join(sorted(app.schedules))
            self._chores.append(_Chore(f"schedules {_digest(names)}", 0.5, self.fire))

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(_CLOSING_SECONDS)

    def _run(self) -> None:
        while not self._closed.wait(_TICK_SECONDS):
            for chore in self._chores:
                if not self._closed.is_set():
                    self._turn_at(chore)

    def _turn_at(self, chore: _Chore) -> None:
        now = time.monotonic()
        if now < chore.ask_at:
            return
        chore.ask_at = now + chore.every_seconds
        try:
            every = chore.every_seconds
            if chore.is_due() and self._store.take_turn(
                chore.name, self._worker, every_seconds=every
            ):
                chore.do()
        except StoreUnavailableError:
            return  # the worker's own turns say that the store is away
        except Exception as error:  # noqa: BLE001 - one chore's trouble is not another's
            emit(UpkeepFailed(chore=chore.name, message=one_line(f"{error!r}")))

    # --- the chores ---------------------------------------------------------------------------

    def reclaim(self) -> None:
        """Take back the jobs of workers that were lost."""
        for _ in range(MOST_PAGES):
            lapses = self._store.lapsed()
            if not lapses:
                return
            reclaims = [self._judged(lapse) for lapse in lapses]
            answers = self._store.reclaim(reclaims)
            for lapse, asked, answer in zip(lapses, reclaims, answers, strict=True):
                if answer.result is Result.DONE:
                    _tell_reclaimed(lapse, asked, answer)
                    report = _report(lapse, asked)
                    self._app.hooks.tell(report)
                    if report.final and answer.state is State.FAILED:
                        self._app.hooks.tell_failed(report)
            if len(lapses) < MOST_ROWS or not any(a.result is Result.DONE for a in answers):
                return

    def _judged(self, lapse: Lapse) -> Reclaim:
        """A job that only waited in its worker's hands, and perhaps never began, is not charged.

        It is never prefetched again, so that it is spared only once.
        """
        task = self._app.tasks.get(lapse.lane.task)
        policy = self._app.policy() if task is None else task.at(lapse.lane.stage).policy
        line = f"the worker {lapse.worker} was not heard of before its lease lapsed"
        if lapse.prefetched:
            fault = Fault(FaultCode.WORKER_LOST, f"{line}; it may not have begun", ambiguous=True)
            return Reclaim(token=lapse.token, fault=fault, delay_seconds=0.0, policy=policy.id)
        fault = Fault(FaultCode.WORKER_LOST, line, ambiguous=True)
        charged = lapse.losses - lapse.spared + 1
        verdict = policy.judge_by(
            policy.rule_for(fault), fault, attempt=lapse.tries + 1, own=charged
        ).verdict(self._app.rng)
        delay = None if isinstance(verdict, Fail) else verdict.delay_seconds
        return Reclaim(token=lapse.token, fault=fault, delay_seconds=delay, policy=policy.id)

    def expire(self) -> None:
        """Fail the jobs whose deadlines have passed while they waited."""
        for _ in range(MOST_PAGES):
            found = self._store.expire()
            if found:
                emit(Expired(jobs=len(found), first=found[0]))
                self._tell_expired(found)
            if len(found) < MOST_ROWS:
                return

    def _tell_expired(self, found: Sequence[int]) -> None:
        """They have failed without an attempt."""
        if not self._app.hooks.hear_of_failed:
            return
        for job in self._store.jobs(found).values():
            if job.state is State.FAILED and job.last_fault is not None:
                self._app.hooks.tell_failed(
                    FaultReport(
                        job_id=job.id,
                        task=job.task,
                        attempt=job.tries,
                        fault=job.last_fault,
                        final=True,
                        error=None,
                        owner=job.owner,
                    )
                )

    def straighten(self) -> None:
        """Put right what a wrong clock set."""
        for _ in range(MOST_PAGES):
            found = self._store.straighten()
            if not any(found):
                return
            due_times, leases, holds = found
            emit(ClockPutRight(due_times=due_times, leases=leases, holds=holds))

    def prune(self) -> None:
        """Remove what was kept for long enough."""
        settings = self._app.settings
        for state in sorted(FINISHED):
            keep = settings.keep_finished_seconds
            if state is State.FAILED:
                keep = settings.keep_failed_seconds
                if not keep:
                    continue
            self._pruned(state, partial(self._store.prune, state, older_than_seconds=keep))
        dealt_with = settings.keep_finished_seconds
        self._pruned(
            State.FAILED, partial(self._store.prune_dismissed, older_than_seconds=dealt_with)
        )

    def _pruned(self, state: State, prune: Callable[[], int]) -> None:
        for _ in range(MOST_PAGES):
            gone = prune()
            if gone:
                emit(Pruned(state=state, jobs=gone))
            if gone < MOST_ROWS:
                return

    def fold(self) -> None:
        """Keep the books of what came in, and of what was done, short."""
        for _ in range(MOST_PAGES):
            folded = self._store.fold(), self._store.fold_runs(), self._store.fold_pace()
            if max(folded) < MOST_ROWS:
                return

    def watch_runs(self) -> None:
        """Abort, pause or close the runs of which that is due."""
        for kept in self._store.runs(unfinished=True, limit=MOST_ROWS):
            watched(self._store, kept)

    def forget_lanes(self) -> None:
        """Remove where items of runs stood of which nothing is left."""
        for _ in range(MOST_PAGES):
            if self._store.forget_lanes() < MOST_ROWS:
                return

    def forget_workers(self) -> None:
        """Remove workers that have been silent for a day."""
        self._store.forget_workers(older_than_seconds=FORGET_WORKERS_SECONDS)

    def forget_observations(self) -> None:
        """Remove what was seen of upstreams so long ago that no breaker looks at it."""
        for _ in range(MOST_PAGES):
            gone = self._store.forget_observations(older_than_seconds=FORGET_OBSERVATIONS_SECONDS)
            if gone < MOST_ROWS:
                return

    def forget_pace(self) -> None:
        """Remove what happened so long ago that nobody is shown it by the minute."""
        for _ in range(MOST_PAGES):
            if self._store.forget_pace() < MOST_ROWS:
                return

    def notice_unserved(self) -> None:
        """Say loudly that jobs wait which nobody will ever take."""
        for queue, task, seconds, advice in unserved(self._store):
            emit(NobodyServes(queue=queue, task=task, waiting_seconds=seconds, advice=advice))

    def tell_of_waiting_letters(self) -> None:
        """Say that failed jobs wait for somebody, while there are any."""
        waiting = waiting_letters(self._store)
        if waiting:
            emit(DeadLettersWait(letters=waiting, newest=newest_letters(self._store)))

    def tell_of_new_letters(self) -> None:
        """Say so after every so many jobs that have failed, once for the fleet."""
        new = self._store.new_letters(every=self._app.settings.dead_letters_every)
        if new:
            waiting, newest = waiting_letters(self._store), newest_letters(self._store)
            emit(DeadLettersNew(new=new, letters=waiting, newest=newest))

    def tell_webhooks(self) -> None:
        """Have jobs deliver what was noted for webhooks."""
        spread(self._store)

    def _any_webhook_is_due(self) -> bool:
        due = self._store.any_notes()
        if due and not self._delivers:
            self._delivers = True
            advice = "pip install 'seawall[webhooks]'"
            emit(WebhooksNotDelivered(worker=self._worker, advice=advice))
        return due

    # --- schedules ----------------------------------------------------------------------------

    def fire(self) -> None:
        """Ask for the jobs of every schedule that is due."""
        planned = {each[:2]: each for each in self._store.planned()}
        for scheduled in self._app.schedules.values():
            known = planned.get((scheduled.name, scheduled.schedule.spec))
            try:
                self._look_at(scheduled, known)
            except StoreUnavailableError:
                raise
            except Exception as error:  # noqa: BLE001 - one schedule's trouble is not another's
                chore = f"schedule {scheduled.name}"
                emit(UpkeepFailed(chore=chore, message=one_line(f"{error!r}")))

    def _look_at(self, scheduled: Scheduled, known: Planned | None) -> None:
        now, schedule = self._store.now(), scheduled.schedule
        if known is None:
            first = schedule.next_after(now)
            known = self._store.plan(scheduled.name, schedule.spec, first)
        self._fire(scheduled, known, now)

    def _fire(self, scheduled: Scheduled, planned: Planned, now: datetime) -> None:
        schedule = scheduled.schedule
        due = schedule.due(planned.next_at, now)
        if due.next_at == planned.next_at:
            return
        if not due.fires:  # what was missed is left out, or a clock was wrong
            self._store.fire(planned, next_at=due.next_at, job=None)
            return
        for fired_at, next_at in zip(due.fires, [*due.fires[1:], due.next_at], strict=True):
            busy = schedule.overlap == "skip" and self._unfinished(planned.last_job)
            answer = self._asked(scheduled, planned, fired_at, next_at, busy=busy)
            if answer is None and not busy:
                return  # another worker was faster
            if answer is not None and answer.taken is Taken.REFUSED:
                self._store.fire(planned, next_at=next_at, job=None)
                raise StoreError(f"schedule {scheduled.name}: {answer.reason}")
            _tell_fired(scheduled, fired_at, answer)
            last_job = planned.last_job if answer is None else answer.job_id
            planned = planned._replace(next_at=next_at, last_job=last_job)

    def _asked(
        self,
        scheduled: Scheduled,
        planned: Planned,
        fired_at: datetime,
        next_at: datetime,
        *,
        busy: bool,
    ) -> Enqueued | None:
        """Ask for the job of one fire, in a trace that begins here."""
        if busy:
            return self._store.fire(planned, next_at=next_at, job=None)
        request = scheduled.request
        queue = request.options.queue or request.task.queue
        with asking(request.task.name, queue, request_id=request.options.request_id) as traced:
            job = _job_of(scheduled, fired_at)
            if traced.trace is not None:
                job = job.in_trace(traced.trace)
            answer = self._store.fire(planned, next_at=next_at, job=job)
            if answer is None:  # another worker was faster, and has told of it
                traced.forget()
            else:
                traced.of(answer.job_id)
        return answer

    def _unfinished(self, job_id: int | None) -> bool:
        if job_id is None:
            return False
        job = self._store.jobs([job_id]).get(job_id)
        return job is not None and job.state not in FINISHED


def _job_of(scheduled: Scheduled, fired_at: datetime) -> NewJob:
    """The job of one fire. Its key is the time: a clock that goes back fires nothing twice."""
    key = f"{scheduled.name}@{fired_at:%Y-%m-%dT%H:%M:%S.%fZ}"
    return replace(scheduled.request.new_job(), key=key)


def waiting_letters(store: Store) -> int:
    """How many dead letters are open."""
    return sum(pile.letters for pile in store.count_letters(_OPEN))


def newest_letters(store: Store) -> tuple[str, ...]:
    """The newest of those that are open, a line for each."""
    return tuple(
        f"job {each.job_id} ({each.task}, stage {each.stage}): {each.code}:"
        f" {each.fault.message[:LONGEST_MESSAGE_TOLD]}"
        for each in store.letters(_OPEN, limit=NEWEST_TOLD)
    )


def unserved(store: Store) -> list[tuple[str, str, float, str]]:
    """Queue and task of due jobs that no living worker will take, how long, and what to do."""
    now = store.now()
    alive = [each.presence for each in store.workers(within_seconds=ALIVE_SECONDS)]
    found: dict[tuple[str, str], float] = {}
    for lane, due_at in store.heads():
        waiting = (now - due_at).total_seconds()
        serves = any(
            (each.queues is None or lane.queue in each.queues) and lane.task in each.tasks
            for each in alive
        )
        if waiting >= UNSERVED_SECONDS and not serves:
            place = (lane.queue, lane.task)
            found[place] = max(waiting, found.get(place, 0.0))
    return [(*place, round(waiting, 1), _advice(*place, alive)) for place, waiting in found.items()]


def _advice(queue: str, task: str, alive: list[Any]) -> str:
    if not any(task in each.tasks for each in alive):
        return f"start a worker whose application declares the task {task}"
    return f"start a worker with --queues {queue}"


def _report(lapse: Lapse, asked: Reclaim) -> FaultReport:
    return FaultReport(
        job_id=lapse.token.job_id,
        task=lapse.lane.task,
        attempt=lapse.tries + 1,
        fault=asked.fault,
        final=asked.delay_seconds is None,
        error=None,
    )


def _tell_reclaimed(lapse: Lapse, asked: Reclaim, answer: Answer) -> None:
    delay = asked.delay_seconds
    emit(
        Reclaimed(
            job=lapse.token.job_id,
            task=lapse.lane.task,
            stage=lapse.lane.stage,
            state=answer.state,
            worker=lapse.worker,
            losses=lapse.losses + 1,
            delay_ms=None if delay is None else round(delay * 1_000),
        )
    )


def _tell_fired(scheduled: Scheduled, fired_at: datetime, answer: Enqueued | None) -> None:
    emit(
        ScheduleFired(
            schedule=scheduled.name,
            task=scheduled.request.task.name,
            due_at=fired_at.isoformat(),
            job=None if answer is None else answer.job_id,
            reason="the job before is unfinished" if answer is None else None,
        )
    )


def _digest(text: str) -> str:
    import hashlib  # noqa: PLC0415 - once

    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
