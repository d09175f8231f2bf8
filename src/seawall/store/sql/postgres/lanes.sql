-- name: lock_lanes
-- Lets one at a time make lanes: so a lane that is seen later has a greater id.
SELECT pg_advisory_xact_lock(hashtextextended('seawall.lane', 0));

-- name: add_lanes
-- Makes the lanes that are missing. A lane is never changed and never removed.
INSERT INTO seawall.lane (queue, task, stage, upstream, priority, owner)
SELECT queue, task, stage, upstream, priority, owner
FROM json_to_recordset(%(rows)s) AS given (
    queue text, task text, stage integer, upstream text, priority integer, owner text
)
ORDER BY queue, task, stage, upstream, priority, owner
ON CONFLICT (queue, task, stage, upstream, priority, owner) DO NOTHING
RETURNING id;

-- name: all_lanes
-- Every lane there is, oldest first.
SELECT id, queue, task, stage, upstream, priority, owner
FROM seawall.lane ORDER BY id;
