-- name: redrive
-- Sends failed jobs again, due now: a new cycle with a fresh allowance and no last fault, at the
-- stage where it failed or at the one named. A deadline that has passed no longer binds, and
-- the outputs of stages that are to be done again are dropped, as is what it said of its progress.
-- moves: redrive
WITH given AS MATERIALIZED (
    SELECT r.*, coalesce(%(now)s::timestamptz, now()) AS now
    FROM json_to_recordset(%(rows)s) AS r (id bigint, lane bigint, stage integer)
    ORDER BY id
),
locked AS MATERIALIZED (
    SELECT given.id, given.now, coalesce(given.lane, mine.lane) AS lane,
        coalesce(given.stage, mine.stage) AS stage
    FROM given CROSS JOIN LATERAL (
        SELECT job.lane, job.stage FROM seawall.job
        WHERE job.id = given.id AND job.state = 'failed'
            AND (given.lane IS NULL
                OR EXISTS (SELECT FROM seawall.lane WHERE lane.id = given.lane))
        FOR UPDATE
    ) AS mine
),
dropped AS (
    DELETE FROM seawall.output USING locked
    WHERE output.job = locked.id AND output.stage >= locked.stage
),
forgotten AS (
    DELETE FROM seawall.progress USING locked WHERE progress.job = locked.id
)
UPDATE seawall.job
SET state = 'queued', cycle = cycle + 1, tries = 0, losses = 0, spared = 0,
    lane = locked.lane, stage = locked.stage,
    due_at = locked.now, due_set_at = locked.now, finished_at = NULL, last_fault = NULL,
    deadline_at = CASE WHEN deadline_at > locked.now THEN deadline_at END
FROM locked
WHERE job.id = locked.id
RETURNING job.id, job.state;
