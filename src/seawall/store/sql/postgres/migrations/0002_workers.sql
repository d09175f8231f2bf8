-- What tasks, workers and those who watch them need: tags, evidence, progress, who is alive, whose
-- turn a chore is, and schedules; and attempts that ended because the handler asked for later.

-- Words to find a job by; only jobs that have some write here.
CREATE TABLE seawall.job_tag (
    tag text NOT NULL,
    job bigint NOT NULL,
    PRIMARY KEY (tag, job)
);
CREATE INDEX job_tag_job ON seawall.job_tag (job);

-- What an attempt left for operators; most leave nothing.
CREATE TABLE seawall.evidence (
    job bigint NOT NULL,
    seq integer NOT NULL CHECK (seq >= 1),
    traceback text,
    raw_output text,
    PRIMARY KEY (job, seq),
    CONSTRAINT something_was_left CHECK (coalesce(traceback, raw_output) IS NOT NULL)
);

-- How far a job said it had come, last. Each report rewrites its row, in its own page where there
-- is room.
CREATE TABLE seawall.progress (
    job bigint PRIMARY KEY,
    lease_no integer NOT NULL CHECK (lease_no >= 1),
    seq integer NOT NULL CHECK (seq >= 1),
    done double precision NOT NULL CHECK (done >= 0),
    total double precision CHECK (total >= 0),
    message text NOT NULL,
    reported_at timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE seawall.worker (
    id text PRIMARY KEY,
    host text NOT NULL,
    pid bigint NOT NULL,
    version text NOT NULL,
    queues text,  -- JSON; NULL: every queue
    tasks text NOT NULL,  -- JSON
    concurrency bigint NOT NULL CHECK (concurrency >= 0),
    running bigint NOT NULL CHECK (running >= 0),
    stopping boolean NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- When each chore of the fleet is due again.
CREATE TABLE seawall.turn (
    chore text PRIMARY KEY,
    worker text NOT NULL,
    next_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- By specification, too: while an old and a new release run side by side, each keeps its own time.
CREATE TABLE seawall.schedule (
    name text NOT NULL,
    spec text NOT NULL,
    next_at timestamptz NOT NULL,
    last_at timestamptz,
    last_job bigint,  -- which may have been pruned since
    PRIMARY KEY (name, spec)
);

-- What a worker walks for the jobs that it is to stop.
CREATE INDEX job_stopping ON seawall.job (worker) WHERE cancel_requested;
-- What a list of an owner's jobs walks.
CREATE INDEX job_owner ON seawall.job (owner, id) WHERE owner IS NOT NULL;

-- An attempt may be snoozed, too.
-- Whether a lease was taken for a job that was to wait in its worker's hands; and how many of the
-- job's losses were such ones, which are not held against it.
ALTER TABLE seawall.job
    ADD COLUMN prefetched boolean NOT NULL DEFAULT false,
    ADD COLUMN spared integer NOT NULL DEFAULT 0,
    ADD CONSTRAINT spared_are_losses CHECK (spared BETWEEN 0 AND losses);

ALTER TABLE seawall.attempt
    DROP CONSTRAINT attempt_outcome_check,
    ADD CONSTRAINT attempt_outcome_check CHECK (outcome IN ('succeeded', 'advanced', 'skipped',
        'retried', 'snoozed', 'failed', 'cancelled', 'released', 'lost')),
    DROP CONSTRAINT a_delay_where_it_will_be_tried_again,
    ADD CONSTRAINT a_delay_where_it_will_be_tried_again CHECK (
        delay IS NULL OR outcome IN ('retried', 'snoozed', 'lost')
    );
