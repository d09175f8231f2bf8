-- name: redrive
-- Sends failed jobs again, due now: a new cycle with a fresh allowance and no last fault, at the
-- stage where it failed or at the one named. A deadline that has passed no longer binds, and
-- the outputs of stages that are to be done again are dropped, as is what it said of its progress.
-- moves: redrive
DELETE FROM seawall_output
WHERE job = :id AND stage >= (
    SELECT coalesce(:stage, failed.stage) FROM seawall_job AS failed
    WHERE failed.id = :id AND failed.state = 'failed'
        AND (:lane IS NULL OR EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane))
);
DELETE FROM seawall_progress
WHERE job = (
    SELECT failed.id FROM seawall_job AS failed
    WHERE failed.id = :id AND failed.state = 'failed'
        AND (:lane IS NULL OR EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane))
);
UPDATE seawall_job
SET state = 'queued', cycle = cycle + 1, tries = 0, losses = 0, spared = 0,
    lane = coalesce(:lane, lane), stage = coalesce(:stage, stage),
    due_at = :now, due_set_at = :now, finished_at = NULL, last_fault = NULL,
    deadline_at = iif(deadline_at > :now, deadline_at, NULL)
WHERE id = :id AND state = 'failed'
    AND (:lane IS NULL OR EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane))
RETURNING id, state;
