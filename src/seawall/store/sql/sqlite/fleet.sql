-- name: appear
-- Keeps that a worker is alive now, and what it says of itself.
INSERT INTO seawall_worker (id, host, pid, version, queues, tasks, concurrency, running, stopping,
    started_at, seen_at)
VALUES (:worker, :host, :pid, :version, :queues, :tasks, :concurrency, :running, :stopping,
    :now, :now)
ON CONFLICT (id) DO UPDATE
SET host = excluded.host, pid = excluded.pid, version = excluded.version,
    queues = excluded.queues, tasks = excluded.tasks, concurrency = excluded.concurrency,
    running = excluded.running, stopping = excluded.stopping, seen_at = excluded.seen_at
RETURNING id;

-- name: leave
-- Removes a worker that is gone for good.
DELETE FROM seawall_worker WHERE id = :worker RETURNING id;

-- name: seen_workers
-- The workers that have told of themselves lately, the oldest first.
SELECT id, host, pid, version, queues, tasks, concurrency, running, stopping, started_at, seen_at
FROM seawall_worker
WHERE seen_at >= :now - :age
ORDER BY started_at, id;

-- name: forget_workers
-- Removes workers that have been silent for long.
DELETE FROM seawall_worker
WHERE id IN (
    SELECT id FROM seawall_worker WHERE seen_at < :now - :age ORDER BY seen_at LIMIT :limit
)
RETURNING id;

-- name: take_turn
-- Takes the fleet's turn at a chore where it is due, and says when the next is. A turn that is
-- further ahead than any can be was set by a clock that was wrong: it is taken.
INSERT INTO seawall_turn (chore, worker, next_at) VALUES (:chore, :worker, :now + :every)
ON CONFLICT (chore) DO UPDATE
SET worker = excluded.worker, next_at = excluded.next_at
WHERE seawall_turn.next_at <= :now OR seawall_turn.next_at > :now + :every + :slack
RETURNING next_at;
