-- name: renew
-- Extends each lease that was not lost, lapsed or not, and says whether to stop.
-- Locks in order of id, as every statement that changes jobs by id does.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s) AS r (id bigint, lease_no bigint)
),
locked AS MATERIALIZED (
    SELECT job.id
    FROM given JOIN seawall.job USING (id)
    WHERE job.lease_no = given.lease_no AND job.state = 'running'
    ORDER BY job.id FOR UPDATE OF job
),
clock AS MATERIALIZED (
    -- Told after the last lock: waiting for one must not eat into a lease or a delay.
    SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now, count(*) FROM locked
)
UPDATE seawall.job
SET leased_at = clock.now, lease_until = clock.now + %(lease)s * interval '1 microsecond'
FROM locked, clock
WHERE job.id = locked.id
RETURNING job.id, job.cancel_requested;
