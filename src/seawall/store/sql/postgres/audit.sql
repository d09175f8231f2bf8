-- name: audit_stages
-- How the attempts of a run's items went, by stage, and how long those took that a handler ended:
-- the value at or below which half of them lie, 95 and 99 of a hundred, and the longest.
-- OFFSET 0 keeps the planner from reading the attempts of all other runs, here and below.
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
        SELECT made.stage, made.outcome,
            (extract(epoch FROM made.finished_at - made.started_at) * 1000000)::bigint AS took,
            made.outcome IN ('succeeded', 'advanced', 'skipped', 'retried', 'failed') AS ended
        FROM seawall.job CROSS JOIN LATERAL (
            SELECT * FROM seawall.attempt WHERE attempt.job = job.id OFFSET 0
        ) AS made
        WHERE job.run = %(run)s
    ) AS attempts
) AS placed
GROUP BY stage ORDER BY stage;

-- name: audit_tries
-- How many items of a run needed so many attempts at a stage; those with many are counted together.
SELECT stage, tries, count(*)
FROM (
    SELECT made.stage, least(count(*), %(most)s) AS tries
    FROM seawall.job CROSS JOIN LATERAL (
        SELECT * FROM seawall.attempt WHERE attempt.job = job.id OFFSET 0
    ) AS made
    WHERE job.run = %(run)s AND made.outcome NOT IN ('released', 'snoozed', 'cancelled')
    GROUP BY made.job, made.stage
) AS tried
GROUP BY stage, tries ORDER BY stage, tries;

-- name: audit_troubles
-- What attempts of a run's items went wrong for, the commonest first, with the last attempt that
-- did; and how many kinds there are in all.
SELECT stage, fingerprint, code, attempts, items, message, job, count(*) OVER ()
FROM (
    SELECT stage, fault ->> 'fingerprint' AS fingerprint, fault ->> 'code' AS code,
        count(*) AS attempts, count(DISTINCT job) AS items,
        (array_agg(fault ->> 'message' ORDER BY job DESC, seq))[1] AS message, max(job) AS job
    FROM (
        SELECT made.stage, made.fault::json AS fault, made.job, made.seq
        FROM seawall.job CROSS JOIN LATERAL (
            SELECT * FROM seawall.attempt WHERE attempt.job = job.id OFFSET 0
        ) AS made
        WHERE job.run = %(run)s AND made.fault IS NOT NULL
    ) AS wrong
    GROUP BY stage, fault ->> 'fingerprint', fault ->> 'code'
) AS kinds
ORDER BY attempts DESC, job DESC LIMIT %(limit)s;

-- name: audit_configs
-- Which configurations of its stages a run's attempts were made with, and from when to when; and
-- how many there are in all.
SELECT stage, config, attempts, first_at, last_at, count(*) OVER ()
FROM (
    SELECT made.stage, made.config, count(*) AS attempts,
        min(made.started_at) AS first_at, max(made.finished_at) AS last_at
    FROM seawall.job CROSS JOIN LATERAL (
        SELECT * FROM seawall.attempt WHERE attempt.job = job.id OFFSET 0
    ) AS made
    WHERE job.run = %(run)s AND made.config IS NOT NULL
    GROUP BY made.stage, made.config
) AS seen
ORDER BY stage, first_at, config LIMIT %(limit)s;

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
        SELECT (extract(epoch FROM finished_at - created_at) * 1000000)::bigint AS took
        FROM seawall.job
        WHERE run = %(run)s AND state = 'succeeded'
    ) AS succeeded
) AS placed;

-- name: audit_failed
-- The items of a run that failed, the first ones first.
SELECT id, stage,
    (SELECT key FROM seawall.job_key AS named WHERE named.job = job.id), seq, last_fault, finished_at
FROM seawall.job
WHERE run = %(run)s AND state = 'failed'
ORDER BY id LIMIT %(limit)s;
