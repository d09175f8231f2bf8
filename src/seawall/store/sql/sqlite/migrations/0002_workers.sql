-- What tasks, workers and those who watch them need: tags, evidence, progress, who is alive, whose
-- turn a chore is, and schedules; and attempts that ended because the handler asked for later.

-- Words to find a job by; only jobs that have some write here.
CREATE TABLE seawall_job_tag (
    tag TEXT NOT NULL,
    job INTEGER NOT NULL,
    PRIMARY KEY (tag, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX seawall_job_tag_job ON seawall_job_tag (job);

-- What an attempt left for operators; most leave nothing.
CREATE TABLE seawall_evidence (
    job INTEGER NOT NULL,
    seq INTEGER NOT NULL CHECK (seq >= 1),
    traceback TEXT,
    raw_output TEXT,
    PRIMARY KEY (job, seq),
    CONSTRAINT something_was_left CHECK (coalesce(traceback, raw_output) IS NOT NULL)
) STRICT;

-- How far a job said it had come, last.
CREATE TABLE seawall_progress (
    job INTEGER PRIMARY KEY,
    lease_no INTEGER NOT NULL CHECK (lease_no >= 1),
    seq INTEGER NOT NULL CHECK (seq >= 1),
    done REAL NOT NULL CHECK (done >= 0),
    total REAL CHECK (total >= 0),
    message TEXT NOT NULL,
    reported_at INTEGER NOT NULL
) STRICT;

CREATE TABLE seawall_worker (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    queues TEXT,  -- JSON; NULL: every queue
    tasks TEXT NOT NULL,  -- JSON
    concurrency INTEGER NOT NULL CHECK (concurrency >= 0),
    running INTEGER NOT NULL CHECK (running >= 0),
    stopping INTEGER NOT NULL CHECK (stopping IN (0, 1)),
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- When each chore of the fleet is due again.
CREATE TABLE seawall_turn (
    chore TEXT PRIMARY KEY,
    worker TEXT NOT NULL,
    next_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- By specification, too: while an old and a new release run side by side, each keeps its own time.
CREATE TABLE seawall_schedule (
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    next_at INTEGER NOT NULL,
    last_at INTEGER,
    last_job INTEGER,  -- which may have been pruned since
    PRIMARY KEY (name, spec)
) STRICT, WITHOUT ROWID;

-- What a worker walks for the jobs that it is to stop.
CREATE INDEX seawall_job_stopping ON seawall_job (worker) WHERE cancel_requested;
-- What a list of an owner's jobs walks.
CREATE INDEX seawall_job_owner ON seawall_job (owner, id) WHERE owner IS NOT NULL;

-- Whether a lease was taken for a job that was to wait in its worker's hands; and how many of the
-- job's losses were such ones, which are not held against it.
ALTER TABLE seawall_job ADD COLUMN prefetched INTEGER NOT NULL DEFAULT 0
    CHECK (prefetched IN (0, 1));
ALTER TABLE seawall_job ADD COLUMN spared INTEGER NOT NULL DEFAULT 0
    CONSTRAINT spared_are_losses CHECK (spared BETWEEN 0 AND losses);

-- An attempt may be snoozed, too. SQLite cannot change a constraint, so history moves into a new
-- table of the same name; the trigger goes with the old one.
ALTER TABLE seawall_attempt RENAME TO seawall_attempt_before;
CREATE TABLE seawall_attempt (
    job INTEGER NOT NULL,
    seq INTEGER NOT NULL CHECK (seq >= 1),
    lease_no INTEGER NOT NULL CHECK (lease_no >= 1),
    cycle INTEGER NOT NULL,
    stage INTEGER NOT NULL,
    worker TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('succeeded', 'advanced', 'skipped', 'retried',
        'snoozed', 'failed', 'cancelled', 'released', 'lost')),
    counted INTEGER NOT NULL CHECK (counted IN (0, 1)),
    fault TEXT,
    delay INTEGER CHECK (delay >= 0),
    policy TEXT,
    PRIMARY KEY (job, seq),
    CONSTRAINT ended_after_it_began CHECK (started_at <= finished_at),
    CONSTRAINT a_fault_where_something_went_wrong CHECK (
        (outcome IN ('retried', 'failed', 'lost')) = (fault IS NOT NULL)
    ),
    CONSTRAINT a_delay_where_it_will_be_tried_again CHECK (
        delay IS NULL OR outcome IN ('retried', 'snoozed', 'lost')
    )
) STRICT, WITHOUT ROWID;
INSERT INTO seawall_attempt (job, seq, lease_no, cycle, stage, worker, started_at, finished_at,
    outcome, counted, fault, delay, policy)
SELECT job, seq, lease_no, cycle, stage, worker, started_at, finished_at,
    outcome, counted, fault, delay, policy
FROM seawall_attempt_before ORDER BY job, seq;
DROP TABLE seawall_attempt_before;
CREATE TRIGGER seawall_attempts_are_never_changed BEFORE UPDATE ON seawall_attempt
BEGIN
    SELECT RAISE(ABORT, 'attempts are never changed');
END;
