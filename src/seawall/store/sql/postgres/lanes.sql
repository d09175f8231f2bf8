-- name: lock_lanes
-- Lets one at a time make lanes: so a lane that is seen later has a greater id.
SELECT pg_advisory_xact_lock(hashtextextended('seawall.lane', 0));

-- name: add_lanes
-- Makes the lanes that are missing. A lane is never changed, and removed only with its run.
INSERT INTO seawall.lane (queue, task, stage, upstream, priority, owner, retry, run)
SELECT queue, task, stage, upstream, priority, owner, retry, run
FROM json_to_recordset(%(rows)s) AS given (
    queue text, task text, stage integer, upstream text, priority integer, owner text,
    retry boolean, run bigint
)
ORDER BY queue, task, stage, upstream, priority, owner, retry, run
ON CONFLICT (queue, task, stage, upstream, priority, owner, retry, run) DO NOTHING
RETURNING id;

-- name: all_lanes
-- Every lane there is, oldest first, and whether it is one of a run that is over.
SELECT id, queue, task, stage, upstream, priority, owner, retry, run,
    run > 0 AND EXISTS (SELECT FROM seawall.run WHERE run.id = lane.run AND closed_at IS NOT NULL)
FROM seawall.lane ORDER BY id;

-- name: forget_lanes
-- Removes lanes of runs that are over and of which no item is left.
DELETE FROM seawall.lane
WHERE id = ANY (ARRAY(
    SELECT lane.id FROM seawall.lane JOIN seawall.run ON run.id = lane.run
    WHERE run.closed_at IS NOT NULL
        AND NOT EXISTS (SELECT FROM seawall.job WHERE job.run = lane.run)
    LIMIT %(limit)s
))
RETURNING id;
