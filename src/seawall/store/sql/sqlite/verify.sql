-- name: books
-- What came in, what is there, and what was pruned: the first must equal the other two.
SELECT
    (SELECT coalesce(sum(jobs), 0) FROM seawall_tally WHERE name = 'enqueued'),
    (SELECT count(*) FROM seawall_job AS job),
    (SELECT coalesce(sum(jobs), 0) FROM seawall_tally WHERE name <> 'enqueued');

-- name: jobs_without_data
-- Every job has its arguments.
SELECT id FROM seawall_job AS job WHERE NOT EXISTS (SELECT 1 FROM seawall_job_data AS job_data WHERE job = job.id)
LIMIT :limit;

-- name: rows_without_a_job
-- Data, keys, tags, outputs, attempts, usage, evidence, progress and dead letters belong to a job that is
-- there.
SELECT job FROM seawall_job_data AS loose
WHERE NOT EXISTS (SELECT 1 FROM seawall_job AS job WHERE id = loose.job)
UNION SELECT job FROM seawall_job_key AS loose
WHERE NOT EXISTS (SELECT 1 FROM seawall_job AS job WHERE id = loose.job)
UNION SELECT job FROM seawall_output AS loose
WHERE NOT EXISTS (SELECT 1 FROM seawall_job AS job WHERE id = loose.job)
UNION SELECT job FROM seawall_attempt AS loose
WHERE NOT EXISTS (SELECT 1 FROM seawall_job AS job WHERE id = loose.job)
UNION SELECT job FROM seawall_job_tag AS loose
WHERE NOT EXISTS (SELECT 1 FROM seawall_job AS job WHERE id = loose.job)
UNION SELECT job FROM seawall_evidence AS loose
WHERE NOT EXISTS (SELECT 1 FROM seawall_job AS job WHERE id = loose.job)
UNION SELECT job FROM seawall_progress AS loose
WHERE NOT EXISTS (SELECT 1 FROM seawall_job AS job WHERE id = loose.job)
UNION SELECT job FROM seawall_usage AS loose
WHERE NOT EXISTS (SELECT 1 FROM seawall_job AS job WHERE id = loose.job)
UNION SELECT job FROM seawall_dead_letter AS loose
WHERE NOT EXISTS (SELECT 1 FROM seawall_job AS job WHERE id = loose.job)
LIMIT :limit;

-- name: jobs_in_no_lane
-- Every job stands in a lane, and in one of its own stage.
SELECT id FROM seawall_job AS job
WHERE NOT EXISTS (
    SELECT 1 FROM seawall_lane AS lane WHERE lane.id = job.lane AND lane.stage = job.stage
)
LIMIT :limit;

-- name: history_with_gaps
-- History has every attempt from 1 to the job's seq, and nothing beyond.
SELECT job.id
FROM seawall_job AS job LEFT JOIN seawall_attempt AS attempt ON attempt.job = job.id
GROUP BY job.id, job.seq
HAVING count(attempt.seq) <> job.seq OR coalesce(max(attempt.seq), 0) <> job.seq
LIMIT :limit;

-- name: wrong_counts
-- The counts of tries and losses are what history says of this cycle.
SELECT job.id
FROM seawall_job AS job LEFT JOIN seawall_attempt AS attempt ON attempt.job = job.id AND attempt.cycle = job.cycle
GROUP BY job.id, job.tries, job.losses, job.stage
HAVING job.tries <> count(*) FILTER (WHERE attempt.counted AND attempt.stage = job.stage)
    OR job.losses <> count(*) FILTER (WHERE attempt.outcome = 'lost')
LIMIT :limit;

-- name: leases_out_of_order
-- Lease numbers never fall along a job's history, nor exceed the job's own.
SELECT DISTINCT job
FROM (
    SELECT
        attempt.job, attempt.lease_no, job.lease_no AS latest,
        lag(attempt.lease_no) OVER (PARTITION BY attempt.job ORDER BY attempt.seq) AS earlier
    FROM seawall_attempt AS attempt JOIN seawall_job AS job ON job.id = attempt.job
) AS history
WHERE lease_no < earlier OR lease_no > latest
LIMIT :limit;

-- name: leases_used_twice
-- A lease carries one attempt, and another only after a finished stage.
SELECT DISTINCT job
FROM (
    SELECT
        attempt.job, attempt.lease_no, attempt.outcome,
        coalesce(
            lead(attempt.lease_no) OVER (PARTITION BY attempt.job ORDER BY attempt.seq),
            CASE WHEN job.state = 'running' THEN job.lease_no END
        ) AS later
    FROM seawall_attempt AS attempt JOIN seawall_job AS job ON job.id = attempt.job
) AS history
WHERE lease_no = later AND outcome <> 'advanced'
LIMIT :limit;

