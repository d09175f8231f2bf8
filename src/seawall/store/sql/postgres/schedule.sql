-- name: plan
-- Makes a schedule where there is none of that name and specification; otherwise leaves it.
INSERT INTO seawall.schedule (name, spec, next_at)
VALUES (%(name)s, %(spec)s, %(next_at)s::timestamptz)
ON CONFLICT (name, spec) DO UPDATE SET spec = excluded.spec
RETURNING name, spec, next_at, last_at, last_job;

-- name: all_schedules
-- Every schedule there is.
SELECT name, spec, next_at, last_at, last_job FROM seawall.schedule;

-- name: move_on
-- Moves a schedule on from where it stands; nothing where it no longer stands there.
UPDATE seawall.schedule SET next_at = %(next_at)s::timestamptz
WHERE name = %(name)s AND spec = %(spec)s AND next_at = %(due_at)s::timestamptz
RETURNING name;

-- name: note_fired
-- Keeps what a schedule last did.
UPDATE seawall.schedule SET last_at = %(due_at)s::timestamptz, last_job = %(job)s
WHERE name = %(name)s AND spec = %(spec)s
RETURNING name;
