-- name: latest_run
-- The last run of a pipeline and a name, locked, and whether it is over: cancelled, or all of its
-- items were there and have ended.
SELECT run.id, run.round, run.stop IS NOT DISTINCT FROM 'cancelled' OR (
    run.sealed_at IS NOT NULL AND (
        SELECT coalesce(sum(entered - succeeded - skipped - failed - cancelled), 0)
        FROM (
            SELECT entered, succeeded, skipped, failed, cancelled
            FROM seawall.run_tally WHERE run_tally.run = run.id
            UNION ALL SELECT entered, succeeded, skipped, failed, cancelled
            FROM seawall.run_change WHERE run_change.run = run.id
        ) AS counted
    ) = 0)
FROM seawall.run
WHERE pipeline = %(pipeline)s AND name = %(name)s
ORDER BY round DESC LIMIT 1
FOR UPDATE;

-- name: add_run
-- Writes a new run. Nothing where another was faster.
INSERT INTO seawall.run (pipeline, name, round, stages, terms, owner, created_at)
VALUES (%(pipeline)s, %(name)s, %(round)s, %(stages)s, %(terms)s, %(owner)s,
    coalesce(%(now)s::timestamptz, now()))
ON CONFLICT (pipeline, name, round) DO NOTHING
RETURNING id;

-- name: seal_run
-- All items of the run are there. One that was closed while they came in is open again.
UPDATE seawall.run
SET sealed_at = coalesce(sealed_at, %(now)s::timestamptz, now()), closed_at = NULL
WHERE id = %(run)s AND (sealed_at IS NULL OR closed_at IS NOT NULL)
RETURNING id;

-- name: stop_run
-- Keeps the items of a run from being claimed until it is resumed. What was stopped for good stays so.
WITH stopped AS (
    UPDATE seawall.run
    SET stop = %(stop)s, reason = %(reason)s, stopped_at = coalesce(%(now)s::timestamptz, now())
    WHERE id = %(run)s AND closed_at IS NULL
        AND (stop IS NULL OR (stop <> 'cancelled' AND %(stop)s = 'cancelled'))
    RETURNING id, stopped_at, pipeline, owner
),
noted AS (
    INSERT INTO seawall.outbox (webhook, event, at, task, run, owner, reason)
    SELECT hook.id, 'run.' || %(stop)s::text, stopped.stopped_at, stopped.pipeline, stopped.id, stopped.owner,
        %(reason)s::text
    FROM stopped JOIN seawall.webhook AS hook ON 'run.' || %(stop)s::text = ANY (hook.events)
        AND (hook.tasks IS NULL OR stopped.pipeline = ANY (hook.tasks))
        AND (hook.owners IS NULL OR stopped.owner = ANY (hook.owners))
)
INSERT INTO seawall.hold (scope, name, held_at, reason)
SELECT 'run', id::text, stopped_at, %(reason)s FROM stopped
ON CONFLICT (scope, name) DO UPDATE SET held_at = excluded.held_at, reason = excluded.reason
RETURNING name;

-- name: resume_run
-- Lets the items of a run go on, and holds nothing of what happened so far against it.
WITH resumed AS (
    UPDATE seawall.run
    SET stop = NULL, reason = '', stopped_at = NULL,
        pardoned_failed = (
            SELECT greatest(coalesce(sum(failed), 0), 0) FROM (
                SELECT failed FROM seawall.run_tally WHERE run_tally.run = run.id
                UNION ALL SELECT failed FROM seawall.run_change WHERE run_change.run = run.id
            ) AS counted
        ),
        pardoned_succeeded = (
            SELECT coalesce(sum(succeeded), 0) FROM (
                SELECT succeeded FROM seawall.run_tally WHERE run_tally.run = run.id
                UNION ALL SELECT succeeded FROM seawall.run_change WHERE run_change.run = run.id
            ) AS counted
        )
    WHERE id = %(run)s AND stop IN ('paused', 'aborted')
    RETURNING id
),
let_go AS (
    DELETE FROM seawall.hold WHERE scope = 'run' AND name IN (SELECT id::text FROM resumed)
)
SELECT id FROM resumed;

-- name: revise_run
-- Gives a run that is not over other terms; nothing where it has these.
UPDATE seawall.run SET terms = %(terms)s
WHERE id = %(run)s AND closed_at IS NULL AND stop IS DISTINCT FROM 'cancelled' AND terms <> %(terms)s
RETURNING id;

-- name: lock_run
-- Keeps others from sending items of a run again until this transaction has ended.
-- What is asked next in the transaction sees all that those had done who held the lock before.
SELECT id FROM seawall.run WHERE id = %(run)s FOR UPDATE;

