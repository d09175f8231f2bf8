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
            codec text, arguments text, request_id text, trace text, tags text, worker text,
            lease bigint, parent bigint
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
    INSERT INTO seawall.job_data (job, codec, arguments, request_id, trace, parent)
    SELECT id, codec, arguments, request_id, trace, parent FROM given JOIN born USING (id)
),
tagged AS (
    INSERT INTO seawall.job_tag (tag, job)
    SELECT json_array_elements_text(tags::json), id
    FROM given WHERE tags IS NOT NULL AND id IN (SELECT id FROM born)
),
counted AS (
    INSERT INTO seawall.intake (jobs) SELECT count(*) FROM born HAVING count(*) > 0
),
paced AS (
    INSERT INTO seawall.pace_change (minute, task, queue, became, many)
    SELECT floor(extract(epoch FROM alike.now) / 60)::bigint, lane.task, lane.queue, 'created', alike.many
    FROM (
        SELECT given.lane, given.now, count(*) AS many FROM given JOIN born USING (id)
        GROUP BY given.lane, given.now
    ) AS alike JOIN seawall.lane ON lane.id = alike.lane
),
items AS (
    INSERT INTO seawall.run_change (run, stage, entered)
    SELECT run, stage, count(*) FROM given JOIN born USING (id)
    WHERE run IS NOT NULL GROUP BY run, stage
),
reopened AS (
    -- Also where it is open: whoever is about to close it waits, and then sees these items.
    UPDATE seawall.run SET closed_at = NULL
    WHERE id = ANY (
        ARRAY(SELECT DISTINCT run FROM given JOIN born USING (id) WHERE run IS NOT NULL ORDER BY run)
    )
),
noted AS (
    INSERT INTO seawall.outbox (webhook, event, at, task, queue, job, run, owner, stage, attempt, cycle)
    SELECT hook.id, 'job.queued', given.now, lane.task, lane.queue, given.id, given.run, given.owner,
        given.stage, 0, 0
    FROM given JOIN born ON born.id = given.id JOIN seawall.lane ON lane.id = given.lane
    JOIN seawall.webhook AS hook ON 'job.queued' = ANY (hook.events)
        AND (hook.tasks IS NULL OR lane.task = ANY (hook.tasks))
        AND (hook.owners IS NULL OR given.owner = ANY (hook.owners))
    WHERE lane.task <> 'seawall.webhook' AND EXISTS (SELECT FROM seawall.webhook)
)
SELECT position, id FROM given JOIN born USING (id);

-- name: enqueue_plain
-- What `enqueue` does, for jobs that are due now and have neither key nor tags: most of them, and in
-- bulk. None is written where a lane is gone. Where `tell` is set, whoever waits hears of it.
-- moves: enqueue
-- given: lane, stage, owner, codec, arguments, request_id, trace, parent
WITH given AS MATERIALIZED (
    SELECT
        nextval('seawall.job_id_seq') AS id,
        coalesce(%(now)s::timestamptz, now()) AS now,
        asked.*
    FROM unnest(
        %(lane)s::bigint[], %(stage)s::integer[], %(owner)s::text[],
        %(codec)s::text[], %(arguments)s::text[], %(request_id)s::text[], %(trace)s::text[],
        %(parent)s::bigint[]
    ) AS asked (lane, stage, owner, codec, arguments, request_id, trace, parent)
    -- A store that was restored may lack a lane that the caller knows.
    WHERE NOT EXISTS (
        SELECT FROM (SELECT DISTINCT unnest(%(lane)s::bigint[]) AS id) AS needed
        WHERE NOT EXISTS (SELECT FROM seawall.lane WHERE lane.id = needed.id)
    )
),
born AS (
    INSERT INTO seawall.job (id, lane, state, due_at, due_set_at, stage, owner, created_at)
    SELECT id, lane, 'queued', now, now, stage, owner, now FROM given
),
data AS (
    INSERT INTO seawall.job_data (job, codec, arguments, request_id, trace, parent)
    SELECT id, codec, arguments, request_id, trace, parent FROM given
),
counted AS (
    INSERT INTO seawall.intake (jobs) SELECT count(*) FROM given HAVING count(*) > 0
),
paced AS (
    INSERT INTO seawall.pace_change (minute, task, queue, became, many)
    SELECT floor(extract(epoch FROM alike.now) / 60)::bigint, lane.task, lane.queue, 'created', alike.many
    FROM (SELECT lane, now, count(*) AS many FROM given GROUP BY lane, now) AS alike
    JOIN seawall.lane ON lane.id = alike.lane
),
noted AS (
    INSERT INTO seawall.outbox (webhook, event, at, task, queue, job, run, owner, stage, attempt, cycle)
    SELECT hook.id, 'job.queued', given.now, lane.task, lane.queue, given.id, NULL, given.owner,
        given.stage, 0, 0
    FROM given JOIN seawall.lane ON lane.id = given.lane
    JOIN seawall.webhook AS hook ON 'job.queued' = ANY (hook.events)
        AND (hook.tasks IS NULL OR lane.task = ANY (hook.tasks))
        AND (hook.owners IS NULL OR given.owner = ANY (hook.owners))
    WHERE lane.task <> 'seawall.webhook' AND EXISTS (SELECT FROM seawall.webhook)
)
-- Numbers are drawn in the order of the rows, and come as one text: a thousand rows cost more.
SELECT string_agg(id::text, ',' ORDER BY id), CASE WHEN %(tell)s THEN pg_notify('seawall', '') END
FROM given;

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
