-- name: settle
-- Ends each attempt whose token holds: the job's new state, the attempt, its output, its evidence
-- and, where it has failed, its dead letter in one write. Where a cancel was asked for, what would
-- go back to the queue is cancelled instead.
-- The guard is the same in all of them; the job moves last, because its row is what they ask.
-- moves: succeed, skip, retry, snooze, fail, stop
INSERT INTO seawall_attempt (job, seq, lease_no, cycle, stage, worker, started_at,
    finished_at, outcome, counted, fault, delay, policy, config)
SELECT id, :seq, :lease_no, cycle, stage, worker, :now - :ago - :took,
    :now - :ago, :outcome, :counted, :fault, :delay, :policy, :config
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
INSERT INTO seawall_usage (job, seq, stage, run, owner, tokens_in, tokens_out, cost)
SELECT id, :seq, stage, run, owner, :tokens_in, :tokens_out, :cost
FROM seawall_job
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
    AND :tokens_in IS NOT NULL;
INSERT INTO seawall_dead_letter (job, state, lane, stage, owner, run, code, fingerprint, fault,
    first_at, last_at, attempts)
SELECT id, 'open', lane, stage, owner, run, :code, :fingerprint, :fault, :now, :now, :seq
FROM seawall_job
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
    AND :state = 'failed'
ON CONFLICT (job) DO UPDATE
SET state = 'open', lane = excluded.lane, stage = excluded.stage, code = excluded.code,
    fingerprint = excluded.fingerprint, fault = excluded.fault, last_at = excluded.last_at,
    attempts = excluded.attempts, times = times + 1, handled_at = NULL, handled_by = NULL;
UPDATE seawall_job
SET state = iif(cancel_requested AND :state = 'queued', 'cancelled', :state),
    lane = coalesce((SELECT id FROM seawall_lane WHERE id = :lane), lane),
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

-- name: succeed
-- Ends attempts that succeeded and of which there is nothing to tell but, perhaps, an output: what
-- `settle` does, for what comes by the thousand. So only what differs from row to row travels, and
-- three statements serve for all of them.
-- moves: succeed
WITH given AS MATERIALIZED (
    SELECT value ->> 0 AS id, value ->> 1 AS lease_no, value ->> 2 AS seq, value ->> 3 AS took,
        value ->> 4 AS ago, value ->> 6 AS config
    FROM json_each(:rows)
)
INSERT INTO seawall_attempt (job, seq, lease_no, cycle, stage, worker, started_at,
    finished_at, outcome, counted, config)
SELECT job.id, given.seq, given.lease_no, cycle, stage, worker, :now - ago - took, :now - ago,
    'succeeded', 1, config
FROM given CROSS JOIN seawall_job AS job
WHERE job.id = given.id
    AND job.lease_no = given.lease_no AND job.seq = given.seq - 1 AND job.state = 'running';
WITH given AS MATERIALIZED (
    SELECT value ->> 0 AS id, value ->> 1 AS lease_no, value ->> 2 AS seq, value ->> 5 AS output
    FROM json_each(:rows)
    WHERE value ->> 5 IS NOT NULL
)
INSERT INTO seawall_output (job, stage, content)
SELECT job.id, stage, output
FROM given CROSS JOIN seawall_job AS job
WHERE job.id = given.id
    AND job.lease_no = given.lease_no AND job.seq = given.seq - 1 AND job.state = 'running'
ON CONFLICT (job, stage) DO UPDATE SET content = excluded.content;
WITH given AS MATERIALIZED (
    SELECT value ->> 0 AS id, value ->> 1 AS lease_no, value ->> 2 AS seq, value ->> 3 AS took,
        value ->> 4 AS ago
    FROM json_each(:rows)
)
UPDATE seawall_job
SET state = 'succeeded', seq = given.seq, tries = tries + 1,
    worker = NULL, claimed_at = NULL, leased_at = NULL, lease_until = NULL,
    cancel_requested = 0,
    started_at = coalesce(started_at, :now - ago - took),
    last_attempt_at = :now - ago - took,
    finished_at = :now
FROM given
WHERE seawall_job.id = given.id AND seawall_job.lease_no = given.lease_no
    AND seawall_job.seq = given.seq - 1 AND state = 'running'
RETURNING seawall_job.id, 'succeeded', 0;

-- name: find_attempts
-- Which of these attempts history already has, ended just so under the same token: an earlier ask
-- whose answer was lost on its way.
SELECT done.job, job.state, job.cancel_requested
FROM seawall_attempt AS done JOIN seawall_job AS job ON job.id = done.job
WHERE done.job = :id AND done.seq = :seq AND done.lease_no = :lease_no AND done.outcome = :outcome;
