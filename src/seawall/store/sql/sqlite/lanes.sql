-- name: lock_lanes
-- Lets one at a time make lanes: so a lane that is seen later has a greater id.
-- Nothing to do here: there is one writer at a time.
SELECT :now;

-- name: add_lanes
-- Makes the lanes that are missing. A lane is never changed, and removed only with its run.
INSERT INTO seawall_lane (queue, task, stage, upstream, priority, owner, retry, run)
VALUES (:queue, :task, :stage, :upstream, :priority, :owner, :retry, :run)
ON CONFLICT (queue, task, stage, upstream, priority, owner, retry, run) DO NOTHING
RETURNING id;

-- name: all_lanes
-- Every lane there is, oldest first, and whether it is one of a run that is over.
SELECT id, queue, task, stage, upstream, priority, owner, retry, run,
    run > 0 AND EXISTS (
        SELECT 1 FROM seawall_run WHERE seawall_run.id = seawall_lane.run AND closed_at IS NOT NULL
    )
FROM seawall_lane ORDER BY id;

-- name: forget_lanes
-- Removes lanes of runs that are over and of which no item is left.
DELETE FROM seawall_lane
WHERE id IN (
    SELECT lane.id FROM seawall_lane AS lane JOIN seawall_run AS run ON run.id = lane.run
    WHERE run.closed_at IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM seawall_job AS job WHERE job.run = lane.run)
    LIMIT :limit
)
RETURNING id;
