-- name: read_changes
-- What has become of jobs since a time, by the indexes that others need: the newest of each kind.
-- New jobs are looked for among the last by number: no index tells when a job was made. Those that
-- run are few: all of them are looked at.
-- OFFSET 0: the running ones come first, whatever the planner believes (see page_running).
SELECT * FROM (
    SELECT 'created' AS kind, job.created_at AS at,
        job.id, job.lane, job.state, job.seq, job.cycle, job.tries, job.owner, job.run, job.last_fault
    FROM seawall.job
    WHERE job.id > 0
    ORDER BY job.id DESC LIMIT %(limit)s
) AS created_jobs
WHERE at >= %(since)s::timestamptz
UNION ALL
SELECT * FROM (
    SELECT 'succeeded' AS kind, job.finished_at AS at,
        job.id, job.lane, job.state, job.seq, job.cycle, job.tries, job.owner, job.run, job.last_fault
    FROM seawall.job
    WHERE job.state = 'succeeded' AND job.finished_at IS NOT NULL
        AND job.finished_at >= %(since)s::timestamptz
    ORDER BY job.finished_at DESC LIMIT %(limit)s
) AS succeeded_jobs
UNION ALL
SELECT * FROM (
    SELECT 'skipped' AS kind, job.finished_at AS at,
        job.id, job.lane, job.state, job.seq, job.cycle, job.tries, job.owner, job.run, job.last_fault
    FROM seawall.job
    WHERE job.state = 'skipped' AND job.finished_at IS NOT NULL
        AND job.finished_at >= %(since)s::timestamptz
    ORDER BY job.finished_at DESC LIMIT %(limit)s
) AS skipped_jobs
UNION ALL
SELECT * FROM (
    SELECT 'failed' AS kind, job.finished_at AS at,
        job.id, job.lane, job.state, job.seq, job.cycle, job.tries, job.owner, job.run, job.last_fault
    FROM seawall.job
    WHERE job.state = 'failed' AND job.finished_at IS NOT NULL
        AND job.finished_at >= %(since)s::timestamptz
    ORDER BY job.finished_at DESC LIMIT %(limit)s
) AS failed_jobs
UNION ALL
SELECT * FROM (
    SELECT 'cancelled' AS kind, job.finished_at AS at,
        job.id, job.lane, job.state, job.seq, job.cycle, job.tries, job.owner, job.run, job.last_fault
    FROM seawall.job
    WHERE job.state = 'cancelled' AND job.finished_at IS NOT NULL
        AND job.finished_at >= %(since)s::timestamptz
    ORDER BY job.finished_at DESC LIMIT %(limit)s
) AS cancelled_jobs
UNION ALL
SELECT * FROM (
    SELECT 'waiting' AS kind, job.due_set_at AS at,
        job.id, job.lane, job.state, job.seq, job.cycle, job.tries, job.owner, job.run, job.last_fault
    FROM seawall.job
    WHERE job.state = 'queued' AND job.due_set_at IS NOT NULL
        AND job.due_set_at >= %(since)s::timestamptz AND (job.seq > 0 OR job.cycle > 0)
    ORDER BY job.due_set_at DESC LIMIT %(limit)s
) AS waiting_jobs
UNION ALL
SELECT * FROM (
    SELECT 'running' AS kind, job.claimed_at AS at,
        job.id, job.lane, job.state, job.seq, job.cycle, job.tries, job.owner, job.run, job.last_fault
    FROM (SELECT * FROM seawall.job WHERE state = 'running' OFFSET 0) AS job
    WHERE job.claimed_at >= %(since)s::timestamptz
    ORDER BY job.claimed_at DESC LIMIT %(limit)s
) AS running_jobs;
