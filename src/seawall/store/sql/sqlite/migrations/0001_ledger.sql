-- The ledger: lanes, jobs, what hangs on a job, and the two sides of its books.
--
-- A constraint stands here where one row alone can break it; what several rows can break is
-- proven by `verify`. As on PostgreSQL there are no foreign keys on the hot tables. Times and
-- durations are whole microseconds; STRICT keeps everything else out of them.

CREATE TABLE seawall_lane (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    stage INTEGER NOT NULL CHECK (stage >= 0),
    upstream TEXT NOT NULL,
    priority INTEGER NOT NULL,
    owner TEXT NOT NULL,
    UNIQUE (queue, task, stage, upstream, priority, owner)
) STRICT;

CREATE TABLE seawall_hold (
    scope TEXT NOT NULL CHECK (scope IN ('queue', 'task', 'upstream')),
    name TEXT NOT NULL,
    held_at INTEGER NOT NULL,
    held_until INTEGER,  -- NULL: until a person resumes it
    reason TEXT NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE seawall_job (
    -- AUTOINCREMENT: a plain rowid would be given again after a prune.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    lane INTEGER NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('queued', 'running', 'succeeded', 'skipped', 'failed', 'cancelled')),
    due_at INTEGER NOT NULL,
    due_set_at INTEGER,
    stage INTEGER NOT NULL CHECK (stage >= 0),
    cycle INTEGER NOT NULL DEFAULT 0 CHECK (cycle >= 0),
    tries INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
    losses INTEGER NOT NULL DEFAULT 0 CHECK (losses >= 0),
    seq INTEGER NOT NULL DEFAULT 0,
    lease_no INTEGER NOT NULL DEFAULT 0 CHECK (lease_no >= 0),
    worker TEXT,
    claimed_at INTEGER,
    leased_at INTEGER,
    lease_until INTEGER,
    cancel_requested INTEGER NOT NULL DEFAULT 0 CHECK (cancel_requested IN (0, 1)),
    deadline_at INTEGER,
    run INTEGER,
    owner TEXT,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    last_attempt_at INTEGER,
    finished_at INTEGER,
    last_fault TEXT,
    CONSTRAINT leased_exactly_while_running CHECK (
        CASE WHEN state = 'running'
        THEN lease_no > 0 AND worker IS NOT NULL AND claimed_at IS NOT NULL
            AND leased_at IS NOT NULL AND lease_until IS NOT NULL
        ELSE coalesce(worker, claimed_at, leased_at, lease_until) IS NULL END
    ),
    CONSTRAINT a_lease_ends_after_it_began CHECK (lease_until > leased_at),
    CONSTRAINT finished_at_exactly_at_the_end CHECK (
        (state IN ('queued', 'running')) = (finished_at IS NULL)
    ),
    CONSTRAINT failed_with_a_fault CHECK (state <> 'failed' OR last_fault IS NOT NULL),
    CONSTRAINT cancel_is_asked_of_running_jobs CHECK (NOT cancel_requested OR state = 'running'),
    CONSTRAINT counts_add_up CHECK (tries <= seq AND losses <= seq),
    CONSTRAINT attempts_have_times CHECK ((seq > 0) = (started_at IS NOT NULL)
        AND (seq > 0) = (last_attempt_at IS NOT NULL)),
    CONSTRAINT due_no_earlier_than_it_was_set CHECK (due_at >= due_set_at)
) STRICT;

-- What claim walks: exact order within a lane, and nothing but what is queued.
CREATE INDEX seawall_job_due ON seawall_job (lane, due_at, id) WHERE state = 'queued';
-- What reclaim walks.
CREATE INDEX seawall_job_lapse ON seawall_job (lease_until) WHERE state = 'running';
-- What reclaim walks for deadlines.
CREATE INDEX seawall_job_deadline ON seawall_job (deadline_at)
    WHERE state = 'queued' AND deadline_at IS NOT NULL;
-- What straighten walks: due times that a policy set, by when it did.
CREATE INDEX seawall_job_due_set ON seawall_job (due_set_at)
    WHERE state = 'queued' AND due_set_at IS NOT NULL;
-- What prune walks.
CREATE INDEX seawall_job_finished ON seawall_job (state, finished_at)
    WHERE finished_at IS NOT NULL;

CREATE TABLE seawall_job_data (
    job INTEGER PRIMARY KEY,
    codec TEXT NOT NULL,
    arguments TEXT NOT NULL,
    request_id TEXT
) STRICT;

CREATE TABLE seawall_job_key (
    task TEXT NOT NULL,
    key TEXT NOT NULL,
    job INTEGER NOT NULL UNIQUE,
    digest TEXT NOT NULL,
    PRIMARY KEY (task, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE seawall_output (
    job INTEGER NOT NULL,
    stage INTEGER NOT NULL CHECK (stage >= 0),
    content TEXT NOT NULL,
    PRIMARY KEY (job, stage)
) STRICT;

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
        'failed', 'cancelled', 'released', 'lost')),
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
        delay IS NULL OR outcome IN ('retried', 'lost')
    )
) STRICT, WITHOUT ROWID;

-- History is written once.
CREATE TRIGGER seawall_attempts_are_never_changed BEFORE UPDATE ON seawall_attempt
BEGIN
    SELECT RAISE(ABORT, 'attempts are never changed');
END;

-- Both sides of the books. There is one writer at a time, so what comes in is counted straight
-- into the tally; PostgreSQL has an intake table in front of it.
CREATE TABLE seawall_tally (
    name TEXT PRIMARY KEY,
    jobs INTEGER NOT NULL CHECK (jobs >= 0)
) STRICT, WITHOUT ROWID;
INSERT INTO seawall_tally (name, jobs) VALUES
    ('enqueued', 0), ('succeeded', 0), ('skipped', 0), ('failed', 0), ('cancelled', 0);