-- name: close_run
-- Writes down that a run is over, if it is: its lanes need not be looked into any more. A pause or
-- an abort goes, which has nothing left to stop.
WITH closed AS (
    UPDATE seawall.run
    SET closed_at = coalesce(%(now)s::timestamptz, now()),
        stop = CASE WHEN stop = 'cancelled' THEN stop END,
        reason = CASE WHEN stop = 'cancelled' THEN reason ELSE '' END,
        stopped_at = CASE WHEN stop = 'cancelled' THEN stopped_at END
    WHERE id = %(run)s AND closed_at IS NULL AND sealed_at IS NOT NULL
        AND NOT EXISTS (
            SELECT FROM seawall.job WHERE job.run = %(run)s AND job.finished_at IS NULL
        )
    RETURNING id, closed_at, pipeline, owner, reason
),
let_go AS (
    DELETE FROM seawall.hold WHERE scope = 'run' AND name IN (SELECT id::text FROM closed)
),
noted AS (
    INSERT INTO seawall.outbox (webhook, event, at, task, run, owner, reason)
    SELECT hook.id, 'run.finished', closed.closed_at, closed.pipeline, closed.id, closed.owner,
        closed.reason
    FROM closed JOIN seawall.webhook AS hook ON 'run.finished' = ANY (hook.events)
        AND (hook.tasks IS NULL OR closed.pipeline = ANY (hook.tasks))
        AND (hook.owners IS NULL OR closed.owner = ANY (hook.owners))
)
SELECT id FROM closed;

-- name: read_run
-- A run as it was asked for, and what people or its budget did about it.
SELECT id, pipeline, name, round, stages, terms, owner, stop, reason, pardoned_failed,
    pardoned_succeeded, created_at, sealed_at, stopped_at, closed_at
FROM seawall.run WHERE id = %(run)s;

-- name: page_runs
-- Runs, the newest first.
SELECT id, pipeline, name, round, stages, terms, owner, stop, reason, pardoned_failed,
    pardoned_succeeded, created_at, sealed_at, stopped_at, closed_at
FROM seawall.run
WHERE id < %(before)s
    AND (%(pipeline)s::text IS NULL OR pipeline = %(pipeline)s)
    AND (%(name)s::text IS NULL OR name = %(name)s)
    AND (NOT %(open)s OR closed_at IS NULL)
    AND (%(owner)s::text IS NULL OR owner = %(owner)s)
ORDER BY id DESC LIMIT %(limit)s;

-- name: count_items
-- How the items of a run ended, by the stage at which they did.
SELECT stage, sum(entered)::bigint, sum(succeeded)::bigint, sum(skipped)::bigint,
    sum(failed)::bigint, sum(cancelled)::bigint, sum(advanced)::bigint, sum(retried)::bigint,
    sum(pruned)::bigint, sum(tokens_in)::bigint, sum(tokens_out)::bigint, sum(cost)
FROM (
    SELECT stage, entered, succeeded, skipped, failed, cancelled, advanced, retried, pruned,
        tokens_in, tokens_out, cost
    FROM seawall.run_tally WHERE run = %(run)s
    UNION ALL SELECT stage, entered, succeeded, skipped, failed, cancelled, advanced, retried, pruned,
        tokens_in, tokens_out, cost
    FROM seawall.run_change WHERE run = %(run)s
) AS counted
GROUP BY stage ORDER BY stage;

-- name: count_live_items
-- The items of a run that run, or wait at a later stage than the first, by stage; and of all that
-- wait, those that are due later. What merely waits at the first stage is not read.
SELECT stage, state, count(*)
FROM seawall.job
WHERE run = %(run)s AND finished_at IS NULL AND state = 'running'
GROUP BY stage, state
UNION ALL SELECT stage, state, count(*)
FROM seawall.job
WHERE run = %(run)s AND finished_at IS NULL AND state = 'queued' AND stage > 0
GROUP BY stage, state
UNION ALL SELECT lane.stage, 'later', sum(later.jobs)::bigint
FROM seawall.lane
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM seawall.job
    WHERE job.lane = lane.id AND job.state = 'queued'
        AND job.due_at > coalesce(%(now)s::timestamptz, now())
) AS later
WHERE lane.run = %(run)s AND lane.run > 0
GROUP BY lane.stage;

-- name: causes
-- What items of a run failed for and where, the commonest first: of the last that did, not of all.
SELECT fingerprint, min(code), count(*), min(fault::json ->> 'message'), max(job), stage
FROM (
    SELECT job, code, fingerprint, stage, fault FROM seawall.dead_letter
    WHERE run = %(run)s AND state = 'open'
    ORDER BY last_at DESC, job DESC LIMIT %(limit)s
) AS failed
GROUP BY fingerprint, stage
ORDER BY count(*) DESC, max(job) DESC LIMIT 20;

-- name: unfinished_items
-- Some of the items of a run that have not ended.
SELECT id FROM seawall.job
WHERE run = %(run)s AND finished_at IS NULL AND NOT cancel_requested
LIMIT %(limit)s;

-- name: sum_usage
-- What attempts for an owner used up.
SELECT coalesce(sum(tokens_in), 0)::bigint, coalesce(sum(tokens_out), 0)::bigint,
    coalesce(sum(cost), 0)::double precision
FROM seawall.usage WHERE owner = %(owner)s;

-- name: read_usage
-- What the attempts at a job used up.
SELECT seq, tokens_in, tokens_out, cost FROM seawall.usage WHERE job = %(job)s ORDER BY seq;
