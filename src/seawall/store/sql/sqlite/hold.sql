-- name: hold
-- Holds every lane, present and future, of a queue, task or upstream; replaces an earlier hold.
INSERT INTO seawall_hold (scope, name, held_at, held_until, reason)
VALUES (:scope, :name, :now, :now + :span, :reason)
ON CONFLICT (scope, name) DO UPDATE
SET held_at = excluded.held_at, held_until = excluded.held_until, reason = excluded.reason
RETURNING name;

-- name: resume
-- Ends a hold, and says whether it still held anything.
DELETE FROM seawall_hold WHERE scope = :scope AND name = :name
RETURNING held_until IS NULL OR held_until > :now;

-- name: all_holds
-- Every hold that is in force.
SELECT scope, name, held_at, held_until, reason FROM seawall_hold
WHERE held_until IS NULL OR held_until > :now
ORDER BY scope, name;
