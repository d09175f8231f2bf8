-- name: settle
-- Ends each attempt whose token holds: the job's new state, the attempt, its output and its
-- evidence in one write. Where a cancel was asked for, what would go back to the queue is cancelled instead.
-- moves: succeed, skip, retry, snooze, fail, stop
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s) AS r (
        id bigint, lease_no bigint, seq bigint, state text, outcome text, counted boolean,
        fault text, delay bigint, policy text, output text, traceback text, raw_output text,
        took bigint, ago bigint
    )
    ORDER BY id
),
locked AS MATERIALIZED (
    SELECT
        given.*, mine.*,
        CASE WHEN mine.cancel_requested AND given.state = 'queued' THEN 'cancelled'
        ELSE given.state END AS state_after
    FROM given CROSS JOIN LATERAL (
        SELECT job.cycle, job.stage, job.worker, job.cancel_requested FROM seawall.job
        WHERE job.id = given.id
            AND job.lease_no = given.lease_no AND job.seq = given.seq - 1 AND job.state = 'running'
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
    SET state = dated.state_after, seq = dated.seq, tries = tries + dated.counted::integer,
        due_at = CASE WHEN dated.state_after = 'queued'
            THEN dated.now + dated.delay * interval '1 microsecond' ELSE job.due_at END,
        due_set_at = CASE WHEN dated.state_after = 'queued'
            THEN dated.now ELSE job.due_set_at END,
        worker = NULL, claimed_at = NULL, leased_at = NULL, lease_until = NULL,
        cancel_requested = false,
        started_at = coalesce(job.started_at, dated.begun_at),
        last_attempt_at = dated.begun_at,
        finished_at = CASE WHEN dated.state_after <> 'queued' THEN dated.now END,
        last_fault = coalesce(dated.fault, job.last_fault)
    FROM dated
    WHERE job.id = dated.id
    RETURNING job.id, job.state
),
kept AS (
    INSERT INTO seawall.output (job, stage, content)
    SELECT id, stage, output FROM dated WHERE output IS NOT NULL
    ON CONFLICT (job, stage) DO UPDATE SET content = excluded.content
),
shown AS (
    INSERT INTO seawall.evidence (job, seq, traceback, raw_output)
    SELECT id, seq, traceback, raw_output FROM dated
    WHERE traceback IS NOT NULL OR raw_output IS NOT NULL
),
written AS (
    INSERT INTO seawall.attempt (job, seq, lease_no, cycle, stage, worker, started_at,
        finished_at, outcome, counted, fault, delay, policy)
    SELECT id, seq, lease_no, cycle, stage, worker, begun_at,
        ended_at, outcome, counted, fault, delay, policy
    FROM dated
)
SELECT id, state, false FROM moved;

-- name: find_attempts
-- Which of these attempts history already has, ended just so under the same token: an earlier ask
-- whose answer was lost on its way.
SELECT done.job, job.state, job.cancel_requested
FROM json_to_recordset(%(rows)s) AS given (
    id bigint, lease_no bigint, seq bigint, outcome text
)
CROSS JOIN LATERAL (
    SELECT attempt.job FROM seawall.attempt
    WHERE attempt.job = given.id AND attempt.seq = given.seq
        AND attempt.lease_no = given.lease_no AND attempt.outcome = given.outcome
    LIMIT 1  -- one look into the index for each row, whatever the planner believes
) AS done
JOIN seawall.job ON job.id = given.id;
