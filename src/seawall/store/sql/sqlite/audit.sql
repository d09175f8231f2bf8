-- name: audit_stages
-- How the attempts of a run's items went, by stage, and how long those took that a handler ended:
-- the value at or below which half of them lie, 95 and 99 of a hundred, and the longest.
SELECT stage, count(*),
    count(*) FILTER (WHERE outcome IN ('succeeded', 'advanced', 'skipped')),
    count(*) FILTER (WHERE outcome = 'retried'),
    count(*) FILTER (WHERE outcome = 'failed'),
    count(*) FILTER (WHERE outcome = 'lost'),
    max(took) FILTER (WHERE ended AND place = (ends * 50 + 99) / 100),
    max(took) FILTER (WHERE ended AND place = (ends * 95 + 99) / 100),
    max(took) FILTER (WHERE ended AND place = (ends * 99 + 99) / 100),
    max(took) FILTER (WHERE ended)
FROM (
    SELECT stage, outcome, took, ended,
        row_number() OVER (PARTITION BY stage, ended ORDER BY took) AS place,
        count(*) OVER (PARTITION BY stage, ended) AS ends
    FROM (
        SELECT attempt.stage, attempt.outcome,
            attempt.finished_at - attempt.started_at AS took,
            attempt.outcome IN ('succeeded', 'advanced', 'skipped', 'retried', 'failed') AS ended
        FROM seawall_job AS job INDEXED BY seawall_job_run
        CROSS JOIN seawall_attempt AS attempt ON attempt.job = job.id
        WHERE job.run = :run
    )
)
GROUP BY stage ORDER BY stage;

-- name: audit_tries
-- How many items of a run needed so many attempts at a stage; those with many are counted together.
SELECT stage, tries, count(*)
FROM (
    SELECT attempt.stage, min(count(*), :most) AS tries
    FROM seawall_job AS job INDEXED BY seawall_job_run
    CROSS JOIN seawall_attempt AS attempt ON attempt.job = job.id
    WHERE job.run = :run AND attempt.outcome NOT IN ('released', 'snoozed', 'cancelled')
    GROUP BY attempt.job, attempt.stage
)
GROUP BY stage, tries ORDER BY stage, tries;

-- name: audit_troubles
-- What attempts of a run's items went wrong for, the commonest first, with the last attempt that
-- did; and how many kinds there are in all.
SELECT stage, fingerprint, code, attempts, items, message, job, count(*) OVER ()
FROM (
    -- Beside max() of one column SQLite takes the others from the row that has it.
    SELECT stage, fault ->> 'fingerprint' AS fingerprint, fault ->> 'code' AS code,
        count(*) AS attempts, count(DISTINCT job) AS items, fault ->> 'message' AS message,
        max(job) AS job
    FROM (
        SELECT attempt.stage, attempt.fault, attempt.job
        FROM seawall_job AS item INDEXED BY seawall_job_run
        CROSS JOIN seawall_attempt AS attempt ON attempt.job = item.id
        WHERE item.run = :run AND attempt.fault IS NOT NULL
    )
    GROUP BY stage, fault ->> 'fingerprint', fault ->> 'code'
)
ORDER BY attempts DESC, job DESC LIMIT :limit;

-- name: audit_configs
-- Which configurations of its stages a run's attempts were made with, and from when to when; and
-- how many there are in all.
SELECT stage, config, attempts, first_at, last_at, count(*) OVER ()
FROM (
    SELECT attempt.stage, attempt.config, count(*) AS attempts,
        min(attempt.started_at) AS first_at, max(attempt.finished_at) AS last_at
    FROM seawall_job AS job INDEXED BY seawall_job_run
    CROSS JOIN seawall_attempt AS attempt ON attempt.job = job.id
    WHERE job.run = :run AND attempt.config IS NOT NULL
    GROUP BY attempt.stage, attempt.config
)
ORDER BY stage, first_at, config LIMIT :limit;

-- name: audit_success
-- How long the items of a run that succeeded took from being asked for to their end.
SELECT count(*),
    max(took) FILTER (WHERE place = (ends * 50 + 99) / 100),
    max(took) FILTER (WHERE place = (ends * 95 + 99) / 100),
    max(took) FILTER (WHERE place = (ends * 99 + 99) / 100),
    max(took)
FROM (
    SELECT took, row_number() OVER (ORDER BY took) AS place, count(*) OVER () AS ends
    FROM (
        SELECT finished_at - created_at AS took
        FROM seawall_job INDEXED BY seawall_job_run
        WHERE run = :run AND state = 'succeeded'
    )
);

-- name: audit_failed
-- The items of a run that failed, the first ones first.
SELECT id, stage,
    (SELECT key FROM seawall_job_key AS named WHERE named.job = job.id), seq, last_fault, finished_at
FROM seawall_job AS job INDEXED BY seawall_job_run_failed
WHERE run = :run AND state = 'failed'
ORDER BY id LIMIT :limit;
