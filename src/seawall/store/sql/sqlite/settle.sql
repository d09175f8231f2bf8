-- name: settle
-- Ends each attempt whose token holds: the job's new state, the attempt, its output, its evidence
-- and, where it has failed, its dead letter in one write. Where a cancel was asked for, what would
-- go back to the queue is cancelled instead.
-- What does not hold is struck off first; the job moves last, because its row is what they ask.
-- moves: succeed, skip, retry, snooze, fail, stop
-- given: id, lease_no, seq, state, outcome, counted, fault, delay, policy, output, traceback
-- given: raw_output, took, ago, lane, config, tokens_in, tokens_out, cost, code, fingerprint, span
DELETE FROM given_settle AS given
WHERE NOT EXISTS (
    SELECT 1 FROM seawall_job AS job
    WHERE job.id = given.id
        AND job.lease_no = given.lease_no AND job.seq = given.seq - 1 AND job.state = 'running'
);
INSERT INTO seawall_attempt (job, seq, lease_no, cycle, stage, worker, started_at,
    finished_at, outcome, counted, fault, delay, policy, config, span)
SELECT job.id, given.seq, given.lease_no, job.cycle, job.stage, job.worker,
    :now - given.ago - given.took, :now - given.ago, given.outcome, given.counted, given.fault,
    given.delay, given.policy, given.config, given.span
FROM given_settle AS given CROSS JOIN seawall_job AS job ON job.id = given.id;
INSERT INTO seawall_output (job, stage, content)
SELECT job.id, job.stage, given.output
FROM given_settle AS given CROSS JOIN seawall_job AS job ON job.id = given.id
WHERE given.output IS NOT NULL
ON CONFLICT (job, stage) DO UPDATE SET content = excluded.content;
INSERT INTO seawall_evidence (job, seq, traceback, raw_output)
SELECT id, seq, traceback, raw_output FROM given_settle
WHERE coalesce(traceback, raw_output) IS NOT NULL;
INSERT INTO seawall_usage (job, seq, stage, run, owner, tokens_in, tokens_out, cost)
SELECT job.id, given.seq, job.stage, job.run, job.owner, given.tokens_in, given.tokens_out, given.cost
FROM given_settle AS given CROSS JOIN seawall_job AS job ON job.id = given.id
WHERE given.tokens_in IS NOT NULL;
INSERT INTO seawall_dead_letter (job, state, lane, stage, owner, run, code, fingerprint, fault,
    first_at, last_at, attempts)
SELECT job.id, 'open', job.lane, job.stage, job.owner, job.run, given.code, given.fingerprint,
    given.fault, :now, :now, given.seq
FROM given_settle AS given CROSS JOIN seawall_job AS job ON job.id = given.id
WHERE given.state = 'failed'
ON CONFLICT (job) DO UPDATE
SET state = 'open', lane = excluded.lane, stage = excluded.stage, code = excluded.code,
    fingerprint = excluded.fingerprint, fault = excluded.fault, last_at = excluded.last_at,
    attempts = excluded.attempts, times = times + 1, handled_at = NULL, handled_by = NULL;
INSERT INTO seawall_pace_change (minute, task, queue, outcome, became, code, took_bucket, age_bucket,
    many, took, age, tokens_in, tokens_out, cost, captures)
SELECT :now / 60000000, lane.task, lane.queue, outcome, became, code, took_bucket, age_bucket,
    many, took, age, tokens_in, tokens_out, cost, captures
FROM (
    SELECT lane, outcome, became, code, (SELECT bucket FROM seawall_span_bucket WHERE upto >= ended.took ORDER BY upto LIMIT 1) AS took_bucket,
        (SELECT bucket FROM seawall_span_bucket WHERE upto >= ended.age ORDER BY upto LIMIT 1) AS age_bucket,
        count(*) AS many, sum(took) AS took, sum(age) AS age,
        coalesce(sum(tokens_in), 0) AS tokens_in, coalesce(sum(tokens_out), 0) AS tokens_out,
        coalesce(sum(cost), 0) AS cost, count(raw_output) AS captures
    FROM (
        SELECT job.lane, given.outcome, coalesce(given.code, '') AS code, given.took,
            iif(given.state <> 'queued', given.state, iif(job.cancel_requested, 'cancelled', '')) AS became,
            iif(given.state <> 'queued' OR job.cancel_requested, max(0, :now - job.created_at), 0) AS age,
            given.tokens_in, given.tokens_out, given.cost, given.raw_output
        FROM given_settle AS given CROSS JOIN seawall_job AS job ON job.id = given.id
    ) AS ended
    GROUP BY 1, 2, 3, 4, 5, 6
) AS alike CROSS JOIN seawall_lane AS lane ON lane.id = alike.lane
WHERE true
ON CONFLICT (minute, task, queue, outcome, became, code, took_bucket, age_bucket) DO UPDATE
SET many = many + excluded.many, took = took + excluded.took, age = age + excluded.age,
    tokens_in = tokens_in + excluded.tokens_in, tokens_out = tokens_out + excluded.tokens_out,
    cost = cost + excluded.cost, captures = captures + excluded.captures;
