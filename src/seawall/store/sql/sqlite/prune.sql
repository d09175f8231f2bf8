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
DELETE FROM seawall_attempt WHERE job IN (
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

-- name: fold
-- Folds what came in into the tally: nothing to do here, where it is counted there at once.
SELECT 0 WHERE :limit < 0;
