"""The ceiling on SQLite: one transaction settles a batch, writes its history and claims the next.

The same facts are kept as in a real queue (leases with numbers, tries, attempts), with nothing
around them: no library, no handlers that could fail, no heartbeats. Every commit is synced. What a
job is given stands in a table of its own, because an update writes its whole row anew.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator

import apsw
from peers import adapter, meter

BATCH = 200
LOOK_SECONDS = 0.01
BUSY_MS = 10_000

SCHEMA = """
CREATE TABLE job (
    id INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued',
    run_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    lease_no INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    leased_at INTEGER,
    lease_until INTEGER,
    finished_at INTEGER
);
CREATE INDEX job_due ON job (task, run_at, id) WHERE state = 'queued';
CREATE INDEX job_lapse ON job (lease_until) WHERE state = 'running';
CREATE TABLE data (job INTEGER PRIMARY KEY, payload TEXT NOT NULL);
CREATE TABLE attempt (
    job INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    lease_no INTEGER NOT NULL,
    worker TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    PRIMARY KEY (job, seq)
) WITHOUT ROWID;
"""
PRAGMAS = """
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 4000;
PRAGMA cache_size = -65536;
"""
HISTORY = """
INSERT INTO attempt (job, seq, lease_no, worker, started_at, finished_at, outcome)
SELECT id, tries + 1, lease_no, worker, leased_at, :now, 'succeeded' FROM job
WHERE id = :id AND lease_no = :lease_no AND state = 'running'
"""
SETTLE = """
UPDATE job SET state = 'succeeded', tries = tries + 1, finished_at = :now,
    worker = NULL, leased_at = NULL, lease_until = NULL
WHERE id = :id AND lease_no = :lease_no AND state = 'running'
"""
CLAIM = """
UPDATE job SET state = 'running', lease_no = lease_no + 1, worker = :worker,
    leased_at = :now, lease_until = :now + 60000000
WHERE id IN (
    SELECT id FROM job WHERE state = 'queued' AND task = :task AND run_at <= :now
    ORDER BY run_at, id LIMIT :limit
)
RETURNING id, lease_no, (SELECT payload FROM data WHERE data.job = job.id)
"""
INSERT = """
INSERT INTO job (task, run_at, created_at) VALUES (:task, :now, :now);
INSERT INTO data (job, payload) VALUES (last_insert_rowid(), :payload);
"""


def connected(url: str) -> apsw.Connection:
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.set_busy_timeout(BUSY_MS)
    connection.execute(PRAGMAS).fetchall()
    return connection


def now() -> int:
    return time.time_ns() // 1_000


def prepare(url: str) -> None:
    connection = connected(url)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute(SCHEMA)


def rows(task: str, given: list[dict]) -> Iterator[dict]:
    return ({"task": task, "payload": json.dumps(each), "now": now()} for each in given)


def fill(url: str, jobs: int, task: str, bytes: int) -> dict[str, float]:  # noqa: A002 - the protocol's word
    connection, given = connected(url), adapter.payloads(jobs, bytes)
    began = time.perf_counter()
    with connection:
        connection.executemany(INSERT, rows(task, given))
    return {"seconds": time.perf_counter() - began}


def single(url: str, jobs: int, task: str, bytes: int) -> dict[str, float]:  # noqa: A002
    connection, given = connected(url), adapter.payloads(jobs, bytes)
    began = time.perf_counter()
    for row in rows(task, given):
        with connection:
            connection.execute(INSERT, row)
    return {"seconds": time.perf_counter() - began}


def turn(connection: apsw.Connection, wanted: dict, done: list[tuple]) -> list[tuple]:
    at = now()
    connection.execute("BEGIN IMMEDIATE")
    settled = [{"id": row[0], "lease_no": row[1], "now": at} for row in done]
    connection.executemany(HISTORY, settled)
    connection.executemany(SETTLE, settled)
    found = connection.execute(CLAIM, {**wanted, "now": at}).fetchall()
    connection.execute("COMMIT")
    return found


def work(url: str, task: str, **_: object) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    connection, found = connected(url), []
    wanted = {"worker": f"raw-{os.getpid()}", "task": task, "limit": BATCH}
    while not stop.is_set():
        found = turn(connection, wanted, found)
        for _, _, payload in found:
            meter.mark(json.loads(payload))
        if not found:
            stop.wait(LOOK_SECONDS)


if __name__ == "__main__":
    adapter.main(prepare=prepare, fill=fill, single=single, work=work)
