-- name: redrive
-- Sends failed jobs again, due now or a while from now: a new cycle with a fresh allowance and no
-- last fault, at the stage where it failed or at the one named. Its dead letter is marked, and where
-- new arguments are given they take the place of the old ones, for its key as well. A deadline that
-- has passed no longer binds, and the outputs of stages that are to be done again are dropped, as is
-- what it said of its progress. It is a first call again, and stands where such ones do.
-- moves: redrive
WITH given AS MATERIALIZED (
    SELECT r.*, coalesce(%(now)s::timestamptz, now()) AS now
    FROM json_to_recordset(%(rows)s) AS r (
        id bigint, lane bigint, stage integer, delay bigint, only_open boolean, by text,
        codec text, arguments text, digest text
    )
    ORDER BY id
),
held AS MATERIALIZED (
    SELECT given.id, given.now, given.delay, given.only_open, given.by,
        given.codec, given.arguments, given.digest,
        coalesce(given.lane, (
            SELECT plain.id FROM seawall.lane JOIN seawall.lane AS plain
                USING (queue, task, stage, upstream, priority, owner, run)
            WHERE lane.id = mine.lane AND lane.retry AND NOT plain.retry
        ), mine.lane) AS lane,
        coalesce(given.stage, mine.stage) AS stage, mine.stage AS failed_stage, mine.run,
        mine.owner, mine.seq AS attempts, mine.cycle AS last_cycle
    FROM given CROSS JOIN LATERAL (
        SELECT job.lane, job.stage, job.run, job.owner, job.seq, job.cycle FROM seawall.job
        WHERE job.id = given.id AND job.state = 'failed'
            AND (given.lane IS NULL
                OR EXISTS (SELECT FROM seawall.lane WHERE lane.id = given.lane))
        FOR UPDATE
    ) AS mine
),
letters AS MATERIALIZED (
    -- Locked after their jobs, so that whoever dismisses one at this moment is seen.
    SELECT letter.job, letter.state FROM seawall.dead_letter AS letter
    WHERE letter.job = ANY (ARRAY(SELECT id FROM held)) FOR UPDATE
),
locked AS MATERIALIZED (
    SELECT held.* FROM held LEFT JOIN letters ON letters.job = held.id
    WHERE NOT held.only_open OR letters.state = 'open'
),
dropped AS (
    DELETE FROM seawall.output USING locked
    WHERE output.job = locked.id AND output.stage >= locked.stage
),
forgotten AS (
    DELETE FROM seawall.progress USING locked WHERE progress.job = locked.id
),
items AS (
    INSERT INTO seawall.run_change (run, stage, failed)
    SELECT run, failed_stage, -count(*) FROM locked WHERE run IS NOT NULL GROUP BY run, failed_stage
),
paced AS (
    INSERT INTO seawall.pace_change (minute, task, queue, became, many)
    SELECT floor(extract(epoch FROM alike.now) / 60)::bigint, lane.task, lane.queue, 'redriven', alike.many
    FROM (SELECT lane, now, count(*) AS many FROM locked GROUP BY lane, now) AS alike
    JOIN seawall.lane ON lane.id = alike.lane
),
reopened AS (
    -- Also where it is open: whoever is about to close it waits, and then sees these items.
    -- No more is pardoned than has failed still: what fails again is held against the run.
    UPDATE seawall.run
    SET closed_at = NULL,
        pardoned_failed = CASE WHEN pardoned_failed = 0 THEN 0 ELSE (
            SELECT least(run.pardoned_failed, greatest(0, coalesce(sum(counted.failed), 0) - (
                SELECT count(*) FROM locked WHERE locked.run = run.id
            )))
            FROM (
                SELECT failed FROM seawall.run_tally WHERE run_tally.run = run.id
                UNION ALL SELECT failed FROM seawall.run_change WHERE run_change.run = run.id
            ) AS counted
        ) END
    WHERE id = ANY (ARRAY(SELECT DISTINCT run FROM locked WHERE run IS NOT NULL ORDER BY run))
),
marked AS (
    UPDATE seawall.dead_letter
    SET state = 'redriven', handled_at = locked.now, handled_by = locked.by
    FROM locked
    WHERE dead_letter.job = locked.id AND dead_letter.job = ANY (ARRAY(SELECT id FROM locked))
),
edited AS (
    UPDATE seawall.job_data SET codec = locked.codec, arguments = locked.arguments
    FROM locked
    WHERE job_data.job = locked.id AND locked.arguments IS NOT NULL
        AND job_data.job = ANY (ARRAY(SELECT id FROM locked))
),
keyed AS (
    UPDATE seawall.job_key SET digest = locked.digest
    FROM locked
    WHERE job_key.job = locked.id AND locked.digest IS NOT NULL
        AND job_key.job = ANY (ARRAY(SELECT id FROM locked))
),
noted AS (
    INSERT INTO seawall.outbox (webhook, event, at, task, queue, job, run, owner, stage, attempt, cycle)
    SELECT hook.id, 'job.redriven', locked.now, lane.task, lane.queue, locked.id, locked.run,
        locked.owner, locked.stage, locked.attempts, locked.last_cycle + 1
    FROM locked JOIN seawall.lane ON lane.id = locked.lane
    JOIN seawall.webhook AS hook ON 'job.redriven' = ANY (hook.events)
        AND (hook.tasks IS NULL OR lane.task = ANY (hook.tasks))
        AND (hook.owners IS NULL OR locked.owner = ANY (hook.owners))
    WHERE lane.task <> 'seawall.webhook' AND EXISTS (SELECT FROM seawall.webhook)
)
UPDATE seawall.job
SET state = 'queued', cycle = cycle + 1, tries = 0, losses = 0, spared = 0,
    lane = locked.lane, stage = locked.stage,
    due_at = locked.now + locked.delay * interval '1 microsecond', due_set_at = locked.now,
    finished_at = NULL, last_fault = NULL,
    deadline_at = CASE WHEN deadline_at > locked.now THEN deadline_at END
FROM locked
WHERE job.id = locked.id
RETURNING job.id, job.state;
