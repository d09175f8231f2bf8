"""The worker: a loop that obeys the core.

One thread asks the store and nobody else: it carries out the core's turns, hands claims to the
runner and collects what has ended. Everything else that happens (ends, signals, lost leases) is
put into the inbox from other threads and rings the store's bell, so that the loop waits in one
place only, for work and for news alike.
"""

import os
import secrets
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import seawall
from seawall.app import Seawall
from seawall.errors import ConfigurationError, StoreError
from seawall.execute import End, Work, begun, ended
from seawall.faults import Fault, FaultCode
from seawall.model import Settlement, Token
from seawall.store import Answer, Claim, Presence, Release, Result, Wanted
from seawall.telemetry import (
    LeaseLost,
    NotWritten,
    StoreAway,
    StoreBack,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
    emit,
)
from seawall.worker.beats import Beats
from seawall.worker.core import Core
from seawall.worker.events import (
    Abort,
    Action,
    Began,
    Ended,
    Event,
    Exit,
    Freed,
    Rest,
    Signal,
    Start,
    Taken,
    Turn,
    Turned,
    TurnFailed,
    Woken,
)
from seawall.worker.runner import Runner, Told
from seawall.worker.upkeep import Upkeep

DRAIN_LOOK_SECONDS = 0.2
FLUSH_SECONDS = 10.0
"""How long a worker that must end waits for a store that does not answer."""


