"""The whole system under one seed: the real store and real workers, a virtual clock, and trouble.

    python -m seawall.simulate.system --seeds 2000

Several workers (the real core, turns, governor, beats and upkeep, over the real SQLite store) drain
jobs whose handlers fail by dice, while the seed has it that workers die before any statement or
between two, the store errors or its answers are lost, processes stand still until their leases are
gone, and the store's clock jumps. In the end every job must have come to an end, and the books
must balance. Nothing here knows the real time, so a seed that fails fails again, step by step.

What must hold, at every look and in the end:

    verify      no rule of the store's own `verify` is broken
    once        no token is ever started twice: a claim is one worker's
    all end     every job is finished, unless its time is over
    effects     a job that succeeded has had a handler come to its end
"""

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import apsw

from seawall.app import Seawall
from seawall.decisions.backoff import Backoff
from seawall.decisions.policy import Policy
from seawall.decisions.rule import Rule
from seawall.errors import FaultError, SeawallError, StoreError
from seawall.faults import FaultCode
from seawall.model import Token
from seawall.simulate.system_worker import (
    BEAT,
    BIRTH,
    END,
    LEASE_SECONDS,
    TURN,
    UPKEEP,
    WAKE,
    JumpingClock,
    Worker,
)
from seawall.states import FINISHED
from seawall.store.ledger import Ledger
from seawall.store.migrate import bring_up
from seawall.store.sqlite import SqliteBackend
from seawall.telemetry import LOGGER
from seawall.telemetry.tracing import untraced
from seawall.worker.beats import BEATS_IN_A_LEASE
from seawall.worker.events import (
    Woken,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


POLL_SECONDS = 3.0
WORKERS = 3
JOBS = 12
TROUBLE_SECONDS = 60.0
"""After so long nothing goes wrong any more: what is left must come to its end."""
LONGEST_SECONDS = 86_400.0
MOST_STEPS = 6_000
LOOK_EVERY = 60
"""The books are looked at after so many steps."""
_ERRORS = (apsw.BusyError, apsw.IOError, apsw.FullError)

PATIENT = Policy(
    name="patient",
    max_attempts=50,
    rules=(
        Rule(on="all", backoff=Backoff(curve="exponential", base_seconds=1, cap_seconds=30)),
        Rule(
            on=FaultCode.WORKER_LOST,
            max_attempts=100,
            counts=False,
            backoff=Backoff(curve="fixed", base_seconds=1),
        ),
    ),
)


class DiedError(BaseException):
    """The process is gone."""


class BrokenPromiseError(SeawallError):
    """Something that must hold does not; the seed shows it again."""


@dataclass
class Report:
    """What came of a seed."""

    seed: int
    steps: int = 0
    seconds: float = 0.0
    trouble: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)


