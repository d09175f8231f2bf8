-- name: lapsed
-- Leases that have lapsed, the longest first. Reads only: what becomes of them is decided outside.
SELECT id, lease_no, seq, lane, cycle, tries, losses, worker, lease_until, prefetched, spared
FROM seawall.job
WHERE state = 'running' AND lease_until <= coalesce(%(now)s::timestamptz, now())
ORDER BY lease_until, id LIMIT %(limit)s;

-- name: reclaim
-- Takes back each job whose lease is the one named and still lapsed: a line in history that its
-- worker was lost, and the job queued again, failed with a dead letter, or cancelled if that was
-- asked for.
-- moves: reclaim, give up, stop
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s) AS r (
        id bigint, lease_no bigint, seq bigint, fault text, delay bigint, policy text,
        code text, fingerprint text
    )
    ORDER BY id
),
locked AS MATERIALIZED (
    SELECT
        given.*, mine.*,
        CASE WHEN mine.cancel_requested THEN 'cancelled'
        WHEN given.delay IS NULL THEN 'failed' ELSE 'queued' END AS state_after
    FROM given CROSS JOIN LATERAL (
        SELECT job.cycle, job.stage, job.worker, job.claimed_at, job.cancel_requested, job.run,
            job.lane, job.created_at
        FROM seawall.job
        WHERE job.id = given.id
            AND job.lease_no = given.lease_no AND job.seq = given.seq - 1
            -- Said so that the index of what runs does not offer itself: it would be read whole for each.
            AND (job.state = 'running') IS TRUE
            AND job.lease_until <= coalesce(%(now)s::timestamptz, now())
        FOR UPDATE
    ) AS mine
),
clock AS MATERIALIZED (
    -- Told after the last lock: waiting for one must not eat into a lease or a delay.
    SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now, count(*) FROM locked
),
dated AS MATERIALIZED (
    SELECT locked.*, clock.now FROM locked, clock
),
moved AS (
    UPDATE seawall.job
    SET state = dated.state_after, seq = dated.seq, losses = losses + 1,
        spared = spared + prefetched::integer,
        due_at = CASE WHEN dated.state_after = 'queued'
            THEN dated.now + dated.delay * interval '1 microsecond' ELSE job.due_at END,
        due_set_at = CASE WHEN dated.state_after = 'queued'
            THEN dated.now ELSE job.due_set_at END,
        worker = NULL, claimed_at = NULL, leased_at = NULL, lease_until = NULL,
        cancel_requested = false,
        started_at = coalesce(job.started_at, job.claimed_at),
        last_attempt_at = job.claimed_at,
        finished_at = CASE WHEN dated.state_after <> 'queued' THEN dated.now END,
        last_fault = dated.fault
    FROM dated
    WHERE job.id = dated.id
    RETURNING job.id, job.state, job.lane, job.stage, job.owner, job.run, job.finished_at
),
buried AS (
    INSERT INTO seawall.dead_letter (job, state, lane, stage, owner, run, code, fingerprint, fault,
        first_at, last_at, attempts)
    SELECT moved.id, 'open', moved.lane, moved.stage, moved.owner, moved.run,
        dated.code, dated.fingerprint, dated.fault, moved.finished_at, moved.finished_at, dated.seq
    FROM moved JOIN dated USING (id)
    WHERE moved.state = 'failed'
    ON CONFLICT (job) DO UPDATE
    SET state = 'open', lane = excluded.lane, stage = excluded.stage, code = excluded.code,
        fingerprint = excluded.fingerprint, fault = excluded.fault, last_at = excluded.last_at,
        attempts = excluded.attempts, times = dead_letter.times + 1,
        handled_at = NULL, handled_by = NULL
),
written AS (
    INSERT INTO seawall.attempt (job, seq, lease_no, cycle, stage, worker, started_at,
        finished_at, outcome, counted, fault, delay, policy)
    SELECT id, seq, lease_no, cycle, stage, worker, claimed_at,
        greatest(now, claimed_at), 'lost', false, fault, delay, policy
    FROM dated
),
items AS (
    INSERT INTO seawall.run_change (run, stage, failed, cancelled, retried)
    SELECT run, stage,
        count(*) FILTER (WHERE state_after = 'failed'),
        count(*) FILTER (WHERE state_after = 'cancelled'),
        count(*) FILTER (WHERE delay IS NOT NULL)
    FROM dated WHERE run IS NOT NULL GROUP BY run, stage
),
ends AS (
    SELECT lane, now, coalesce(code, '') AS code,
        CASE WHEN state_after = 'queued' THEN '' ELSE state_after END AS became,
        greatest(0, extract(epoch FROM now - claimed_at) * 1000000)::bigint AS took,
        CASE WHEN state_after = 'queued' THEN 0
        ELSE greatest(0, extract(epoch FROM now - created_at) * 1000000)::bigint END AS age
    FROM dated
),
paced AS (
    INSERT INTO seawall.pace_change (minute, task, queue, outcome, became, code, took_bucket,
        age_bucket, many, took, age)
    SELECT floor(extract(epoch FROM now) / 60)::bigint, lane.task, lane.queue, 'lost', became, code,
        took_bucket, age_bucket, many, alike.took, alike.age
    FROM (
        SELECT lane, now, became, code, seawall.span_bucket(took) AS took_bucket,
            seawall.span_bucket(age) AS age_bucket, count(*) AS many, sum(took) AS took,
            sum(age) AS age
        FROM ends GROUP BY 1, 2, 3, 4, 5, 6
    ) AS alike JOIN seawall.lane ON lane.id = alike.lane
),
noted AS (
    INSERT INTO seawall.outbox (webhook, event, at, task, queue, job, run, owner, stage, attempt, cycle,
        delay, fault)
    SELECT hook.id, told.event, greatest(told.now, told.claimed_at), lane.task, lane.queue, told.id,
        told.run, told.owner, told.stage, told.seq, told.cycle,
        CASE WHEN told.state_after = 'queued' THEN told.delay END,
        CASE WHEN told.state_after <> 'cancelled' THEN told.fault END
    FROM (
        SELECT dated.*, moved.lane AS lane_after, moved.owner,
            CASE state_after WHEN 'queued' THEN 'job.lost' ELSE 'job.' || state_after END AS event
        FROM dated JOIN moved USING (id)
    ) AS told
    JOIN seawall.lane ON lane.id = told.lane_after
    JOIN seawall.webhook AS hook ON told.event = ANY (hook.events)
        AND (hook.tasks IS NULL OR lane.task = ANY (hook.tasks))
        AND (hook.owners IS NULL OR told.owner = ANY (hook.owners))
    WHERE lane.task <> 'seawall.webhook' AND EXISTS (SELECT FROM seawall.webhook)
)
SELECT id, state, false FROM moved;

