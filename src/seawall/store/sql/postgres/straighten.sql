-- name: straighten_due
-- Puts right the due times that a policy set under a clock that was ahead: the same wait, from now.
-- What a person chose (`due_set_at` is NULL) is left alone.
UPDATE seawall.job
SET due_at = coalesce(%(now)s::timestamptz, now()) + (due_at - due_set_at),
    due_set_at = coalesce(%(now)s::timestamptz, now())
WHERE id = ANY (ARRAY(
    SELECT id FROM seawall.job
    WHERE state = 'queued' AND due_set_at IS NOT NULL
        AND due_set_at > coalesce(%(now)s::timestamptz, now()) + %(slack)s * interval '1 microsecond'
    ORDER BY due_set_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
))
RETURNING id;

-- name: straighten_leases
-- The same for leases: they lapse no later than their length from now.
UPDATE seawall.job
SET lease_until = coalesce(%(now)s::timestamptz, now()) + (lease_until - leased_at),
    leased_at = coalesce(%(now)s::timestamptz, now()),
    claimed_at = least(claimed_at, coalesce(%(now)s::timestamptz, now()))
WHERE id = ANY (ARRAY(
    SELECT id FROM seawall.job
    WHERE state = 'running'
        AND lease_until > coalesce(%(now)s::timestamptz, now())
        AND leased_at > coalesce(%(now)s::timestamptz, now()) + %(slack)s * interval '1 microsecond'
    ORDER BY lease_until DESC LIMIT %(limit)s FOR UPDATE SKIP LOCKED
))
RETURNING id;

-- name: straighten_holds
-- The same for holds.
UPDATE seawall.hold
SET held_until = coalesce(%(now)s::timestamptz, now()) + (held_until - held_at),
    held_at = coalesce(%(now)s::timestamptz, now())
WHERE held_at > coalesce(%(now)s::timestamptz, now()) + %(slack)s * interval '1 microsecond'
RETURNING name;
