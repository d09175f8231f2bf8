-- Runs: many items through one pipeline, with their counts; what attempts cost; and which
-- configuration of a stage they were made with.

-- Items of a run stand in lanes of their own, so that a run that is paused, or over, stands in
-- nobody's way. 0: of no run. SQLite cannot change what is unique, so the table is made anew; ids
-- stay, and so does the number of the last one.
CREATE TABLE seawall_lane_anew (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    stage INTEGER NOT NULL CHECK (stage >= 0),
    upstream TEXT NOT NULL,
    priority INTEGER NOT NULL,
    owner TEXT NOT NULL,
    retry INTEGER NOT NULL DEFAULT 0 CHECK (retry IN (0, 1)),
    run INTEGER NOT NULL DEFAULT 0 CHECK (run >= 0),
    UNIQUE (queue, task, stage, upstream, priority, owner, retry, run)
) STRICT;
INSERT INTO seawall_lane_anew (id, queue, task, stage, upstream, priority, owner, retry)
SELECT id, queue, task, stage, upstream, priority, owner, retry FROM seawall_lane ORDER BY id;
DROP TABLE seawall_lane;
ALTER TABLE seawall_lane_anew RENAME TO seawall_lane;

CREATE TABLE seawall_hold_anew (
    scope TEXT NOT NULL CHECK (scope IN ('queue', 'task', 'upstream', 'run')),
    name TEXT NOT NULL,
    held_at INTEGER NOT NULL,
    held_until INTEGER,  -- NULL: until a person resumes it
    reason TEXT NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;
INSERT INTO seawall_hold_anew SELECT * FROM seawall_hold;
DROP TABLE seawall_hold;
ALTER TABLE seawall_hold_anew RENAME TO seawall_hold;

CREATE TABLE seawall_run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pipeline TEXT NOT NULL,
    name TEXT NOT NULL,
    round INTEGER NOT NULL CHECK (round >= 1),  -- how often there was a run of this name
    stages TEXT NOT NULL,  -- JSON; their names, in order
    terms TEXT NOT NULL,  -- JSON; when it has failed, and what it may cost
    owner TEXT,
    stop TEXT CHECK (stop IN ('paused', 'aborted', 'cancelled')),
    reason TEXT NOT NULL DEFAULT '',
    pardoned_failed INTEGER NOT NULL DEFAULT 0 CHECK (pardoned_failed >= 0),
    pardoned_succeeded INTEGER NOT NULL DEFAULT 0 CHECK (pardoned_succeeded >= 0),
    created_at INTEGER NOT NULL,
    sealed_at INTEGER,  -- when all its items were there
    stopped_at INTEGER,
    closed_at INTEGER,  -- when somebody saw that all of them had ended
    UNIQUE (pipeline, name, round),
    CONSTRAINT stopped_at_a_time CHECK ((stop IS NULL) = (stopped_at IS NULL))
) STRICT;
CREATE INDEX seawall_run_open ON seawall_run (id) WHERE closed_at IS NULL;

-- How the items of a run stand, by stage.
CREATE TABLE seawall_run_tally (
    run INTEGER NOT NULL,
    stage INTEGER NOT NULL,
    entered INTEGER NOT NULL DEFAULT 0,
    succeeded INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    advanced INTEGER NOT NULL DEFAULT 0,
    retried INTEGER NOT NULL DEFAULT 0,
    pruned INTEGER NOT NULL DEFAULT 0,
    tokens_in INTEGER NOT NULL DEFAULT 0,
    tokens_out INTEGER NOT NULL DEFAULT 0,
    cost REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (run, stage)
) STRICT, WITHOUT ROWID;

-- Items of a run: all of them, and those that have not ended.
CREATE INDEX seawall_job_run ON seawall_job (run, id) WHERE run IS NOT NULL;
CREATE INDEX seawall_job_run_open ON seawall_job (run, state, stage)
    WHERE run IS NOT NULL AND finished_at IS NULL;
CREATE INDEX seawall_job_run_failed ON seawall_job (run, id)
    WHERE run IS NOT NULL AND state = 'failed';

