-- name: settle
-- Ends each attempt whose token holds: the job's new state, the attempt, its output, its evidence
-- and, where it has failed, its dead letter in one write. Where a cancel was asked for, what would
-- go back to the queue is cancelled instead.
-- moves: succeed, skip, retry, snooze, fail, stop
-- given: id, lease_no, seq, state, outcome, counted, fault, delay, policy, output, traceback
-- given: raw_output, took, ago, lane, config, tokens_in, tokens_out, cost, code, fingerprint, span
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(
        %(id)s::bigint[], %(lease_no)s::bigint[], %(seq)s::bigint[], %(state)s::text[],
        %(outcome)s::text[], %(counted)s::boolean[], %(fault)s::text[], %(delay)s::bigint[],
        %(policy)s::text[], %(output)s::text[], %(traceback)s::text[], %(raw_output)s::text[],
        %(took)s::bigint[], %(ago)s::bigint[], %(lane)s::bigint[], %(config)s::text[],
        %(tokens_in)s::bigint[], %(tokens_out)s::bigint[], %(cost)s::double precision[],
        %(code)s::text[], %(fingerprint)s::text[], %(span)s::text[]
    ) AS r (
        id, lease_no, seq, state, outcome, counted, fault, delay, policy, output, traceback,
        raw_output, took, ago, lane, config, tokens_in, tokens_out, cost, code, fingerprint, span
    )
    ORDER BY id
),
locked AS MATERIALIZED (
    SELECT
        given.*, mine.*,
        CASE WHEN mine.cancel_requested AND given.state = 'queued' THEN 'cancelled'
        ELSE given.state END AS state_after
    FROM given CROSS JOIN LATERAL (
        SELECT job.cycle, job.stage, job.worker, job.cancel_requested, job.run, job.owner,
            job.lane AS old_lane, job.created_at
        FROM seawall.job
        WHERE job.id = given.id
            AND job.lease_no = given.lease_no AND job.seq = given.seq - 1
            -- Said so that the index of what runs does not offer itself: it would be read whole for each.
            AND (job.state = 'running') IS TRUE
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
    SET state = dated.state_after,
        lane = coalesce((SELECT lane.id FROM seawall.lane WHERE lane.id = dated.lane), job.lane),
        seq = dated.seq, tries = tries + dated.counted::integer,
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
    RETURNING job.id, job.state, job.lane, job.stage, job.owner, job.run, job.finished_at
),
buried AS (
    INSERT INTO seawall.dead_letter (job, state, lane, stage, owner, run, code, fingerprint, fault,
        first_at, last_at, attempts)
    SELECT moved.id, 'open', moved.lane, moved.stage, moved.owner, moved.run,
        dated.code, dated.fingerprint, dated.fault, moved.finished_at, moved.finished_at, dated.seq
    FROM moved JOIN dated USING (id)
    WHERE moved.state = 'failed'
    ON CONFLICT (job) DO UPDATE
    SET state = 'open', lane = excluded.lane, stage = excluded.stage, code = excluded.code,
        fingerprint = excluded.fingerprint, fault = excluded.fault, last_at = excluded.last_at,
        attempts = excluded.attempts, times = dead_letter.times + 1,
        handled_at = NULL, handled_by = NULL
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
        finished_at, outcome, counted, fault, delay, policy, config, span)
    SELECT id, seq, lease_no, cycle, stage, worker, begun_at,
        ended_at, outcome, counted, fault, delay, policy, config, span
    FROM dated
),
used AS (
    INSERT INTO seawall.usage (job, seq, stage, run, owner, tokens_in, tokens_out, cost)
    SELECT id, seq, stage, run, owner, tokens_in, tokens_out, cost
    FROM dated WHERE tokens_in IS NOT NULL
),
items AS (
    INSERT INTO seawall.run_change (run, stage, succeeded, skipped, failed, cancelled, retried,
        tokens_in, tokens_out, cost)
    SELECT run, stage,
        count(*) FILTER (WHERE state_after = 'succeeded'),
        count(*) FILTER (WHERE state_after = 'skipped'),
        count(*) FILTER (WHERE state_after = 'failed'),
        count(*) FILTER (WHERE state_after = 'cancelled'),
        count(*) FILTER (WHERE outcome = 'retried'),
        coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0), coalesce(sum(cost), 0)
    FROM dated WHERE run IS NOT NULL GROUP BY run, stage
),
ends AS (
    SELECT old_lane, now, outcome, took, tokens_in, tokens_out, cost, raw_output,
        coalesce(code, '') AS code,
        CASE WHEN state_after = 'queued' THEN '' ELSE state_after END AS became,
        CASE WHEN state_after = 'queued' THEN 0
        ELSE greatest(0, extract(epoch FROM now - created_at) * 1000000)::bigint END AS age
    FROM dated
),
paced AS (
    INSERT INTO seawall.pace_change (minute, task, queue, outcome, became, code, took_bucket,
        age_bucket, many, took, age, tokens_in, tokens_out, cost, captures)
    SELECT floor(extract(epoch FROM now) / 60)::bigint, lane.task, lane.queue, outcome, became, code,
        took_bucket, age_bucket, many, alike.took, alike.age, tokens_in, tokens_out, cost, captures
    FROM (
        SELECT old_lane, now, outcome, became, code, seawall.span_bucket(took) AS took_bucket,
            seawall.span_bucket(age) AS age_bucket, count(*) AS many, sum(took) AS took,
            sum(age) AS age, coalesce(sum(tokens_in), 0) AS tokens_in,
            coalesce(sum(tokens_out), 0) AS tokens_out, coalesce(sum(cost), 0) AS cost,
            count(raw_output) AS captures
        FROM ends GROUP BY 1, 2, 3, 4, 5, 6, 7
    ) AS alike JOIN seawall.lane ON lane.id = alike.old_lane
),
noted AS (
    INSERT INTO seawall.outbox (webhook, event, at, task, queue, job, run, owner, stage, attempt, cycle,
        delay, fault)
    SELECT hook.id, told.event, CASE WHEN told.state_after = 'queued' THEN told.ended_at ELSE told.now END,
        lane.task, lane.queue, told.id, told.run, told.owner, told.stage, told.seq, told.cycle,
        CASE WHEN told.state_after = 'queued' THEN told.delay END,
        CASE WHEN told.state_after IN ('queued', 'failed') THEN told.fault END
    FROM (
        SELECT dated.*, moved.lane AS lane_after, CASE
            WHEN state_after = 'succeeded' THEN 'job.complete'
            WHEN state_after = 'failed' AND code = 'EXPIRED' THEN 'job.expired'
            WHEN state_after <> 'queued' THEN 'job.' || state_after
            WHEN outcome = 'retried' THEN 'job.retry' ELSE 'job.' || outcome END AS event
        FROM dated JOIN moved USING (id)
    ) AS told
    JOIN seawall.lane ON lane.id = told.lane_after
    JOIN seawall.webhook AS hook ON told.event = ANY (hook.events)
        AND (hook.tasks IS NULL OR lane.task = ANY (hook.tasks))
        AND (hook.owners IS NULL OR told.owner = ANY (hook.owners))
    WHERE lane.task <> 'seawall.webhook' AND EXISTS (SELECT FROM seawall.webhook)
)
SELECT id, state, false FROM moved;

