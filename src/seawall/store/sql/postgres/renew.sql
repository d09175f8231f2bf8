-- name: renew
-- Has each lease that was not lost, lapsed or not, end so long from now; says whether to stop.
-- Locks one row after the other in order of id, as every statement that changes jobs by id does.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s) AS r (id bigint, lease_no bigint) ORDER BY id
),
locked AS MATERIALIZED (
    SELECT mine.id
    FROM given CROSS JOIN LATERAL (
        SELECT job.id FROM seawall.job
        WHERE job.id = given.id AND job.lease_no = given.lease_no
            -- Said so that the index of what runs does not offer itself: it would be read whole for each.
            AND (job.state = 'running') IS TRUE
        FOR UPDATE
    ) AS mine
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