-- name: expire
-- Fails queued jobs whose deadline has passed, the oldest deadlines first, each with a dead letter.
-- moves: expire
WITH late AS (
    UPDATE seawall.job
    SET state = 'failed', finished_at = coalesce(%(now)s::timestamptz, now()), last_fault = %(fault)s
    WHERE id = ANY (ARRAY(
        SELECT id FROM seawall.job
        WHERE state = 'queued' AND deadline_at <= coalesce(%(now)s::timestamptz, now())
        ORDER BY deadline_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ))
    RETURNING id, lane, stage, owner, run, created_at, finished_at, last_fault, seq, cycle
),
buried AS (
    INSERT INTO seawall.dead_letter (job, state, lane, stage, owner, run, code, fingerprint, fault,
        first_at, last_at, attempts)
    SELECT id, 'open', lane, stage, owner, run, %(code)s, %(fingerprint)s, last_fault,
        finished_at, finished_at, seq
    FROM late
    ON CONFLICT (job) DO UPDATE
    SET state = 'open', lane = excluded.lane, stage = excluded.stage, code = excluded.code,
        fingerprint = excluded.fingerprint, fault = excluded.fault, last_at = excluded.last_at,
        attempts = excluded.attempts, times = dead_letter.times + 1,
        handled_at = NULL, handled_by = NULL
),
items AS (
    INSERT INTO seawall.run_change (run, stage, failed)
    SELECT run, stage, count(*) FROM late WHERE run IS NOT NULL GROUP BY run, stage
),
ends AS (
    SELECT lane, finished_at,
        greatest(0, extract(epoch FROM finished_at - created_at) * 1000000)::bigint AS age
    FROM late
),
paced AS (
    INSERT INTO seawall.pace_change (minute, task, queue, became, code, age_bucket, many, age)
    SELECT floor(extract(epoch FROM finished_at) / 60)::bigint, lane.task, lane.queue, 'failed',
        %(code)s, age_bucket, many, alike.age
    FROM (
        SELECT lane, finished_at, seawall.span_bucket(age) AS age_bucket, count(*) AS many,
            sum(age) AS age
        FROM ends GROUP BY 1, 2, 3
    ) AS alike JOIN seawall.lane ON lane.id = alike.lane
),
noted AS (
    INSERT INTO seawall.outbox (webhook, event, at, task, queue, job, run, owner, stage, attempt, cycle,
        fault)
    SELECT hook.id, 'job.expired', late.finished_at, lane.task, lane.queue, late.id, late.run, late.owner,
        late.stage, late.seq, late.cycle, late.last_fault
    FROM late JOIN seawall.lane ON lane.id = late.lane
    JOIN seawall.webhook AS hook ON 'job.expired' = ANY (hook.events)
        AND (hook.tasks IS NULL OR lane.task = ANY (hook.tasks))
        AND (hook.owners IS NULL OR late.owner = ANY (hook.owners))
    WHERE lane.task <> 'seawall.webhook' AND EXISTS (SELECT FROM seawall.webhook)
)
SELECT id FROM late;
