-- name: observe
-- Adds how calls ended to what this second, and this minute, already knows of them.
INSERT INTO seawall_observation (
    upstream, second, worker, firsts, retries, failures, denied, slow, micros
)
VALUES (:upstream, :now / 1000000, :worker, :firsts, :retries, :failures, :denied, :slow, :micros)
ON CONFLICT (upstream, second, worker) DO UPDATE
SET firsts = firsts + excluded.firsts, retries = retries + excluded.retries,
    failures = failures + excluded.failures, denied = denied + excluded.denied,
    slow = slow + excluded.slow, micros = micros + excluded.micros
RETURNING upstream;
INSERT INTO seawall_upstream_pace (upstream, minute, bucket, worker, calls, failures, denied, micros)
SELECT :upstream, :now / 60000000, -1, :worker, :firsts + :retries, :failures, :denied, :micros
WHERE true
UNION ALL SELECT :upstream, :now / 60000000, value ->> 0, :worker, value ->> 1, 0, 0, 0
FROM json_each(:spans)
WHERE true
ON CONFLICT (upstream, minute, bucket, worker) DO UPDATE
SET calls = calls + excluded.calls, failures = failures + excluded.failures,
    denied = denied + excluded.denied, micros = micros + excluded.micros;

-- name: observed
-- How the calls of the last seconds ended, the newest first.
SELECT worker, second, firsts, retries, failures, denied, slow, micros
FROM seawall_observation
WHERE upstream = :upstream AND second > :now / 1000000 - :seconds
ORDER BY second DESC, worker DESC  -- as the key is read backwards: nothing is sorted
LIMIT :limit;

-- name: called_upstreams
-- The upstreams at which calls ended in the last seconds.
-- One look into the index finds the next name, another whether it was called: what else is known of
-- it is not read.
SELECT upstream FROM (
    WITH RECURSIVE named (upstream) AS (
        SELECT min(upstream) FROM seawall_observation
        UNION ALL
        SELECT (
            SELECT min(seen.upstream) FROM seawall_observation AS seen
            WHERE seen.upstream > named.upstream
        )
        FROM named WHERE named.upstream IS NOT NULL
    )
    SELECT upstream FROM named
) AS named
WHERE upstream IS NOT NULL AND EXISTS (
    SELECT 1 FROM seawall_observation AS seen
    WHERE seen.upstream = named.upstream AND seen.second > :now / 1000000 - :seconds
)
LIMIT :limit;

-- name: forget_observations
-- Removes what is too old to matter.
DELETE FROM seawall_observation
WHERE (upstream, second, worker) IN (
    SELECT upstream, second, worker FROM seawall_observation
    WHERE second / 60 <= (:now / 1000000 - :seconds) / 60 AND second < :now / 1000000 - :seconds
    ORDER BY second
    LIMIT :limit
)
RETURNING 1;

-- name: lock_upstream
-- Locks an upstream, under watch or not. There is one writer at a time: nothing to do.
SELECT 1;

-- name: await_upstream
-- The same, for whoever can wait for it.
SELECT 1;

-- name: read_upstream
-- What is known of an upstream, for whoever has locked it, and what it last turned to.
SELECT coalesce((SELECT state FROM seawall_upstream WHERE name = :name), ''), :now,
    last.phase, last.until
FROM (SELECT 1) AS always LEFT JOIN (
    SELECT phase, until FROM seawall_upstream_phase INDEXED BY seawall_upstream_phase_upstream
    WHERE upstream = :name ORDER BY id DESC LIMIT 1
) AS last;

-- name: keep_upstream
-- Writes down what was decided about an upstream.
INSERT INTO seawall_upstream (name, state, gated, held_until, reason)
VALUES (:name, :state, :gated, :held_until, :reason)
ON CONFLICT (name) DO UPDATE
SET state = excluded.state, gated = excluded.gated, held_until = excluded.held_until,
    reason = excluded.reason
RETURNING name;

-- name: drop_upstream
-- Nobody need watch it any more.
DELETE FROM seawall_upstream WHERE name = :name
RETURNING name;

-- name: all_upstreams
-- Every upstream under watch.
SELECT name, state, gated, held_until, reason FROM seawall_upstream ORDER BY name;

-- name: due_lanes
-- Those of the lanes in which a job is due; one look into each.
SELECT visit.value FROM json_each(:visit) AS visit
WHERE EXISTS (
    SELECT 1 FROM seawall_job AS job INDEXED BY seawall_job_due
    WHERE job.lane = visit.value AND job.state = 'queued' AND job.due_at <= :now
);
