-- name: read_jobs
-- The jobs of these ids.
SELECT
    job.id, job.lane, job.state, job.due_at, job.cycle, job.tries, job.losses, job.seq,
    job.lease_no, job.worker, job.claimed_at, job.lease_until, job.cancel_requested,
    job.deadline_at, job.run, job.owner, job.created_at, job.started_at, job.last_attempt_at,
    job.finished_at, job.last_fault, job_key.key,
    (SELECT json_agg(tag)::text FROM seawall.job_tag WHERE job_tag.job = job.id),
    (SELECT data.parent FROM seawall.job_data AS data WHERE data.job = job.id)
FROM json_to_recordset(%(rows)s) AS given (id bigint)
JOIN seawall.job USING (id)
LEFT JOIN seawall.job_key ON job_key.job = job.id;

-- name: read_attempts
-- A job's history, oldest first.
SELECT
    attempt.job, attempt.seq, attempt.cycle, attempt.stage, attempt.worker, attempt.started_at,
    attempt.finished_at, attempt.outcome, attempt.counted, attempt.fault, attempt.delay,
    attempt.policy, data.request_id, attempt.config
FROM seawall.attempt LEFT JOIN seawall.job_data AS data USING (job)
WHERE attempt.job = %(job)s AND attempt.seq > %(after)s
ORDER BY attempt.seq LIMIT %(limit)s;

-- name: read_output
-- What a finished stage of a job left.
SELECT content FROM seawall.output WHERE job = %(job)s AND stage = %(stage)s;

-- name: read_references
-- Which of these texts, which stand for artifacts, are what some stage left.
SELECT DISTINCT content FROM seawall.output
WHERE starts_with(content, '{"$seawall.artifact"') AND content = ANY (%(texts)s::text[]);

-- name: count_states
-- How many jobs stand in each state.
SELECT state, count(*) FROM seawall.job GROUP BY state;

-- name: read_arguments
-- What a job was asked to work on.
SELECT arguments FROM seawall.job_data WHERE job = %(job)s;

-- name: read_trace
-- In which trace a job was asked for.
SELECT trace FROM seawall.job_data WHERE job = %(job)s;

-- name: read_texts
-- The same for several jobs at once.
SELECT data.job, data.arguments
FROM json_to_recordset(%(rows)s) AS given (id bigint)
CROSS JOIN LATERAL (
    SELECT * FROM seawall.job_data WHERE job_data.job = given.id
    LIMIT 1  -- one look into the index for each row, whatever the planner believes
) AS data;

-- name: read_children
-- The jobs that a job asked for, the first one first; with an owner, that one's.
SELECT data.job
FROM seawall.job_data AS data
WHERE data.parent = %(parent)s AND data.parent IS NOT NULL AND data.job > %(after)s
    AND CASE WHEN %(owner)s::text IS NULL OR (
        SELECT job.owner FROM seawall.job WHERE job.id = data.job
    ) = %(owner)s THEN true ELSE false END
ORDER BY data.job LIMIT %(limit)s;

-- name: read_evidence
-- What an attempt left for operators.
SELECT traceback, raw_output FROM seawall.evidence WHERE job = %(job)s AND seq = %(seq)s;

-- name: heads
-- Every lane in which something waits, and when the first of it is due. One look into each lane.
SELECT visit.lane, visit.due_at
FROM (
    SELECT lane.id AS lane, (
        SELECT waiting.due_at FROM seawall.job AS waiting
        WHERE waiting.lane = lane.id AND waiting.state = 'queued'
        ORDER BY waiting.due_at LIMIT 1
    ) AS due_at
    FROM seawall.lane AS lane
) AS visit
WHERE visit.due_at IS NOT NULL
ORDER BY visit.lane;

-- name: backlog
-- How many jobs of each lane wait for now, wait for later and run, and since when the first waits.
SELECT lane, sum(due)::bigint, sum(later)::bigint, sum(running)::bigint, min(oldest)
FROM (
    SELECT lane, count(*) FILTER (WHERE due_at <= coalesce(%(now)s::timestamptz, now())) AS due,
        count(*) FILTER (WHERE due_at > coalesce(%(now)s::timestamptz, now())) AS later, 0 AS running,
        min(due_at) FILTER (WHERE due_at <= coalesce(%(now)s::timestamptz, now())) AS oldest
    FROM seawall.job AS job WHERE state = 'queued' GROUP BY lane
    UNION ALL
    SELECT lane, 0, 0, count(*), NULL
    FROM seawall.job AS job WHERE state = 'running' GROUP BY lane
) AS counted
GROUP BY lane ORDER BY lane;
