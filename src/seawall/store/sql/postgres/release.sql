-- name: release
-- Hands each job back as it was, at its old place in the lane; where a cancel was asked for, it
-- is cancelled. Only an attempt that had begun (`took` is given) leaves a line in history.
-- moves: release, stop
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s) AS r (
        id bigint, lease_no bigint, seq bigint, took bigint, ago bigint, span text
    )
    ORDER BY id
),
locked AS MATERIALIZED (
    SELECT
        given.*, mine.*,
        CASE WHEN mine.cancel_requested THEN 'cancelled' ELSE 'queued' END AS state_after
    FROM given CROSS JOIN LATERAL (
        SELECT job.cycle, job.stage, job.worker, job.cancel_requested, job.run, job.lane,
            job.created_at
        FROM seawall.job
        WHERE job.id = given.id
            AND job.lease_no = given.lease_no AND job.seq = given.seq - 1
            -- Said so that the index of what runs does not offer itself: it would be read whole for each.
            AND (job.state = 'running') IS TRUE
        FOR UPDATE
    ) AS mine
),
clock AS MATERIALIZED (
    -- Told after the last lock: waiting for one must not eat into a lease or a delay.
    SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now, count(*) FROM locked
),
dated AS MATERIALIZED (
    SELECT
        locked.*, clock.now,
        clock.now - locked.ago * interval '1 microsecond' AS ended_at,
        clock.now - (locked.ago + locked.took) * interval '1 microsecond' AS begun_at
    FROM locked, clock
),
moved AS (
    UPDATE seawall.job
    SET state = dated.state_after,
        seq = CASE WHEN dated.took IS NULL THEN job.seq ELSE dated.seq END,
        worker = NULL, claimed_at = NULL, leased_at = NULL, lease_until = NULL,
        cancel_requested = false,
        started_at = coalesce(job.started_at, dated.begun_at),
        last_attempt_at = coalesce(dated.begun_at, job.last_attempt_at),
        finished_at = CASE WHEN dated.state_after = 'cancelled' THEN dated.now END
    FROM dated
    WHERE job.id = dated.id
    RETURNING job.id, job.state, job.run, job.stage, job.lane, job.owner, job.seq, job.cycle,
        job.finished_at
),
written AS (
    INSERT INTO seawall.attempt (job, seq, lease_no, cycle, stage, worker, started_at,
        finished_at, outcome, counted, span)
    SELECT id, seq, lease_no, cycle, stage, worker, begun_at, ended_at, 'released', false, span
    FROM dated WHERE took IS NOT NULL
),
items AS (
    INSERT INTO seawall.run_change (run, stage, cancelled)
    SELECT run, stage, count(*)
    FROM dated WHERE run IS NOT NULL AND state_after = 'cancelled' GROUP BY run, stage
),
ends AS (
    SELECT lane, now, coalesce(took, 0) AS took,
        CASE WHEN took IS NULL THEN '' ELSE 'released' END AS outcome,
        CASE WHEN state_after = 'queued' THEN '' ELSE state_after END AS became,
        CASE WHEN state_after = 'queued' THEN 0
        ELSE greatest(0, extract(epoch FROM now - created_at) * 1000000)::bigint END AS age
    FROM dated WHERE took IS NOT NULL OR state_after <> 'queued'
),
paced AS (
    INSERT INTO seawall.pace_change (minute, task, queue, outcome, became, took_bucket, age_bucket,
        many, took, age)
    SELECT floor(extract(epoch FROM now) / 60)::bigint, lane.task, lane.queue, outcome, became,
        took_bucket, age_bucket, many, alike.took, alike.age
    FROM (
        SELECT lane, now, outcome, became, seawall.span_bucket(took) AS took_bucket,
            seawall.span_bucket(age) AS age_bucket, count(*) AS many, sum(took) AS took,
            sum(age) AS age
        FROM ends GROUP BY 1, 2, 3, 4, 5, 6
    ) AS alike JOIN seawall.lane ON lane.id = alike.lane
),
noted AS (
    INSERT INTO seawall.outbox (webhook, event, at, task, queue, job, run, owner, stage, attempt, cycle)
    SELECT hook.id, 'job.cancelled', moved.finished_at, lane.task, lane.queue, moved.id, moved.run,
        moved.owner, moved.stage, moved.seq, moved.cycle
    FROM moved JOIN seawall.lane ON lane.id = moved.lane
    JOIN seawall.webhook AS hook ON 'job.cancelled' = ANY (hook.events)
        AND (hook.tasks IS NULL OR lane.task = ANY (hook.tasks))
        AND (hook.owners IS NULL OR moved.owner = ANY (hook.owners))
    WHERE moved.state = 'cancelled'
        AND lane.task <> 'seawall.webhook' AND EXISTS (SELECT FROM seawall.webhook)
)
SELECT id, state, false FROM moved;
