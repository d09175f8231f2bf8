-- name: advance
-- Ends each attempt whose token holds as a finished stage: its output is kept and the job moves
-- to its next stage, running on under the same lease with tries 0. A stage that is
-- no later one is not gone to.
-- What does not hold is struck off first; the job moves last, because its row is what they ask.
-- moves: advance
-- given: id, lease_no, seq, lane, stage, output, counted, policy, took, ago, config, raw_output
-- given: tokens_in, tokens_out, cost, span
DELETE FROM given_advance AS given
WHERE NOT EXISTS (
    SELECT 1 FROM seawall_job AS job
    WHERE job.id = given.id
        AND job.lease_no = given.lease_no AND job.seq = given.seq - 1 AND job.state = 'running'
        AND job.stage < given.stage AND EXISTS (SELECT 1 FROM seawall_lane WHERE id = given.lane)
);
INSERT INTO seawall_attempt (job, seq, lease_no, cycle, stage, worker, started_at,
    finished_at, outcome, counted, policy, config, span)
SELECT job.id, given.seq, given.lease_no, job.cycle, job.stage, job.worker,
    :now - given.ago - given.took, :now - given.ago, 'advanced', given.counted, given.policy, given.config,
    given.span
FROM given_advance AS given CROSS JOIN seawall_job AS job ON job.id = given.id;
INSERT INTO seawall_output (job, stage, content)
SELECT job.id, job.stage, given.output
FROM given_advance AS given CROSS JOIN seawall_job AS job ON job.id = given.id
WHERE given.output IS NOT NULL
ON CONFLICT (job, stage) DO UPDATE SET content = excluded.content;
INSERT INTO seawall_evidence (job, seq, raw_output)
SELECT id, seq, raw_output FROM given_advance WHERE raw_output IS NOT NULL;
INSERT INTO seawall_usage (job, seq, stage, run, owner, tokens_in, tokens_out, cost)
SELECT job.id, given.seq, job.stage, job.run, job.owner, given.tokens_in, given.tokens_out, given.cost
FROM given_advance AS given CROSS JOIN seawall_job AS job ON job.id = given.id
WHERE given.tokens_in IS NOT NULL;
INSERT INTO seawall_pace_change (minute, task, queue, outcome, took_bucket, many, took, tokens_in,
    tokens_out, cost, captures)
SELECT :now / 60000000, lane.task, lane.queue, 'advanced', took_bucket, many, took, tokens_in,
    tokens_out, cost, captures
FROM (
    SELECT job.lane, (SELECT bucket FROM seawall_span_bucket WHERE upto >= given.took ORDER BY upto LIMIT 1) AS took_bucket,
        count(*) AS many, sum(given.took) AS took,
        coalesce(sum(given.tokens_in), 0) AS tokens_in,
        coalesce(sum(given.tokens_out), 0) AS tokens_out, coalesce(sum(given.cost), 0) AS cost,
        count(given.raw_output) AS captures
    FROM given_advance AS given CROSS JOIN seawall_job AS job ON job.id = given.id
    GROUP BY 1, 2
) AS alike CROSS JOIN seawall_lane AS lane ON lane.id = alike.lane
WHERE true
ON CONFLICT (minute, task, queue, outcome, became, code, took_bucket, age_bucket) DO UPDATE
SET many = many + excluded.many, took = took + excluded.took, age = age + excluded.age,
    tokens_in = tokens_in + excluded.tokens_in, tokens_out = tokens_out + excluded.tokens_out,
    cost = cost + excluded.cost, captures = captures + excluded.captures;
UPDATE seawall_job
SET state = 'running', lane = given.lane, stage = given.stage, seq = given.seq, tries = 0,
    prefetched = 0, claimed_at = :now, last_attempt_at = :now - given.ago - given.took,
    started_at = coalesce(started_at, :now - given.ago - given.took)
FROM given_advance AS given
WHERE seawall_job.id = +given.id  -- so that nobody looks for a job's row among what was given
RETURNING seawall_job.id, state, cancel_requested;
