-- name: renew
-- Has each lease that was not lost, lapsed or not, end so long from now; says whether to stop.
UPDATE seawall_job
SET leased_at = :now, lease_until = :now + :lease
WHERE id = :id AND lease_no = :lease_no AND state = 'running'
RETURNING id, cancel_requested;
