-- name: report
-- Keeps how far each attempt whose token holds has come, instead of what its job said before.
INSERT INTO seawall_progress (job, lease_no, seq, done, total, message, reported_at)
SELECT id, :lease_no, :seq, :done, :total, :message, :now
FROM seawall_job
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
ON CONFLICT (job) DO UPDATE
SET lease_no = excluded.lease_no, seq = excluded.seq, done = excluded.done,
    total = excluded.total, message = excluded.message, reported_at = excluded.reported_at
RETURNING job, (SELECT cancel_requested FROM seawall_job WHERE seawall_job.id = :id);

-- name: read_progress
-- How far a job said it had come, last.
SELECT job, lease_no, seq, done, total, message FROM seawall_progress WHERE job = :job;
