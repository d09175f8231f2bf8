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
    RETURNING id, run, stage
),
keys AS (DELETE FROM seawall.job_key WHERE job = ANY (ARRAY(SELECT id FROM gone))),
tags AS (DELETE FROM seawall.job_tag WHERE job = ANY (ARRAY(SELECT id FROM gone))),
data AS (DELETE FROM seawall.job_data WHERE job = ANY (ARRAY(SELECT id FROM gone))),
outputs AS (DELETE FROM seawall.output WHERE job = ANY (ARRAY(SELECT id FROM gone))),
evidence AS (DELETE FROM seawall.evidence WHERE job = ANY (ARRAY(SELECT id FROM gone))),
progress AS (DELETE FROM seawall.progress WHERE job = ANY (ARRAY(SELECT id FROM gone))),
letters AS (DELETE FROM seawall.dead_letter WHERE job = ANY (ARRAY(SELECT id FROM gone))),
attempts AS (DELETE FROM seawall.attempt WHERE job = ANY (ARRAY(SELECT id FROM gone))),
usages AS (DELETE FROM seawall.usage WHERE job = ANY (ARRAY(SELECT id FROM gone))),
items AS (
    INSERT INTO seawall.run_change (run, stage, pruned)
    SELECT run, stage, count(*) FROM gone WHERE run IS NOT NULL GROUP BY run, stage
),
counted AS (
    UPDATE seawall.tally SET jobs = jobs + (SELECT count(*) FROM gone)
    WHERE name = %(state)s AND EXISTS (SELECT FROM gone)
)
SELECT count(*) FROM gone;

-- name: prune_dismissed
-- Removes failed jobs whose dead letters were dismissed long enough ago, as `prune` does.
-- Their letters are locked with them: whoever opens one again at this moment keeps its job.
-- moves: prune
WITH gone AS (
    DELETE FROM seawall.job
    WHERE id = ANY (ARRAY(
        SELECT failed.id
        FROM seawall.dead_letter AS letter JOIN seawall.job AS failed ON failed.id = letter.job
        WHERE letter.state = 'dismissed' AND failed.state = 'failed'
            AND letter.handled_at
                < coalesce(%(now)s::timestamptz, now()) - %(age)s * interval '1 microsecond'
        ORDER BY letter.handled_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ))
    RETURNING id, run, stage
),
keys AS (DELETE FROM seawall.job_key WHERE job = ANY (ARRAY(SELECT id FROM gone))),
tags AS (DELETE FROM seawall.job_tag WHERE job = ANY (ARRAY(SELECT id FROM gone))),
data AS (DELETE FROM seawall.job_data WHERE job = ANY (ARRAY(SELECT id FROM gone))),
outputs AS (DELETE FROM seawall.output WHERE job = ANY (ARRAY(SELECT id FROM gone))),
evidence AS (DELETE FROM seawall.evidence WHERE job = ANY (ARRAY(SELECT id FROM gone))),
progress AS (DELETE FROM seawall.progress WHERE job = ANY (ARRAY(SELECT id FROM gone))),
letters AS (DELETE FROM seawall.dead_letter WHERE job = ANY (ARRAY(SELECT id FROM gone))),
attempts AS (DELETE FROM seawall.attempt WHERE job = ANY (ARRAY(SELECT id FROM gone))),
usages AS (DELETE FROM seawall.usage WHERE job = ANY (ARRAY(SELECT id FROM gone))),
items AS (
    INSERT INTO seawall.run_change (run, stage, pruned)
    SELECT run, stage, count(*) FROM gone WHERE run IS NOT NULL GROUP BY run, stage
),
counted AS (
    UPDATE seawall.tally SET jobs = jobs + (SELECT count(*) FROM gone)
    WHERE name = 'failed' AND EXISTS (SELECT FROM gone)
)
SELECT id FROM gone;

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

-- name: fold_runs
-- Folds what batches of items changed into the tallies of their runs.
WITH folded AS (
    DELETE FROM seawall.run_change
    WHERE id = ANY (ARRAY(
        SELECT id FROM seawall.run_change ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
),
summed AS (
    INSERT INTO seawall.run_tally AS tally (run, stage, entered, succeeded, skipped, failed, cancelled,
        advanced, retried, pruned, tokens_in, tokens_out, cost)
    SELECT run, stage, sum(entered), sum(succeeded), sum(skipped), sum(failed), sum(cancelled),
        sum(advanced), sum(retried), sum(pruned), sum(tokens_in), sum(tokens_out), sum(cost)
    FROM folded GROUP BY run, stage ORDER BY run, stage
    ON CONFLICT (run, stage) DO UPDATE
    SET entered = tally.entered + excluded.entered,
        succeeded = tally.succeeded + excluded.succeeded,
        skipped = tally.skipped + excluded.skipped,
        failed = tally.failed + excluded.failed,
        cancelled = tally.cancelled + excluded.cancelled,
        advanced = tally.advanced + excluded.advanced,
        retried = tally.retried + excluded.retried,
        pruned = tally.pruned + excluded.pruned,
        tokens_in = tally.tokens_in + excluded.tokens_in,
        tokens_out = tally.tokens_out + excluded.tokens_out,
        cost = tally.cost + excluded.cost
)
SELECT count(*) FROM folded;
