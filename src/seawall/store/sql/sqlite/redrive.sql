-- name: redrive
-- Sends failed jobs again, due now or a while from now: a new cycle with a fresh allowance and no
-- last fault, at the stage where it failed or at the one named. Its dead letter is marked, and where
-- new arguments are given they take the place of the old ones, for its key as well. A deadline that
-- has passed no longer binds, and the outputs of stages that are to be done again are dropped, as is
-- what it said of its progress. It is a first call again, and stands where such ones do.
-- The first statements ask whether the job will move; it moves then, and its letter is marked last,
-- since the others ask it.
-- moves: redrive
DELETE FROM seawall_output
WHERE job = :id AND stage >= (
    SELECT coalesce(:stage, failed.stage) FROM seawall_job AS failed
    WHERE failed.id = :id AND failed.state = 'failed'
        AND (:lane IS NULL OR EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane))
        AND (NOT :only_open OR EXISTS (
            SELECT 1 FROM seawall_dead_letter AS letter WHERE letter.job = :id AND letter.state = 'open'
        ))
);
DELETE FROM seawall_progress
WHERE job = (
    SELECT failed.id FROM seawall_job AS failed
    WHERE failed.id = :id AND failed.state = 'failed'
        AND (:lane IS NULL OR EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane))
        AND (NOT :only_open OR EXISTS (
            SELECT 1 FROM seawall_dead_letter AS letter WHERE letter.job = :id AND letter.state = 'open'
        ))
);
UPDATE seawall_job_data SET codec = :codec, arguments = :arguments
WHERE :arguments IS NOT NULL AND job = (
    SELECT failed.id FROM seawall_job AS failed
    WHERE failed.id = :id AND failed.state = 'failed'
        AND (:lane IS NULL OR EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane))
        AND (NOT :only_open OR EXISTS (
            SELECT 1 FROM seawall_dead_letter AS letter WHERE letter.job = :id AND letter.state = 'open'
        ))
);
UPDATE seawall_job_key SET digest = :digest
WHERE :digest IS NOT NULL AND job = (
    SELECT failed.id FROM seawall_job AS failed
    WHERE failed.id = :id AND failed.state = 'failed'
        AND (:lane IS NULL OR EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane))
        AND (NOT :only_open OR EXISTS (
            SELECT 1 FROM seawall_dead_letter AS letter WHERE letter.job = :id AND letter.state = 'open'
        ))
);
-- No more is pardoned than has failed still: what fails again is held against the run.
UPDATE seawall_run SET closed_at = NULL, pardoned_failed = min(pardoned_failed, max(0, (
    SELECT coalesce(sum(failed), 0) - 1 FROM seawall_run_tally WHERE run = seawall_run.id
)))
WHERE (closed_at IS NOT NULL OR pardoned_failed > 0) AND id = (
    SELECT failed.run FROM seawall_job AS failed
    WHERE failed.id = :id AND failed.state = 'failed'
        AND (:lane IS NULL OR EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane))
        AND (NOT :only_open OR EXISTS (
            SELECT 1 FROM seawall_dead_letter AS letter WHERE letter.job = :id AND letter.state = 'open'
        ))
);
UPDATE seawall_job
SET state = 'queued', cycle = cycle + 1, tries = 0, losses = 0, spared = 0,
    lane = coalesce(:lane, (
        SELECT plain.id FROM seawall_lane AS now JOIN seawall_lane AS plain
            USING (queue, task, stage, upstream, priority, owner, run)
        WHERE now.id = seawall_job.lane AND now.retry AND NOT plain.retry
    ), lane), stage = coalesce(:stage, stage),
    due_at = :now + :delay, due_set_at = :now, finished_at = NULL, last_fault = NULL,
    deadline_at = iif(deadline_at > :now, deadline_at, NULL)
WHERE id = (
    SELECT failed.id FROM seawall_job AS failed
    WHERE failed.id = :id AND failed.state = 'failed'
        AND (:lane IS NULL OR EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane))
        AND (NOT :only_open OR EXISTS (
            SELECT 1 FROM seawall_dead_letter AS letter WHERE letter.job = :id AND letter.state = 'open'
        ))
)
RETURNING id, state;
INSERT INTO seawall_pace_change (minute, task, queue, became, many)
SELECT :now / 60000000, lane.task, lane.queue, 'redriven', 1
FROM seawall_job AS job CROSS JOIN seawall_lane AS lane ON lane.id = job.lane
WHERE job.id = :id AND changes() = 1
ON CONFLICT (minute, task, queue, outcome, became, code, took_bucket, age_bucket) DO UPDATE
SET many = many + excluded.many;
UPDATE seawall_dead_letter
SET state = 'redriven', handled_at = :now, handled_by = :by
WHERE job = :id AND state <> 'redriven'
    AND EXISTS (SELECT 1 FROM seawall_job AS sent WHERE sent.id = :id AND sent.state = 'queued');