-- name: ends_without_an_attempt
-- What succeeded, or was skipped, did so in its last attempt, and stays so.
SELECT job.id
FROM seawall_job AS job
LEFT JOIN seawall_attempt AS attempt ON attempt.job = job.id AND attempt.seq = job.seq
WHERE (job.state IN ('succeeded', 'skipped') OR attempt.outcome IN ('succeeded', 'skipped'))
    AND attempt.outcome IS NOT job.state
LIMIT :limit;

-- name: evidence_of_no_attempt
-- Evidence belongs to an attempt that history has.
SELECT DISTINCT loose.job
FROM seawall_evidence AS loose JOIN seawall_job AS job ON job.id = loose.job
WHERE NOT EXISTS (
    SELECT 1 FROM seawall_attempt AS attempt WHERE attempt.job = loose.job AND attempt.seq = loose.seq
)
LIMIT :limit;

-- name: progress_of_no_attempt
-- Progress was told by an attempt that has been made or is being made.
SELECT loose.job
FROM seawall_progress AS loose JOIN seawall_job AS job ON job.id = loose.job
WHERE loose.lease_no > job.lease_no OR loose.seq > job.seq + 1
LIMIT :limit;

-- name: failures_without_a_letter
-- Every failed job has a dead letter, open or dismissed, that tells of its last failure.
SELECT job.id
FROM seawall_job AS job LEFT JOIN seawall_dead_letter AS letter ON letter.job = job.id
WHERE job.state = 'failed' AND (
    letter.job IS NULL OR letter.state = 'redriven'
    OR letter.stage <> job.stage OR letter.attempts <> job.seq OR letter.fault <> job.last_fault
)
LIMIT :limit;

-- name: letters_of_no_failure
-- A dead letter is open or dismissed only while its job stands as failed.
SELECT job.id
FROM seawall_dead_letter AS letter JOIN seawall_job AS job ON job.id = letter.job
WHERE letter.state <> 'redriven' AND job.state <> 'failed'
LIMIT :limit;

-- name: usage_of_no_attempt
-- What was used up was used by an attempt that history has.
SELECT DISTINCT loose.job
FROM seawall_usage AS loose JOIN seawall_job AS job ON job.id = loose.job
WHERE NOT EXISTS (
    SELECT 1 FROM seawall_attempt AS attempt WHERE attempt.job = loose.job AND attempt.seq = loose.seq
)
LIMIT :limit;

-- name: stranded_items
-- What has not ended is of no run that is over: nobody would look for it.
SELECT job.id
FROM seawall_job AS job JOIN seawall_run AS run ON run.id = job.run
WHERE job.finished_at IS NULL AND run.closed_at IS NOT NULL
LIMIT :limit;

-- name: items_unaccounted_for
-- What came into a run, and was not pruned, is there; here the numbers are those of runs.
SELECT run
FROM (
    SELECT run, sum(entered - pruned) AS items FROM seawall_run_tally GROUP BY run
    UNION ALL SELECT run, -count(*) FROM seawall_job WHERE run IS NOT NULL GROUP BY run
) AS counted
GROUP BY run HAVING sum(items) <> 0
LIMIT :limit;

-- name: wrong_items
-- The counts of a run are those of its items, at every stage; here the numbers are those of runs.
SELECT DISTINCT run
FROM (
    SELECT run, stage, succeeded, skipped, failed, cancelled, pruned FROM seawall_run_tally
    UNION ALL SELECT run, stage, -sum(state = 'succeeded'), -sum(state = 'skipped'),
        -sum(state = 'failed'), -sum(state = 'cancelled'), 0
    FROM seawall_job WHERE run IS NOT NULL AND finished_at IS NOT NULL GROUP BY run, stage
) AS counted
GROUP BY run, stage
-- What was pruned is counted by its stage, and not by how it ended.
HAVING sum(succeeded + skipped + failed + cancelled - pruned) <> 0
    OR min(sum(succeeded), sum(skipped), sum(failed), sum(cancelled)) < 0
LIMIT :limit;

-- name: wrong_pace
-- What was counted as it happened is what the rows tell: as many came in, and of each end there are as
-- many as are there, were pruned or were sent again. Here the numbers say by how many they differ.
SELECT abs(sum(many))
FROM (
    SELECT what, many FROM seawall_pace_total WHERE kind = 'job'
    UNION ALL SELECT became, many FROM seawall_pace_change WHERE became <> ''
    UNION ALL SELECT iif(name = 'enqueued', 'created', name), -jobs FROM seawall_tally
    UNION ALL SELECT state, -count(*) FROM seawall_job WHERE finished_at IS NOT NULL GROUP BY state
    UNION ALL SELECT 'failed', -many FROM seawall_pace_total WHERE kind = 'job' AND what = 'redriven'
    UNION ALL SELECT 'failed', -many FROM seawall_pace_change WHERE became = 'redriven'
) AS counted
WHERE what <> 'redriven'
GROUP BY what HAVING sum(many) <> 0
LIMIT :limit;
