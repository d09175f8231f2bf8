-- name: latest_run
-- The last run of a pipeline and a name, locked, and whether it is over: cancelled, or all of its
-- items were there and have ended.
SELECT id, round, stop IS 'cancelled' OR (
    sealed_at IS NOT NULL AND (
        SELECT coalesce(sum(entered - succeeded - skipped - failed - cancelled), 0)
        FROM seawall_run_tally WHERE seawall_run_tally.run = seawall_run.id
    ) = 0)
FROM seawall_run
WHERE pipeline = :pipeline AND name = :name
ORDER BY round DESC LIMIT 1;

-- name: add_run
-- Writes a new run. Nothing where another was faster.
INSERT INTO seawall_run (pipeline, name, round, stages, terms, owner, created_at)
VALUES (:pipeline, :name, :round, :stages, :terms, :owner, :now)
ON CONFLICT (pipeline, name, round) DO NOTHING
RETURNING id;

-- name: seal_run
-- All items of the run are there. One that was closed while they came in is open again.
UPDATE seawall_run SET sealed_at = coalesce(sealed_at, :now), closed_at = NULL
WHERE id = :run AND (sealed_at IS NULL OR closed_at IS NOT NULL)
RETURNING id;

-- name: stop_run
-- Keeps the items of a run from being claimed until it is resumed. What was stopped for good stays so.
UPDATE seawall_run
SET stop = :stop, reason = :reason, stopped_at = :now
WHERE id = :run AND closed_at IS NULL
    AND (stop IS NULL OR (stop <> 'cancelled' AND :stop = 'cancelled'));
INSERT INTO seawall_hold (scope, name, held_at, reason)
SELECT 'run', CAST(:run AS TEXT), :now, :reason WHERE changes() = 1
ON CONFLICT (scope, name) DO UPDATE SET held_at = excluded.held_at, reason = excluded.reason
RETURNING name;

-- name: resume_run
-- Lets the items of a run go on, and holds nothing of what happened so far against it.
DELETE FROM seawall_hold
WHERE scope = 'run' AND name = (
    SELECT CAST(id AS TEXT) FROM seawall_run WHERE id = :run AND stop IN ('paused', 'aborted')
);
UPDATE seawall_run
SET stop = NULL, reason = '', stopped_at = NULL,
    pardoned_failed = (
        SELECT max(coalesce(sum(failed), 0), 0) FROM seawall_run_tally WHERE run = :run
    ),
    pardoned_succeeded = (
        SELECT coalesce(sum(succeeded), 0) FROM seawall_run_tally WHERE run = :run
    )
WHERE id = :run AND stop IN ('paused', 'aborted')
RETURNING id;

-- name: revise_run
-- Gives a run that is not over other terms; nothing where it has these.
UPDATE seawall_run SET terms = :terms
WHERE id = :run AND closed_at IS NULL AND stop IS NOT 'cancelled' AND terms <> :terms
RETURNING id;

-- name: lock_run
-- Keeps others from sending items of a run again until this transaction has ended.
-- Nothing to do here: there is one writer at a time.
SELECT :run;

-- name: close_run
-- Writes down that a run is over, if it is: its lanes need not be looked into any more. A pause or
-- an abort goes, which has nothing left to stop.
DELETE FROM seawall_hold
WHERE scope = 'run' AND name = (
    SELECT CAST(id AS TEXT) FROM seawall_run
    WHERE id = :run AND closed_at IS NULL AND sealed_at IS NOT NULL
        AND NOT EXISTS (
            SELECT 1 FROM seawall_job INDEXED BY seawall_job_run_open
            WHERE run = :run AND finished_at IS NULL
        )
);
UPDATE seawall_run
SET closed_at = :now, stop = iif(stop = 'cancelled', stop, NULL),
    reason = iif(stop = 'cancelled', reason, ''),
    stopped_at = iif(stop = 'cancelled', stopped_at, NULL)
WHERE id = :run AND closed_at IS NULL AND sealed_at IS NOT NULL
    AND NOT EXISTS (
        SELECT 1 FROM seawall_job INDEXED BY seawall_job_run_open
        WHERE run = :run AND finished_at IS NULL
    )
RETURNING id;

-- name: read_run
-- A run as it was asked for, and what people or its budget did about it.
SELECT id, pipeline, name, round, stages, terms, owner, stop, reason, pardoned_failed,
    pardoned_succeeded, created_at, sealed_at, stopped_at, closed_at
FROM seawall_run WHERE id = :run;

-- name: page_runs
-- Runs, the newest first.
SELECT id, pipeline, name, round, stages, terms, owner, stop, reason, pardoned_failed,
    pardoned_succeeded, created_at, sealed_at, stopped_at, closed_at
FROM seawall_run
WHERE id < :before
    AND (:pipeline IS NULL OR pipeline = :pipeline)
    AND (:name IS NULL OR name = :name)
    AND (NOT :open OR closed_at IS NULL)
    AND (:owner IS NULL OR owner = :owner)
ORDER BY id DESC LIMIT :limit;

-- name: count_items
-- How the items of a run ended, by the stage at which they did.
SELECT stage, entered, succeeded, skipped, failed, cancelled, advanced, retried, pruned,
    tokens_in, tokens_out, cost
FROM seawall_run_tally WHERE run = :run
ORDER BY stage;

-- name: count_live_items
-- The items of a run that run, or wait at a later stage than the first, by stage; and of all that
-- wait, those that are due later. What merely waits at the first stage is not read.
SELECT stage, state, count(*)
FROM seawall_job INDEXED BY seawall_job_run_open
WHERE run = :run AND finished_at IS NULL AND state = 'running'
GROUP BY stage
UNION ALL SELECT stage, state, count(*)
FROM seawall_job INDEXED BY seawall_job_run_open
WHERE run = :run AND finished_at IS NULL AND state = 'queued' AND stage > 0
GROUP BY stage
UNION ALL SELECT stage, 'later', sum((
    SELECT count(*) FROM seawall_job AS job
    WHERE job.lane = lane.id AND job.state = 'queued' AND job.due_at > :now
))
FROM seawall_lane AS lane
WHERE run = :run AND run > 0
GROUP BY stage;

-- name: causes
-- What items of a run failed for and where, the commonest first: of the last that did, not of all.
SELECT fingerprint, min(code), count(*), min(fault ->> 'message'), max(job), stage
FROM (
    SELECT job, code, fingerprint, stage, fault FROM seawall_dead_letter
    WHERE run = :run AND state = 'open'
    ORDER BY last_at DESC, job DESC LIMIT :limit
) AS failed
GROUP BY fingerprint, stage
ORDER BY count(*) DESC, max(job) DESC LIMIT 20;

-- name: unfinished_items
-- Some of the items of a run that have not ended.
SELECT id FROM seawall_job INDEXED BY seawall_job_run_open
WHERE run = :run AND finished_at IS NULL AND NOT cancel_requested
LIMIT :limit;

-- name: sum_usage
-- What attempts for an owner used up.
SELECT coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0), coalesce(sum(cost), 0.0)
FROM seawall_usage WHERE owner = :owner;

-- name: read_usage
-- What the attempts at a job used up.
SELECT seq, tokens_in, tokens_out, cost FROM seawall_usage WHERE job = :job ORDER BY seq;
