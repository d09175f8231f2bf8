"""What handlers left outside the store, held against the rows that are really there.

Read by somebody who knows none of the project's code.
"""

import json
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import apsw
import psycopg

_ROWS = """
SELECT j.id, l.task, j.state, j.tries, j.losses, j.seq, j.last_fault
    FROM {0}job AS j JOIN {0}lane AS l ON l.id = j.lane ORDER BY j.id;
SELECT job, seq, lease_no, worker, outcome, counted, fault FROM {0}attempt ORDER BY job, seq
"""


class Job(NamedTuple):
    id: int
    task: str
    state: str
    tries: int
    losses: int
    seq: int
    last_fault: Any


class Attempt(NamedTuple):
    job: int
    seq: int
    lease_no: int
    worker: str
    outcome: str
    counted: bool
    fault: Any

    @property
    def pid(self) -> int:
        """A worker's name is host, process and a number of its own."""
        return int(self.worker.rsplit("-", 2)[1])


class Left(NamedTuple):
    """A handler's line: which attempt at which job, in which process of which worker."""

    job: int
    seq: int
    pid: int


class Books:
    """Every job, every attempt, every effect."""

    def __init__(self, url: str, left: list[Left]) -> None:
        queries = _ROWS.format("seawall_" if url.startswith("sqlite") else "seawall.").split(";")
        jobs, attempts = _sqlite(url, queries) if url.startswith("sqlite") else _pg(url, queries)
        self.jobs = {row[0]: Job(*row) for row in jobs}
        self.attempts = [Attempt(*row) for row in attempts]
        self.left = left
        self.history: dict[int, list[Attempt]] = defaultdict(list)
        for attempt in self.attempts:
            self.history[attempt.job].append(attempt)

    def nothing_is_lost(self, created: set[int]) -> None:
        assert set(self.jobs) == created
        unfinished = {j.id: j.state for j in self.jobs.values() if j.state in ("queued", "running")}
        assert unfinished == {}

    def each_job_ended_once_and_by_its_policy(self, tries_of: dict[str, tuple[str, int]]) -> None:
        """`tries_of` has, for each task, how its jobs end and after how many tries."""
        for job in self.jobs.values():
            outcomes = Counter(each.outcome for each in self.history[job.id])
            state, tries = tries_of[job.task]
            begun = [line.seq for line in self.left if line.job == job.id] if job.losses else []
            shown = f"{job}, begun in {begun}: {self.history[job.id]}"
            assert (job.state, job.tries) == (state, tries), shown
            assert outcomes["succeeded"] + outcomes["failed"] == 1, shown
            assert self.history[job.id][-1].outcome == state, shown
            assert outcomes["retried"] == tries - 1, shown
            assert job.tries == sum(each.counted for each in self.history[job.id]), shown
            assert job.losses == outcomes["lost"], shown
            assert [each.seq for each in self.history[job.id]] == list(range(1, job.seq + 1))

    def each_attempt_ran_once_at_most_and_each_that_ended_did(self) -> None:
        ran = Counter((line.job, line.seq) for line in self.left)
        twice = [attempt for attempt, times in ran.items() if times > 1]
        assert twice == [], "the same attempt ran twice"
        known = {(each.job, each.seq): each for each in self.attempts}
        assert ran.keys() <= known.keys(), "a handler ran, and history has no attempt"
        for attempt in self.attempts:
            if attempt.outcome not in ("lost", "released"):
                assert ran[attempt.job, attempt.seq] == 1, f"ended, but never ran: {attempt}"

    def effects_are_of_the_worker_that_history_names(self) -> None:
        pids = {(line.job, line.seq): line.pid for line in self.left}
        for attempt in self.attempts:
            if (attempt.job, attempt.seq) in pids:
                assert pids[attempt.job, attempt.seq] == attempt.pid, attempt

    def only_the_killed_lost_anything(self, killed: set[str]) -> int:
        """How many attempts they lost."""
        lost = [each for each in self.attempts if each.outcome == "lost"]
        assert {each.worker for each in lost} <= killed
        assert {_code(each.fault) for each in lost} <= {"WORKER_LOST"}
        return len(lost)

    def lost_without_having_begun(self) -> Counter[int]:
        """How often each job was lost by a worker that had not begun it."""
        ran = {(line.job, line.seq) for line in self.left}
        return Counter(
            each.job
            for each in self.attempts
            if each.outcome == "lost" and (each.job, each.seq) not in ran
        )


def _code(fault: Any) -> str:
    return str((json.loads(fault) if isinstance(fault, str) else fault)["code"])


def _sqlite(url: str, queries: list[str]) -> list[list[Any]]:
    path = url.removeprefix("sqlite:///")
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return [connection.execute(query).fetchall() for query in queries]
    finally:
        connection.close()


def _pg(url: str, queries: list[str]) -> list[list[Any]]:
    with psycopg.connect(url) as connection:
        return [connection.execute(query).fetchall() for query in queries]
