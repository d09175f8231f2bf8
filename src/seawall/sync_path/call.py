"""One call, from the job's birth to the answer.

`Call.answered` tells it: ask for a turn, write the job down as running, make the attempt, write its
end, and see what follows. What waits for the store is done aside, in threads, so that nobody's loop
is held up; and nothing is cancelled half-way: whoever no longer waits says so by `stop`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from seawall.answers import Answered, Done, Failed, HandedOver
from seawall.decisions.call_now import Again, HandOver, follows
from seawall.decisions.policy import Fail, Retry
from seawall.errors import KeyConflictError, StoreError
from seawall.execute import End, Ruling, Stop, Work, begun
from seawall.faults import Fault
from seawall.jobs import JobHandle
from seawall.model import Begin, Lane, Settlement, Token
from seawall.spans import handed_over
from seawall.states import State
from seawall.store import Advance, Answer, Claim, Ending, Release, Result
from seawall.sync_path.handlers import Limit
from seawall.sync_path.turn import NoTurn, Turn
from seawall.telemetry import JobHandedOver, emit
from seawall.worker.core import next_claim

if TYPE_CHECKING:
    from concurrent.futures import Future

    from seawall.sync_path.path import SyncPath
    from seawall.tasks import Request

R = TypeVar("R")
T = TypeVar("T")

INLINE_POLICY = "ai-sync"
"""What a caller goes by that names no other policy."""
LEASE_MARGIN_SECONDS = 5.0
"""A caller's lease outlasts its patience by so much: time to write what came of it."""
_NOBODY_WAITS = "its caller does not wait any more"
_TIME_IS_UP = "its caller's time is up"


@dataclass(slots=True)
class _Attempt:
    """One attempt that is made inline, and what was said to follow it."""

    claim: Claim
    turn: Turn
    ruled: dict[int, tuple[Fault, Again | HandOver | Fail]] = field(default_factory=dict)
    """By the fault: a handler that was left behind may end by another one, later."""

    def follows(self, fault: Fault | None) -> Again | HandOver | Fail | None:
        """What follows it, where it ended by this fault."""
        return self.ruled.get(id(fault), (None, None))[1]


