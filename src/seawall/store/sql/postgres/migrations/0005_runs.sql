-- Runs: many items through one pipeline, with their counts; what attempts cost; and which
-- configuration of a stage they were made with.

-- Items of a run stand in lanes of their own, so that a run that is paused, or over, stands in
-- nobody's way. 0: of no run.
ALTER TABLE seawall.lane
    ADD COLUMN run bigint NOT NULL DEFAULT 0 CHECK (run >= 0),
    DROP CONSTRAINT lane_key,
    ADD CONSTRAINT lane_key UNIQUE (queue, task, stage, upstream, priority, owner, retry, run);

ALTER TABLE seawall.hold
    DROP CONSTRAINT hold_scope_check,
    ADD CONSTRAINT hold_scope_check CHECK (scope IN ('queue', 'task', 'upstream', 'run'));

CREATE TABLE seawall.run (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline text NOT NULL,
    name text NOT NULL,
    round integer NOT NULL CHECK (round >= 1),  -- how often there was a run of this name
    stages text NOT NULL,  -- JSON; their names, in order
    terms text NOT NULL,  -- JSON; when it has failed, and what it may cost
    owner text,
    stop text CHECK (stop IN ('paused', 'aborted', 'cancelled')),
    reason text NOT NULL DEFAULT '',
    pardoned_failed bigint NOT NULL DEFAULT 0 CHECK (pardoned_failed >= 0),
    pardoned_succeeded bigint NOT NULL DEFAULT 0 CHECK (pardoned_succeeded >= 0),
    created_at timestamptz NOT NULL,
    sealed_at timestamptz,  -- when all its items were there
    stopped_at timestamptz,
    closed_at timestamptz,  -- when somebody saw that all of them had ended
    UNIQUE (pipeline, name, round),
    CONSTRAINT stopped_at_a_time CHECK ((stop IS NULL) = (stopped_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX run_open ON seawall.run (id) WHERE closed_at IS NULL;

-- How the items of a run stand, by stage: what each batch of them changed, until it is folded.
-- A row that all workers wrote to would make them wait for one another.
CREATE TABLE seawall.run_change (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run bigint NOT NULL,
    stage integer NOT NULL,
    entered bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    advanced bigint NOT NULL DEFAULT 0,
    retried bigint NOT NULL DEFAULT 0,
    pruned bigint NOT NULL DEFAULT 0,
    tokens_in bigint NOT NULL DEFAULT 0,
    tokens_out bigint NOT NULL DEFAULT 0,
    cost double precision NOT NULL DEFAULT 0
);
CREATE INDEX run_change_run ON seawall.run_change (run);

CREATE TABLE seawall.run_tally (
    run bigint NOT NULL,
    stage integer NOT NULL,
    entered bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    advanced bigint NOT NULL DEFAULT 0,
    retried bigint NOT NULL DEFAULT 0,
    pruned bigint NOT NULL DEFAULT 0,
    tokens_in bigint NOT NULL DEFAULT 0,
    tokens_out bigint NOT NULL DEFAULT 0,
    cost double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (run, stage)
) WITH (fillfactor = 50);

-- Items of a run: all of them, and those that have not ended.
CREATE INDEX job_run ON seawall.job (run, id) WHERE run IS NOT NULL;
CREATE INDEX job_run_open ON seawall.job (run, state, stage)
    WHERE run IS NOT NULL AND finished_at IS NULL;
CREATE INDEX job_run_failed ON seawall.job (run, id) WHERE run IS NOT NULL AND state = 'failed';

ALTER TABLE seawall.attempt ADD COLUMN config text;

-- What an attempt used up, where its handler said so.
CREATE TABLE seawall.usage (
    job bigint NOT NULL,
    seq integer NOT NULL CHECK (seq >= 1),
    stage integer NOT NULL,
    run bigint,
    owner text,
    tokens_in bigint NOT NULL CHECK (tokens_in >= 0),
    tokens_out bigint NOT NULL CHECK (tokens_out >= 0),
    cost double precision NOT NULL CHECK (cost >= 0),
    PRIMARY KEY (job, seq)
);
CREATE INDEX usage_owner ON seawall.usage (owner) WHERE owner IS NOT NULL;

-- By which outputs that are kept elsewhere are found.
CREATE INDEX output_artifact ON seawall.output (content)
    WHERE starts_with(content, '{"$seawall.artifact"');
