-- name: fold_pace
-- Folds what batches did into the totals and the minutes.
-- Each statement picks the same minutes, which go last: the first, with so many rows or a few more.
INSERT INTO seawall_pace_total (kind, what, task, queue, code, bucket, many, micros, tokens_in,
    tokens_out, cost, captures)
SELECT 'job', became, task, queue, iif(became = 'failed', code, ''), age_bucket, sum(many), sum(age),
    0, 0, 0, 0
FROM seawall_pace_change
WHERE became <> '' AND minute <= (
    SELECT max(minute) FROM (SELECT minute FROM seawall_pace_change ORDER BY minute LIMIT :limit)
)
GROUP BY 1, 2, 3, 4, 5, 6
ON CONFLICT (kind, what, task, queue, code, bucket) DO UPDATE
SET many = many + excluded.many, micros = micros + excluded.micros;
INSERT INTO seawall_pace_total (kind, what, task, queue, code, bucket, many, micros, tokens_in,
    tokens_out, cost, captures)
SELECT 'attempt', outcome, task, queue, code, took_bucket, sum(many), sum(took), sum(tokens_in),
    sum(tokens_out), sum(cost), sum(captures)
FROM seawall_pace_change
WHERE outcome <> '' AND minute <= (
    SELECT max(minute) FROM (SELECT minute FROM seawall_pace_change ORDER BY minute LIMIT :limit)
)
GROUP BY 1, 2, 3, 4, 5, 6
ON CONFLICT (kind, what, task, queue, code, bucket) DO UPDATE
SET many = many + excluded.many, micros = micros + excluded.micros,
    tokens_in = tokens_in + excluded.tokens_in, tokens_out = tokens_out + excluded.tokens_out,
    cost = cost + excluded.cost, captures = captures + excluded.captures;
INSERT INTO seawall_pace_minute (task, minute, created, redriven, succeeded, skipped, failed, cancelled,
    retried, lost)
SELECT iif(whose.value, changed.task, ''), changed.minute,
    sum(iif(became = 'created', many, 0)), sum(iif(became = 'redriven', many, 0)),
    sum(iif(became = 'succeeded', many, 0)), sum(iif(became = 'skipped', many, 0)),
    sum(iif(became = 'failed', many, 0)), sum(iif(became = 'cancelled', many, 0)),
    sum(iif(outcome = 'retried', many, 0)), sum(iif(outcome = 'lost', many, 0))
FROM seawall_pace_change AS changed CROSS JOIN json_each('[0, 1]') AS whose
WHERE changed.minute <= (
    SELECT max(minute) FROM (SELECT minute FROM seawall_pace_change ORDER BY minute LIMIT :limit)
)
GROUP BY 1, 2
ON CONFLICT (task, minute) DO UPDATE
SET created = created + excluded.created, redriven = redriven + excluded.redriven,
    succeeded = succeeded + excluded.succeeded, skipped = skipped + excluded.skipped,
    failed = failed + excluded.failed, cancelled = cancelled + excluded.cancelled,
    retried = retried + excluded.retried, lost = lost + excluded.lost;
DELETE FROM seawall_pace_change
WHERE minute <= (
    SELECT max(minute) FROM (SELECT minute FROM seawall_pace_change ORDER BY minute LIMIT :limit)
)
RETURNING 1;

-- name: fold_upstream_pace
-- Folds what workers told of calls, in minutes that are over.
-- Each statement picks the same minutes, as above.
INSERT INTO seawall_upstream_pace (upstream, minute, bucket, worker, calls, failures, denied, micros)
SELECT told.upstream, iif(whole.value, 0, told.minute), told.bucket, '', sum(told.calls),
    sum(told.failures), sum(told.denied), sum(told.micros)
FROM seawall_upstream_pace AS told CROSS JOIN json_each('[0, 1]') AS whole
WHERE told.worker <> '' AND told.minute < :now / 60000000 AND told.minute <= (
    SELECT max(minute) FROM (
        SELECT minute FROM seawall_upstream_pace WHERE worker <> '' ORDER BY minute LIMIT :limit
    )
)
GROUP BY 1, 2, 3
ON CONFLICT (upstream, minute, bucket, worker) DO UPDATE
SET calls = calls + excluded.calls, failures = failures + excluded.failures,
    denied = denied + excluded.denied, micros = micros + excluded.micros;
DELETE FROM seawall_upstream_pace
WHERE worker <> '' AND minute < :now / 60000000 AND minute <= (
    SELECT max(minute) FROM (
        SELECT minute FROM seawall_upstream_pace WHERE worker <> '' ORDER BY minute LIMIT :limit
    )
)
RETURNING 1;

-- name: unfolded_pace
-- How much has not been folded: little here, where what is alike in a minute is one row.
SELECT 0;

-- name: read_pace
-- What happened by so many minutes, of a task or of all of them.
SELECT minute / :step, sum(created), sum(redriven), sum(succeeded), sum(skipped), sum(failed),
    sum(cancelled), sum(retried), sum(lost)
