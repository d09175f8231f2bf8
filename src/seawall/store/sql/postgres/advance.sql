-- name: advance
-- Ends each attempt whose token holds as a finished stage: its output is kept and the job moves
-- to its next stage, running on under the same lease with tries 0. A stage that is
-- no later one is not gone to.
-- moves: advance
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s) AS r (
        id bigint, lease_no bigint, seq bigint, lane bigint, stage integer, output text,
        counted boolean, policy text, took bigint, ago bigint
    )
    ORDER BY id
),
locked AS MATERIALIZED (
    SELECT given.*, mine.*
    FROM given CROSS JOIN LATERAL (
        SELECT job.cycle, job.stage AS finished_stage, job.worker FROM seawall.job
        WHERE job.id = given.id
            AND job.lease_no = given.lease_no AND job.seq = given.seq - 1 AND job.state = 'running'
            AND job.stage < given.stage
            AND EXISTS (SELECT FROM seawall.lane WHERE lane.id = given.lane)
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
    SET state = 'running', lane = dated.lane, stage = dated.stage, seq = dated.seq, tries = 0, prefetched = false,
        claimed_at = dated.now, last_attempt_at = dated.begun_at,
        started_at = coalesce(job.started_at, dated.begun_at)
    FROM dated
    WHERE job.id = dated.id
    RETURNING job.id, job.state, job.cancel_requested
),
kept AS (
    INSERT INTO seawall.output (job, stage, content)
    SELECT id, finished_stage, output FROM dated WHERE output IS NOT NULL
    ON CONFLICT (job, stage) DO UPDATE SET content = excluded.content
),
written AS (
    INSERT INTO seawall.attempt (job, seq, lease_no, cycle, stage, worker, started_at,
        finished_at, outcome, counted, policy)
    SELECT id, seq, lease_no, cycle, finished_stage, worker, begun_at,
        ended_at, 'advanced', counted, policy
    FROM dated
)
SELECT id, state, cancel_requested FROM moved;
