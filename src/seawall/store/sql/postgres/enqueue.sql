-- name: enqueue
-- Writes each job with its data, key and tags, and counts it in. A row whose key is taken, or
-- whose lane is gone, is left out.
-- One statement, so that asking for one job is one round trip. Keys are taken in their order, so
-- that two batches with the same keys wait for one another and never in a circle.
-- moves: enqueue, begin
WITH given AS MATERIALIZED (
    SELECT
        nextval('seawall.job_id_seq') AS id,
        coalesce(%(now)s::timestamptz, now()) AS now,
        asked.*
    FROM (
        SELECT r.*
        FROM json_to_recordset(%(rows)s) AS r (
            position integer, lane bigint, task text, stage integer, key text, digest text,
            run_after timestamptz, run_after_span bigint, deadline_at timestamptz,
            deadline_span bigint, run bigint, owner text,
            codec text, arguments text, request_id text, tags text, worker text, lease bigint
        )
        -- A store that was restored may lack a lane that the caller knows.
        WHERE EXISTS (SELECT FROM seawall.lane WHERE lane.id = r.lane)
        ORDER BY position
    ) AS asked
),
keyed AS (
    INSERT INTO seawall.job_key (task, key, job, digest)
    SELECT task, key, id, digest FROM given WHERE key IS NOT NULL ORDER BY task, key, position
    ON CONFLICT DO NOTHING
    RETURNING job
),
born AS (
    INSERT INTO seawall.job (
        id, lane, state, due_at, due_set_at, stage, lease_no, worker, claimed_at, leased_at,
        lease_until, deadline_at, run, owner, created_at
    )
    SELECT
        id, lane, CASE WHEN worker IS NULL THEN 'queued' ELSE 'running' END,
        greatest(
            coalesce(run_after, now + run_after_span * interval '1 microsecond'), now
        ), CASE WHEN run_after > now THEN NULL ELSE now END, stage,
        CASE WHEN worker IS NULL THEN 0 ELSE 1 END,
        worker,
        CASE WHEN worker IS NOT NULL THEN now END,
        CASE WHEN worker IS NOT NULL THEN now END,
        CASE WHEN worker IS NOT NULL THEN now + lease * interval '1 microsecond' END,
        coalesce(deadline_at, now + deadline_span * interval '1 microsecond'), run, owner, now
    FROM given WHERE key IS NULL OR id IN (SELECT job FROM keyed)
    RETURNING id
),
data AS (
    INSERT INTO seawall.job_data (job, codec, arguments, request_id)
    SELECT id, codec, arguments, request_id FROM given JOIN born USING (id)
),
tagged AS (
    INSERT INTO seawall.job_tag (tag, job)
    SELECT json_array_elements_text(tags::json), id
    FROM given WHERE tags IS NOT NULL AND id IN (SELECT id FROM born)
),
counted AS (
    INSERT INTO seawall.intake (jobs) SELECT count(*) FROM born HAVING count(*) > 0
)
SELECT position, id FROM given JOIN born USING (id);

-- name: find_keys
-- Who holds each of these keys, and with which arguments.
SELECT given.position, held.job, held.digest
FROM json_to_recordset(%(rows)s) AS given (position integer, task text, key text)
CROSS JOIN LATERAL (
    SELECT job_key.job, job_key.digest FROM seawall.job_key
    WHERE job_key.task = given.task AND job_key.key = given.key
    LIMIT 1  -- one look into the index for each row, whatever the planner believes
) AS held;

-- name: store_now
-- The store's own clock.
SELECT coalesce(%(now)s::timestamptz, now());
