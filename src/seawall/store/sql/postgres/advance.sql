-- name: advance
-- Ends each attempt whose token holds as a finished stage: its output is kept and the job moves
-- to its next stage, running on under the same lease with tries 0. A stage that is
-- no later one is not gone to.
-- moves: advance
-- given: id, lease_no, seq, lane, stage, output, counted, policy, took, ago, config, raw_output
-- given: tokens_in, tokens_out, cost, span
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(
        %(id)s::bigint[], %(lease_no)s::bigint[], %(seq)s::bigint[], %(lane)s::bigint[],
        %(stage)s::integer[], %(output)s::text[], %(counted)s::boolean[], %(policy)s::text[],
        %(took)s::bigint[], %(ago)s::bigint[], %(config)s::text[], %(raw_output)s::text[],
        %(tokens_in)s::bigint[], %(tokens_out)s::bigint[], %(cost)s::double precision[],
        %(span)s::text[]
    ) AS r (
        id, lease_no, seq, lane, stage, output, counted, policy, took, ago, config, raw_output,
        tokens_in, tokens_out, cost, span
    )
    ORDER BY id
),
locked AS MATERIALIZED (
    SELECT given.*, mine.*
    FROM given CROSS JOIN LATERAL (
        SELECT job.cycle, job.stage AS finished_stage, job.worker, job.run, job.owner,
            job.lane AS finished_lane
        FROM seawall.job
        WHERE job.id = given.id
            AND job.lease_no = given.lease_no AND job.seq = given.seq - 1
            -- Said so that the index of what runs does not offer itself: it would be read whole for each.
            AND (job.state = 'running') IS TRUE
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
        finished_at, outcome, counted, policy, config, span)
    SELECT id, seq, lease_no, cycle, finished_stage, worker, begun_at,
        ended_at, 'advanced', counted, policy, config, span
    FROM dated
),
shown AS (
    INSERT INTO seawall.evidence (job, seq, raw_output)
    SELECT id, seq, raw_output FROM dated WHERE raw_output IS NOT NULL
),
used AS (
    INSERT INTO seawall.usage (job, seq, stage, run, owner, tokens_in, tokens_out, cost)
    SELECT id, seq, finished_stage, run, owner, tokens_in, tokens_out, cost
    FROM dated WHERE tokens_in IS NOT NULL
),
items AS (
    INSERT INTO seawall.run_change (run, stage, advanced, tokens_in, tokens_out, cost)
    SELECT run, finished_stage, count(*),
        coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0), coalesce(sum(cost), 0)
    FROM dated WHERE run IS NOT NULL GROUP BY run, finished_stage
),
paced AS (
    INSERT INTO seawall.pace_change (minute, task, queue, outcome, took_bucket, many, took,
        tokens_in, tokens_out, cost, captures)
    SELECT floor(extract(epoch FROM now) / 60)::bigint, lane.task, lane.queue, 'advanced',
        took_bucket, many, took, tokens_in, tokens_out, cost, captures
    FROM (
        SELECT finished_lane, now, seawall.span_bucket(took) AS took_bucket, count(*) AS many,
            sum(took) AS took, coalesce(sum(tokens_in), 0) AS tokens_in,
            coalesce(sum(tokens_out), 0) AS tokens_out, coalesce(sum(cost), 0) AS cost,
            count(raw_output) AS captures
        FROM dated GROUP BY 1, 2, 3
    ) AS alike JOIN seawall.lane ON lane.id = alike.finished_lane
),
noted AS (
    INSERT INTO seawall.outbox (webhook, event, at, task, queue, job, run, owner, stage, attempt, cycle)
    SELECT hook.id, 'job.advanced', dated.ended_at, lane.task, lane.queue, dated.id, dated.run,
        dated.owner, dated.finished_stage, dated.seq, dated.cycle
    FROM dated JOIN seawall.lane ON lane.id = dated.lane
    JOIN seawall.webhook AS hook ON 'job.advanced' = ANY (hook.events)
        AND (hook.tasks IS NULL OR lane.task = ANY (hook.tasks))
        AND (hook.owners IS NULL OR dated.owner = ANY (hook.owners))
    WHERE lane.task <> 'seawall.webhook' AND EXISTS (SELECT FROM seawall.webhook)
)
SELECT id, state, cancel_requested FROM moved;
