-- name: count_waiting
-- How many jobs wait in each of these lanes; at most so many of each are counted.
SELECT visit.lane, counted.many
FROM unnest(%(visit)s::bigint[]) AS visit (lane)
CROSS JOIN LATERAL (
    SELECT count(*) AS many FROM (
        SELECT FROM seawall.job
        WHERE job.lane = visit.lane AND job.state = 'queued'
        ORDER BY job.due_at, job.id LIMIT %(most)s  -- as the index is read: nothing is sorted
    ) AS few
) AS counted;

-- name: count_open_letters
-- How many dead letters are open; at most so many are counted.
SELECT count(*) FROM (
    SELECT FROM seawall.dead_letter
    WHERE state = 'open' ORDER BY last_at, job LIMIT %(most)s
) AS few;

-- name: standing_of_owner
-- How many of an owner's newest jobs stand where, and how many of them left a letter that is open.
SELECT newest.lane, newest.state, count(*), count(*) FILTER (WHERE newest.is_open)
FROM (
    SELECT job.lane, job.state, job.state = 'failed' AND coalesce((
        SELECT letter.state = 'open' FROM seawall.dead_letter AS letter WHERE letter.job = job.id
    ), false) AS is_open
    FROM (
        SELECT id, lane, state FROM seawall.job
        WHERE owner = %(owner)s AND owner IS NOT NULL
        ORDER BY id DESC LIMIT %(most)s
    ) AS job
) AS newest
GROUP BY newest.lane, newest.state;

-- name: seen_lately
-- How calls at each of these upstreams ended in the last seconds, and how many of a span of its own
-- were first ones.
SELECT asked.upstream, counted.calls, counted.failures, counted.micros, counted.firsts
FROM (
    SELECT each.value ->> 0 AS upstream, (each.value ->> 1)::bigint AS span,
        floor(extract(epoch FROM coalesce(%(now)s::timestamptz, clock_timestamp())))::bigint AS now
    FROM json_array_elements(%(asked)s::json) AS each (value)
) AS asked
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(seen.firsts + seen.retries)
            FILTER (WHERE seen.second > asked.now - %(seconds)s::bigint), 0)::bigint AS calls,
        coalesce(sum(seen.failures)
            FILTER (WHERE seen.second > asked.now - %(seconds)s::bigint), 0)::bigint AS failures,
        coalesce(sum(seen.micros)
            FILTER (WHERE seen.second > asked.now - %(seconds)s::bigint), 0)::bigint AS micros,
        coalesce(sum(seen.firsts)
            FILTER (WHERE seen.second > asked.now - asked.span), 0)::bigint AS firsts
    FROM seawall.observation AS seen
    WHERE seen.upstream = asked.upstream
        AND seen.second > asked.now - greatest(%(seconds)s::bigint, asked.span)
) AS counted;
