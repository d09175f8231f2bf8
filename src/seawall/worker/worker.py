"""The worker: loops that obey the core.

The clerk, a thread of its own, is the only one that claims and settles: it carries out the core's
turns, hands claims to the runner, and waits for work and for news in one place, the store's bell.
Whatever else happens (ends, signals, lost leases) is put into the inbox from other threads and
rings that bell. While the clerk waits for a store that does not answer, the pulse, in the thread
that called `run`, steps the core in its place: so signals, time limits and cancels are heard
whatever the store does, and a worker that must end can.

The worker has a store of its own, so that no handler can keep it from renewing its leases.
"""

import math
import os
import secrets
import socket
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import count

import seawall
from seawall.app import Seawall
from seawall.current import Said, is_importing
from seawall.decisions.policy import Policy
from seawall.errors import ConfigurationError, StoreError
from seawall.execute import End, Work, begun
from seawall.faults import Fault, FaultCode
from seawall.model import Token
from seawall.store import Claim, Presence, Store, Wanted, lasts
from seawall.webhooks.delivering import install
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
    Halted,
    Rest,
    Signal,
    Start,
    Taken,
    Turn,
    TurnFailed,
    Woken,
)
from seawall.worker.governor import Governor
from seawall.worker.news import News
from seawall.worker.runner import Runner
from seawall.worker.signals import stopped_by_signals
from seawall.worker.slots import limit_of
from seawall.worker.teller import Teller
from seawall.worker.turns import Turns
from seawall.worker.upkeep import Upkeep

DRAIN_LOOK_SECONDS = 0.2
PULSE_SECONDS = 0.2
PULSES_BETWEEN_TIDYINGS = 50
LONGEST_REST_SECONDS = 1.0
FLUSH_SECONDS = 10.0
"""How long a worker that must end waits for a store that does not answer."""


