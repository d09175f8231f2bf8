-- name: read_jobs
-- The jobs of these ids.
SELECT
    job.id, job.lane, job.state, job.due_at, job.cycle, job.tries, job.losses, job.seq,
    job.lease_no, job.worker, job.claimed_at, job.lease_until, job.cancel_requested,
    job.deadline_at, job.run, job.owner, job.created_at, job.started_at, job.last_attempt_at,
    job.finished_at, job.last_fault, job_key.key,
    (SELECT json_group_array(tag) FROM seawall_job_tag WHERE seawall_job_tag.job = job.id),
    (SELECT data.parent FROM seawall_job_data AS data WHERE data.job = job.id)
FROM seawall_job AS job LEFT JOIN seawall_job_key AS job_key ON job_key.job = job.id
WHERE job.id = :id;

-- name: read_attempts
-- A job's history, oldest first.
SELECT
    attempt.job, attempt.seq, attempt.cycle, attempt.stage, attempt.worker, attempt.started_at,
    attempt.finished_at, attempt.outcome, attempt.counted, attempt.fault, attempt.delay,
    attempt.policy, data.request_id, attempt.config
FROM seawall_attempt AS attempt LEFT JOIN seawall_job_data AS data ON data.job = attempt.job
WHERE attempt.job = :job AND attempt.seq > :after
ORDER BY attempt.seq LIMIT :limit;

-- name: read_output
-- What a finished stage of a job left.
SELECT content FROM seawall_output WHERE job = :job AND stage = :stage;

-- name: read_references
-- Which of these texts, which stand for artifacts, are what some stage left.
SELECT DISTINCT content FROM seawall_output
WHERE substr(content, 1, 20) = '{"$seawall.artifact"'
    AND content IN (SELECT value FROM json_each(:texts));

-- name: count_states
-- How many jobs stand in each state.
SELECT state, count(*) FROM seawall_job GROUP BY state;

-- name: read_arguments
-- What a job was asked to work on.
SELECT arguments FROM seawall_job_data WHERE job = :job;

-- name: read_trace
-- In which trace a job was asked for.
SELECT trace FROM seawall_job_data WHERE job = :job;

-- name: read_texts
-- The same for several jobs at once.
SELECT job, arguments FROM seawall_job_data WHERE job = :id;

-- name: read_children
-- The jobs that a job asked for, the first one first; with an owner, that one's.
SELECT data.job
FROM seawall_job_data AS data INDEXED BY seawall_job_data_parent
CROSS JOIN seawall_job AS job ON job.id = data.job
WHERE data.parent = :parent AND data.parent IS NOT NULL AND data.job > :after
    AND (:owner IS NULL OR job.owner = :owner)
ORDER BY data.job LIMIT :limit;

-- name: read_evidence
-- What an attempt left for operators.
SELECT traceback, raw_output FROM seawall_evidence WHERE job = :job AND seq = :seq;

-- name: heads
-- Every lane in which something waits, and when the first of it is due. One look into each lane.
SELECT visit.lane, visit.due_at
FROM (
    SELECT lane.id AS lane, (
        SELECT waiting.due_at FROM seawall_job AS waiting
        WHERE waiting.lane = lane.id AND waiting.state = 'queued'
        ORDER BY waiting.due_at LIMIT 1
    ) AS due_at
    FROM seawall_lane AS lane
) AS visit
WHERE visit.due_at IS NOT NULL
ORDER BY visit.lane;

-- name: backlog
-- How many jobs of each lane wait for now, wait for later and run, and since when the first waits.
SELECT lane, sum(due), sum(later), sum(running), min(oldest)
FROM (
    SELECT lane, count(*) FILTER (WHERE due_at <= :now) AS due,
        count(*) FILTER (WHERE due_at > :now) AS later, 0 AS running,
        min(due_at) FILTER (WHERE due_at <= :now) AS oldest
    FROM seawall_job AS job WHERE state = 'queued' GROUP BY lane
    UNION ALL
    SELECT lane, 0, 0, count(*), NULL
    FROM seawall_job AS job WHERE state = 'running' GROUP BY lane
) AS counted
GROUP BY lane ORDER BY lane;