class System:
    """A store, some workers and a seed."""

    def __init__(self, seed: int, *, jobs: int = JOBS) -> None:
        self.seed = seed
        self.dice = random.Random(f"system/{seed}")
        self.clock = JumpingClock()
        self.report = Report(seed)
        self.effects: Counter[int] = Counter()
        self._starts: Counter[Token] = Counter()
        self._events: list[tuple[float, int, int, Any, Any]] = []
        self._order = 0
        self._names = 0
        self._strike_at = 0
        self._strike = ""
        self._loses = False
        self._jobs = jobs
        self.backend = SqliteBackend(":memory:", clock=self.clock)
        bring_up(self.backend)
        self.store = Ledger(
            self.backend, rng=random.Random(f"{seed}"), monotonic=self.clock.monotonic
        )
        self.app = self._application()
        self.workers: list[Worker] = []

    def _application(self) -> Seawall:
        app = Seawall(
            "sqlite://",
            config=os.devnull,
            policies=[PATIENT],
            lease_seconds=LEASE_SECONDS,
            poll_seconds=POLL_SECONDS,
        )
        dice = self.dice

        def may_fail() -> None:
            if dice.random() < 0.25:
                raise FaultError(dice.choice((FaultCode.UNAVAILABLE, FaultCode.TIMEOUT)), "dice")

        @app.task(policy=PATIENT, timeout_seconds=20)
        def plain(n: int) -> int:
            may_fail()
            return n

        @app.task(policy=PATIENT, upstream="service", timeout_seconds=20)
        def calls(n: int) -> int:
            may_fail()
            return n

        app.pipeline("both", [plain, calls])
        return app

    # --- trouble ------------------------------------------------------------------------------

    @property
    def troubled(self) -> bool:
        return self.clock.monotonic() < TROUBLE_SECONDS

    def loses_answer(self) -> bool:
        loses, self._loses = self._loses, False
        return loses

    @contextmanager
    def struck(self) -> "Iterator[None]":
        """Whatever is asked of the store here may go wrong, at any of its statements."""
        if self.troubled and self.dice.random() < 0.12:
            self._strike = self.dice.choice(("died", "error", "error", "lost answer"))
            self._strike_at = self.dice.randint(1, 14)
            self._loses = self._strike == "lost answer"
            if self._loses:
                self.report.trouble["lost answer"] += 1
                self._strike_at = 0
        try:
            yield
        finally:
            self._strike_at, self._loses = 0, False

    def _passing(self, _cursor: apsw.Cursor, _statement: str, _values: object) -> bool:
        """Called before each statement of the database."""
        if self._strike_at:
            self._strike_at -= 1
            if not self._strike_at:
                self.report.trouble[self._strike] += 1
                if self._strike == "died":
                    raise DiedError
                raise self.dice.choice(_ERRORS)("struck")
        return True

    def _misfortune(self, worker: Worker) -> None:
        """Between two steps a worker may die, or stand still for long; the clock may jump."""
        if not self.troubled or (lot := self.dice.random()) >= 0.03:
            return
        if lot < 0.01:
            self.report.trouble["killed"] += 1
            raise DiedError
        if lot < 0.02:
            self.report.trouble["stood still"] += 1
            stood = self.dice.uniform(1, 3 * LEASE_SECONDS)
            worker.stands_until = self.clock.monotonic() + stood
        else:
            self.report.trouble["clock jumped"] += 1
            self.clock.jump(self.dice.choice((-300, -30, -5, 5, 30, 300)))

    def _dies(self, worker: Worker) -> None:
        """Everything that only it knew is gone; another is started after a while."""
        worker.dead = True
        for handler in worker.handlers.values():
            handler.context.run(handler.life.close)
        later = self.clock.monotonic() + self.dice.uniform(0.1, 10)
        self.plan(later, BIRTH, None, None)

    # --- time ---------------------------------------------------------------------------------

    def plan(self, at: float, kind: int, worker: Worker | None, what: object) -> None:
        self._order += 1
        heappush(self._events, (at, self._order, kind, worker, what))

    def started(self, token: Token) -> None:
        self._starts[token] += 1
        if self._starts[token] > 1:
            raise BrokenPromiseError(f"once: {token} was started twice")

    def run(self) -> Report:
        """Live until every job has ended; `BrokenPromiseError` where something did not hold."""
        with self.backend.lending() as (connection, _):
            pass
        with untraced(), self.app.replaced(self.store, self.clock, self.dice):
            self._ask_for_jobs()
            connection.exec_trace = self._passing
            for _ in range(WORKERS):
                self._born()
            for step in range(MOST_STEPS):
                self.report.steps = step
                if step % LOOK_EVERY == 0:
                    self._look()
                    if self._all_ended():
                        break
                at, _, kind, worker, what = heappop(self._events)
                if at > LONGEST_SECONDS:
                    break
                self.clock.pass_until(at)
                self._happens(kind, worker, what)
            connection.exec_trace = None
        self.report.seconds = self.clock.monotonic()
        self._look()
        self._need_ends()
        self.backend.close()
        return self.report

    def _ask_for_jobs(self) -> None:
        plain, calls = self.app.tasks["plain"], self.app.tasks["calls"]
        both = self.app.tasks["both"]
        for n in range(self._jobs):
            (plain, calls, both)[n % 3].enqueue(n)

    def _born(self) -> None:
        self._names += 1
        worker = Worker(self, f"w{self._names}")
        self.workers = [each for each in self.workers if not each.dead] + [worker]
        now = self.clock.monotonic()
        self.plan(now, BEAT, worker, None)
        self.plan(now + self.dice.uniform(0, 5), UPKEEP, worker, 0)
        worker.step(Woken(look=True))

    def _happens(self, kind: int, worker: Worker | None, what: Any) -> None:
        if worker is None:
            self._born()
            return
        if worker.dead:
            return
        if worker.stands_until > self.clock.monotonic():
            self.plan(worker.stands_until, kind, worker, what)
            return
        try:
            self._misfortune(worker)
            self._lives(kind, worker, what)
        except DiedError:
            self._dies(worker)

    def _lives(self, kind: int, worker: Worker, what: Any) -> None:
        now = self.clock.monotonic()
        if kind == WAKE:
            if what == worker.wake_no and not worker.core.turning:
                worker.step(Woken())
        elif kind == TURN:
            with self.struck():
                came_of_it = worker.turns.carried_out(what)
            worker.step(*came_of_it)
        elif kind == END:
            worker.ends(what)
            worker.step()
        elif kind == BEAT:
            self.plan(now + LEASE_SECONDS / BEATS_IN_A_LEASE, BEAT, worker, None)
            self._asks(worker.beats.appear, worker.beats.renew, worker.governor.restate)
            if worker.inbox:
                worker.step()
        else:
            self.plan(now + 5.0, UPKEEP, worker, what + 1)
            keep = worker.upkeep
            self._asks(keep.reclaim, keep.expire, *([keep.straighten] if what % 6 == 5 else []))

    def _asks(self, *signs: Any) -> None:
        """What the threads beside the clerk do; a store that is away is asked again later."""
        for sign in signs:
            try:
                with self.struck():
                    sign()
            except StoreError:
                continue

    # --- what must hold -----------------------------------------------------------------------

    def _look(self) -> None:
        strike, self._strike_at = self._strike_at, 0
        violations = self.store.verify().violations
        self._strike_at = strike
        for each in violations:
            raise BrokenPromiseError(f"verify: {each.rule}: {each.promise} (jobs {each.jobs})")

    def _all_ended(self) -> bool:
        counts = self.store.counts()
        return all(not count for state, count in counts.items() if state not in FINISHED)

    def _need_ends(self) -> None:
        states = self.store.counts()
        self.report.states = Counter({str(state): n for state, n in states.items() if n})
        left = {str(state): n for state, n in states.items() if n and state not in FINISHED}
        if left:
            raise BrokenPromiseError(f"all end: after {self.report.seconds:.0f} s there are {left}")
        if sum(states.values()) != self._jobs:
            raise BrokenPromiseError(f"all end: {sum(states.values())} jobs of {self._jobs}")
        for job_id, job in self.store.jobs(list(range(1, self._jobs + 1))).items():
            if str(job.state) == "succeeded" and not self.effects[job_id]:
                raise BrokenPromiseError(f"effects: job {job_id} succeeded, and nothing was done")


def run_seed(seed: int, *, jobs: int = JOBS) -> Report:
    """Run the whole system once; `BrokenPromiseError`, with the seed, where a promise is broken."""
    silent, LOGGER.disabled = LOGGER.disabled, True
    try:
        return System(seed, jobs=jobs).run()
    except BrokenPromiseError as broken:
        raise BrokenPromiseError(f"seed {seed}: {broken}") from None
    finally:
        LOGGER.disabled = silent


def main(given: Sequence[str] | None = None) -> int:
    """Run many seeds; the first that breaks a promise is named, and is the exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m seawall.simulate.system", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=JOBS, help="jobs in each")
    chosen = parser.parse_args(given)
    trouble: Counter[str] = Counter()
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        try:
            trouble += run_seed(seed, jobs=chosen.jobs).trouble
        except BrokenPromiseError as broken:
            again = f"python -m seawall.simulate.system --first {seed} --seeds 1"
            sys.stderr.write(f"{broken}\nagain: {again} --jobs {chosen.jobs}\n")
            return 1
    told = ", ".join(f"{count:,} × {name}" for name, count in sorted(trouble.items()))
    sys.stdout.write(f"{chosen.seeds:,} seeds, every promise held through {told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
