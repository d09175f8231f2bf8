-- Dead letters: what a failed job leaves for people. One for each job that has failed, written with
-- the failure itself; it stays when the job is sent again, so that one that comes back is known.

CREATE TABLE seawall.dead_letter (
    job bigint PRIMARY KEY,
    state text NOT NULL CHECK (state IN ('open', 'redriven', 'dismissed')),
    lane bigint NOT NULL,  -- where it failed: task, queue, upstream
    stage integer NOT NULL CHECK (stage >= 0),
    owner text,
    run bigint,
    code text NOT NULL,
    fingerprint text NOT NULL,
    fault text NOT NULL,  -- as in the job's last_fault, which a redrive clears
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    attempts integer NOT NULL CHECK (attempts >= 0),
    times integer NOT NULL DEFAULT 1 CHECK (times >= 1),  -- how often the job has failed for good
    note text,
    handled_at timestamptz,
    handled_by text,
    CONSTRAINT handled_exactly_unless_open CHECK ((state = 'open') = (handled_at IS NULL)),
    CONSTRAINT only_what_was_handled_has_a_hand CHECK (handled_by IS NULL OR handled_at IS NOT NULL)
) WITH (fillfactor = 80);

-- What lists and counts walk: the open ones are few, however many jobs have ended.
CREATE INDEX dead_letter_state ON seawall.dead_letter (state, last_at, job);
-- The same for those that failed alike.
CREATE INDEX dead_letter_alike ON seawall.dead_letter (fingerprint, state, last_at, job);
-- The same for those of a run.
CREATE INDEX dead_letter_run ON seawall.dead_letter (run, state, last_at, job)
    WHERE run IS NOT NULL;
-- What prune walks for those that people have dealt with.
CREATE INDEX dead_letter_dismissed ON seawall.dead_letter (handled_at, job)
    WHERE state = 'dismissed';

-- Up to when the fleet has told of something that it tells once.
CREATE TABLE seawall.told (
    what text PRIMARY KEY,
    until timestamptz NOT NULL
) WITH (fillfactor = 50);

-- What has failed before there were letters. A fault's text begins with its code, and within its
-- message a quotation mark has a backslash before it: so what stands between plain ones is its own.
INSERT INTO seawall.dead_letter (job, state, lane, stage, owner, run, code, fingerprint, fault,
    first_at, last_at, attempts, times)
SELECT id, 'open', lane, stage, owner, run,
    coalesce(substring(last_fault FROM '^\{"code":"([A-Z_]+)"'), 'UNKNOWN'),
    coalesce(substring(last_fault FROM '[,{]"fingerprint":"([^"]{1,200})'), ''),
    last_fault, finished_at, finished_at, seq, cycle + 1
FROM seawall.job
WHERE state = 'failed' AND finished_at IS NOT NULL;
INSERT INTO seawall.told (what, until)
SELECT 'dead letters', coalesce(max(last_at), '-infinity') FROM seawall.dead_letter;
