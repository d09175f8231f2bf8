-- name: prune
-- Removes jobs that finished long enough ago, with all that hangs on them, and counts them into
-- the tally by the state they ended in.
-- Each statement picks the same jobs, which go last: nobody else writes meanwhile.
-- moves: prune
DELETE FROM seawall_job_key WHERE job IN (
    SELECT id FROM seawall_job
    WHERE state = :state AND finished_at IS NOT NULL AND finished_at < :now - :age
    ORDER BY finished_at, id LIMIT :limit
);
DELETE FROM seawall_job_tag WHERE job IN (
    SELECT id FROM seawall_job
    WHERE state = :state AND finished_at IS NOT NULL AND finished_at < :now - :age
    ORDER BY finished_at, id LIMIT :limit
);
DELETE FROM seawall_job_data WHERE job IN (
    SELECT id FROM seawall_job
    WHERE state = :state AND finished_at IS NOT NULL AND finished_at < :now - :age
    ORDER BY finished_at, id LIMIT :limit
);
DELETE FROM seawall_output WHERE job IN (
    SELECT id FROM seawall_job
    WHERE state = :state AND finished_at IS NOT NULL AND finished_at < :now - :age
    ORDER BY finished_at, id LIMIT :limit
);
DELETE FROM seawall_evidence WHERE job IN (
    SELECT id FROM seawall_job
    WHERE state = :state AND finished_at IS NOT NULL AND finished_at < :now - :age
    ORDER BY finished_at, id LIMIT :limit
);
DELETE FROM seawall_progress WHERE job IN (
    SELECT id FROM seawall_job
    WHERE state = :state AND finished_at IS NOT NULL AND finished_at < :now - :age
    ORDER BY finished_at, id LIMIT :limit
);
DELETE FROM seawall_usage WHERE job IN (
    SELECT id FROM seawall_job
    WHERE state = :state AND finished_at IS NOT NULL AND finished_at < :now - :age
    ORDER BY finished_at, id LIMIT :limit
);
DELETE FROM seawall_attempt WHERE job IN (
    SELECT id FROM seawall_job
    WHERE state = :state AND finished_at IS NOT NULL AND finished_at < :now - :age
    ORDER BY finished_at, id LIMIT :limit
);
DELETE FROM seawall_dead_letter WHERE job IN (
    SELECT id FROM seawall_job
    WHERE state = :state AND finished_at IS NOT NULL AND finished_at < :now - :age
    ORDER BY finished_at, id LIMIT :limit
);
DELETE FROM seawall_job WHERE id IN (
    SELECT id FROM seawall_job
    WHERE state = :state AND finished_at IS NOT NULL AND finished_at < :now - :age
    ORDER BY finished_at, id LIMIT :limit
);
UPDATE seawall_tally SET jobs = jobs + changes() WHERE name = :state
RETURNING changes();

-- name: prune_dismissed
-- Removes failed jobs whose dead letters were dismissed long enough ago, as `prune` does.
-- Each statement asks the letters, which therefore go last, with what the jobs' end has counted.
-- moves: prune
DELETE FROM seawall_job_key WHERE job IN (
    SELECT job FROM seawall_dead_letter
    WHERE state = 'dismissed' AND handled_at < :now - :age
    ORDER BY handled_at, job LIMIT :limit
);
DELETE FROM seawall_job_tag WHERE job IN (
    SELECT job FROM seawall_dead_letter
    WHERE state = 'dismissed' AND handled_at < :now - :age
    ORDER BY handled_at, job LIMIT :limit
);
DELETE FROM seawall_job_data WHERE job IN (
    SELECT job FROM seawall_dead_letter
    WHERE state = 'dismissed' AND handled_at < :now - :age
    ORDER BY handled_at, job LIMIT :limit
);
DELETE FROM seawall_output WHERE job IN (
    SELECT job FROM seawall_dead_letter
    WHERE state = 'dismissed' AND handled_at < :now - :age
    ORDER BY handled_at, job LIMIT :limit
);
DELETE FROM seawall_evidence WHERE job IN (
    SELECT job FROM seawall_dead_letter
    WHERE state = 'dismissed' AND handled_at < :now - :age
    ORDER BY handled_at, job LIMIT :limit
);
DELETE FROM seawall_progress WHERE job IN (
    SELECT job FROM seawall_dead_letter
    WHERE state = 'dismissed' AND handled_at < :now - :age
    ORDER BY handled_at, job LIMIT :limit
);
DELETE FROM seawall_usage WHERE job IN (
    SELECT job FROM seawall_dead_letter
    WHERE state = 'dismissed' AND handled_at < :now - :age
    ORDER BY handled_at, job LIMIT :limit
);
DELETE FROM seawall_attempt WHERE job IN (
    SELECT job FROM seawall_dead_letter
    WHERE state = 'dismissed' AND handled_at < :now - :age
    ORDER BY handled_at, job LIMIT :limit
);
DELETE FROM seawall_job WHERE state = 'failed' AND id IN (
    SELECT job FROM seawall_dead_letter
    WHERE state = 'dismissed' AND handled_at < :now - :age
    ORDER BY handled_at, job LIMIT :limit
);
UPDATE seawall_tally SET jobs = jobs + changes() WHERE name = 'failed';
DELETE FROM seawall_dead_letter WHERE job IN (
    SELECT job FROM seawall_dead_letter
    WHERE state = 'dismissed' AND handled_at < :now - :age
    ORDER BY handled_at, job LIMIT :limit
)
RETURNING job;

-- name: fold
-- Folds what came in into the tally: nothing to do here, where it is counted there at once.
SELECT 0 WHERE :limit < 0;

-- name: fold_runs
-- Folds what batches of items changed into the tallies of their runs: nothing to do here either.
SELECT 0 WHERE :limit < 0;
