-- name: straighten_due
-- Puts right the due times that a policy set under a clock that was ahead: the same wait, from now.
-- What a person chose (`due_set_at` is NULL) is left alone.
UPDATE seawall_job
SET due_at = :now + (due_at - due_set_at), due_set_at = :now
WHERE id IN (
    SELECT id FROM seawall_job
    WHERE state = 'queued' AND due_set_at IS NOT NULL AND due_set_at > :now + :slack
    ORDER BY due_set_at LIMIT :limit
)
RETURNING id;

-- name: straighten_leases
-- The same for leases: they lapse no later than their length from now.
UPDATE seawall_job
SET lease_until = :now + (lease_until - leased_at), leased_at = :now,
    claimed_at = min(claimed_at, :now)
WHERE id IN (
    SELECT id FROM seawall_job
    WHERE state = 'running' AND lease_until > :now AND leased_at > :now + :slack
    ORDER BY lease_until DESC LIMIT :limit
)
RETURNING id;

-- name: straighten_holds
-- The same for holds.
UPDATE seawall_hold
SET held_until = :now + (held_until - held_at), held_at = :now
WHERE held_at > :now + :slack
RETURNING name;
