"""The worker: loops that obey the core.

The clerk, a thread of its own, is the only one that claims and settles: it carries out the core's
turns, hands claims to the runner, and waits for work and for news in one place, the store's bell.
Whatever else happens (ends, signals, lost leases) is put into the inbox from other threads and
rings that bell. While the clerk waits for a store that does not answer, the pulse, in the thread
that called `run`, steps the core in its place: so signals, time limits and cancels are heard
whatever the store does, and a worker that must end can.

The worker has a store of its own, so that no handler can keep it from renewing its leases.
"""

import os
import secrets
import socket
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

import seawall
from seawall.app import Seawall
from seawall.current import is_importing
from seawall.decisions.policy import Policy
from seawall.errors import ConfigurationError, StoreError
from seawall.execute import End, Work, begun, ended
from seawall.faults import Fault, FaultCode
from seawall.model import Settlement, Token
from seawall.store import Answer, Claim, Presence, Progress, Release, Result, Store, Wanted, lasts
from seawall.telemetry import emit
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
from seawall.worker.news import News
from seawall.worker.runner import Runner, Told
from seawall.worker.signals import stopped_by_signals
from seawall.worker.upkeep import Upkeep

DRAIN_LOOK_SECONDS = 0.2
PULSE_SECONDS = 0.1
PULSES_BETWEEN_TIDYINGS = 100
LONGEST_REST_SECONDS = 1.0
FLUSH_SECONDS = 10.0
"""How long a worker that must end waits for a store that does not answer."""


