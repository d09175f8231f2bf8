-- name: claim
-- Leases due jobs: the lanes that the caller names, in its order, then those made since it last
-- looked, but none that is held, nor, unless the caller has locked it, one whose upstream is
-- gated; within a lane in exact order. Costs a look into each lane that it
-- visits before it has enough; what waits for later or is held is never read.
-- A visit begins at the lane's watermark: while somebody holds a snapshot, the index entries of all
-- that was done since stay before it.
-- The rows are chosen in an array first: a join would tempt the planner into reading the table.
-- The visit streams: an ORDER BY, or a join with the holds, would look into every lane first.
-- moves: claim
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now
),
taken AS (
    UPDATE seawall.job
    SET state = 'running', lease_no = lease_no + 1, worker = %(worker)s,
        prefetched = %(prefetch)s,
        claimed_at = (SELECT now FROM clock), leased_at = (SELECT now FROM clock),
        lease_until = (SELECT now FROM clock) + %(lease)s * interval '1 microsecond'
    WHERE job.id = ANY (ARRAY(
        SELECT due.id
        FROM (
            SELECT * FROM unnest(%(visit)s::bigint[], %(since)s::timestamptz[])
            UNION ALL SELECT lane.id, NULL FROM seawall.lane
            WHERE lane.id > %(known)s
                AND (%(queues)s::text[] IS NULL OR lane.queue = ANY (%(queues)s::text[]))
                AND lane.task = ANY (%(tasks)s) AND NOT lane.retry
                AND lane.upstream <> ALL (%(guarded)s::text[])
                AND split_part(lane.upstream, ':', 1) <> ALL (%(guarded)s::text[])
        ) AS visit (lane, since)
        CROSS JOIN LATERAL (
            SELECT waiting.id
            FROM seawall.job AS waiting
            WHERE waiting.lane = visit.lane AND waiting.state = 'queued'
                AND waiting.due_at <= (SELECT now FROM clock)
                -- A watermark of the future was set by a clock that was ahead.
                AND waiting.due_at >= CASE WHEN visit.since <= (SELECT now FROM clock)
                    THEN visit.since ELSE '-infinity' END
                AND (waiting.deadline_at IS NULL OR waiting.deadline_at > (SELECT now FROM clock))
                AND (waiting.losses = 0 OR NOT %(prefetch)s)
            ORDER BY waiting.due_at, waiting.id
            LIMIT %(limit)s
            FOR UPDATE SKIP LOCKED
        ) AS due
        WHERE (NOT (SELECT EXISTS (SELECT FROM seawall.hold)) OR (
            SELECT count(*)
            FROM seawall.lane
            CROSS JOIN LATERAL (
                VALUES ('queue', lane.queue), ('task', lane.task), ('upstream', lane.upstream),
                    ('run', lane.run::text)
            ) AS named (scope, name)
            JOIN seawall.hold USING (scope, name)
            WHERE lane.id = visit.lane
                AND (hold.held_until IS NULL OR hold.held_until > (SELECT now FROM clock))
        ) = 0)
        AND (%(locked)s OR NOT (SELECT EXISTS (SELECT FROM seawall.upstream)) OR (
            SELECT count(*) FROM seawall.lane JOIN seawall.upstream ON upstream.name = lane.upstream
            WHERE lane.id = visit.lane AND upstream.gated
        ) = 0)
        LIMIT %(limit)s
    ))
    RETURNING job.id, job.lease_no, job.seq, job.lane, job.stage, job.cycle, job.tries, job.losses,
        job.due_at, job.lease_until, job.deadline_at, job.run, job.owner
)
SELECT
    taken.id, taken.lease_no, taken.seq, taken.lane, taken.cycle, taken.tries, taken.losses,
    taken.due_at, taken.lease_until, taken.deadline_at, taken.run, taken.owner,
    data.codec, data.arguments, data.request_id,
    CASE WHEN taken.stage > 0 THEN (
        SELECT content FROM seawall.output WHERE job = taken.id AND output.stage = taken.stage - 1
    ) END,
    -- What went wrong before, at this stage; nothing to look for at a first attempt. What a caller
    -- tried inline is left out: it uses up nothing that the job's own policy allows.
    CASE WHEN taken.seq > 0 THEN (
        SELECT json_agg(json_build_array(
            fault, delay, (extract(epoch FROM started_at) * 1000000)::bigint
        ) ORDER BY attempt.seq)::text
        FROM seawall.attempt
        WHERE attempt.job = taken.id AND attempt.seq > taken.seq - %(remembered)s
            AND attempt.cycle = taken.cycle AND attempt.stage = taken.stage
            AND attempt.fault IS NOT NULL AND left(attempt.worker, 7) <> 'inline:'
    ) END,
    data.trace,
    -- The span of the last attempt that has one, to be linked to; lost attempts have none.
    CASE WHEN taken.seq > 0 THEN (
        SELECT span FROM seawall.attempt
        WHERE attempt.job = taken.id AND attempt.seq > taken.seq - 5 AND span IS NOT NULL
        ORDER BY attempt.seq DESC LIMIT 1
    ) END,
    -- A lane that the caller cannot know yet.
    CASE WHEN taken.lane > %(known)s THEN (
        SELECT json_build_array(queue, task, lane.stage, upstream, priority, lane.owner, retry,
            lane.run)::text
        FROM seawall.lane WHERE lane.id = taken.lane
    ) END
FROM taken
-- One look into the index for each row, whatever the planner believes.
LEFT JOIN LATERAL (
    SELECT codec, arguments, request_id, trace FROM seawall.job_data WHERE job = taken.id LIMIT 1
) AS data ON true;

-- name: take_back
-- Leases the job whose last attempt is the one named, if it is queued still and nobody has had it
-- since: whether it is due or held is its caller's affair.
-- moves: claim
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now
),
taken AS (
    UPDATE seawall.job
    SET state = 'running', lease_no = lease_no + 1, worker = %(worker)s, prefetched = false,
        claimed_at = (SELECT now FROM clock), leased_at = (SELECT now FROM clock),
        lease_until = (SELECT now FROM clock) + %(lease)s * interval '1 microsecond'
    WHERE job.id = %(id)s AND job.state = 'queued'
        AND job.lease_no = %(lease_no)s AND job.seq = %(seq)s
        AND (job.deadline_at IS NULL OR job.deadline_at > (SELECT now FROM clock))
    RETURNING job.id, job.lease_no, job.seq, job.lane, job.stage, job.cycle, job.tries, job.losses,
        job.due_at, job.lease_until, job.deadline_at, job.run, job.owner
)
SELECT
    taken.id, taken.lease_no, taken.seq, taken.lane, taken.cycle, taken.tries, taken.losses,
    taken.due_at, taken.lease_until, taken.deadline_at, taken.run, taken.owner,
    data.codec, data.arguments, data.request_id,
    CASE WHEN taken.stage > 0 THEN (
        SELECT content FROM seawall.output WHERE job = taken.id AND output.stage = taken.stage - 1
    ) END,
    NULL,
    data.trace,
    CASE WHEN taken.seq > 0 THEN (
        SELECT span FROM seawall.attempt
        WHERE attempt.job = taken.id AND attempt.seq > taken.seq - 5 AND span IS NOT NULL
        ORDER BY attempt.seq DESC LIMIT 1
    ) END,
    (
        SELECT json_build_array(queue, task, lane.stage, upstream, priority, lane.owner, retry,
            lane.run)::text
        FROM seawall.lane WHERE lane.id = taken.lane
    )
FROM taken LEFT JOIN seawall.job_data AS data ON data.job = taken.id;
