-- name: report
-- Keeps how far each attempt whose token holds has come, instead of what its job said before.
-- The job is locked meanwhile: what hangs on it must not outlive it.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s) AS r (
        id bigint, lease_no bigint, seq bigint, done double precision, total double precision,
        message text
    )
    ORDER BY id
),
locked AS MATERIALIZED (
    SELECT given.*, mine.cancel_requested
    FROM given CROSS JOIN LATERAL (
        SELECT job.cancel_requested FROM seawall.job
        WHERE job.id = given.id
            AND job.lease_no = given.lease_no AND job.seq = given.seq - 1
            -- Said so that the index of what runs does not offer itself: it would be read whole for each.
            AND (job.state = 'running') IS TRUE
        FOR UPDATE
    ) AS mine
),
kept AS (
    INSERT INTO seawall.progress (job, lease_no, seq, done, total, message, reported_at)
    SELECT id, lease_no, seq, done, total, message, coalesce(%(now)s::timestamptz, now())
    FROM locked
    ON CONFLICT (job) DO UPDATE
    SET lease_no = excluded.lease_no, seq = excluded.seq, done = excluded.done,
        total = excluded.total, message = excluded.message, reported_at = excluded.reported_at
)
SELECT id, cancel_requested FROM locked;

-- name: read_progress
-- How far a job said it had come, last.
SELECT job, lease_no, seq, done, total, message FROM seawall.progress WHERE job = %(job)s;
