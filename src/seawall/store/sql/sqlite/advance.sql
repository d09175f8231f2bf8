-- name: advance
-- Ends each attempt whose token holds as a finished stage: its output is kept and the job moves
-- to its next stage, running on under the same lease with tries 0. A stage that is
-- no later one is not gone to.
-- The guard is the same in all five; the job moves last, because its row is what they ask.
-- moves: advance
INSERT INTO seawall_attempt (job, seq, lease_no, cycle, stage, worker, started_at,
    finished_at, outcome, counted, policy, config)
SELECT id, :seq, :lease_no, cycle, stage, worker, :now - :ago - :took,
    :now - :ago, 'advanced', :counted, :policy, :config
FROM seawall_job
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
    AND stage < :stage AND EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane);
INSERT INTO seawall_output (job, stage, content)
SELECT id, stage, :output
FROM seawall_job
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
    AND stage < :stage AND EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane)
    AND :output IS NOT NULL
ON CONFLICT (job, stage) DO UPDATE SET content = excluded.content;
INSERT INTO seawall_evidence (job, seq, raw_output)
SELECT id, :seq, :raw_output
FROM seawall_job
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
    AND stage < :stage AND EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane)
    AND :raw_output IS NOT NULL;
INSERT INTO seawall_usage (job, seq, stage, run, owner, tokens_in, tokens_out, cost)
SELECT id, :seq, stage, run, owner, :tokens_in, :tokens_out, :cost
FROM seawall_job
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
    AND stage < :stage AND EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane)
    AND :tokens_in IS NOT NULL;
UPDATE seawall_job
SET state = 'running', lane = :lane, stage = :stage, seq = :seq, tries = 0, prefetched = 0,
    claimed_at = :now, last_attempt_at = :now - :ago - :took,
    started_at = coalesce(started_at, :now - :ago - :took)
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
    AND stage < :stage AND EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane)
RETURNING id, state, cancel_requested;