class Call(Generic[R]):
    """A job that its caller runs."""

    _job: JobHandle[R]
    _lane: Lane
    """Where it stands."""

    def __init__(self, path: "SyncPath", request: "Request[R]") -> None:
        self._path = path
        self._app = path.app
        self._store = path.store
        self._request = request
        options = request.options
        named = INLINE_POLICY if options.inline is None else options.inline
        self._policy = self._app.policy(named)
        self._began = self._app.clock.monotonic()
        self._until = self._began + (options.inline_seconds or path.seconds)
        self._stopped = asyncio.Event()
        self._leased_at = 0.0
        self._lease_seconds = 0.0
        self._made = 0
        """Attempts at this stage."""
        self._faults: list[Fault] = []
        """What they failed by."""
        self._turn: Turn | None = None
        """A turn that is not used yet."""
        self._held: Token | None = None
        """The lease in our hands, as long as nothing was written about its end."""
        self._work: Work | None = None
        """The attempt that was begun under it."""
        self._trace: str | None = None
        """In which trace it was asked for."""
        self._asking: Future[Any] | None = None
        """What was asked aside last."""

    def stop(self) -> None:
        """Nobody waits for the answer any more; to be said on its loop."""
        self._stopped.set()

    async def answered(self) -> Answered[R]:
        """The answer."""
        try:
            found = await self._aside(self._born)
            while isinstance(found, _Attempt):
                found = await self._made_and_followed(found)
            return found
        finally:
            self._settle_up()

    async def _aside(self, function: Callable[..., T], *args: Any) -> T:
        """What the function answers, which may have to wait for the store."""
        asking = self._asking = self._path.asked(function, *args)
        return await asyncio.wrap_future(asking)

    def _settle_up(self) -> None:
        """Let go, when nobody writes for us any more: a loop may end while a thread goes on."""
        if self._asking is not None:
            self._asking.add_done_callback(lambda _: self._let_go())

    async def _made_and_followed(self, attempt: _Attempt) -> _Attempt | Answered[R]:
        """One attempt, written down, and what follows it."""
        if (reason := self._reason_to_leave()) is not None:
            return await self._aside(self._released, reason)
        work = self._work = self._begun(attempt)
        self._turn = None  # from here on it is in its handler's hands
        end = await self._path.handlers.run(work, attempt.turn, self._limit(work), self._stopped)
        write, answer = await self._aside(self._written, work, end)
        if answer.result is Result.LOST or isinstance(write, Release):
            return await self._aside(self._as_it_is)
        if isinstance(write, Advance):
            return await self._aside(self._next_stage, attempt.claim, write, answer)
        what = attempt.follows(write.fault)
        if answer.state is State.QUEUED and isinstance(what, Again):
            await self._pause(what.delay_seconds)
            return await self._aside(self._taken_back, attempt.claim, what)
        return await self._aside(self._ended, write, answer, what)

    # --- the job's birth ----------------------------------------------------------------------

    def _born(self) -> _Attempt | Answered[R]:
        """Write the job down: as running here, where there is a turn for it, or for workers."""
        request = self._request
        new_job = request.new_job()
        lane = self._lane = new_job.lane
        turn = self._path.turn(lane)
        if isinstance(turn, NoTurn):
            self._job, self._trace = self._path.queue.begin(request, None)
            if not self._job.created:
                return self._as_it_is()
            return self._handed_over(turn.reason, turn.seconds)
        self._turn = turn
        now = self._path.governor.watches.date()
        lease = self._new_lease()
        try:
            begin = Begin(worker=self._path.id, lease_seconds=lease)
            self._job, self._trace = self._path.queue.begin(request, begin)
        except BaseException:
            self._spare_turn()
            raise
        if not self._job.created:
            return self._as_it_is()
        self._held = Token(self._job.id, 1, 1)
        deadline = new_job.deadline_at
        if new_job.deadline_seconds is not None:
            deadline = now + timedelta(seconds=new_job.deadline_seconds)
        claim = Claim(
            self._held, lane, 0, 0, 0, now, now + timedelta(seconds=lease), deadline, None,
            new_job.owner, new_job.codec, new_job.arguments, new_job.request_id, None,
            trace=self._trace,
        )  # fmt: skip
        return self._next(claim)

    def _new_lease(self) -> float:
        """A lease from now on: for as long as its caller waits, and a little longer."""
        self._leased_at = self._app.clock.monotonic()
        self._lease_seconds = max(0.0, self._left()) + LEASE_MARGIN_SECONDS
        return self._lease_seconds

    def _next(self, claim: Claim) -> _Attempt:
        """The attempt that this lease and this turn give the right to."""
        if self._turn is None:
            raise AssertionError("nobody begins without a turn")
        return _Attempt(claim._replace(tries=self._made), self._turn)

    # --- the attempt --------------------------------------------------------------------------

    def _begun(self, attempt: _Attempt) -> Work:
        claim = attempt.claim
        work = begun(
            self._app,
            claim,
            lease_seconds=self._lease_seconds,
            claimed=self._leased_at,
            use_by=attempt.turn.use_by,
            witness=attempt.turn if claim.lane.upstream else None,
        )

        def judge(work: Work, fault: Fault, *, charged: bool) -> Ruling:
            del charged  # nothing of what is allowed to the workers is used up here
            return self._judged(attempt, work, fault)

        work.judge = judge
        work.current.worker = self._path.id
        if work.current.caller is None:
            work.current.caller = self._path.governor.inside.caller(claim)
        self._made += 1
        return work

    def _judged(self, attempt: _Attempt, work: Work, fault: Fault) -> Ruling:
        deadline = work.claim.deadline_at
        what = follows(
            fault,
            own=work.task.policy,
            inline=self._policy,
            attempt=work.current.attempt,
            earlier=self._faults,
            elapsed_seconds=self._app.clock.monotonic() - self._began,
            patience_seconds=self._left(),
            deadline_seconds=None
            if deadline is None
            else (deadline - work.store_now()).total_seconds(),
            rng=self._app.rng,
        )
        attempt.ruled[id(fault)] = (fault, what)
        match what:
            case Again(delay, due):
                verdict = Retry(delay, counts=False)
                return Ruling(self._policy, verdict, counts=False, due_seconds=due)
            case HandOver(delay):
                return Ruling(self._policy, Retry(delay, counts=False), counts=False)
            case Fail():
                return Ruling(work.task.policy, what, counts=False)

    def _limit(self, work: Work) -> Limit:
        """How long the attempt may take: by its task, by its caller, by the job's deadline."""
        seconds, why = min(work.task.timeout_seconds, self._left()), Stop.TIMEOUT
        if (deadline := work.claim.deadline_at) is not None:
            left = max(0.0, (deadline - work.store_now()).total_seconds())
            if left < seconds:
                seconds, why = left, Stop.EXPIRED
        work.limit_seconds = round(seconds, 3)
        return Limit(seconds, why)

    def _left(self) -> float:
        """For how long its caller waits yet."""
        return self._until - self._app.clock.monotonic()

    def _reason_to_leave(self) -> str | None:
        if self._stopped.is_set():
            return _NOBODY_WAITS
        return _TIME_IS_UP if self._left() <= 0 else None

    async def _pause(self, seconds: float) -> None:
        """Wait for the time of the next attempt, or until nobody waits for it any more."""
        over = asyncio.ensure_future(self._app.clock.asleep(seconds))
        stopping = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({over, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
            stopping.cancel()

    def _written(self, work: Work, end: End) -> tuple[Ending | Release, Answer]:
        """Write the end of the attempt: from then on the lease is out of our hands."""
        write, answer = self._path.ends.written(work, end, self._leased_at + self._lease_seconds)
        self._held = self._work = None
        if isinstance(write, Settlement) and write.fault is not None:
            self._faults.append(write.fault)
        return write, answer

    # --- what follows -------------------------------------------------------------------------

    def _next_stage(self, claim: Claim, advance: Advance, answer: Answer) -> _Attempt | Answered[R]:
        """Go on with the next stage, under the same lease; or leave that to the workers.

        Where the stage had been written before, perhaps somebody else has the job by now.
        """
        claim = next_claim(claim, advance)
        self._held, self._lane = claim.token, claim.lane
        self._made, self._faults = 0, []
        if answer.result is Result.ALREADY or answer.cancel_requested:
            return self._released("it is to stop here")
        if (reason := self._reason_to_leave()) is not None:
            return self._released(reason)
        turn = self._path.turn(claim.lane)
        if isinstance(turn, NoTurn):
            return self._released(turn.reason, turn.seconds)
        self._turn = turn
        return self._next(claim)

    def _taken_back(self, claim: Claim, what: Again) -> _Attempt | Answered[R]:
        """Take the job back for another attempt, or leave it: it is queued for the workers."""
        left = max(0.0, what.due_seconds - what.delay_seconds)
        if (reason := self._reason_to_leave()) is not None:
            return self._handed_over(reason, left)
        try:
            turn = self._path.turn(claim.lane, retry=True)
            if isinstance(turn, NoTurn):
                return self._handed_over(turn.reason, max(left, turn.seconds))
            self._turn = turn
            lease = self._new_lease()
            again = self._store.take_back(claim.token, worker=self._path.id, lease_seconds=lease)
            if again is None:
                return self._as_it_is()
        except StoreError:
            return self._handed_over("the store does not answer", left)
        self._held, self._lane = again.token, again.lane
        return self._next(again)

    def _ended(
        self, write: Settlement, answer: Answer, what: Again | HandOver | Fail | None
    ) -> Answered[R]:
        """The answer to an attempt that was the last here."""
        match answer.state:
            case State.SUCCEEDED:
                return Done(self._job.read(self._request.task.name, write.output), self._job)
            case State.FAILED if write.fault is not None:
                return Failed(write.fault, self._job)
            case State.QUEUED:
                reason = what.reason if isinstance(what, HandOver) else str(write.outcome)
                return self._handed_over(reason, write.delay_seconds or 0.0)
            case _:
                return self._as_it_is()

    def _released(self, reason: str, seconds: float = 0.0) -> Answered[R]:
        """Hand the job back before its attempt began."""
        token, self._held = self._held, None
        if token is not None:
            try:
                (answer,) = self._store.release([Release(token=token)])
            except StoreError:  # its lease lapses
                return self._handed_over(reason, self._lease_seconds)
            if answer.state is not State.QUEUED:
                return self._as_it_is()
        return self._handed_over(reason, seconds)

    def _handed_over(self, reason: str, seconds: float) -> HandedOver[R]:
        self._spare_turn()
        lane = self._lane
        context = handed_over(
            self._trace, lane.task, job_id=self._job.id, stage=lane.stage, attempt=self._made,
            reason=reason, delay_seconds=seconds,
        )  # fmt: skip
        event = JobHandedOver(
            job=self._job.id,
            task=lane.task,
            stage=lane.stage,
            state=State.QUEUED,
            attempt=self._made,
            request_id=self._request.options.request_id,
            reason=reason,
            delay_ms=round(seconds * 1_000),
        )
        emit(event, context=context)
        return HandedOver(self._job, seconds)

    def _as_it_is(self) -> Answered[R]:
        """The answer that the job itself gives, which somebody else has, or had."""
        self._spare_turn()
        job = self._job.job()
        asked = self._request.options
        if job.owner != asked.owner:  # what it came to is for its own
            raise KeyConflictError(
                f"{job.task}: the key {asked.key!r:.80} is that of another owner's job: put the"
                " owner into the key"
            )
        if job.state is State.FAILED and job.last_fault is not None:
            return Failed(job.last_fault, self._job)
        if job.state in (State.QUEUED, State.RUNNING):
            return HandedOver(self._job)
        return Done(self._job.result(), self._job)

    def _spare_turn(self) -> None:
        """Give back a turn that is not used."""
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.give_back()
            if self._lane.upstream:
                self._path.ends.look_after_upstreams()

    def _let_go(self) -> None:
        """Nothing stays in our hands, whatever broke: a turn, or a job that nothing is known of."""
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.give_back()
        if self._held is not None:
            token, self._held = self._held, None
            took = None if self._work is None else self._work.elapsed()
            try:
                self._store.release([Release(token=token, duration_seconds=took)])
            except StoreError:
                return  # its lease lapses
