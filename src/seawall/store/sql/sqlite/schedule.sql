-- name: plan
-- Makes a schedule where there is none of that name and specification; otherwise leaves it.
INSERT INTO seawall_schedule (name, spec, next_at) VALUES (:name, :spec, :next_at)
ON CONFLICT (name, spec) DO UPDATE SET spec = excluded.spec
RETURNING name, spec, next_at, last_at, last_job;

-- name: all_schedules
-- Every schedule there is.
SELECT name, spec, next_at, last_at, last_job FROM seawall_schedule;

-- name: move_on
-- Moves a schedule on from where it stands; nothing where it no longer stands there.
UPDATE seawall_schedule SET next_at = :next_at
WHERE name = :name AND spec = :spec AND next_at = :due_at
RETURNING name;

-- name: note_fired
-- Keeps what a schedule last did.
UPDATE seawall_schedule SET last_at = :due_at, last_job = :job
WHERE name = :name AND spec = :spec
RETURNING name;