class Worker:
    """Claims jobs of an application's tasks and runs them until it is told to stop."""

    def __init__(
        self,
        app: Seawall,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        drain: bool = False,
    ) -> None:
        if not app.tasks:
            raise ConfigurationError("the application has no tasks: declare one with @app.task")
        self.app = app
        self.id = f"{socket.gethostname()[:60]}-{os.getpid()}-{secrets.token_hex(4)}"
        """New with every start: a worker that comes back is another one."""
        self.queues = None if queues is None else tuple(queues)
        self.concurrency = concurrency or app.settings.concurrency
        self._drain = drain
        self._lease_seconds = app.settings.lease_seconds
        self._tasks = tuple(sorted(app.tasks))
        self.core = Core(
            concurrency=self.concurrency,
            poll_seconds=app.settings.poll_seconds,
            grace_seconds=app.settings.grace_seconds,
            lease_seconds=self._lease_seconds,
            timeout_of={name: task.timeout_seconds for name, task in app.tasks.items()},
            begin_late={name for name, task in app.tasks.items() if task.isolated},
        )
        self._inbox: deque[Event] = deque()
        self._asleep = False
        self._ends = dict[Token, End]()
        self._claims = dict[int, Claim]()
        """By job, what is in our hands."""
        self._away_since: float | None = None
        self._stop_at: float | None = None
        self._drained_at = 0.0

    # --- from other threads -------------------------------------------------------------------

    def stop(self) -> None:
        """Finish what runs and end; told twice, hand it back and end now.

        Safe in a signal handler.
        """
        self._hear(Signal())

    def _hear(self, event: Event) -> None:
        self._inbox.append(event)
        if self._asleep:
            self.app.store.nudge()

    def _told(self, told: Told) -> None:
        self._ends[told.token] = told.end
        self._hear(Ended(told.token, told.end.write, told.freed))

    # --- the loop -----------------------------------------------------------------------------

    def run(self) -> bool:
        """Work until stopped; false where something could not be written before the end."""
        clock, store = self.app.clock, self.app.store
        self._runner = Runner(
            self.id,
            self._told,
            freed=lambda token: self._hear(Freed(token)),
            began=lambda token: self._hear(Began(token)),
        )
        beats = Beats(
            store,
            self.id,
            lease_seconds=self._lease_seconds,
            tokens=lambda: self.core.tokens,
            works=self._runner.under_way,
            presence=self._presence,
            heard=self._hear,
        )
        upkeep = Upkeep(self.app, self.id)
        store.appear(self._presence())
        self._say_started()
        beats.start()
        upkeep.start()
        try:
            actions = self.core.step(Woken(look=True), clock.monotonic())
            while not any(isinstance(action, Exit) for action in actions):
                for event in self._obeyed(actions):
                    self.core.hear(event, clock.monotonic())
                self._listen()
                if self._gives_up():
                    break
                actions = self.core.act(clock.monotonic())
        finally:
            upkeep.close()
            beats.close()
            self._runner.close()
            clean = self._leave()
        return clean

    def _listen(self) -> None:
        """Tell the core what has come in."""
        while self._inbox:
            event = self._inbox.popleft()
            self._note(event)
            self.core.hear(event, self.app.clock.monotonic())

    def _note(self, event: Event) -> None:
        match event:
            case Signal():
                self._say_stopping()
            case Taken(token) if (claim := self._let_go(token)) is not None:
                self._say_lost(claim)
            case Ended(token) if not self.core.holds(token):
                self._ends.pop(token, None)  # it was taken from us while it ran

    def _obeyed(self, actions: list[Action]) -> list[Event]:
        """Do what the core says, in its order; what came of it."""
        events: list[Event] = []
        self._start([action for action in actions if isinstance(action, Start)])
        for action in actions:
            match action:
                case Abort(token, why, leave):
                    self._runner.abort(token, why, leave=leave)
                case Turn():
                    events.append(self._turned(action))
                case Rest(seconds):
                    events.append(self._rested(seconds))
        return events

    def _start(self, starts: list[Start]) -> None:
        if starts:
            self._runner.start([self._work(start.claim, start.claimed_at) for start in starts])

    def _work(self, claim: Claim, claimed_at: float) -> Work:
        return begun(self.app, claim, lease_seconds=self._lease_seconds, claimed=claimed_at)

    def _rested(self, seconds: float) -> Event:
        """Wait for work, for news, or for the time to pass."""
        if self._drain and self._is_drained():
            return Signal()
        if self._drain:
            seconds = min(seconds, DRAIN_LOOK_SECONDS)
        self._asleep = True
        try:
            if self._inbox:  # it came before we were known to sleep
                return Woken()
            return Woken(look=self.app.store.wait(seconds))
        except StoreError:
            self.app.clock.sleep(min(seconds, 0.1))
            return Woken()
        finally:
            self._asleep = False

    # --- turns --------------------------------------------------------------------------------

    def _turned(self, turn: Turn) -> Event:
        """Write what has ended, then claim."""
        store = self.app.store
        try:
            released = store.release(turn.releases) if turn.releases else []
            answers: list[Answer] = []
            claims: list[Claim] = []
            if turn.limit:
                answers, claims = store.exchange(turn.settlements, self._wanted(turn))
            elif turn.settlements:
                answers = store.settle(turn.settlements)
        except StoreError as error:
            self._say_away(error)
            return TurnFailed()
        self._say_back()
        for release, answer in zip(turn.releases, released, strict=True):
            self._written(release, answer)
        instead = [
            again
            for settlement, answer in zip(turn.settlements, answers, strict=True)
            if (again := self._written(settlement, answer)) is not None
        ]
        for claim in claims:
            older = self._claims.get(claim.token.job_id)
            if older is not None:  # it could be claimed: so the lease that we had was lost
                self._say_lost(older)
            self._claims[claim.token.job_id] = claim
        return Turned(tuple(claims), tuple(instead))

    def _wanted(self, turn: Turn) -> Wanted:
        return Wanted(
            worker=self.id,
            queues=self.queues,
            tasks=self._tasks,
            limit=turn.limit,
            lease_seconds=self._lease_seconds,
            prefetch=turn.prefetch,
        )

    def _written(self, write: Settlement | Release, answer: Answer) -> Settlement | None:
        """Say what came of an attempt; what to write instead where the store will not take it."""
        token = write.token
        end = self._ends.get(token)
        if answer.result is Result.REFUSED and isinstance(write, Settlement):
            return self._instead(write, answer.reason)
        self._ends.pop(token, None)
        claim = self._let_go(token)
        if answer.result is Result.LOST:
            if claim is not None and end is not None:
                self._say_lost(claim)
        elif end is not None:
            for event in end.events:
                emit(event)
        return None

    def _let_go(self, token: Token) -> Claim | None:
        """The claim of that lease, which is no longer in our hands."""
        claim = self._claims.get(token.job_id)
        return self._claims.pop(token.job_id) if claim and claim.token == token else None

    def _instead(self, refused: Settlement, reason: str) -> Settlement:
        """An attempt whose end cannot be stored has failed: nothing is dropped in silence."""
        work = self._work(self._claims[refused.token.job_id], self.app.clock.monotonic())
        line = f"what it came to cannot be stored: {reason}"
        end = ended(work, Fault(FaultCode.INTERNAL_ERROR, line))
        self._ends[refused.token] = end
        if not isinstance(end.write, Settlement):
            raise TypeError("a fault is settled")
        return end.write

    # --- ending -------------------------------------------------------------------------------

    def _is_drained(self) -> bool:
        """Whether nothing waits, for now or later, or runs, of what this worker serves."""
        now = self.app.clock.monotonic()
        if not self.core.idle or now < self._drained_at:
            return False
        self._drained_at = now + DRAIN_LOOK_SECONDS
        try:
            return not any(self._serves(each.lane) for each in self.app.store.backlog())
        except StoreError:
            return False

    def _serves(self, lane: seawall.model.Lane) -> bool:
        return lane.task in self.app.tasks and (self.queues is None or lane.queue in self.queues)

    def _gives_up(self) -> bool:
        """Whether a worker that is to end has waited long enough for a store that is away."""
        core, now = self.core, self.app.clock.monotonic()
        if not core.stopping or self._away_since is None or core.running:
            self._stop_at = None
            return False
        self._stop_at = self._stop_at or now + FLUSH_SECONDS
        return now >= self._stop_at

    def _leave(self) -> bool:
        unwritten = self.core.unwritten
        if unwritten:
            emit(NotWritten(worker=self.id, jobs=unwritten))
            return False
        with suppress(StoreError):  # it will be forgotten in time
            self.app.store.leave(self.id)
        emit(WorkerStopped(worker=self.id))
        return True

    # --- saying -------------------------------------------------------------------------------

    def _presence(self) -> Presence:
        return Presence(
            worker=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=seawall.__version__,
            queues=self.queues,
            tasks=self._tasks,
            concurrency=self.concurrency,
            running=len(self.core.running),
            stopping=self.core.stopping,
        )

    def _say_started(self) -> None:
        queues = "all" if self.queues is None else ",".join(self.queues)
        tasks = ",".join(self._tasks)
        emit(
            WorkerStarted(worker=self.id, queues=queues, tasks=tasks, concurrency=self.concurrency)
        )

    def _say_stopping(self) -> None:
        grace = 0.0 if self.core.stopping else self.core.grace_seconds
        running = len(self.core.running)
        emit(WorkerStopping(worker=self.id, running=running, grace_seconds=grace))

    def _say_away(self, error: StoreError) -> None:
        if self._away_since is None:
            self._away_since = self.app.clock.monotonic()
            emit(StoreAway(worker=self.id, unwritten=self.core.unwritten, message=str(error)))

    def _say_back(self) -> None:
        if self._away_since is not None:
            seconds = self.app.clock.monotonic() - self._away_since
            self._away_since = None
            emit(StoreBack(worker=self.id, seconds=round(seconds, 1)))

    def _say_lost(self, claim: Claim) -> None:
        emit(
            LeaseLost(
                job=claim.token.job_id,
                task=claim.lane.task,
                stage=claim.lane.stage,
                attempt=claim.tries + 1,
                request_id=claim.request_id,
            )
        )
