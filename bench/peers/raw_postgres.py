"""The ceiling on PostgreSQL: one statement settles a batch, writes its history and claims the next.

The same facts are kept as in a real queue (leases with numbers, tries, attempts), with nothing
around them: no library, no handlers that could fail, no heartbeats.
"""

import json
import os
import signal
import threading
import time

import psycopg
from peers import adapter, meter

BATCH = 200
LOOK_SECONDS = 0.01

SCHEMA = """
CREATE TABLE job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task text NOT NULL,
    payload text NOT NULL,
    state text NOT NULL DEFAULT 'queued',
    run_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    tries integer NOT NULL DEFAULT 0,
    lease_no integer NOT NULL DEFAULT 0,
    worker text,
    leased_at timestamptz,
    lease_until timestamptz,
    finished_at timestamptz
) WITH (fillfactor = 70, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX job_due ON job (task, run_at, id) WHERE state = 'queued';
CREATE INDEX job_lapse ON job (lease_until) WHERE state = 'running';
CREATE TABLE attempt (
    job bigint NOT NULL,
    seq integer NOT NULL,
    lease_no integer NOT NULL,
    worker text NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    outcome text NOT NULL,
    PRIMARY KEY (job, seq)
);
"""
TURN = """
WITH settled AS (
    UPDATE job SET state = 'succeeded', tries = tries + 1, finished_at = now(),
        worker = NULL, leased_at = NULL, lease_until = NULL
    FROM unnest(%(ids)b::bigint[], %(leases)b::int[]) AS done (id, lease_no)
    WHERE job.id = done.id AND job.lease_no = done.lease_no AND job.state = 'running'
    RETURNING job.id, job.tries, job.lease_no, old.leased_at
), history AS (
    INSERT INTO attempt (job, seq, lease_no, worker, started_at, finished_at, outcome)
    SELECT id, tries, lease_no, %(worker)b, leased_at, now(), 'succeeded' FROM settled
)
UPDATE job SET state = 'running', lease_no = lease_no + 1, worker = %(worker)b,
    leased_at = now(), lease_until = now() + interval '60 s'
WHERE id = ANY (ARRAY (
    SELECT id FROM job
    WHERE state = 'queued' AND task = %(task)b AND run_at <= now()
    ORDER BY run_at, id LIMIT %(limit)b::int FOR UPDATE SKIP LOCKED
))
RETURNING id, lease_no, payload
"""
INSERT = "INSERT INTO job (task, payload) VALUES (%s, %s) RETURNING id"


def connected(url: str) -> psycopg.Connection:
    """Plans that read no table whole, whatever the statistics say: seawall's sessions are alike."""
    return psycopg.connect(
        url, autocommit=True, prepare_threshold=0, options="-c enable_seqscan=off -c jit=off"
    )


def prepare(url: str) -> None:
    with connected(url) as connection:
        connection.execute(SCHEMA, prepare=False)


def fill(url: str, jobs: int, task: str, bytes: int) -> dict[str, float]:  # noqa: A002 - the protocol's word
    given = adapter.payloads(jobs, bytes)
    with connected(url) as connection:
        began = time.perf_counter()
        with connection.cursor().copy("COPY job (task, payload) FROM STDIN") as copy:
            for each in given:
                copy.write_row((task, json.dumps(each)))
        return {"seconds": time.perf_counter() - began}


def single(url: str, jobs: int, task: str, bytes: int) -> dict[str, float]:  # noqa: A002
    given = adapter.payloads(jobs, bytes)
    with connected(url) as connection:
        began = time.perf_counter()
        for each in given:
            connection.execute(INSERT, (task, json.dumps(each))).fetchone()
        return {"seconds": time.perf_counter() - began}


def work(url: str, task: str, **_: object) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    turn = {"worker": f"raw-{os.getpid()}", "task": task, "limit": BATCH, "ids": [], "leases": []}
    with connected(url) as connection:
        cursor = connection.cursor(binary=True)
        while not stop.is_set():
            found = cursor.execute(TURN, turn).fetchall()
            for _, _, payload in found:
                meter.mark(json.loads(payload))
            turn |= {"ids": [row[0] for row in found], "leases": [row[1] for row in found]}
            if not found:
                stop.wait(LOOK_SECONDS)


if __name__ == "__main__":
    adapter.main(prepare=prepare, fill=fill, single=single, work=work)