class Worker:
    """Claims jobs of an application's tasks and runs them until it is told to stop."""

    _store: Store

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
        if isinstance(queues, str):
            raise ConfigurationError(f"queues: found {queues!r:.80}, expected a list of names")
        if concurrency is not None and concurrency < 1:
            raise ConfigurationError(f"concurrency: found {concurrency}, expected 1 or more")
        self.app = app
        self.id = f"{socket.gethostname()[:60]}-{os.getpid()}-{secrets.token_hex(4)}"
        """New with every start: a worker that comes back is another one."""
        self.queues = None if queues is None else tuple(queues)
        self.concurrency = concurrency or app.settings.concurrency
        self._drain = drain
        self._lease_seconds = app.settings.lease_seconds
        self._tasks = tuple(sorted(app.tasks))
        # Whoever wants no second attempt after a loss must not lose a job that only waited.
        self._prefetched = tuple(
            name for name in self._tasks if _survives_a_loss(app.tasks[name].policy)
        )
        self.core = Core(
            concurrency=self.concurrency,
            poll_seconds=app.settings.poll_seconds,
            grace_seconds=app.settings.grace_seconds,
            lease_seconds=self._lease_seconds,
            timeout_of={name: task.timeout_seconds for name, task in app.tasks.items()},
            begin_late={name for name, task in app.tasks.items() if task.isolated},
            prefetch=bool(self._prefetched),
        )
        self._stepping = threading.RLock()
        self._done = threading.Event()
        self._broke: BaseException | None = None
        self._inbox: deque[Event] = deque()
        self._asleep = False
        self._ends = dict[Token, End]()
        self._progress = dict[Token, tuple[float, float | None, str]]()
        self._claims = dict[int, Claim]()
        """By job, what is in our hands."""
        self._say = News(self.id, app.clock)
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
            self._store.nudge()

    def _told(self, told: Told) -> None:
        self._ends[told.token] = told.end
        if told.progress is not None:
            self._progress[told.token] = told.progress
        self._hear(Ended(told.token, told.end.write, told.freed))

    # --- the loops ----------------------------------------------------------------------------

    def run(self) -> bool:
        """Work until stopped; false where something could not be written before the end.

        SIGTERM and Ctrl-C stop it, as `stop` does, unless the program has handlers of its own.
        """
        if is_importing():
            raise ConfigurationError(
                "this module is being imported for an isolated task: put what starts the worker"
                ' under `if __name__ == "__main__":`'
            )
        store = self._store = self.app.store_of_its_own()
        store.appear(self._presence())
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
        upkeep = Upkeep(self.app, self.id, store)
        clerk = threading.Thread(target=self._clerk, name="seawall-clerk", daemon=True)
        try:
            self._say.started(self.queues, self._tasks, self.concurrency)
            with stopped_by_signals(self.stop):
                for thread in (beats, upkeep, clerk):
                    thread.start()
                self._pulse()
        finally:
            upkeep.close()
            beats.close()
            self._runner.close()
            clean = self._leave()
            if lasts(self.app.settings.url) and self._done.is_set():
                store.close()
        if self._broke is not None:
            raise self._broke
        return clean

    def _clerk(self) -> None:
        """Do what the core says until it says that all is done."""
        events: list[Event] = [Woken(look=True)]
        try:
            while True:
                with self._stepping:
                    actions = self._stepped(events)
                if any(isinstance(action, Exit) for action in actions):
                    return
                events = [self._done_for(action) for action in actions]
        except BaseException as error:  # noqa: BLE001 - whoever called `run` is to know
            self._broke = error
        finally:
            self._done.set()

    def _pulse(self) -> None:
        """Step the core while the clerk cannot, until the clerk is done or must be given up."""
        for beat in count():
            if self._done.wait(PULSE_SECONDS):
                return
            if beat % PULSES_BETWEEN_TIDYINGS == 0:
                self._runner.tidy()
            with self._stepping:
                if self.core.turning:
                    self._stepped([])
                if self._gives_up():
                    return

    def _stepped(self, events: list[Event]) -> list[Action]:
        """Tell the core what has happened, and see to the handlers; what is left is the clerk's."""
        for event in [*events, *self._news()]:
            self._note(event)
            self.core.hear(event, self.app.clock.monotonic())
        actions = self.core.act(self.app.clock.monotonic())
        self._start([action for action in actions if isinstance(action, Start)])
        for action in actions:
            if isinstance(action, Abort):
                self._runner.abort(action.token, action.why, leave=action.leave)
        return [action for action in actions if not isinstance(action, Start | Abort)]

    def _news(self) -> list[Event]:
        """What has come in, but for what cannot be understood before the turn is over.

        A lease that seems lost while its end is being written may be the one that was just ended.
        """
        news = [self._inbox.popleft() for _ in range(len(self._inbox))]
        ending = self.core.ending
        early = [each for each in news if isinstance(each, Taken) and each.token in ending]
        self._inbox.extend(early)
        return [each for each in news if each not in early] if early else news

    def _note(self, event: Event) -> None:
        match event:
            case Signal():
                hurried = self.core.stopping
                grace = 0.0 if hurried else self.core.grace_seconds
                self._say.stopping(len(self.core.running), grace)
            case Taken(token):
                self._ends.pop(token, None)
                if (claim := self._let_go(token)) is not None:
                    self._say.lost(claim)
            case Ended(token) if not self.core.holds(token):
                self._ends.pop(token, None)  # it was taken from us while it ran

    def _done_for(self, action: Action) -> Event:
        """Ask the store, or rest, as the core says; what came of it."""
        match action:
            case Turn():
                return self._turned(action)
            case Rest(seconds):
                return self._rested(seconds)
        raise AssertionError(f"not for the clerk: {action}")

    def _start(self, starts: list[Start]) -> None:
        if starts:
            self._runner.start([self._work(start.claim, start.claimed_at) for start in starts])

    def _work(self, claim: Claim, claimed_at: float) -> Work:
        return begun(self.app, claim, lease_seconds=self._lease_seconds, claimed=claimed_at)

    def _rested(self, seconds: float) -> Event:
        """Wait for work, for news, or for the time to pass."""
        if self._drain and self._is_drained():
            return Signal()
        seconds = min(seconds, DRAIN_LOOK_SECONDS if self._drain else LONGEST_REST_SECONDS)
        self._asleep = True
        try:
            if self._inbox:  # it came before we were known to sleep
                return Woken()
            return Woken(look=self._store.wait(seconds))
        except StoreError:
            self.app.clock.sleep(min(seconds, 0.1))
            return Woken()
        finally:
            self._asleep = False

    # --- turns --------------------------------------------------------------------------------

    def _turned(self, turn: Turn) -> Event:
        """Write what has ended, then claim."""
        store = self._store
        try:
            self._report(turn)
            released = store.release(turn.releases) if turn.releases else []
            answers: list[Answer] = []
            claims: list[Claim] = []
            if turn.limit:
                answers, claims = store.exchange(turn.settlements, self._wanted(turn))
            elif turn.settlements:
                answers = store.settle(turn.settlements)
        except StoreError as error:
            self._say.away(error, self.core.unwritten)
            return TurnFailed()
        self._stop_at = None
        self._say.back()
        with self._stepping:
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
                    self._ends.pop(older.token, None)
                    self._say.lost(older)
                self._claims[claim.token.job_id] = claim
        return Turned(tuple(claims), tuple(instead))

    def _report(self, turn: Turn) -> None:
        """Keep what attempts that have ended said last of their progress."""
        said = {
            each.token: progress
            for each in turn.settlements
            if (progress := self._progress.pop(each.token, None)) is not None
        }
        if said:
            self._store.report(
                [
                    Progress(token=token, done=done, total=total, message=message)
                    for token, (done, total, message) in said.items()
                ]
            )

    def _wanted(self, turn: Turn) -> Wanted:
        return Wanted(
            worker=self.id,
            queues=self.queues,
            tasks=self._prefetched if turn.prefetch else self._tasks,
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
                self._say.lost(claim)
        elif end is not None:
            for event in end.events:
                emit(event)
        return None

    def _let_go(self, token: Token) -> Claim | None:
        """The claim of that lease, which is no longer in our hands."""
        claim = self._claims.get(token.job_id)
        return self._claims.pop(token.job_id) if claim and claim.token == token else None

    def _instead(self, refused: Settlement, reason: str) -> Settlement | None:
        """An attempt whose end cannot be stored has failed: nothing is dropped in silence."""
        claim = self._claims.get(refused.token.job_id)
        if claim is None:
            return None  # it was taken from us meanwhile
        work = self._work(claim, self.app.clock.monotonic())
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
        try:  # what waits costs a look for each lane; what runs is counted only where nothing waits
            waiting = any(self._serves(head.lane) for head in self._store.heads())
            return not waiting and not any(self._serves(e.lane) for e in self._store.backlog())
        except StoreError:
            return False

    def _serves(self, lane: seawall.model.Lane) -> bool:
        return lane.task in self.app.tasks and (self.queues is None or lane.queue in self.queues)

    def _gives_up(self) -> bool:
        """Whether a worker that is to end has waited long enough for a store that is away."""
        core, now = self.core, self.app.clock.monotonic()
        if not core.stopping or core.running:
            self._stop_at = None
            return False
        self._stop_at = self._stop_at or now + FLUSH_SECONDS
        return now >= self._stop_at

    def _leave(self) -> bool:
        """Say that the worker is gone; false where it left something unwritten."""
        left = len(self.core.tokens)
        if left or self._broke is not None:
            self._say.not_written(left)
            return False
        if self._done.is_set():
            with suppress(StoreError):  # it will be forgotten in time
                self._store.leave(self.id)
        self._say.stopped()
        return True

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


def _survives_a_loss(policy: Policy) -> bool:
    lost = Fault(FaultCode.WORKER_LOST)
    return policy.judge_by(policy.rule_for(lost), lost, attempt=1, own=1).reason is None
