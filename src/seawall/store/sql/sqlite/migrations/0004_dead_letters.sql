-- Dead letters: what a failed job leaves for people. One for each job that has failed, written with
-- the failure itself; it stays when the job is sent again, so that one that comes back is known.

CREATE TABLE seawall_dead_letter (
    job INTEGER PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('open', 'redriven', 'dismissed')),
    lane INTEGER NOT NULL,  -- where it failed: task, queue, upstream
    stage INTEGER NOT NULL CHECK (stage >= 0),
    owner TEXT,
    run INTEGER,
    code TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    fault TEXT NOT NULL,  -- as in the job's last_fault, which a redrive clears
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    times INTEGER NOT NULL DEFAULT 1 CHECK (times >= 1),  -- how often the job has failed for good
    note TEXT,
    handled_at INTEGER,
    handled_by TEXT,
    CONSTRAINT handled_exactly_unless_open CHECK ((state = 'open') = (handled_at IS NULL)),
    CONSTRAINT only_what_was_handled_has_a_hand CHECK (handled_by IS NULL OR handled_at IS NOT NULL)
) STRICT;

-- What lists and counts walk: the open ones are few, however many jobs have ended.
CREATE INDEX seawall_dead_letter_state ON seawall_dead_letter (state, last_at, job);
-- The same for those that failed alike.
CREATE INDEX seawall_dead_letter_alike ON seawall_dead_letter (fingerprint, state, last_at, job);
-- The same for those of a run.
CREATE INDEX seawall_dead_letter_run ON seawall_dead_letter (run, state, last_at, job)
    WHERE run IS NOT NULL;
-- What prune walks for those that people have dealt with.
CREATE INDEX seawall_dead_letter_dismissed ON seawall_dead_letter (handled_at, job)
    WHERE state = 'dismissed';

-- Up to when the fleet has told of something that it tells once.
CREATE TABLE seawall_told (
    what TEXT PRIMARY KEY,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What has failed before there were letters.
INSERT INTO seawall_dead_letter (job, state, lane, stage, owner, run, code, fingerprint, fault,
    first_at, last_at, attempts, times)
SELECT id, 'open', lane, stage, owner, run,
    coalesce(iif(json_valid(last_fault), last_fault ->> 'code', NULL), 'UNKNOWN'),
    coalesce(substr(iif(json_valid(last_fault), last_fault ->> 'fingerprint', NULL), 1, 200), ''),
    last_fault, finished_at, finished_at, seq, cycle + 1
FROM seawall_job
WHERE state = 'failed' AND finished_at IS NOT NULL;
INSERT INTO seawall_told (what, until)
SELECT 'dead letters', coalesce(max(last_at), 0) FROM seawall_dead_letter;
