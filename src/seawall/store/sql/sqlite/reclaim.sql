-- name: lapsed
-- Leases that have lapsed, the longest first. Reads only: what becomes of them is decided outside.
SELECT id, lease_no, seq, lane, cycle, tries, losses, worker, lease_until, prefetched, spared
FROM seawall_job
WHERE state = 'running' AND lease_until <= :now
ORDER BY lease_until, id LIMIT :limit;

-- name: reclaim
-- Takes back each job whose lease is the one named and still lapsed: a line in history that its
-- worker was lost, and the job queued again, failed with a dead letter, or cancelled if that was
-- asked for.
-- moves: reclaim, give up, stop
INSERT INTO seawall_attempt (job, seq, lease_no, cycle, stage, worker, started_at,
    finished_at, outcome, counted, fault, delay, policy)
SELECT id, :seq, :lease_no, cycle, stage, worker, claimed_at,
    max(:now, claimed_at), 'lost', 0, :fault, :delay, :policy
FROM seawall_job
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
    AND lease_until <= :now;
INSERT INTO seawall_dead_letter (job, state, lane, stage, owner, run, code, fingerprint, fault,
    first_at, last_at, attempts)
SELECT id, 'open', lane, stage, owner, run, :code, :fingerprint, :fault, :now, :now, :seq
FROM seawall_job
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
    AND lease_until <= :now AND :delay IS NULL AND NOT cancel_requested
ON CONFLICT (job) DO UPDATE
SET state = 'open', lane = excluded.lane, stage = excluded.stage, code = excluded.code,
    fingerprint = excluded.fingerprint, fault = excluded.fault, last_at = excluded.last_at,
    attempts = excluded.attempts, times = times + 1, handled_at = NULL, handled_by = NULL;
INSERT INTO seawall_pace_change (minute, task, queue, outcome, became, code, took_bucket, age_bucket,
    many, took, age)
SELECT :now / 60000000, lane.task, lane.queue, 'lost', became, coalesce(:code, ''),
    (SELECT bucket FROM seawall_span_bucket WHERE upto >= ended.took ORDER BY upto LIMIT 1),
    (SELECT bucket FROM seawall_span_bucket WHERE upto >= ended.age ORDER BY upto LIMIT 1), 1, took, age
FROM (
    SELECT lane, max(0, :now - claimed_at) AS took,
        CASE WHEN cancel_requested THEN 'cancelled' WHEN :delay IS NULL THEN 'failed' ELSE '' END AS became,
        iif(cancel_requested OR :delay IS NULL, max(0, :now - created_at), 0) AS age
    FROM seawall_job
    WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
        AND lease_until <= :now
) AS ended CROSS JOIN seawall_lane AS lane ON lane.id = ended.lane
WHERE true
ON CONFLICT (minute, task, queue, outcome, became, code, took_bucket, age_bucket) DO UPDATE
SET many = many + excluded.many, took = took + excluded.took, age = age + excluded.age;
UPDATE seawall_job
SET state = CASE WHEN cancel_requested THEN 'cancelled'
        WHEN :delay IS NULL THEN 'failed' ELSE 'queued' END,
    seq = :seq, losses = losses + 1, spared = spared + prefetched,
    due_at = iif(cancel_requested OR :delay IS NULL, due_at, :now + :delay),
    due_set_at = iif(cancel_requested OR :delay IS NULL, due_set_at, :now),
    worker = NULL, claimed_at = NULL, leased_at = NULL, lease_until = NULL,
    cancel_requested = 0,
    started_at = coalesce(started_at, claimed_at),
    last_attempt_at = claimed_at,
    finished_at = iif(cancel_requested OR :delay IS NULL, :now, NULL),
    last_fault = :fault
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
    AND lease_until <= :now
RETURNING id, state, 0;

-- name: expire
-- Fails queued jobs whose deadline has passed, the oldest deadlines first, each with a dead letter.
-- Each statement picks the same jobs, which move last: nobody else writes meanwhile.
-- moves: expire
INSERT INTO seawall_dead_letter (job, state, lane, stage, owner, run, code, fingerprint, fault,
    first_at, last_at, attempts)
SELECT id, 'open', lane, stage, owner, run, :code, :fingerprint, :fault, :now, :now, seq
FROM seawall_job
WHERE id IN (
    SELECT id FROM seawall_job
    WHERE state = 'queued' AND deadline_at IS NOT NULL AND deadline_at <= :now
    ORDER BY deadline_at, id LIMIT :limit
)
ON CONFLICT (job) DO UPDATE
SET state = 'open', lane = excluded.lane, stage = excluded.stage, code = excluded.code,
    fingerprint = excluded.fingerprint, fault = excluded.fault, last_at = excluded.last_at,
    attempts = excluded.attempts, times = times + 1, handled_at = NULL, handled_by = NULL;
INSERT INTO seawall_pace_change (minute, task, queue, became, code, age_bucket, many, age)
SELECT :now / 60000000, lane.task, lane.queue, 'failed', :code, age_bucket, many, age
FROM (
    SELECT lane, (SELECT bucket FROM seawall_span_bucket WHERE upto >= max(0, :now - late.created_at) ORDER BY upto LIMIT 1) AS age_bucket,
        count(*) AS many, sum(max(0, :now - late.created_at)) AS age
    FROM seawall_job AS late
    WHERE id IN (
        SELECT id FROM seawall_job
        WHERE state = 'queued' AND deadline_at IS NOT NULL AND deadline_at <= :now
        ORDER BY deadline_at, id LIMIT :limit
    )
    GROUP BY 1, 2
) AS alike CROSS JOIN seawall_lane AS lane ON lane.id = alike.lane
WHERE true
ON CONFLICT (minute, task, queue, outcome, became, code, took_bucket, age_bucket) DO UPDATE
SET many = many + excluded.many, age = age + excluded.age;
UPDATE seawall_job
SET state = 'failed', finished_at = :now, last_fault = :fault
WHERE id IN (
    SELECT id FROM seawall_job
    WHERE state = 'queued' AND deadline_at IS NOT NULL AND deadline_at <= :now
    ORDER BY deadline_at, id LIMIT :limit
)
RETURNING id;