class Worker:
    """Claims jobs of an application's tasks and runs them until it is told to stop."""

    _store: Store
    _governor: Governor
    _turns: Turns

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
        self._delivers = install(app)
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
            name
            for name in self._tasks
            if all(_survives_a_loss(stage.policy) for stage in app.tasks[name].stages)
        )
        self.core = Core(
            concurrency=self.concurrency,
            poll_seconds=app.settings.poll_seconds,
            grace_seconds=app.settings.grace_seconds,
            lease_seconds=self._lease_seconds,
            limit_of=partial(limit_of, app),
            prefetch=bool(self._prefetched),
        )
        self._stepping = threading.RLock()
        self._done = threading.Event()
        self._broke: BaseException | None = None
        self._inbox: deque[Event] = deque()
        self._asleep = False
        self._behind = False
        """Handlers have ended of which the core has perhaps not heard."""
        self._say = News(self.id, app.clock)
        self._teller = Teller(app.hooks)
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

    def _told(self, end: End, said: Said, *, freed: bool) -> None:
        """An attempt has ended."""
        self._turns.told(end, said)
        claim = self.core.claim_of(end.token)
        self._hear(Ended(end.token, end.write, freed))
        if claim is not None and claim.run and self._turns.warden.saw(claim.run, end.write):
            self._hear(Halted(frozenset((claim.run,))))
        if self._governor.active and self._governor.watches.take_shut():
            for event in self._turns.shut():
                self._hear(event)

    def _go_on(self) -> None:
        """Handlers have ended: while the clerk is at the store, let others take their places."""
        self._behind = True
        self._catch_up()

    def _catch_up(self) -> None:
        """Where somebody else steps the core just now, that one comes by here afterwards."""
        while self._behind and self.core.turning and self._stepping.acquire(blocking=False):
            try:
                self._behind = False
                if self.core.turning:
                    self._stepped([])
            finally:
                self._stepping.release()

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
        for task in self.app.tasks.values():
            for stage in task.stages:
                stage.signature.prepare()
        store = self._store = self.app.store_of_its_own()
        store.appear(self._presence())
        self._governor, self._turns = self._at(store)
        self._runner = Runner(
            self.id,
            self._told,
            freed=lambda token: self._hear(Freed(token)),
            began=lambda token: self._hear(Began(token)),
            go_on=self._go_on,
        )
        beats = Beats(
            store,
            self.id,
            lease_seconds=self._lease_seconds,
            tokens=lambda: self.core.tokens,
            works=self._runner.under_way,
            presence=self._presence,
            heard=self._hear,
            restate=self._governor.restate,
        )
        upkeep = Upkeep(self.app, self.id, store, delivers=self._delivers)
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
            self._turns.close()
            self._teller.close()
            clean = self._leave()
            if lasts(self.app.settings.url) and self._done.is_set():
                store.close()
        if self._broke is not None:
            raise self._broke
        return clean

    def _at(self, store: Store) -> tuple[Governor, Turns]:
        """Those who deal with the store."""
        wanted = Wanted(
            worker=self.id,
            queues=self.queues,
            tasks=self._tasks,
            limit=1,
            lease_seconds=self._lease_seconds,
        )
        governor = Governor(
            self.app,
            store,
            wanted,
            slots=self.concurrency,
            hands=self,
            poke=lambda: self._hear(Woken(look=True)),
        )
        turns = Turns(
            store,
            self.core,
            governor,
            self._say,
            wanted=wanted,
            prefetched=self._prefetched,
            work=lambda claim, _: self._work(claim, self.app.clock.monotonic()),
            stepping=self._stepping,
            tell_failed=self._teller.tell,
        )
        return governor, turns

    # What is in its hands, for the governor, which is asked by any thread.

    def under_way(self, upstream: str) -> dict[str, int]:
        """How many jobs that call this upstream run, or are about to, by owner."""
        with self._stepping:
            return self.core.under_way(upstream)

    def take(self, claims: Sequence[Claim], use_by: float) -> None:
        """The turn under way has taken these, which may begin until then."""
        with self._stepping:
            self.core.coming(claims, use_by)

    def has(self, token: Token) -> bool:
        """Whether this lease is in its hands."""
        with self._stepping:
            return self.core.has(token)

    def _clerk(self) -> None:
        """Do what the core says until it says that all is done."""
        events: list[Event] = [Woken(look=True)]
        try:
            while True:
                with self._stepping:
                    actions = self._stepped(events)
                self._catch_up()
                if any(isinstance(action, Exit) for action in actions):
                    return
                events = [event for action in actions for event in self._done_for(action)]
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
            self._catch_up()

    def _stepped(self, events: list[Event]) -> list[Action]:
        """Tell the core what has happened, and see to the handlers; what is left is the clerk's."""
        now = self.app.clock.monotonic()
        for event in [*events, *self._news()]:
            self._note(event)
            self.core.hear(event, now)
        starts: list[Start] = []
        left: list[Action] = []
        for action in self.core.act(now):
            if isinstance(action, Start):
                starts.append(action)
            elif isinstance(action, Abort):
                self._runner.abort(action.token, action.why, leave=action.leave)
            else:
                left.append(action)
        if starts:
            self._runner.start([self._work(*start) for start in starts])
        return left

    def _news(self) -> list[Event]:
        """What has come in, but for what cannot be understood before the turn is over.

        A lease that seems lost while its end is being written may be the one that was just ended.
        """
        news = [self._inbox.popleft() for _ in range(len(self._inbox))]
        early = [each for each in news if isinstance(each, Taken) and self.core.ending(each.token)]
        self._inbox.extend(early)
        return [each for each in news if each not in early] if early else news

    def _note(self, event: Event) -> None:
        match event:
            case Ended(token):
                self._turns.forget_unless_ours(token)
            case Taken(token):
                self._turns.lost(self.core.claim_of(token))
            case Signal():
                hurried = self.core.stopping
                grace = 0.0 if hurried else self.core.grace_seconds
                self._say.stopping(len(self.core.running), grace)

    def _done_for(self, action: Action) -> list[Event]:
        """Ask the store, or rest, as the core says; what came of it."""
        match action:
            case Turn():
                return self._turned(action)
            case Rest(seconds):
                return [self._rested(seconds)]
        raise AssertionError(f"not for the clerk: {action}")

    def _turned(self, turn: Turn) -> list[Event]:
        came_of_it = self._turns.carried_out(turn)
        if not isinstance(came_of_it[0], TurnFailed):
            self._stop_at = None
        return came_of_it

    def _work(self, claim: Claim, claimed_at: float, use_by: float = math.inf) -> Work:
        work = begun(
            self.app,
            claim,
            lease_seconds=self._lease_seconds,
            claimed=claimed_at,
            use_by=use_by,
            witness=self._governor.seeing if claim.lane.upstream else None,
        )
        work.current.worker = self.id
        if claim.lane.upstream:
            self._governor.watches.active = True
        if work.current.caller is None:
            work.current.caller = self._governor.inside.caller(claim)
        return work

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

    # --- ending -------------------------------------------------------------------------------

    def _is_drained(self) -> bool:
        """Whether nothing waits, for now or later, or runs, of what this worker serves."""
        now = self.app.clock.monotonic()
        if not self.core.idle or now < self._drained_at:
            return False
        self._drained_at = now + DRAIN_LOOK_SECONDS
        try:  # what waits costs a look for each lane; what runs is counted only where nothing waits
            waiting = any(self._serves(head.lane) for head in self._store.heads())
            waiting = waiting or self._store.any_notes()  # upkeep is about to make jobs of them
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
            with suppress(StoreError):  # else others have its places when its lease is over
                self._governor.restate()
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
