-- name: read_jobs
-- The jobs of these ids.
SELECT
    job.id, job.lane, job.state, job.due_at, job.cycle, job.tries, job.losses, job.seq,
    job.lease_no, job.worker, job.claimed_at, job.lease_until, job.cancel_requested,
    job.deadline_at, job.run, job.owner, job.created_at, job.started_at, job.last_attempt_at,
    job.finished_at, job.last_fault, job_key.key
FROM seawall_job AS job LEFT JOIN seawall_job_key AS job_key ON job_key.job = job.id
WHERE job.id = :id;

-- name: read_attempts
-- A job's history, oldest first.
SELECT
    attempt.job, attempt.seq, attempt.cycle, attempt.stage, attempt.worker, attempt.started_at,
    attempt.finished_at, attempt.outcome, attempt.counted, attempt.fault, attempt.delay,
    attempt.policy, data.request_id
FROM seawall_attempt AS attempt LEFT JOIN seawall_job_data AS data ON data.job = attempt.job
WHERE attempt.job = :job AND attempt.seq > :after
ORDER BY attempt.seq LIMIT :limit;

-- name: read_output
-- What a finished stage of a job left.
SELECT content FROM seawall_output WHERE job = :job AND stage = :stage;

-- name: count_states
-- How many jobs stand in each state.
SELECT state, count(*) FROM seawall_job GROUP BY state;
