-- name: observe
-- Adds how calls ended to what this second, and this minute, already knows of them.
WITH given AS MATERIALIZED (
    SELECT r.*, floor(extract(epoch FROM coalesce(%(now)s::timestamptz, now())))::bigint AS second
    FROM json_to_recordset(%(rows)s) AS r (
        upstream text, worker text, firsts bigint, retries bigint, failures bigint, denied bigint,
        slow bigint, micros bigint, spans text
    )
),
noted AS (
    INSERT INTO seawall.observation AS seen (
        upstream, second, worker, firsts, retries, failures, denied, slow, micros
    )
    SELECT upstream, second, worker,
        sum(firsts), sum(retries), sum(failures), sum(denied), sum(slow), sum(micros)
    FROM given
    GROUP BY upstream, second, worker  -- a row can be written once in a statement
    ORDER BY upstream, worker
    ON CONFLICT (upstream, second, worker) DO UPDATE
    SET firsts = seen.firsts + excluded.firsts, retries = seen.retries + excluded.retries,
        failures = seen.failures + excluded.failures, denied = seen.denied + excluded.denied,
        slow = seen.slow + excluded.slow, micros = seen.micros + excluded.micros
    RETURNING seen.upstream
),
paced AS (
    INSERT INTO seawall.upstream_pace AS known (
        upstream, minute, bucket, worker, calls, failures, denied, micros
    )
    SELECT upstream, second / 60, bucket, worker, sum(calls), sum(failures), sum(denied), sum(micros)
    FROM (
        SELECT upstream, second, -1 AS bucket, worker, firsts + retries AS calls, failures, denied, micros
        FROM given
        UNION ALL SELECT upstream, second, (span ->> 0)::integer, worker, (span ->> 1)::bigint, 0, 0, 0
        FROM given CROSS JOIN LATERAL json_array_elements(spans::json) AS span
    ) AS told
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 2, 3, 4
    ON CONFLICT (upstream, minute, bucket, worker) DO UPDATE
    SET calls = known.calls + excluded.calls, failures = known.failures + excluded.failures,
        denied = known.denied + excluded.denied, micros = known.micros + excluded.micros
)
SELECT upstream FROM noted;

-- name: observed
-- How the calls of the last seconds ended, the newest first.
SELECT worker, second, firsts, retries, failures, denied, slow, micros
FROM seawall.observation
WHERE upstream = %(upstream)s
    -- A whole number that is told once: by any other the index cannot be entered.
    AND second > (
        SELECT floor(extract(epoch FROM coalesce(%(now)s::timestamptz, clock_timestamp())))::bigint
            - %(seconds)s::bigint
    )
ORDER BY second DESC, worker DESC  -- as the key is read backwards: nothing is sorted
LIMIT %(limit)s;

-- name: called_upstreams
-- The upstreams at which calls ended in the last seconds.
-- One look into the index finds the next name, another whether it was called: what else is known of
-- it is not read.
WITH RECURSIVE named (upstream) AS (
    SELECT min(upstream) FROM seawall.observation
    UNION ALL
    SELECT (SELECT min(seen.upstream) FROM seawall.observation AS seen WHERE seen.upstream > named.upstream)
    FROM named WHERE named.upstream IS NOT NULL
)
SELECT upstream FROM named
WHERE upstream IS NOT NULL AND EXISTS (
    SELECT FROM seawall.observation AS seen
    WHERE seen.upstream = named.upstream AND seen.second > (
        SELECT floor(extract(epoch FROM coalesce(%(now)s::timestamptz, clock_timestamp())))::bigint
            - %(seconds)s::bigint
    )
)
LIMIT %(limit)s;

-- name: forget_observations
-- Removes what is too old to matter.
-- The rows are chosen in an array first: in a join the limit would hold for each time it is asked.
DELETE FROM seawall.observation
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM seawall.observation
    WHERE second / 60 <= (
            floor(extract(epoch FROM coalesce(%(now)s::timestamptz, now())))::bigint - %(seconds)s::bigint
        ) / 60
        AND second < floor(extract(epoch FROM coalesce(%(now)s::timestamptz, now())))::bigint
            - %(seconds)s::bigint
    ORDER BY second / 60 LIMIT %(limit)s FOR UPDATE SKIP LOCKED
))
RETURNING 1;

-- name: lock_upstream
-- Locks an upstream, under watch or not; false where somebody else has.
-- Its row is not what is locked: to add one waits for whoever is adding, changing or removing it.
-- Whoever is stopped while it has it loses it soon: others' places are believed for a lease only.
SELECT pg_try_advisory_xact_lock(hashtextextended('seawall.upstream ' || %(name)s::text, 0))
FROM set_config('idle_in_transaction_session_timeout', '5000', true);

-- name: await_upstream
-- The same, for whoever can wait for it.
SELECT true
FROM set_config('idle_in_transaction_session_timeout', '5000', true),
    pg_advisory_xact_lock(hashtextextended('seawall.upstream ' || %(name)s::text, 0));

-- name: read_upstream
-- What is known of an upstream, for whoever has locked it, and what it last turned to. A statement of its own: it is to see what
-- the one before has committed.
SELECT
    coalesce((SELECT state FROM seawall.upstream WHERE name = %(name)s), ''),
    coalesce(%(now)s::timestamptz, clock_timestamp()),
    last.phase, last.until
FROM (VALUES (1)) AS always
LEFT JOIN LATERAL (
    SELECT phase, until FROM seawall.upstream_phase WHERE upstream = %(name)s
    ORDER BY id DESC LIMIT 1
) AS last ON true;

-- name: keep_upstream
-- Writes down what was decided about an upstream.
INSERT INTO seawall.upstream AS watched (name, state, gated, held_until, reason)
VALUES (%(name)s, %(state)s, %(gated)s, %(held_until)s, %(reason)s)
ON CONFLICT (name) DO UPDATE
SET state = excluded.state, gated = excluded.gated, held_until = excluded.held_until,
    reason = excluded.reason
RETURNING watched.name;

-- name: drop_upstream
-- Nobody need watch it any more.
DELETE FROM seawall.upstream WHERE name = %(name)s
RETURNING name;

-- name: all_upstreams
-- Every upstream under watch.
SELECT name, state, gated, held_until, reason FROM seawall.upstream ORDER BY name;

-- name: due_lanes
-- Those of the lanes in which a job is due; one look into each.
-- The time is told once: a look must end before what waits for later.
SELECT visit.lane FROM unnest(%(visit)s::bigint[]) AS visit (lane)
CROSS JOIN LATERAL (
    SELECT FROM seawall.job
    WHERE job.lane = visit.lane AND job.state = 'queued'
        AND job.due_at <= (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()))
    ORDER BY job.due_at, job.id
    LIMIT 1
) AS first;
