"""Which queues are compared, in which scenarios, and how much of each."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from harness import scenarios
from harness.rounds import Cell, Key, Row, Table, measured
from harness.scenarios import Bench

BACKENDS = ["postgres", "sqlite", "redis"]
KIB = 1_024


@dataclass(frozen=True)
class Peer:
    """A queue on a backend."""

    name: str
    backend: str

    @property
    def key(self) -> Key:
        return self.name, self.backend


OURS = "seawall"
RAW = {"raw_postgres", "raw_sqlite"}
"""Statements without a queue around them: nothing there retries, waits for news or is idle."""
PEERS = [
    Peer(OURS, "postgres"),
    Peer("raw_postgres", "postgres"),
    Peer("pgqueuer", "postgres"),
    Peer("procrastinate", "postgres"),
    Peer("chancy", "postgres"),
    Peer(OURS, "sqlite"),
    Peer("raw_sqlite", "sqlite"),
    Peer("huey", "sqlite"),
    Peer("persist_queue", "sqlite"),
    Peer("litequeue", "sqlite"),
    Peer("dramatiq", "redis"),
    Peer("taskiq", "redis"),
    Peer("saq", "redis"),
    Peer("celery", "redis"),
]
WITH_PAYLOADS = RAW | {OURS, "pgqueuer", "huey"}
FAILING_PART = 0.4
"""Of the jobs of a drain: each runs twice, and what a fault costs comes on top."""
HANDLERS = {
    "async": "noop",
    "async, at an upstream": "noop_watched",
    "sync": "noop_sync",
    "isolated": "noop_isolated",
}


@dataclass(frozen=True)
class Size:
    """How much of each: the full run, or a quick one."""

    rounds: int
    processes: list[int]
    drain_seconds: float
    ticks: int
    single: int
    bulk: int
    payloads: dict[int, int]
    """Jobs of each payload's size."""
    idle_seconds: float


FULL = Size(
    rounds=3,
    processes=[1, 2, 4],
    drain_seconds=3.0,
    ticks=300,
    single=1_000,
    bulk=20_000,
    payloads={10 * KIB: 5_000, 100 * KIB: 1_000},
    idle_seconds=10.0,
)
QUICK = Size(
    rounds=1,
    processes=[1, 2],
    drain_seconds=1.0,
    ticks=100,
    single=300,
    bulk=5_000,
    payloads={10 * KIB: 1_000, 100 * KIB: 200},
    idle_seconds=3.0,
)


@dataclass(frozen=True)
class Found:
    """A table that was measured."""

    scenario: str
    title: str
    table: Table
    columns: list[str]

    def base(self, key: Key, column: str) -> Cell:
        """What a row is compared with: the first of its backend, for Redis of PostgreSQL."""
        backend = "postgres" if key[1] == "redis" else key[1]
        first = next((each for each in self.table if each[1] == backend), key)
        return self.table[first][column]


class Suite:
    """The scenarios, by name."""

    def __init__(
        self,
        peers: list[tuple[Peer, Callable[[], str]]],
        size: Size,
    ) -> None:
        self.benches = {peer.key: Bench(peer.name, new_url) for peer, new_url in peers}
        self.size = size
        self._jobs: dict[tuple[Key, str], int] = {}

    def run(self, wanted: Iterable[str]) -> Iterator[Found]:
        for name in wanted:
            yield from getattr(self, name)()

    def drain(self) -> Iterator[Found]:
        for processes in self.size.processes:
            rows = {key: partial(self._drained, key, processes=processes) for key in self.benches}
            title = f"drain, {processes} process{'es' if processes > 1 else ''}"
            yield self._found("drain", title, rows, ["jobs/s"])

    def failing(self) -> Iterator[Found]:
        rows = {key: partial(self._failed, key) for key in self._queues}
        yield self._found("failing", "each job fails once", rows, ["jobs/s"])

    def handlers(self) -> Iterator[Found]:
        rows = {
            (kind, backend): partial(self._drained, (name, backend), task=task)
            for name, backend in self.benches
            if name == OURS
            for kind, task in HANDLERS.items()
        }
        yield self._found("handlers", "kinds of handlers", rows, ["jobs/s"])

    def payloads(self) -> Iterator[Found]:
        for size, jobs in self.size.payloads.items():
            rows = {
                key: partial(scenarios.drain, bench, jobs, size=size)
                for key, bench in self.benches.items()
                if key[0] in WITH_PAYLOADS
            }
            yield self._found("payloads", f"payloads of {size // KIB} KiB", rows, ["jobs/s"])

    def pickup(self) -> Iterator[Found]:
        ticks = self.size.ticks
        rows = {key: partial(scenarios.pickup, bench, ticks) for key, bench in self._queues.items()}
        yield self._found("pickup", "pick-up", rows, ["p50 ms", "p95 ms"])

    def enqueue(self) -> Iterator[Found]:
        rows = {
            key: partial(scenarios.enqueue, bench, self.size.single, self.size.bulk)
            for key, bench in self.benches.items()
        }
        yield self._found("enqueue", "enqueue", rows, ["one by one/s", "in bulk/s"])

    def idle(self) -> Iterator[Found]:
        """Once: processor time, unlike time on the clock, is hardly shared with the neighbours."""
        seconds = self.size.idle_seconds
        rows = {key: partial(scenarios.idle, bench, seconds) for key, bench in self._queues.items()}
        yield self._found("idle", "idle worker", rows, ["% of a core"], rounds=1)

    @property
    def _queues(self) -> dict[Key, Bench]:
        return {key: bench for key, bench in self.benches.items() if key[0] not in RAW}

    def _found(
        self,
        scenario: str,
        title: str,
        rows: dict[Key, Row],
        columns: list[str],
        rounds: int | None = None,
    ) -> Found:
        table = measured(title, rows, columns, rounds or self.size.rounds)
        return Found(scenario, title, table, columns)

    def _drained(self, key: Key, *, processes: int = 1, task: str = "noop") -> float:
        jobs = self._fitting(key, task)
        return scenarios.drain(self.benches[key], jobs, processes=processes, task=task)

    def _failed(self, key: Key) -> float:
        return scenarios.failing(self.benches[key], int(self._fitting(key, "noop") * FAILING_PART))

    def _fitting(self, key: Key, task: str) -> int:
        """As many jobs as keep one worker of this queue busy long enough."""
        if (key, task) not in self._jobs:
            seconds = self.size.drain_seconds
            self._jobs[key, task] = scenarios.fitting(self.benches[key], seconds, task)
        return self._jobs[key, task]


SCENARIOS = ["drain", "failing", "pickup", "enqueue", "handlers", "payloads", "idle"]