UPDATE seawall_job
SET state = iif(cancel_requested AND given.state = 'queued', 'cancelled', given.state),
    lane = coalesce((SELECT id FROM seawall_lane WHERE id = given.lane), seawall_job.lane),
    seq = given.seq, tries = tries + given.counted,
    due_at = iif(given.state = 'queued' AND NOT cancel_requested, :now + given.delay, due_at),
    due_set_at = iif(given.state = 'queued' AND NOT cancel_requested, :now, due_set_at),
    worker = NULL, claimed_at = NULL, leased_at = NULL, lease_until = NULL,
    cancel_requested = 0,
    started_at = coalesce(started_at, :now - given.ago - given.took),
    last_attempt_at = :now - given.ago - given.took,
    finished_at = iif(given.state = 'queued' AND NOT cancel_requested, NULL, :now),
    last_fault = coalesce(given.fault, last_fault)
FROM given_settle AS given
WHERE seawall_job.id = +given.id  -- so that nobody looks for a job's row among what was given
RETURNING seawall_job.id, seawall_job.state, 0;

-- name: succeed
-- Ends attempts that succeeded and of which there is nothing to tell but, perhaps, an output: what
-- `settle` does, for what comes by the thousand. So only what differs from row to row travels.
-- moves: succeed
-- given: id, lease_no, seq, took, ago, output, config
DELETE FROM given_succeed AS given
WHERE NOT EXISTS (
    SELECT 1 FROM seawall_job AS job
    WHERE job.id = given.id
        AND job.lease_no = given.lease_no AND job.seq = given.seq - 1 AND job.state = 'running'
);
INSERT INTO seawall_attempt (job, seq, lease_no, cycle, stage, worker, started_at,
    finished_at, outcome, counted, config)
SELECT job.id, given.seq, given.lease_no, job.cycle, job.stage, job.worker,
    :now - given.ago - given.took, :now - given.ago, 'succeeded', 1, given.config
FROM given_succeed AS given CROSS JOIN seawall_job AS job ON job.id = given.id;
INSERT INTO seawall_output (job, stage, content)
SELECT job.id, job.stage, given.output
FROM given_succeed AS given CROSS JOIN seawall_job AS job ON job.id = given.id
WHERE given.output IS NOT NULL
ON CONFLICT (job, stage) DO UPDATE SET content = excluded.content;
INSERT INTO seawall_pace_change (minute, task, queue, outcome, became, took_bucket, age_bucket,
    many, took, age)
SELECT :now / 60000000, lane.task, lane.queue, 'succeeded', 'succeeded', took_bucket, age_bucket,
    many, took, age
FROM (
    SELECT lane, (SELECT bucket FROM seawall_span_bucket WHERE upto >= ended.took ORDER BY upto LIMIT 1) AS took_bucket,
        (SELECT bucket FROM seawall_span_bucket WHERE upto >= ended.age ORDER BY upto LIMIT 1) AS age_bucket,
        count(*) AS many, sum(took) AS took, sum(age) AS age
    FROM (
        SELECT job.lane, given.took, max(0, :now - job.created_at) AS age
        FROM given_succeed AS given CROSS JOIN seawall_job AS job ON job.id = given.id
    ) AS ended
    GROUP BY 1, 2, 3
) AS alike CROSS JOIN seawall_lane AS lane ON lane.id = alike.lane
WHERE true
ON CONFLICT (minute, task, queue, outcome, became, code, took_bucket, age_bucket) DO UPDATE
SET many = many + excluded.many, took = took + excluded.took, age = age + excluded.age;
UPDATE seawall_job
SET state = 'succeeded', seq = given.seq, tries = tries + 1,
    worker = NULL, claimed_at = NULL, leased_at = NULL, lease_until = NULL,
    cancel_requested = 0,
    started_at = coalesce(started_at, :now - given.ago - given.took),
    last_attempt_at = :now - given.ago - given.took,
    finished_at = :now
FROM given_succeed AS given
WHERE seawall_job.id = +given.id
RETURNING seawall_job.id, 'succeeded', 0;

-- name: find_attempts
-- Which of these attempts history already has, ended just so under the same token: an earlier ask
-- whose answer was lost on its way.
SELECT done.job, job.state, job.cancel_requested
FROM seawall_attempt AS done JOIN seawall_job AS job ON job.id = done.job
WHERE done.job = :id AND done.seq = :seq AND done.lease_no = :lease_no AND done.outcome = :outcome;
