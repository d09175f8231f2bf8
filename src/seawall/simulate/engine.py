"""One run in virtual time: events in their order, and between them nothing.

The workers' loop is told here anew, in a few lines: an end frees a slot and asks for a turn; a
turn tells what was seen, claims, and starts. All that is *decided* is decided by the code of
production: verdicts by the policy through `execute.verdict_on`, everything about the upstream by
one real `Governor` for each worker, over books that they share. So a breaker's quorum, a worker's
own copy, probes, ramps, limits, Retry-After and budgets are what they are out there.

Deterministic: the same scenario, choice and seed give the same record, to the last bit. Arrivals
and the upstream have dice of their own, so that every choice meets the same trouble.
"""

import os
import random
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, cast

from seawall.app import Seawall
from seawall.decisions.gate import Gate
from seawall.decisions.policy import Fail
from seawall.execute import verdict_on
from seawall.faults import Fault
from seawall.model import Token
from seawall.simulate.behaviour import SimulatedUpstream
from seawall.simulate.books import AGAIN, TASK, Books, VirtualClock
from seawall.simulate.scenario import UPSTREAM, Choice, Load, Scenario
from seawall.store import Claim, Wanted
from seawall.worker.deciding import Decision
from seawall.worker.governor import Governor
from seawall.worker.watch import Watch

if TYPE_CHECKING:
    from seawall.store import Store

_NEVER = float("inf")
_END, _DUE, _TURN = range(3)
_LEASE_SECONDS = 60.0
_NOTHING = Token(0, 0, 0)


@dataclass(slots=True)
class Record:
    """What one run came to."""

    jobs: int = 0
    calls: int = 0
    failed_calls: int = 0
    retries: int = 0
    """Calls of jobs that had been called for before."""
    succeeded: int = 0
    dead: int = 0
    """Jobs that became dead letters."""
    unfinished: int = 0
    seconds: float = 0.0
    """When the last job ended, or the simulation."""
    clear_at: float | None = None
    """When the last job ended that was there when the upstream was well for good."""
    busy_seconds: float = 0.0
    """Of all slots together."""
    times: "array[float]" = field(default_factory=lambda: array("d"))
    """From coming to success, of each job that succeeded."""
    calls_by_second: "array[int]" = field(default_factory=lambda: array("L"))
    failed_by_second: "array[int]" = field(default_factory=lambda: array("L"))
    states: list[tuple[int, int, int, int, int, bool]] = field(default_factory=list)
    """At the end of each second: due, later, running, succeeded, dead; and whether it is held."""


class _Job:
    """What is remembered of a job that has failed."""

    __slots__ = ("began", "delay", "earlier", "tries")

    def __init__(self, began: float) -> None:
        self.began = began
        self.delay: float | None = None
        self.earlier: list[Fault] = []
        self.tries = 0


class _Eye(Governor):
    """A governor that says nothing to the logs: what it does is seen in the record."""

    def _say(self, watch: Watch, before: Gate, decision: Decision) -> None:
        pass


class _Worker:
    """One simulated worker: its free slots, what it has in its hands, and its governor."""

    __slots__ = ("free", "governor", "mine", "name", "tokens", "turn_at")

    def __init__(self, name: str, concurrency: int) -> None:
        self.name = name
        self.free = concurrency
        self.mine = 0
        """Calls at the upstream that it has under way."""
        self.tokens: set[Token] = set()
        """Those of them that were claimed one upstream at a time."""
        self.turn_at = _NEVER
        self.governor: Governor | None = None

    def under_way(self, upstream: str) -> Mapping[str, int]:  # noqa: ARG002 - there is only one
        return {"": self.mine} if self.mine else {}

    def take(self, claims: Sequence[Claim], use_by: float) -> None:  # noqa: ARG002 - they begin at once
        self.mine += len(claims)
        self.tokens.update(claim.token for claim in claims)

    def has(self, token: Token) -> bool:
        return token in self.tokens


def run(scenario: Scenario, choice: Choice, seed: int) -> Record:
    """Simulate one choice once."""
    return _Run(scenario, choice, seed).record


