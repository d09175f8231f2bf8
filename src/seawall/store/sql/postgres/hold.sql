-- name: hold
-- Holds every lane, present and future, of a queue, task or upstream; replaces an earlier hold.
INSERT INTO seawall.hold (scope, name, held_at, held_until, reason)
VALUES (%(scope)s, %(name)s, coalesce(%(now)s::timestamptz, now()),
    coalesce(%(now)s::timestamptz, now()) + %(span)s::bigint * interval '1 microsecond', %(reason)s)
ON CONFLICT (scope, name) DO UPDATE
SET held_at = excluded.held_at, held_until = excluded.held_until, reason = excluded.reason
RETURNING name;

-- name: resume
-- Ends a hold, and says whether it still held anything.
DELETE FROM seawall.hold WHERE scope = %(scope)s AND name = %(name)s
RETURNING held_until IS NULL OR held_until > coalesce(%(now)s::timestamptz, now());

-- name: all_holds
-- Every hold that is in force.
SELECT scope, name, held_at, held_until, reason FROM seawall.hold
WHERE held_until IS NULL OR held_until > coalesce(%(now)s::timestamptz, now())
ORDER BY scope, name;
