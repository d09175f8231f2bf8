-- name: cancel
-- Cancels queued jobs at once and asks running ones to stop.
-- moves: cancel
WITH locked AS MATERIALIZED (
    SELECT job.id
    FROM json_to_recordset(%(rows)s) AS given (id bigint) JOIN seawall.job USING (id)
    WHERE job.state IN ('queued', 'running')
    ORDER BY job.id FOR UPDATE OF job
)
UPDATE seawall.job
SET cancel_requested = (state = 'running'),
    finished_at = CASE WHEN state = 'queued' THEN coalesce(%(now)s::timestamptz, now()) END,
    state = CASE WHEN state = 'queued' THEN 'cancelled' ELSE state END
FROM locked
WHERE job.id = locked.id
RETURNING job.id, job.state;

-- name: find_states
-- The states of those of these jobs that exist.
SELECT job.id, job.state
FROM json_to_recordset(%(rows)s) AS given (id bigint) JOIN seawall.job USING (id);