class _Run:
    def __init__(self, scenario: Scenario, choice: Choice, seed: int) -> None:
        self._scenario = scenario
        self._choice = choice
        self._seed = seed
        self._clock = VirtualClock()
        self._books = Books(self._clock, scenario.workers.count)
        self._upstream = SimulatedUpstream(scenario, random.Random(f"upstream/{seed}"))
        self._rng = random.Random(f"decisions/{seed}")
        self._events: list[tuple[float, int, int, object, object]] = []
        self._order = 0
        self._came: array[float] = array("d")
        self._failing: dict[int, _Job] = {}
        self._later = 0
        self._running = 0
        self._budget = choice.upstream is not None and choice.upstream.retry_budget is not None
        self._left_at_well = 0
        """Jobs that came before the upstream was well for good, and have not ended."""
        self.record = Record()
        self._workers = self._fleet()
        self._next_worker = 0
        self._live()

    def _fleet(self) -> list[_Worker]:
        size = self._scenario.workers
        workers = [_Worker(f"w{number}", size.concurrency) for number in range(size.count)]
        if self._choice.upstream is None:
            return workers
        app = Seawall(
            "sqlite://",
            config=os.devnull,
            clock=self._clock,
            rng=self._rng,
            poll_seconds=max(0.01, size.poll_seconds),
        )
        app.upstream(self._choice.upstream)
        for worker in workers:
            governor = _Eye(
                app,
                cast("Store", self._books),  # as much of one as a governor asks for
                Wanted(worker.name, None, (TASK,), 1, _LEASE_SECONDS),
                slots=size.concurrency,
                hands=worker,
                poke=lambda: None,
            )
            governor.watches.active = True
            worker.governor = governor
        return workers

    # --- time ---------------------------------------------------------------------------------

    def _push(self, at: float, kind: int, who: object, what: object) -> None:
        self._order += 1
        heappush(self._events, (at, self._order, kind, who, what))

    def _live(self) -> None:
        """Let everything happen, in its order."""
        scenario, record, events, clock = self._scenario, self.record, self._events, self._clock
        arrivals = _arrivals(scenario.load, random.Random(f"arrivals/{self._seed}"))
        for _ in range(scenario.load.jobs):
            self._come(0.0)
        coming = next(arrivals, _NEVER)
        sampled = 1.0
        while events or coming < _NEVER:
            now = min(coming, events[0][0]) if events else coming
            if now > scenario.seconds:
                break
            while sampled <= now:
                self._sample()
                sampled += 1.0
            clock.at = now
            if coming <= now:
                self._come(now)
                coming = next(arrivals, _NEVER)
                continue
            _, _, kind, who, what = heappop(events)
            if kind == _END:
                self._end(now, cast("_Worker", who), cast("_Call", what))
            elif kind == _TURN:
                worker = cast("_Worker", who)
                if worker.turn_at == now:  # not put forward since
                    self._turn(now, worker)
            else:
                self._due(now, cast("int", what))
        ended = record.succeeded + record.dead
        record.jobs = len(self._came)
        record.unfinished = record.jobs - ended
        if record.unfinished:
            record.seconds = scenario.seconds
        self._sample()
        self._fill(len(record.states))

    def _sample(self) -> None:
        record, books = self.record, self._books
        due = len(books.first) + len(books.again)
        record.states.append(
            (due, self._later, self._running, record.succeeded, record.dead, self._is_held())
        )

    def _fill(self, seconds: int) -> None:
        for series in (self.record.calls_by_second, self.record.failed_by_second):
            series.extend([0] * (seconds - len(series)))

    def _is_held(self) -> bool:
        until = self._books.held_until
        return until is not None and until > self._clock.at

    # --- jobs ---------------------------------------------------------------------------------

    def _come(self, now: float) -> None:
        job = len(self._came)
        self._came.append(now)
        if now <= self._scenario.well_from:
            self._left_at_well += 1
        self._books.first.append(job)
        self._wake(now)

    def _due(self, now: float, job: int) -> None:
        self._later -= 1
        (self._books.again if self._budget else self._books.first).append(job)
        self._wake(now)

    def _wake(self, now: float) -> None:
        """Somebody with a free slot takes a turn, unless nothing could be claimed in it."""
        if self._is_held():
            return
        workers, at = self._workers, now + self._scenario.workers.turn_seconds
        for _ in range(len(workers)):
            worker = workers[self._next_worker]
            self._next_worker = (self._next_worker + 1) % len(workers)
            if worker.free > 0 and worker.turn_at > at:
                self._ask_for_turn(worker, at)
                return

    def _ask_for_turn(self, worker: _Worker, at: float) -> None:
        if at < worker.turn_at:
            worker.turn_at = at
            self._push(at, _TURN, worker, None)

    def _end(self, now: float, worker: _Worker, call: "_Call") -> None:
        job, fault, took, token, retry = call
        record = self.record
        worker.free += 1
        self._running -= 1
        governor, charged = worker.governor, True
        if governor is not None:
            worker.mine -= 1
            if token.job_id:
                worker.tokens.discard(token)
            charged = governor.seeing.call_ended(
                UPSTREAM, fault, took, token=token, retry=retry, says_nothing=False
            )
        record.busy_seconds += took
        if fault is None:
            record.succeeded += 1
            record.times.append(now - self._came[job])
            self._failing.pop(job, None)
            self._ended(now, job)
        else:
            self._failed(now, job, fault, took, charged=charged)
        self._ask_for_turn(worker, now + self._scenario.workers.turn_seconds)

    def _failed(self, now: float, job: int, fault: Fault, took: float, *, charged: bool) -> None:
        record = self.record
        record.failed_calls += 1
        _count(record.failed_by_second, now)
        known = self._failing.get(job)
        if known is None:
            known = self._failing[job] = _Job(now - took)
        counted = charged and bool(known.earlier)
        verdict = verdict_on(
            self._choice.policy,
            fault,
            tries=known.tries,
            charged=charged,
            earlier=known.earlier if counted else (),
            previous_delay_seconds=known.delay if counted else None,
            elapsed_seconds=now - known.began if counted else took,
            rng=self._rng,
        )
        if isinstance(verdict, Fail):
            record.dead += 1
            del self._failing[job]
            self._ended(now, job)
            return
        known.tries += verdict.counts
        known.earlier.append(fault)
        known.delay = verdict.delay_seconds
        self._later += 1
        self._push(now + verdict.delay_seconds, _DUE, None, job)

    def _ended(self, now: float, job: int) -> None:
        self.record.seconds = now
        if self._came[job] <= self._scenario.well_from:
            self._left_at_well -= 1
            if not self._left_at_well:
                self.record.clear_at = now

    # --- turns --------------------------------------------------------------------------------

    def _turn(self, now: float, worker: _Worker) -> None:
        """Tell what was seen, claim, and begin."""
        worker.turn_at = _NEVER
        books, governor = self._books, worker.governor
        if governor is None:
            for _ in range(min(worker.free, len(books.first))):
                self._start(now, worker, books.first.popleft(), _NOTHING)
            return
        books.observe(governor.seeing.observations())
        free, again_at = worker.free, None
        claims: list[Claim] = []
        if governor.starved and free:
            attended = governor.attend(free)
            claims, again_at = attended.claims, attended.again_at
            free -= len(claims)
        plain = self._plain(governor, free)
        if claims:
            governor.starved = False
        else:
            worker.mine += len(plain)
            attended = governor.attend(max(0, free - len(plain)), looking=free > 0)
            worker.mine -= len(plain)
            claims, again_at = attended.claims, attended.again_at
        if plain and UPSTREAM in governor.watches.shut()[0]:
            books.first.extendleft(reversed(plain))
            plain = []
        for claim in claims:
            worker.mine -= 1  # it was counted when it was taken
            self._start(now, worker, claim.token.job_id - 1, claim.token, retry=claim.lane is AGAIN)
        for job in plain:
            self._start(now, worker, job, _NOTHING, retry=job in self._failing)
        self._look_again(now, worker, again_at)

    def _plain(self, governor: Governor, free: int) -> list[int]:
        """What is claimed without asking anybody: of an upstream that nobody watches."""
        first = self._books.first
        if free <= 0 or not first or self._books.gated or not governor.lets_begin(UPSTREAM):
            return []
        return [first.popleft() for _ in range(min(free, len(first)))]

    def _look_again(self, now: float, worker: _Worker, again_at: float | None) -> None:
        """With a free slot, and jobs that could not be taken: later."""
        if worker.free > 0 and (self._books.first or self._books.again):
            size = self._scenario.workers
            at = now + size.poll_seconds
            if again_at is not None:
                at = min(at, max(again_at, now + size.turn_seconds))
            self._ask_for_turn(worker, at)

    def _start(
        self, now: float, worker: _Worker, job: int, token: Token, *, retry: bool = False
    ) -> None:
        record = self.record
        took, fault = self._upstream.call(now)
        worker.free -= 1
        worker.mine += 1
        self._running += 1
        record.calls += 1
        if job in self._failing:
            record.retries += 1
        _count(record.calls_by_second, now)
        self._push(now + took, _END, worker, (job, fault, took, token, retry))


_Call = tuple[int, Fault | None, float, Token, bool]
"""A job's call: how it will end, after how long, by which claim, and whether it is a retry."""


def _count(series: "array[int]", now: float) -> None:
    second = int(now)
    if second >= len(series):
        series.extend([0] * (second + 1 - len(series)))
    series[second] += 1


def _arrivals(load: Load, rng: random.Random) -> Iterator[float]:
    """When jobs come, one after the other."""
    if not load.per_second:
        return
    at, gap = 0.0, 1 / load.per_second
    while True:
        at += gap if load.arrivals == "even" else rng.expovariate(load.per_second)
        if at > load.for_seconds:
            return
        yield at
