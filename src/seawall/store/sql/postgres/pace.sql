-- name: fold_pace
-- Folds what batches did into the totals and the minutes.
WITH folded AS (
    DELETE FROM seawall.pace_change
    WHERE id = ANY (ARRAY(
        SELECT id FROM seawall.pace_change ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
),
apart AS (
    SELECT 'job' AS kind, became AS what, task, queue,
        CASE WHEN became = 'failed' THEN code ELSE '' END AS code, age_bucket AS bucket, many,
        age AS micros, 0 AS tokens_in, 0 AS tokens_out, 0 AS cost, 0 AS captures
    FROM folded WHERE became <> ''
    UNION ALL SELECT 'attempt', outcome, task, queue, code, took_bucket, many, took, tokens_in,
        tokens_out, cost, captures
    FROM folded WHERE outcome <> ''
),
totalled AS (
    INSERT INTO seawall.pace_total AS total (kind, what, task, queue, code, bucket, many, micros,
        tokens_in, tokens_out, cost, captures)
    SELECT kind, what, task, queue, code, bucket, sum(many), sum(micros), sum(tokens_in),
        sum(tokens_out), sum(cost), sum(captures)
    FROM apart
    GROUP BY kind, what, task, queue, code, bucket
    ORDER BY kind, what, task, queue, code, bucket
    ON CONFLICT (kind, what, task, queue, code, bucket) DO UPDATE
    SET many = total.many + excluded.many, micros = total.micros + excluded.micros,
        tokens_in = total.tokens_in + excluded.tokens_in,
        tokens_out = total.tokens_out + excluded.tokens_out,
        cost = total.cost + excluded.cost, captures = total.captures + excluded.captures
),
by_minute AS (
    INSERT INTO seawall.pace_minute AS known (task, minute, created, redriven, succeeded, skipped, failed,
        cancelled, retried, lost)
    SELECT whose.task, minute,
        coalesce(sum(many) FILTER (WHERE became = 'created'), 0),
        coalesce(sum(many) FILTER (WHERE became = 'redriven'), 0),
        coalesce(sum(many) FILTER (WHERE became = 'succeeded'), 0),
        coalesce(sum(many) FILTER (WHERE became = 'skipped'), 0),
        coalesce(sum(many) FILTER (WHERE became = 'failed'), 0),
        coalesce(sum(many) FILTER (WHERE became = 'cancelled'), 0),
        coalesce(sum(many) FILTER (WHERE outcome = 'retried'), 0),
        coalesce(sum(many) FILTER (WHERE outcome = 'lost'), 0)
    FROM folded CROSS JOIN LATERAL (VALUES (folded.task), ('')) AS whose (task)
    GROUP BY whose.task, minute ORDER BY whose.task, minute
    ON CONFLICT (task, minute) DO UPDATE
    SET created = known.created + excluded.created, redriven = known.redriven + excluded.redriven,
        succeeded = known.succeeded + excluded.succeeded, skipped = known.skipped + excluded.skipped,
        failed = known.failed + excluded.failed, cancelled = known.cancelled + excluded.cancelled,
        retried = known.retried + excluded.retried, lost = known.lost + excluded.lost
)
SELECT count(*) FROM folded;

-- name: fold_upstream_pace
-- Folds what workers told of calls, in minutes that are over.
WITH folded AS (
    DELETE FROM seawall.upstream_pace
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM seawall.upstream_pace
        WHERE worker <> '' AND minute
            < (SELECT floor(extract(epoch FROM coalesce(%(now)s::timestamptz, now())) / 60)::bigint)
        ORDER BY minute LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
),
summed AS (
    INSERT INTO seawall.upstream_pace AS known (upstream, minute, bucket, worker, calls, failures, denied,
        micros)
    SELECT upstream, whole.minute, bucket, '', sum(calls), sum(failures), sum(denied), sum(micros)
    FROM folded CROSS JOIN LATERAL (VALUES (folded.minute), (0)) AS whole (minute)
    GROUP BY upstream, whole.minute, bucket ORDER BY upstream, whole.minute, bucket
    ON CONFLICT (upstream, minute, bucket, worker) DO UPDATE
    SET calls = known.calls + excluded.calls, failures = known.failures + excluded.failures,
        denied = known.denied + excluded.denied, micros = known.micros + excluded.micros
)
SELECT count(*) FROM folded;

-- name: unfolded_pace
-- How much has not been folded, about: a number that was given to nobody counts, too.
SELECT coalesce(max(id) - min(id) + 1, 0) FROM seawall.pace_change;

-- name: read_pace
-- What happened by so many minutes, of a task or of all of them.
SELECT minute / %(step)s::bigint, sum(created)::bigint, sum(redriven)::bigint, sum(succeeded)::bigint,
    sum(skipped)::bigint, sum(failed)::bigint, sum(cancelled)::bigint, sum(retried)::bigint,
    sum(lost)::bigint
FROM (
    SELECT minute, created, redriven, succeeded, skipped, failed, cancelled, retried, lost
    FROM seawall.pace_minute
    WHERE task = coalesce(%(task)s::text, '')
        AND minute >= %(since)s::bigint AND minute < %(until)s::bigint
    UNION ALL SELECT minute,
        CASE WHEN became = 'created' THEN many ELSE 0 END,
        CASE WHEN became = 'redriven' THEN many ELSE 0 END,
        CASE WHEN became = 'succeeded' THEN many ELSE 0 END,
        CASE WHEN became = 'skipped' THEN many ELSE 0 END,
        CASE WHEN became = 'failed' THEN many ELSE 0 END,
        CASE WHEN became = 'cancelled' THEN many ELSE 0 END,
        CASE WHEN outcome = 'retried' THEN many ELSE 0 END,
        CASE WHEN outcome = 'lost' THEN many ELSE 0 END
    FROM seawall.pace_change
    WHERE (%(task)s::text IS NULL OR task = %(task)s)
        AND minute >= %(since)s::bigint AND minute < %(until)s::bigint
) AS counted
GROUP BY 1;

-- name: read_totals
-- What happened over all time.
SELECT kind, what, task, queue, code, bucket, sum(many)::bigint, sum(micros)::bigint,
    sum(tokens_in)::bigint, sum(tokens_out)::bigint, sum(cost)::double precision, sum(captures)::bigint
FROM (
    SELECT * FROM seawall.pace_total
    UNION ALL SELECT 'job', became, task, queue, CASE WHEN became = 'failed' THEN code ELSE '' END,
        age_bucket, many, age, 0, 0, 0, 0
    FROM seawall.pace_change WHERE became <> ''
    UNION ALL SELECT 'attempt', outcome, task, queue, code, took_bucket, many, took, tokens_in,
        tokens_out, cost, captures
    FROM seawall.pace_change WHERE outcome <> ''
) AS counted
GROUP BY kind, what, task, queue, code, bucket;

-- name: read_upstream_pace
-- How calls at an upstream ended by so many minutes, and how many took how long.
SELECT minute / %(step)s::bigint, bucket, sum(calls)::bigint, sum(failures)::bigint,
    sum(denied)::bigint, sum(micros)::bigint
FROM seawall.upstream_pace
WHERE upstream = %(upstream)s AND minute >= %(since)s::bigint AND minute < %(until)s::bigint
GROUP BY 1, 2;

-- name: read_upstream_totals
-- The same over all time, of every upstream.
SELECT upstream, bucket, sum(calls)::bigint, sum(failures)::bigint, sum(denied)::bigint,
    sum(micros)::bigint
FROM (
    SELECT upstream, bucket, calls, failures, denied, micros FROM seawall.upstream_pace
    WHERE worker = '' AND minute = 0
    UNION ALL SELECT upstream, bucket, calls, failures, denied, micros FROM seawall.upstream_pace
    WHERE worker <> ''
) AS counted
GROUP BY upstream, bucket;

-- name: read_phases
-- What a breaker turned to, the newest first.
SELECT at, phase, until, open_before FROM seawall.upstream_phase
WHERE upstream = %(upstream)s
ORDER BY id DESC LIMIT %(limit)s;

-- name: last_phases
-- What each breaker turned to last.
SELECT DISTINCT ON (upstream) upstream, at, phase, until, open_before FROM seawall.upstream_phase
ORDER BY upstream, id DESC;

-- name: note_phase
-- Writes down what a breaker turns to, and for how long it had been shut by then.
INSERT INTO seawall.upstream_phase (upstream, at, phase, until, open_before)
SELECT %(name)s, %(at)s::timestamptz, %(phase)s, %(until)s::timestamptz, coalesce((
    SELECT open_before + CASE WHEN phase NOT IN ('open', 'held') THEN 0
        ELSE greatest(0, extract(epoch FROM
            least(until, %(at)s::timestamptz) - at) * 1000000)::bigint END
    FROM seawall.upstream_phase WHERE upstream = %(name)s ORDER BY id DESC LIMIT 1
), 0)
RETURNING upstream;

-- name: forget_pace
-- Removes minutes that are too old to be shown.
DELETE FROM seawall.pace_minute
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM seawall.pace_minute
    WHERE minute < (
        SELECT floor(extract(epoch FROM coalesce(%(now)s::timestamptz, now())) / 60)::bigint
            - %(minutes)s::bigint
    )
    ORDER BY minute LIMIT %(limit)s FOR UPDATE SKIP LOCKED
))
RETURNING 1;

-- name: forget_upstream_pace
-- The same for minutes of upstreams; all time, minute 0, stays.
DELETE FROM seawall.upstream_pace
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM seawall.upstream_pace
    WHERE worker = '' AND minute > 0 AND minute < (
        SELECT floor(extract(epoch FROM coalesce(%(now)s::timestamptz, now())) / 60)::bigint
            - %(minutes)s::bigint
    )
    ORDER BY minute LIMIT %(limit)s FOR UPDATE SKIP LOCKED
))
RETURNING 1;

-- name: forget_phases
-- The same for phases: those that were over before that time.
DELETE FROM seawall.upstream_phase
WHERE id = ANY (ARRAY(
    SELECT id FROM seawall.upstream_phase AS old
    WHERE at < (
            SELECT coalesce(%(now)s::timestamptz, now()) - %(minutes)s * interval '1 minute'
        )
        AND EXISTS (
            SELECT FROM seawall.upstream_phase AS later
            WHERE later.upstream = old.upstream AND later.id > old.id AND later.at
                < coalesce(%(now)s::timestamptz, now()) - %(minutes)s * interval '1 minute'
        )
    ORDER BY at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
))
RETURNING 1;
