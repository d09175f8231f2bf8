-- name: cancel
-- Cancels queued jobs at once and asks running ones to stop.
-- moves: cancel
INSERT INTO seawall_pace_change (minute, task, queue, became, age_bucket, many, age)
SELECT :now / 60000000, lane.task, lane.queue, 'cancelled',
    (SELECT bucket FROM seawall_span_bucket WHERE upto >= max(0, :now - job.created_at) ORDER BY upto LIMIT 1),
    1, max(0, :now - job.created_at)
FROM seawall_job AS job CROSS JOIN seawall_lane AS lane ON lane.id = job.lane
WHERE job.id = :id AND job.state = 'queued'
ON CONFLICT (minute, task, queue, outcome, became, code, took_bucket, age_bucket) DO UPDATE
SET many = many + excluded.many, age = age + excluded.age;
UPDATE seawall_job
SET cancel_requested = (state = 'running'),
    finished_at = iif(state = 'queued', :now, NULL),
    state = iif(state = 'queued', 'cancelled', state)
WHERE id = :id AND state IN ('queued', 'running')
RETURNING id, state;

-- name: find_states
-- The states of those of these jobs that exist.
SELECT id, state FROM seawall_job WHERE id = :id;

-- name: stopping
-- The jobs in a worker's hands of which somebody asked that they stop.
SELECT id, lease_no, seq FROM seawall_job
WHERE worker = :worker AND cancel_requested
ORDER BY id LIMIT :limit;