FROM (
    SELECT minute, created, redriven, succeeded, skipped, failed, cancelled, retried, lost
    FROM seawall_pace_minute
    WHERE task = coalesce(:task, '') AND minute >= :since AND minute < :until
    UNION ALL SELECT minute,
        iif(became = 'created', many, 0), iif(became = 'redriven', many, 0),
        iif(became = 'succeeded', many, 0), iif(became = 'skipped', many, 0),
        iif(became = 'failed', many, 0), iif(became = 'cancelled', many, 0),
        iif(outcome = 'retried', many, 0), iif(outcome = 'lost', many, 0)
    FROM seawall_pace_change
    WHERE (:task IS NULL OR task = :task) AND minute >= :since AND minute < :until
) AS counted
GROUP BY 1;

-- name: read_totals
-- What happened over all time.
SELECT kind, what, task, queue, code, bucket, sum(many), sum(micros), sum(tokens_in),
    sum(tokens_out), sum(cost), sum(captures)
FROM (
    SELECT * FROM seawall_pace_total
    UNION ALL SELECT 'job', became, task, queue, iif(became = 'failed', code, ''), age_bucket, many,
        age, 0, 0, 0, 0
    FROM seawall_pace_change WHERE became <> ''
    UNION ALL SELECT 'attempt', outcome, task, queue, code, took_bucket, many, took, tokens_in,
        tokens_out, cost, captures
    FROM seawall_pace_change WHERE outcome <> ''
) AS counted
GROUP BY kind, what, task, queue, code, bucket;

-- name: read_upstream_pace
-- How calls at an upstream ended by so many minutes, and how many took how long.
SELECT minute / :step, bucket, sum(calls), sum(failures), sum(denied), sum(micros)
FROM seawall_upstream_pace
WHERE upstream = :upstream AND minute >= :since AND minute < :until
GROUP BY 1, 2;

-- name: read_upstream_totals
-- The same over all time, of every upstream.
SELECT upstream, bucket, sum(calls), sum(failures), sum(denied), sum(micros)
FROM (
    SELECT upstream, bucket, calls, failures, denied, micros
    FROM seawall_upstream_pace INDEXED BY seawall_upstream_pace_folded
    WHERE worker = '' AND minute = 0
    UNION ALL SELECT upstream, bucket, calls, failures, denied, micros
    FROM seawall_upstream_pace INDEXED BY seawall_upstream_pace_told
    WHERE worker <> ''
) AS counted
GROUP BY upstream, bucket;

-- name: read_phases
-- What a breaker turned to, the newest first.
SELECT at, phase, until, open_before
FROM seawall_upstream_phase INDEXED BY seawall_upstream_phase_upstream
WHERE upstream = :upstream
ORDER BY id DESC LIMIT :limit;

-- name: last_phases
-- What each breaker turned to last.
SELECT last.upstream, last.at, last.phase, last.until, last.open_before
FROM (SELECT max(id) AS id FROM seawall_upstream_phase GROUP BY upstream) AS named
CROSS JOIN seawall_upstream_phase AS last ON last.id = named.id;

-- name: note_phase
-- Writes down what a breaker turns to, and for how long it had been shut by then.
INSERT INTO seawall_upstream_phase (upstream, at, phase, until, open_before)
SELECT :name, :at, :phase, :until, coalesce((
    SELECT open_before + iif(phase NOT IN ('open', 'held'), 0,
        max(0, min(coalesce(until, :at), :at) - at))
    FROM seawall_upstream_phase INDEXED BY seawall_upstream_phase_upstream
    WHERE upstream = :name ORDER BY id DESC LIMIT 1
), 0)
RETURNING upstream;

-- name: forget_pace
-- Removes minutes that are too old to be shown.
DELETE FROM seawall_pace_minute
WHERE (task, minute) IN (
    SELECT task, minute FROM seawall_pace_minute INDEXED BY seawall_pace_minute_minute
    WHERE minute < :now / 60000000 - :minutes ORDER BY minute LIMIT :limit
)
RETURNING 1;

-- name: forget_upstream_pace
-- The same for minutes of upstreams; all time, minute 0, stays.
DELETE FROM seawall_upstream_pace
WHERE (upstream, minute, bucket, worker) IN (
    SELECT upstream, minute, bucket, worker
    FROM seawall_upstream_pace INDEXED BY seawall_upstream_pace_folded
    WHERE worker = '' AND minute > 0 AND minute < :now / 60000000 - :minutes
    ORDER BY minute LIMIT :limit
)
RETURNING 1;

-- name: forget_phases
-- The same for phases: those that were over before that time.
DELETE FROM seawall_upstream_phase
WHERE id IN (
    SELECT id FROM seawall_upstream_phase AS old INDEXED BY seawall_upstream_phase_at
    WHERE at < :now - :minutes * 60000000 AND EXISTS (
        SELECT 1 FROM seawall_upstream_phase AS later
        WHERE later.upstream = old.upstream AND later.id > old.id
            AND later.at < :now - :minutes * 60000000
    )
    ORDER BY at LIMIT :limit
)
RETURNING 1;
