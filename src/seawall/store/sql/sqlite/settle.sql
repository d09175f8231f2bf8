-- name: settle
-- Ends each attempt whose token holds: the job's new state, the attempt, its output and its
-- evidence in one write. Where a cancel was asked for, what would go back to the queue is cancelled instead.
-- The guard is the same in all four; the job moves last, because its row is what they ask.
-- moves: succeed, skip, retry, snooze, fail, stop
INSERT INTO seawall_attempt (job, seq, lease_no, cycle, stage, worker, started_at,
    finished_at, outcome, counted, fault, delay, policy)
SELECT id, :seq, :lease_no, cycle, stage, worker, :now - :ago - :took,
    :now - :ago, :outcome, :counted, :fault, :delay, :policy
FROM seawall_job
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running';
INSERT INTO seawall_output (job, stage, content)
SELECT id, stage, :output
FROM seawall_job
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
    AND :output IS NOT NULL
ON CONFLICT (job, stage) DO UPDATE SET content = excluded.content;
INSERT INTO seawall_evidence (job, seq, traceback, raw_output)
SELECT id, :seq, :traceback, :raw_output
FROM seawall_job
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
    AND coalesce(:traceback, :raw_output) IS NOT NULL;
UPDATE seawall_job
SET state = iif(cancel_requested AND :state = 'queued', 'cancelled', :state),
    seq = :seq, tries = tries + :counted,
    due_at = iif(:state = 'queued' AND NOT cancel_requested, :now + :delay, due_at),
    due_set_at = iif(:state = 'queued' AND NOT cancel_requested, :now, due_set_at),
    worker = NULL, claimed_at = NULL, leased_at = NULL, lease_until = NULL,
    cancel_requested = 0,
    started_at = coalesce(started_at, :now - :ago - :took),
    last_attempt_at = :now - :ago - :took,
    finished_at = iif(:state = 'queued' AND NOT cancel_requested, NULL, :now),
    last_fault = coalesce(:fault, last_fault)
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
RETURNING id, state, 0;

-- name: find_attempts
-- Which of these attempts history already has, ended just so under the same token: an earlier ask
-- whose answer was lost on its way.
SELECT done.job, job.state, job.cancel_requested
FROM seawall_attempt AS done JOIN seawall_job AS job ON job.id = done.job
WHERE done.job = :id AND done.seq = :seq AND done.lease_no = :lease_no AND done.outcome = :outcome;