-- name: succeed
-- Ends attempts that succeeded and of which there is nothing to tell but, perhaps, an output: what
-- `settle` does, for what comes by the thousand. So only what differs from row to row travels.
-- moves: succeed
-- given: id, lease_no, seq, took, ago, output, config
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(
        %(id)s::bigint[], %(lease_no)s::bigint[], %(seq)s::bigint[], %(took)s::bigint[],
        %(ago)s::bigint[], %(output)s::text[], %(config)s::text[]
    ) AS r (id, lease_no, seq, took, ago, output, config)
    ORDER BY id
),
locked AS MATERIALIZED (
    SELECT given.*, mine.*
    FROM given CROSS JOIN LATERAL (
        SELECT job.cycle, job.stage, job.worker, job.run, job.lane, job.owner, job.created_at
        FROM seawall.job
        WHERE job.id = given.id
            AND job.lease_no = given.lease_no AND job.seq = given.seq - 1
            -- Said so that the index of what runs does not offer itself: it would be read whole for each.
            AND (job.state = 'running') IS TRUE
        FOR UPDATE
    ) AS mine
),
clock AS MATERIALIZED (
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
    SET state = 'succeeded', seq = dated.seq, tries = tries + 1,
        worker = NULL, claimed_at = NULL, leased_at = NULL, lease_until = NULL,
        cancel_requested = false,
        started_at = coalesce(job.started_at, dated.begun_at),
        last_attempt_at = dated.begun_at,
        finished_at = dated.now
    FROM dated
    WHERE job.id = dated.id
    RETURNING job.id
),
kept AS (
    INSERT INTO seawall.output (job, stage, content)
    SELECT id, stage, output FROM dated WHERE output IS NOT NULL
    ON CONFLICT (job, stage) DO UPDATE SET content = excluded.content
),
written AS (
    INSERT INTO seawall.attempt (job, seq, lease_no, cycle, stage, worker, started_at,
        finished_at, outcome, counted, config)
    SELECT id, seq, lease_no, cycle, stage, worker, begun_at, ended_at, 'succeeded', true, config
    FROM dated
),
items AS (
    INSERT INTO seawall.run_change (run, stage, succeeded)
    SELECT run, stage, count(*) FROM dated WHERE run IS NOT NULL GROUP BY run, stage
),
ends AS (
    SELECT lane, now, took,
        greatest(0, extract(epoch FROM now - created_at) * 1000000)::bigint AS age
    FROM dated
),
paced AS (
    INSERT INTO seawall.pace_change (minute, task, queue, outcome, became, took_bucket, age_bucket,
        many, took, age)
    SELECT floor(extract(epoch FROM now) / 60)::bigint, lane.task, lane.queue, 'succeeded', 'succeeded',
        took_bucket, age_bucket, many, alike.took, alike.age
    FROM (
        SELECT lane, now, seawall.span_bucket(took) AS took_bucket,
            seawall.span_bucket(age) AS age_bucket, count(*) AS many, sum(took) AS took,
            sum(age) AS age
        FROM ends GROUP BY 1, 2, 3, 4
    ) AS alike JOIN seawall.lane ON lane.id = alike.lane
),
noted AS (
    INSERT INTO seawall.outbox (webhook, event, at, task, queue, job, run, owner, stage, attempt, cycle)
    SELECT hook.id, 'job.complete', dated.now, lane.task, lane.queue, dated.id, dated.run, dated.owner,
        dated.stage, dated.seq, dated.cycle
    FROM dated JOIN seawall.lane ON lane.id = dated.lane
    JOIN seawall.webhook AS hook ON 'job.complete' = ANY (hook.events)
        AND (hook.tasks IS NULL OR lane.task = ANY (hook.tasks))
        AND (hook.owners IS NULL OR dated.owner = ANY (hook.owners))
    WHERE lane.task <> 'seawall.webhook' AND EXISTS (SELECT FROM seawall.webhook)
)
SELECT id, 'succeeded', false FROM moved;

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
