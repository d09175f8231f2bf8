-- name: cancel
-- Cancels queued jobs at once and asks running ones to stop.
-- moves: cancel
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
