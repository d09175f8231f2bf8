"""The ledger once more, as plain records in a dictionary: what the store's answers are held against.

It follows the words of `seawall.store.port` and knows no SQL. A state changes in one place only,
`Record.move`, and there `states.step` says what it becomes, so a transition that the table does not
have cannot happen here. Each verb carries out one row and returns the answer that the store owes
for it. Where the port leaves the store a choice (which lanes take turns first, which of many jobs
are pruned) the model is told what was chosen, checks that it was allowed, and adopts it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from seawall.faults import Fault, FaultCode
from seawall.model import (
    INLINE_WORKER,
    Attempt,
    Job,
    Lane,
    Lease,
    NewJob,
    Outcome,
    Settlement,
    Token,
)
from seawall.states import FINISHED, Move, State, step
from seawall.store import values
from seawall.store.letters import DeadLetter, Dealt, LetterState
from tests.support.pace_model import PaceModel

EXPIRED = Fault(FaultCode.EXPIRED, "its deadline passed while it waited")
LOST = values.Answer(values.Result.LOST)
_SETTLES = {
    Outcome.SUCCEEDED: Move.SUCCEED,
    Outcome.SKIPPED: Move.SKIP,
    Outcome.RETRIED: Move.RETRY,
    Outcome.SNOOZED: Move.SNOOZE,
    Outcome.FAILED: Move.FAIL,
    Outcome.CANCELLED: Move.STOP,
}


@dataclass
class Record:
    """A job, with all that hangs on it."""

    id: int
    asked: NewJob
    lane: Lane
    created_at: datetime
    due_at: datetime
    due_set_at: datetime | None
    """When the due time was reckoned; None where a person chose it."""
    deadline_at: datetime | None
    state: State | None = None
    cycle: int = 0
    tries: int = 0
    losses: int = 0
    prefetched: bool = False
    spared: int = 0
    seq: int = 0
    lease_no: int = 0
    worker: str | None = None
    claimed_at: datetime | None = None
    leased_at: datetime | None = None
    lease_until: datetime | None = None
    cancel_requested: bool = False
    started_at: datetime | None = None
    last_attempt_at: datetime | None = None
    finished_at: datetime | None = None
    last_fault: Fault | None = None
    history: list[Attempt] = field(default_factory=list)
    ended: set[tuple[Token, Outcome]] = field(default_factory=set)
    """How each attempt of the history ended, by its token."""
    outputs: dict[int, str] = field(default_factory=dict)
    letter: DeadLetter | None = None
    arguments: str = ""
    """What it works on now; a redrive may change it."""
    pace: PaceModel = field(default_factory=PaceModel)

    def __post_init__(self) -> None:
        self.arguments = self.asked.arguments

    def move(self, move: Move, now: datetime) -> None:
        """The only way to another state; what belongs to a state comes and goes with it."""
        self.state = step(self.state, move)
        if self.state is not State.RUNNING:
            self.worker = self.claimed_at = self.leased_at = self.lease_until = None
            self.cancel_requested = False
        self.finished_at = now if self.state in FINISHED else None
        if self.finished_at:
            self.pace.ended(self.state, self.lane, self.last_fault, self.created_at, now)

    def bury(self, now: datetime) -> None:
        """It has failed: the letter that tells of it, or the one that it left before."""
        lane, before = self.lane, self.letter
        self.letter = DeadLetter(
            job_id=self.id, state=LetterState.OPEN, task=lane.task, queue=lane.queue,
            stage=lane.stage, upstream=lane.upstream or None, owner=self.asked.owner,
            run=self.asked.run, fault=self.last_fault, fingerprint=self.last_fault.fingerprint,
            first_at=before.first_at if before else now, last_at=now, attempts=self.seq,
            times=before.times + 1 if before else 1, note=before.note if before else None,
        )  # fmt: skip

    def deal(self, state: LetterState, **how: object) -> None:
        self.letter = replace(self.letter, state=state, **how)

    def lease(self, move: Move, worker: str, seconds: float, now: datetime) -> None:
        self.move(move, now)
        self.lease_no += 1
        self.worker, self.claimed_at = worker, now
        self.leased_at, self.lease_until = now, now + timedelta(seconds=seconds)

    def wait(self, seconds: float, now: datetime) -> None:
        self.due_at, self.due_set_at = now + timedelta(seconds=seconds), now

    def remember(self, token: Token, outcome: Outcome, now: datetime, **how: object) -> None:
        """One more line of history, under the stage and cycle of now."""
        attempt = Attempt(
            job_id=self.id,
            seq=token.seq,
            cycle=self.cycle,
            stage=self.lane.stage,
            worker=self.worker,
            outcome=outcome,
            caller_request_id=self.asked.request_id,
            **how,
        )
        self.history.append(attempt)
        self.pace.tried(attempt, self.lane, now)
        self.ended.add((token, outcome))
        self.seq += 1
        self.started_at = self.started_at or attempt.started_at
        self.last_attempt_at = attempt.started_at

    @property
    def token(self) -> Token:
        return Token(self.id, self.lease_no, self.seq + 1)

    @property
    def place(self) -> tuple[datetime, int]:
        return self.due_at, self.id

    def as_job(self) -> Job:
        lane, asked = self.lane, self.asked
        lease = self.worker and Lease(self.id, self.lease_no, self.worker, self.lease_until)
        return Job(
            id=self.id, state=self.state, task=lane.task, queue=lane.queue, stage=lane.stage,
            priority=lane.priority, upstream=lane.upstream or None, due_at=self.due_at,
            created_at=self.created_at, started_at=self.started_at or self.claimed_at,
            last_attempt_at=self.claimed_at or self.last_attempt_at, finished_at=self.finished_at,
            deadline_at=self.deadline_at, cycle=self.cycle, tries=self.tries, losses=self.losses,
            seq=self.seq, lease_no=self.lease_no, lease=lease, owner=asked.owner, key=asked.key,
            cancel_requested=self.cancel_requested, run=asked.run, last_fault=self.last_fault,
            tags=tuple(sorted(asked.tags)),
        )  # fmt: skip

    def as_claim(self) -> values.Claim:
        asked = self.asked
        return values.Claim(
            self.token, self.lane, self.cycle, self.tries, self.losses, self.due_at,
            self.lease_until, self.deadline_at, asked.run, asked.owner, asked.codec,
            self.arguments, asked.request_id, self.outputs.get(self.lane.stage - 1),
        )  # fmt: skip

    def earlier(self) -> list[values.Earlier]:
        """What went wrong before, at this stage and in this cycle."""
        return [
            values.Earlier(past.fault, past.delay_seconds, past.started_at)
            for past in self.history
            if past.fault
            and (past.cycle, past.stage) == (self.cycle, self.lane.stage)
            and not past.worker.startswith(INLINE_WORKER)
        ]

    def as_lapse(self) -> values.Lapse:
        counts = (self.cycle, self.tries, self.losses)
        return values.Lapse(
            self.token, self.lane, *counts, self.worker, self.lease_until,
            self.prefetched, self.spared,
        )  # fmt: skip


class LedgerModel:
    """Every job that is there, every hold, and both sides of the books."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.jobs: dict[int, Record] = {}
        self.holds: dict[tuple[values.Scope, str], values.Hold] = {}
        self.watched: dict[str, values.Watched] = {}
        self.observed: dict[tuple[str, int, str], values.Observation] = {}
        self.ever: list[int] = []
        self.pruned: Counter[State] = Counter()
        self.pace = PaceModel()
        self.told_until: datetime | None = None
        """Up to when the fleet has told of failures."""

    # --- asking -------------------------------------------------------------------------------

    def enqueue(self, batch: Sequence[NewJob], answers: Sequence[values.Enqueued]) -> None:
        """Adopt the new ids; of a key that a batch names twice, either may be the one created."""
        assert len(answers) == len(batch)
        pairs = list(zip(batch, answers, strict=True))
        for asked, (taken, job_id, _) in pairs:
            if taken is values.Taken.CREATED:
                assert job_id not in self.ever, "an id is never given twice"
                assert asked.key is None or self._holder(asked) is None, "a key is held once"
                self._born(job_id, asked)
        for asked, answer in pairs:
            if answer.taken is not values.Taken.CREATED:
                holder = self._holder(asked)
                assert holder is not None, f"nothing was in the way of {asked}: {answer}"
                same = holder.arguments == asked.arguments
                assert answer == (
                    values.Taken.EXISTING if same else values.Taken.CONFLICT,
                    holder.id,
                    "",
                )

    def _holder(self, asked: NewJob) -> Record | None:
        """Who has the key: under the task that it was asked for, wherever it has gone since."""
        wanted = (asked.lane.task, asked.key)
        held = (r for r in self.jobs.values() if wanted == (r.asked.lane.task, r.asked.key))
        return next(held, None)

    def _born(self, job_id: int, asked: NewJob) -> None:
        now = self._now()
        chosen = asked.run_after is not None and asked.run_after > now
        due_at, due_set_at = (asked.run_after, None) if chosen else (now, now)
        record = Record(
            job_id, asked, asked.lane, now, due_at, due_set_at, asked.deadline_at, pace=self.pace
        )
        self.pace.entered("created", asked.lane, now)
        if asked.begin is None:
            record.move(Move.ENQUEUE, now)
        else:
            record.lease(Move.BEGIN, asked.begin.worker, asked.begin.lease_seconds, now)
        self.jobs[job_id] = record
        self.ever.append(job_id)

    # --- a worker's life ----------------------------------------------------------------------

    def claim(self, wanted: values.Wanted, claims: Sequence[values.Claim]) -> None:
        """Check that this choice was allowed, and adopt it."""
        now, free = self._now(), self._claimable(wanted)
        ids = [claim.token.job_id for claim in claims]
        assert len(set(ids)) == len(ids) == min(wanted.limit, len(free)), (ids, [*free])
        assert free.keys() >= set(ids), f"not claimable: {set(ids) - free.keys()}"
        taken = [free.pop(job_id) for job_id in ids]
        priorities = [record.lane.priority for record in taken]
        assert priorities == sorted(priorities, reverse=True), "best first"
        for left in free.values():
            assert left.lane.priority <= min(priorities, default=left.lane.priority)
            ahead = [r.id for r in taken if r.lane == left.lane and r.place > left.place]
            assert not ahead, f"{ahead} were taken ahead of {left.id}, in the same lane"
        for record, claim in zip(taken, claims, strict=True):
            record.lease(Move.CLAIM, wanted.worker, wanted.lease_seconds, now)
            record.prefetched = wanted.prefetch
            assert claim._replace(history=None) == record.as_claim()

    def _claimable(self, wanted: values.Wanted) -> dict[int, Record]:
        now, held = self._now(), self.holds_in_force().keys()
        return {
            record.id: record
            for record in self.jobs.values()
            if record.state is State.QUEUED
            and record.due_at <= now
            and (record.deadline_at is None or record.deadline_at > now)
            and (wanted.queues is None or record.lane.queue in wanted.queues)
            and record.lane.task in wanted.tasks
            and self._is_meant(record.lane, wanted)
            and not (wanted.prefetch and record.losses)
            and not held & {(scope, str(getattr(record.lane, scope))) for scope in values.Scope}
        }

    def _is_meant(self, lane: Lane, wanted: values.Wanted) -> bool:
        """Whether a claim is for jobs of such an upstream; `without` only saves looks."""
        if wanted.upstream is None:
            gated = self.gated() | wanted.guarded
            return not (lane.retry or {lane.upstream, _family(lane.upstream)} & gated)
        asked = (wanted.upstream, wanted.retry)
        return (
            (lane.upstream, lane.retry) == asked
            and wanted.owner in (None, lane.owner)
            and wanted.priority in (None, lane.priority)
        )

    def take_back(self, token: Token, worker: str, lease_seconds: float) -> values.Claim | None:
        record, now = self.jobs.get(token.job_id), self._now()
        if (
            record is None
            or record.state is not State.QUEUED
            or (record.lease_no, record.seq) != token[1:]
            or (record.deadline_at is not None and record.deadline_at <= now)
        ):
            return None
        record.lease(Move.CLAIM, worker, lease_seconds, now)
        record.prefetched = False
        return record.as_claim()

    def renew(self, token: Token, lease_seconds: float) -> values.Answer:
        """A lease outlasts an advance: any token of it will do."""
        record = self.jobs.get(token.job_id)
        if record is None or record.state is not State.RUNNING:
            return LOST
        if record.lease_no != token.lease_no:
            return LOST
        record.leased_at = self._now()
        record.lease_until = record.leased_at + timedelta(seconds=lease_seconds)
        return values.Answer(values.Result.DONE, State.RUNNING, record.cancel_requested)

    def advance(self, given: values.Advance) -> values.Answer:
        record = self._standing(given.token)
        if record is None or record.lane.stage >= given.lane.stage:
            return self._answered_before(given.token, Outcome.ADVANCED)
        now = self._now()
        times = _times(now, given.duration_seconds, given.age_seconds)
        record.remember(
            given.token, Outcome.ADVANCED, now, counted=given.counts, policy=given.policy, **times
        )
        self._keep(record, given.output)
        record.move(Move.ADVANCE, now)
        record.lane, record.tries, record.claimed_at = given.lane, 0, now
        record.prefetched = False
        return values.Answer(values.Result.DONE, record.state, record.cancel_requested)

    def settle(self, given: Settlement) -> values.Answer:
        record = self._standing(given.token)
        if record is None:
            return self._answered_before(given.token, given.outcome)
        now = self._now()
        record.remember(
            given.token,
            given.outcome,
            now,
            counted=given.counts,
            fault=given.fault,
            delay_seconds=given.delay_seconds,
            policy=given.policy,
            **_times(now, given.duration_seconds, given.age_seconds),
        )
        self._keep(record, given.output)
        record.tries += given.counts
        record.last_fault = given.fault or record.last_fault
        move = _SETTLES[given.outcome]
        if move in (Move.RETRY, Move.SNOOZE) and record.cancel_requested:
            move = Move.STOP
        record.move(move, now)
        if move in (Move.RETRY, Move.SNOOZE):
            record.wait(given.delay_seconds, now)
            record.lane = given.lane or record.lane
        if move is Move.FAIL:
            record.bury(now)
        return values.Answer(values.Result.DONE, record.state)

    def release(self, given: values.Release) -> values.Answer:
        record = self._standing(given.token)
        if record is None:
            return self._answered_before(given.token, Outcome.RELEASED)
        now = self._now()
        if given.duration_seconds is not None:
            times = _times(now, given.duration_seconds, given.age_seconds)
            record.remember(given.token, Outcome.RELEASED, now, counted=False, **times)
        record.move(Move.STOP if record.cancel_requested else Move.RELEASE, now)
        return values.Answer(values.Result.DONE, record.state)

    def _standing(self, token: Token) -> Record | None:
        record = self.jobs.get(token.job_id)
        stands = record and record.state is State.RUNNING and record.token == token
        return record if stands else None

    def _answered_before(self, token: Token, outcome: Outcome) -> values.Answer:
        record = self.jobs.get(token.job_id)
        if record is None or (token, outcome) not in record.ended:
            return LOST
        return values.Answer(values.Result.ALREADY, record.state, record.cancel_requested)

    def _keep(self, record: Record, output: str | None) -> None:
        if output is not None:
            record.outputs[record.lane.stage] = output

    # --- upstreams ----------------------------------------------------------------------------

    def gated(self) -> frozenset[str]:
        return frozenset(name for name, each in self.watched.items() if each.gated)

    def keep(self, watched: values.Watched) -> None:
        self.watched[watched.name] = watched

    def due_at(self, wanted: values.Wanted, upstreams: Collection[str]) -> set[Lane]:
        """Whatever is due counts, held or late as it may be."""
        now = self._now()
        due = {r.lane for r in self.jobs.values() if r.state is State.QUEUED and r.due_at <= now}
        asked = {*upstreams, *wanted.guarded}
        return {
            lane
            for lane in due
            if (lane.retry or lane.upstream in asked or _family(lane.upstream) in wanted.guarded)
            and lane.task in wanted.tasks
            and (wanted.queues is None or lane.queue in wanted.queues)
        }

    def observe(self, given: values.Observation) -> None:
        at = (given.upstream, int(self._now().timestamp()), given.worker)
        before = self.observed.get(at, values.Observation(given.upstream, given.worker))
        added = [old + new for old, new in zip(before.amounts, given.amounts, strict=True)]
        self.observed[at] = values.Observation(given.upstream, given.worker, *added)

    def seen_at(self, upstream: str, seconds: int) -> list[values.Observed]:
        """What `observed` answers."""
        since = int(self._now().timestamp()) - seconds
        found = [
            values.Observed(worker, second, *given.amounts)
            for (name, second, worker), given in self.observed.items()
            if name == upstream and second > since
        ]
        return sorted(found, key=lambda each: (-each.second, each.worker))

    # --- upkeep -------------------------------------------------------------------------------

    def lapsed(self) -> list[values.Lapse]:
        now = self._now()
        leased = [r for r in self.jobs.values() if r.lease_until and r.lease_until <= now]
        return [r.as_lapse() for r in sorted(leased, key=lambda r: (r.lease_until, r.id))]

    def reclaim(self, given: values.Reclaim) -> values.Answer:
        record, now = self._standing(given.token), self._now()
        if record is None or record.lease_until > now:
            return LOST  # never `already`: two who reclaim the same lease would both believe it
        record.remember(
            given.token,
            Outcome.LOST,
            now,
            started_at=record.claimed_at,
            finished_at=max(now, record.claimed_at),
            counted=False,
            fault=given.fault,
            delay_seconds=given.delay_seconds,
            policy=given.policy,
        )
        record.losses += 1
        record.spared += record.prefetched
        record.last_fault = given.fault
        move = Move.GIVE_UP if given.delay_seconds is None else Move.RECLAIM
        if record.cancel_requested:
            move = Move.STOP
        record.move(move, now)
        if move is Move.RECLAIM:
            record.wait(given.delay_seconds, now)
        if move is Move.GIVE_UP:
            record.bury(now)
        return values.Answer(values.Result.DONE, record.state)

    def expire(self, limit: int, expired: Sequence[int]) -> None:
        now = self._now()
        late = {
            record.id
            for record in self.jobs.values()
            if record.state is State.QUEUED and record.deadline_at and record.deadline_at <= now
        }
        assert late >= set(expired), f"not late: {set(expired) - late}"
        assert len(set(expired)) == len(expired) == min(limit, len(late))
        for job_id in expired:
            self.jobs[job_id].last_fault = EXPIRED
            self.jobs[job_id].move(Move.EXPIRE, now)
            self.jobs[job_id].bury(now)

    def straighten(self) -> values.Straightened:
        now = self._now()
        due, leases, holds = self.set_in_the_future()
        for record in due:
            record.wait((record.due_at - record.due_set_at).total_seconds(), now)
        for record in leases:
            record.lease_until, record.leased_at = (
                now + (record.lease_until - record.leased_at),
                now,
            )
            record.claimed_at = min(record.claimed_at, now)
        for at, held in holds.items():
            until = held.until and now + (held.until - held.since)
            self.holds[at] = replace(held, since=now, until=until)
        return values.Straightened(len(due), len(leases), len(holds))

    def set_in_the_future(
        self, slack_seconds: float = values.SLACK_SECONDS
    ) -> tuple[Collection, ...]:
        """The queued, the leased and the holds that a clock which was ahead has set."""
        latest, records = self._now() + timedelta(seconds=slack_seconds), self.jobs.values()
        reckoned = [r for r in records if r.state is State.QUEUED and r.due_set_at]
        return (
            [r for r in reckoned if r.due_set_at > latest],
            [r for r in records if r.leased_at and r.leased_at > latest],
            {at: held for at, held in self.holds.items() if held.since > latest},
        )

    def prunable(self, state: State, older_than_seconds: float) -> set[int]:
        before = self._now() - timedelta(seconds=older_than_seconds)
        ended = [r for r in self.jobs.values() if r.state is state]
        return {record.id for record in ended if record.finished_at < before}

    def prunable_dismissed(self, older_than_seconds: float) -> set[int]:
        before = self._now() - timedelta(seconds=older_than_seconds)
        dismissed = [x for x in self.letters() if x.state is LetterState.DISMISSED]
        return {letter.job_id for letter in dismissed if letter.handled_at < before}

    def prune(self, gone: set[int]) -> None:
        for job_id in gone:
            record = self.jobs.pop(job_id)
            self.pruned[record.state] += 1
            record.move(Move.PRUNE, self._now())

    # --- people -------------------------------------------------------------------------------

    def cancel(self, job_id: int) -> values.Change:
        record = self.jobs.get(job_id)
        if record is None or record.state in FINISHED:
            return values.Change(done=False, state=record and record.state)
        if record.state is State.RUNNING:
            record.cancel_requested = True
        else:
            record.move(Move.CANCEL, self._now())
        return values.Change(done=True, state=record.state)

    def redrive(self, given: values.Redrive) -> values.Change:
        record, now = self.jobs.get(given.job_id), self._now()
        if record is None or record.state is not State.FAILED:
            return values.Change(done=False, state=record and record.state)
        if given.only_open and record.letter.state is not LetterState.OPEN:
            return values.Change(done=False, state=record.state)
        record.move(Move.REDRIVE, now)
        record.wait(given.delay_seconds, now)
        record.deal(LetterState.REDRIVEN, handled_at=now, handled_by=given.by)
        if given.arguments is not None:
            record.arguments = given.arguments
        # It is a first call again: its lane without `retry` was there before.
        record.lane = given.lane or replace(record.lane, retry=False)
        self.pace.entered("redriven", record.lane, now)
        done = {at: text for at, text in record.outputs.items() if at < record.lane.stage}
        record.outputs = done  # stages that are to be done again start with nothing
        record.cycle, record.tries, record.losses = record.cycle + 1, 0, 0
        record.spared = 0
        record.last_fault = None
        if record.deadline_at and record.deadline_at <= now:
            record.deadline_at = None
        return values.Change(done=True, state=record.state)

    def dismiss(self, job_id: int, note: str, by: str | None) -> Dealt:
        letter = self.letter(job_id)
        if letter is None or letter.state is LetterState.REDRIVEN:
            return Dealt(done=False, state=letter and letter.state)
        how = {"note": note, "handled_by": by, "handled_at": self._now()}
        self.jobs[job_id].deal(LetterState.DISMISSED, **how)
        return Dealt(done=True, state=LetterState.DISMISSED)

    def undismiss(self, job_id: int) -> Dealt:
        letter = self.letter(job_id)
        if letter is None or letter.state is not LetterState.DISMISSED:
            return Dealt(done=False, state=letter and letter.state)
        self.jobs[job_id].deal(LetterState.OPEN, handled_by=None, handled_at=None)
        return Dealt(done=True, state=LetterState.OPEN)

    def letter(self, job_id: int) -> DeadLetter | None:
        return self.jobs[job_id].letter if job_id in self.jobs else None

    def letters(self) -> list[DeadLetter]:
        """All of them, from the one that came last."""
        found = [record.letter for record in self.jobs.values() if record.letter]
        return sorted(found, key=lambda each: (each.last_at, each.job_id), reverse=True)

    def new_letters(self, every: int) -> int:
        news = [
            x.last_at for x in self.letters() if not self.told_until or x.last_at > self.told_until
        ]
        if len(news) < every:
            return 0
        self.told_until = max(news)
        return len(news)

    def hold(self, scope: values.Scope, name: str, reason: str, seconds: float | None) -> None:
        now = self._now()
        until = None if seconds is None else now + timedelta(seconds=seconds)
        held = values.Hold(scope=scope, name=name, reason=reason, since=now, until=until)
        self.holds[scope, name] = held

    def holds_in_force(self) -> dict[tuple[values.Scope, str], values.Hold]:
        now = self._now()
        return {at: h for at, h in self.holds.items() if h.until is None or h.until > now}

    def moments(self) -> list[datetime]:
        """The times to come at which something changes by itself."""
        records = self.jobs.values()
        times = {t for r in records for t in (r.due_at, r.deadline_at, r.lease_until) if t}
        times |= {h.until for h in self.holds.values() if h.until}
        times |= {r.finished_at + timedelta(seconds=20) for r in records if r.finished_at}
        return sorted(time for time in times if time > self._now())

    # --- reading ------------------------------------------------------------------------------

    def counts(self) -> dict[State, int]:
        found = Counter(record.state for record in self.jobs.values())
        return {state: found[state] for state in State}


def _family(upstream: str) -> str:
    return upstream.partition(":")[0]


def _times(now: datetime, took: float, ago: float) -> dict[str, datetime]:
    finished = now - timedelta(seconds=ago)
    return {"started_at": finished - timedelta(seconds=took), "finished_at": finished}
