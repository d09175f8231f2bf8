-- name: prune
-- Removes jobs that finished long enough ago, with all that hangs on them, and counts them into
-- the tally by the state they ended in.
-- moves: prune
WITH gone AS (
    DELETE FROM seawall.job
    WHERE id = ANY (ARRAY(
        SELECT id FROM seawall.job
        WHERE state = %(state)s AND finished_at IS NOT NULL
            AND finished_at < coalesce(%(now)s::timestamptz, now()) - %(age)s * interval '1 microsecond'
        ORDER BY finished_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ))
    RETURNING id
),
keys AS (DELETE FROM seawall.job_key WHERE job = ANY (ARRAY(SELECT id FROM gone))),
tags AS (DELETE FROM seawall.job_tag WHERE job = ANY (ARRAY(SELECT id FROM gone))),
data AS (DELETE FROM seawall.job_data WHERE job = ANY (ARRAY(SELECT id FROM gone))),
outputs AS (DELETE FROM seawall.output WHERE job = ANY (ARRAY(SELECT id FROM gone))),
evidence AS (DELETE FROM seawall.evidence WHERE job = ANY (ARRAY(SELECT id FROM gone))),
progress AS (DELETE FROM seawall.progress WHERE job = ANY (ARRAY(SELECT id FROM gone))),
attempts AS (DELETE FROM seawall.attempt WHERE job = ANY (ARRAY(SELECT id FROM gone))),
counted AS (
    UPDATE seawall.tally SET jobs = jobs + (SELECT count(*) FROM gone)
    WHERE name = %(state)s AND EXISTS (SELECT FROM gone)
)
SELECT count(*) FROM gone;

-- name: fold
-- Folds what came in into the tally, so that the intake stays short.
WITH folded AS (
    DELETE FROM seawall.intake
    WHERE id = ANY (ARRAY(
        SELECT id FROM seawall.intake ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ))
    RETURNING jobs
)
UPDATE seawall.tally SET jobs = jobs + (SELECT sum(jobs) FROM folded)
WHERE name = 'enqueued' AND EXISTS (SELECT FROM folded)
RETURNING (SELECT count(*) FROM folded);