ALTER TABLE seawall_attempt ADD COLUMN config TEXT;

-- What an attempt used up, where its handler said so.
CREATE TABLE seawall_usage (
    job INTEGER NOT NULL,
    seq INTEGER NOT NULL CHECK (seq >= 1),
    stage INTEGER NOT NULL,
    run INTEGER,
    owner TEXT,
    tokens_in INTEGER NOT NULL CHECK (tokens_in >= 0),
    tokens_out INTEGER NOT NULL CHECK (tokens_out >= 0),
    cost REAL NOT NULL CHECK (cost >= 0),
    PRIMARY KEY (job, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX seawall_usage_owner ON seawall_usage (owner) WHERE owner IS NOT NULL;

-- Whatever writes an item moves the counts of its run with it. On PostgreSQL the statements do that
-- themselves, a batch at a time; here a trigger costs items of no run nothing.
CREATE TRIGGER seawall_an_item_comes_in AFTER INSERT ON seawall_job WHEN NEW.run IS NOT NULL
BEGIN
    INSERT INTO seawall_run_tally (run, stage, entered) VALUES (NEW.run, NEW.stage, 1)
    ON CONFLICT (run, stage) DO UPDATE SET entered = entered + 1;
    UPDATE seawall_run SET closed_at = NULL WHERE id = NEW.run AND closed_at IS NOT NULL;
END;
CREATE TRIGGER seawall_an_item_moves AFTER UPDATE OF state ON seawall_job
WHEN NEW.run IS NOT NULL AND NEW.state <> OLD.state
    AND (NEW.finished_at IS NOT NULL OR OLD.finished_at IS NOT NULL)
BEGIN
    INSERT INTO seawall_run_tally (run, stage) VALUES (OLD.run, OLD.stage)
    ON CONFLICT (run, stage) DO NOTHING;
    UPDATE seawall_run_tally
    SET succeeded = succeeded + (NEW.state = 'succeeded') - (OLD.state = 'succeeded'),
        skipped = skipped + (NEW.state = 'skipped') - (OLD.state = 'skipped'),
        failed = failed + (NEW.state = 'failed') - (OLD.state = 'failed'),
        cancelled = cancelled + (NEW.state = 'cancelled') - (OLD.state = 'cancelled')
    WHERE run = OLD.run AND stage = OLD.stage;
END;
CREATE TRIGGER seawall_an_item_is_pruned AFTER DELETE ON seawall_job WHEN OLD.run IS NOT NULL
BEGIN
    UPDATE seawall_run_tally SET pruned = pruned + 1 WHERE run = OLD.run AND stage = OLD.stage;
END;
CREATE TRIGGER seawall_an_items_attempt_ends AFTER INSERT ON seawall_attempt
WHEN NEW.outcome IN ('advanced', 'retried') OR (NEW.outcome = 'lost' AND NEW.delay IS NOT NULL)
BEGIN
    INSERT INTO seawall_run_tally (run, stage, advanced, retried)
    SELECT run, NEW.stage, NEW.outcome = 'advanced', NEW.outcome <> 'advanced'
    FROM seawall_job WHERE id = NEW.job AND run IS NOT NULL
    ON CONFLICT (run, stage) DO UPDATE
    SET advanced = advanced + excluded.advanced, retried = retried + excluded.retried;
END;
CREATE TRIGGER seawall_an_item_uses_something AFTER INSERT ON seawall_usage
WHEN NEW.run IS NOT NULL
BEGIN
    INSERT INTO seawall_run_tally (run, stage, tokens_in, tokens_out, cost)
    VALUES (NEW.run, NEW.stage, NEW.tokens_in, NEW.tokens_out, NEW.cost)
    ON CONFLICT (run, stage) DO UPDATE SET tokens_in = tokens_in + excluded.tokens_in,
        tokens_out = tokens_out + excluded.tokens_out, cost = cost + excluded.cost;
END;

-- By which outputs that are kept elsewhere are found.
CREATE INDEX seawall_output_artifact ON seawall_output (content)
    WHERE substr(content, 1, 20) = '{"$seawall.artifact"';
