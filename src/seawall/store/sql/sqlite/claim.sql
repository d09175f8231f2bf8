-- name: claim
-- Leases due jobs: the lanes that the caller names, in its order, then those made since it last
-- looked, but none that is held, nor, unless the caller has locked it, one whose upstream is
-- gated; within a lane in exact order. Costs a look into each lane that it
-- visits before it has enough; what waits for later or is held is never read.
-- SQLite leaves no dead entries in an index, so it needs no watermark (`since`).
-- CROSS JOIN and INDEXED BY fix the plan. One writer at a time: nothing has to be skipped.
-- moves: claim
UPDATE seawall_job
SET state = 'running', lease_no = lease_no + 1, worker = :worker, prefetched = :prefetch,
    claimed_at = :now, leased_at = :now, lease_until = :now + :lease
WHERE id IN (
    SELECT waiting.id
    FROM (
        SELECT value AS lane FROM json_each(:visit)
        UNION ALL SELECT id FROM seawall_lane
        WHERE id > :known
            AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
            AND task IN (SELECT value FROM json_each(:tasks)) AND NOT retry
            AND upstream NOT IN (SELECT value FROM json_each(:guarded))
            AND substr(upstream, 1, instr(upstream || ':', ':') - 1)
                NOT IN (SELECT value FROM json_each(:guarded))
    ) AS visit
    CROSS JOIN seawall_job AS waiting INDEXED BY seawall_job_due
    WHERE (NOT EXISTS (SELECT 1 FROM seawall_hold) OR NOT EXISTS (
            SELECT 1
            FROM seawall_lane AS lane JOIN seawall_hold AS hold
                ON (hold.scope = 'queue' AND hold.name = lane.queue)
                OR (hold.scope = 'task' AND hold.name = lane.task)
                OR (hold.scope = 'upstream' AND hold.name = lane.upstream)
                OR (hold.scope = 'run' AND hold.name = CAST(lane.run AS TEXT))
            WHERE lane.id = visit.lane AND (hold.held_until IS NULL OR hold.held_until > :now)
        ))
        AND (:locked OR NOT EXISTS (SELECT 1 FROM seawall_upstream) OR NOT EXISTS (
            SELECT 1
            FROM seawall_lane AS lane JOIN seawall_upstream AS watched
                ON watched.name = lane.upstream
            WHERE lane.id = visit.lane AND watched.gated
        ))
        AND waiting.lane = visit.lane AND waiting.state = 'queued' AND waiting.due_at <= :now
        AND (waiting.deadline_at IS NULL OR waiting.deadline_at > :now)
        AND (waiting.losses = 0 OR NOT :prefetch)
    LIMIT :limit
)
RETURNING
    id, lease_no, seq, lane, cycle, tries, losses,
    due_at, lease_until, deadline_at, run, owner,
    (SELECT codec FROM seawall_job_data WHERE job = seawall_job.id),
    (SELECT arguments FROM seawall_job_data WHERE job = seawall_job.id),
    (SELECT request_id FROM seawall_job_data WHERE job = seawall_job.id),
    (SELECT content FROM seawall_output
        WHERE job = seawall_job.id AND stage = seawall_job.stage - 1),
    -- What went wrong before, at this stage; nothing to look for at a first attempt. What a caller
    -- tried inline is left out: it uses up nothing that the job's own policy allows.
    iif(seq > 0, (
        SELECT json_group_array(json_array(fault, delay, started_at))
        FROM (
            SELECT fault, delay, started_at FROM seawall_attempt AS attempt
            WHERE attempt.job = seawall_job.id AND attempt.seq > seawall_job.seq - :remembered
                AND attempt.cycle = seawall_job.cycle AND attempt.stage = seawall_job.stage
                AND attempt.fault IS NOT NULL AND substr(attempt.worker, 1, 7) <> 'inline:'
            ORDER BY attempt.seq
        )
    ), NULL),
    (SELECT trace FROM seawall_job_data WHERE job = seawall_job.id),
    -- The span of the last attempt that has one, to be linked to; lost attempts have none.
    iif(seq > 0, (
        SELECT span FROM seawall_attempt AS attempt
        WHERE attempt.job = seawall_job.id AND attempt.seq > seawall_job.seq - 5
            AND span IS NOT NULL
        ORDER BY attempt.seq DESC LIMIT 1
    ), NULL),
    -- A lane that the caller cannot know yet.
    iif(lane > :known, (
        SELECT json_array(named.queue, named.task, named.stage, named.upstream, named.priority,
            named.owner, named.retry, named.run)
        FROM seawall_lane AS named WHERE named.id = seawall_job.lane
    ), NULL);

-- name: take_back
-- Leases the job whose last attempt is the one named, if it is queued still and nobody has had it
-- since: whether it is due or held is its caller's affair.
-- moves: claim
UPDATE seawall_job
SET state = 'running', lease_no = lease_no + 1, worker = :worker, prefetched = 0,
    claimed_at = :now, leased_at = :now, lease_until = :now + :lease
WHERE id = :id AND state = 'queued' AND lease_no = :lease_no AND seq = :seq
    AND (deadline_at IS NULL OR deadline_at > :now)
RETURNING
    id, lease_no, seq, lane, cycle, tries, losses,
    due_at, lease_until, deadline_at, run, owner,
    (SELECT codec FROM seawall_job_data WHERE job = seawall_job.id),
    (SELECT arguments FROM seawall_job_data WHERE job = seawall_job.id),
    (SELECT request_id FROM seawall_job_data WHERE job = seawall_job.id),
    (SELECT content FROM seawall_output
        WHERE job = seawall_job.id AND stage = seawall_job.stage - 1),
    NULL,
    (SELECT trace FROM seawall_job_data WHERE job = seawall_job.id),
    iif(seq > 0, (
        SELECT span FROM seawall_attempt AS attempt
        WHERE attempt.job = seawall_job.id AND attempt.seq > seawall_job.seq - 5
            AND span IS NOT NULL
        ORDER BY attempt.seq DESC LIMIT 1
    ), NULL),
    (
        SELECT json_array(named.queue, named.task, named.stage, named.upstream, named.priority,
            named.owner, named.retry, named.run)
        FROM seawall_lane AS named WHERE named.id = seawall_job.lane
    );
