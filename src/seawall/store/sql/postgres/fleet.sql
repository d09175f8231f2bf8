-- name: appear
-- Keeps that a worker is alive now, and what it says of itself.
INSERT INTO seawall.worker (id, host, pid, version, queues, tasks, concurrency, running, stopping,
    started_at, seen_at)
VALUES (%(worker)s, %(host)s, %(pid)s, %(version)s, %(queues)s, %(tasks)s, %(concurrency)s,
    %(running)s, %(stopping)s, coalesce(%(now)s::timestamptz, now()),
    coalesce(%(now)s::timestamptz, now()))
ON CONFLICT (id) DO UPDATE
SET host = excluded.host, pid = excluded.pid, version = excluded.version,
    queues = excluded.queues, tasks = excluded.tasks, concurrency = excluded.concurrency,
    running = excluded.running, stopping = excluded.stopping, seen_at = excluded.seen_at
RETURNING id;

-- name: leave
-- Removes a worker that is gone for good.
DELETE FROM seawall.worker WHERE id = %(worker)s RETURNING id;

-- name: seen_workers
-- The workers that have told of themselves lately, the oldest first.
SELECT id, host, pid, version, queues, tasks, concurrency, running, stopping, started_at, seen_at
FROM seawall.worker
WHERE seen_at >= coalesce(%(now)s::timestamptz, now()) - %(age)s * interval '1 microsecond'
ORDER BY started_at, id;

-- name: forget_workers
-- Removes workers that have been silent for long.
DELETE FROM seawall.worker
WHERE id = ANY (ARRAY(
    SELECT id FROM seawall.worker
    WHERE seen_at < coalesce(%(now)s::timestamptz, now()) - %(age)s * interval '1 microsecond'
    ORDER BY seen_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
))
RETURNING id;

-- name: take_turn
-- Takes the fleet's turn at a chore where it is due, and says when the next is. A turn that is
-- further ahead than any can be was set by a clock that was wrong: it is taken.
-- The time is told after the wait for others who take it, too.
INSERT INTO seawall.turn (chore, worker, next_at)
VALUES (%(chore)s, %(worker)s,
    coalesce(%(now)s::timestamptz, clock_timestamp()) + %(every)s * interval '1 microsecond')
ON CONFLICT (chore) DO UPDATE
SET worker = excluded.worker, next_at = excluded.next_at
WHERE turn.next_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
    OR turn.next_at > coalesce(%(now)s::timestamptz, clock_timestamp())
        + (%(every)s + %(slack)s) * interval '1 microsecond'
RETURNING next_at;
