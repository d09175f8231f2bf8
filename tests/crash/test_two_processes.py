"""Two real processes per store claim, settle and are killed at random moments, again and again.

Nothing is claimed twice at once, nothing is lost, and history says what the workers were told. What
proves it is an audit of the workers' own logs beside the raw rows; see `audit`.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Self

from seawall.model import Lane, NewJob
from seawall.states import State
from seawall.store import Store, open_store
from seawall.store.values import Taken
from tests.crash.audit import Audit, Database, read_logs

SECONDS = float(os.environ.get("SEAWALL_CRASH_SECONDS", "60" if "CI" in os.environ else "8"))
PATIENCE_SECONDS = 120
MOST_WAITING = 150
AIM_SECONDS = 0.2
ROOT = Path(__file__).parents[2]
LANES = (
    Lane("fetch"),
    Lane("fetch", priority=5),
    Lane("store", queue="bulk", upstream="shop"),
    Lane("store", owner="ann"),
)


class Worker:
    """A process that waits to be told to begin."""

    def __init__(self, url: str, folder: Path, name: str, how: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.worker", url, self.log, name, how],
            stdin=subprocess.PIPE,
            cwd=ROOT,
        )

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"begin\n")
        self.process.stdin.flush()

    @property
    def is_up(self) -> bool:
        assert self.process.poll() is None, f"{self.name} ended by itself"
        return self.log.exists() and self.log.stat().st_size > 0

    @property
    def is_asking(self) -> bool:
        """Whether the last that it wrote is an ask, so that its answer is under way."""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - 10_000))
            return log.read().rstrip(b"\n").rpartition(b"\n")[2].startswith(b'{"ask"')

    def kill(self) -> None:
        assert self.process.stdin is not None
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


class Crew:
    """Two workers at work and one that stands by, so that a dead one is replaced at once."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self.everyone: list[Worker] = []
        self.at_work: list[Worker] = []
        self.killed: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.everyone:
            worker.kill()

    def new(self, how: str = "work") -> Worker:
        worker = Worker(self._url, self._folder, f"w{len(self.everyone)}", how)
        self.everyone.append(worker)
        return worker

    def begin(self) -> None:
        self._standby = self.new()
        for _ in range(2):
            self._replace()

    def _replace(self) -> None:
        self._standby.begin()
        self.at_work.append(self._standby)
        self._standby = self.new()

    def kill(self, rng: random.Random) -> None:
        """Kill one of those that have begun, if any has; another takes its place.

        Most of its time a worker waits or works. Every other kill is aimed at an ask instead.
        """
        up = [worker for worker in self.at_work if worker.is_up]
        if up:
            victim = rng.choice(up)
            aim = time.monotonic() + (AIM_SECONDS if rng.random() < 0.5 else 0)
            while time.monotonic() < aim and not victim.is_asking:
                pass
            victim.kill()
            self.killed.add(victim.name)
            self.at_work.remove(victim)
            self._replace()

    def drain(self) -> None:
        """Kill whoever is at work; one that nobody kills then ends every job there is."""
        for worker in self.at_work:
            worker.kill()
            self.killed.add(worker.name)
        last = self.new("drain")
        last.begin()
        assert last.process.wait(timeout=PATIENCE_SECONDS) == 0

    def logs(self) -> list[Path]:
        return [worker.log for worker in self.everyone if worker.log.exists()]


class Caller:
    """Asks for jobs, some by a key that it gives again and again, and remembers the answers."""

    def __init__(self, store: Store, rng: random.Random) -> None:
        self._store = store
        self._rng = rng
        self._asked = 0
        self.created: set[int] = set()
        self.keys: dict[tuple[str, str], int] = {}

    def ask(self) -> None:
        if self._store.counts()[State.QUEUED] > MOST_WAITING:
            return
        jobs = [self._new_job() for _ in range(self._rng.randint(1, 12))]
        for job, answer in zip(jobs, self._store.enqueue(jobs), strict=True):
            assert answer.job_id is not None
            if answer.taken is Taken.CREATED:
                assert answer.job_id not in self.created
                self.created.add(answer.job_id)
            else:
                assert job.key is not None
            if job.key is not None:
                name = (job.lane.task, job.key)
                assert self.keys.setdefault(name, answer.job_id) == answer.job_id

    def _new_job(self) -> NewJob:
        self._asked += 1
        lane = self._rng.choice(LANES)
        key = None
        if self._rng.random() < 0.3:
            key = f"{lane.task}-{self._rng.randint(0, self._asked // 4)}"
        soon = self._store.now() + timedelta(seconds=self._rng.uniform(0, 0.5))
        return NewJob(
            lane=lane,
            arguments=json.dumps({"key": key}),
            key=key,
            run_after=soon if self._rng.random() < 0.1 else None,
            deadline_at=soon if self._rng.random() < 0.05 else None,
        )


def test_workers_that_are_killed_at_any_moment_lose_nothing_and_share_nothing(url, tmp_path):
    rng = random.Random()
    with open_store(url) as store, Crew(url, tmp_path) as crew:
        caller = Caller(store, rng)
        crew.begin()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            next_kill = time.monotonic() + rng.uniform(0.1, 0.7)
            while time.monotonic() < next_kill:
                caller.ask()
                time.sleep(0.02)
            crew.kill(rng)
        crew.drain()
        assert store.verify().violations == ()
        tried: Counter[str] = Counter()
        for each in store.totals():
            if each.kind == "attempt":
                tried[each.what] += each.many

    audit = Audit(Database(url), read_logs(crew.logs(), crew.killed))
    audit.nothing_is_lost(caller.created, set(caller.keys))
    audit.nothing_is_held_twice()
    audit.leases_were_left_to_their_end()
    audit.no_more_is_unheard_than_was_asked()
    audit.leases_grow()
    audit.history_is_what_was_answered()
    audit.every_attempt_was_counted(tried)
    assert len(crew.killed) >= SECONDS / 3, "hardly anybody was killed"
    assert audit.lost_by(crew.killed) >= len(crew.killed) / 2, "the dead held hardly any lease"
