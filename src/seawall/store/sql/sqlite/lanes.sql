-- name: lock_lanes
-- Lets one at a time make lanes: so a lane that is seen later has a greater id.
-- Nothing to do here: there is one writer at a time.
SELECT :now;

-- name: add_lanes
-- Makes the lanes that are missing. A lane is never changed and never removed.
INSERT INTO seawall_lane (queue, task, stage, upstream, priority, owner)
VALUES (:queue, :task, :stage, :upstream, :priority, :owner)
ON CONFLICT (queue, task, stage, upstream, priority, owner) DO NOTHING
RETURNING id;

-- name: all_lanes
-- Every lane there is, oldest first.
SELECT id, queue, task, stage, upstream, priority, owner
FROM seawall_lane ORDER BY id;
