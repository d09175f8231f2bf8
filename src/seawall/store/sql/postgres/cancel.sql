-- name: cancel
-- Cancels queued jobs at once and asks running ones to stop.
-- moves: cancel
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s) AS r (id bigint) ORDER BY id
),
locked AS MATERIALIZED (
    SELECT mine.id
    FROM given CROSS JOIN LATERAL (
        SELECT job.id FROM seawall.job
        WHERE job.id = given.id AND job.state IN ('queued', 'running')
        FOR UPDATE
    ) AS mine
),
moved AS (
    UPDATE seawall.job
    SET cancel_requested = (state = 'running'),
        finished_at = CASE WHEN state = 'queued' THEN coalesce(%(now)s::timestamptz, now()) END,
        state = CASE WHEN state = 'queued' THEN 'cancelled' ELSE state END
    FROM locked
    WHERE job.id = locked.id
    RETURNING job.id, job.state, job.run, job.stage, job.lane, job.owner, job.seq, job.cycle,
        job.created_at, job.finished_at
),
items AS (
    INSERT INTO seawall.run_change (run, stage, cancelled)
    SELECT run, stage, count(*)
    FROM moved WHERE run IS NOT NULL AND state = 'cancelled' GROUP BY run, stage
),
ends AS (
    SELECT lane, finished_at,
        greatest(0, extract(epoch FROM finished_at - created_at) * 1000000)::bigint AS age
    FROM moved WHERE state = 'cancelled'
),
paced AS (
    INSERT INTO seawall.pace_change (minute, task, queue, became, age_bucket, many, age)
    SELECT floor(extract(epoch FROM finished_at) / 60)::bigint, lane.task, lane.queue, 'cancelled',
        age_bucket, many, alike.age
    FROM (
        SELECT lane, finished_at, seawall.span_bucket(age) AS age_bucket, count(*) AS many,
            sum(age) AS age
        FROM ends GROUP BY 1, 2, 3
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
SELECT id, state FROM moved;

-- name: find_states
-- The states of those of these jobs that exist.
SELECT job.id, job.state
FROM json_to_recordset(%(rows)s) AS given (id bigint) JOIN seawall.job USING (id);

-- name: stopping
-- The jobs in a worker's hands of which somebody asked that they stop.
SELECT id, lease_no, seq FROM seawall.job
WHERE worker = %(worker)s AND cancel_requested
ORDER BY id LIMIT %(limit)s;
