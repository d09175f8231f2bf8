-- name: page_queued
-- Jobs that wait in each of these lanes, by the time they are due: at most so many of each lane.
-- As in every statement here, what else is asked for is one CASE: taken apart, the planner would
-- believe that it leaves next to nothing, and gather and sort all of a list for a part of it.
SELECT due.due_at, due.id
FROM json_to_recordset(%(rows)s) AS visit (lane bigint)
CROSS JOIN LATERAL (
    SELECT job.due_at, job.id
    FROM seawall.job
    WHERE job.lane = visit.lane AND job.state = 'queued'
        AND (job.due_at, job.id)
            > (coalesce(%(after_at)s::timestamptz, '-infinity'), %(after_id)s)
        AND (job.due_at, job.id)
            <= (coalesce(%(until_at)s::timestamptz, 'infinity'), %(until_id)s)
        AND CASE WHEN
            (%(owner)s::text IS NULL OR job.owner = %(owner)s)
            AND (%(tag)s::text IS NULL OR (
                SELECT job_tag.job FROM seawall.job_tag
                WHERE job_tag.tag = %(tag)s AND job_tag.job = job.id
            ) IS NOT NULL)
            AND (%(created_after)s::timestamptz IS NULL OR job.created_at >= %(created_after)s)
            AND (%(created_before)s::timestamptz IS NULL OR job.created_at < %(created_before)s)
            AND (%(fault)s::text IS NULL OR starts_with(job.last_fault, %(fault)s))
            AND (%(argument)s::text IS NULL OR (
                SELECT strpos(lower(data.arguments COLLATE "C"), %(argument)s) > 0
                FROM seawall.job_data AS data WHERE data.job = job.id AND data.codec = 'json'
            ))
        THEN true ELSE false END
    ORDER BY job.due_at, job.id LIMIT %(limit)s
) AS due
ORDER BY due.due_at, due.id LIMIT %(limit)s;

-- name: page_finished
-- Jobs that ended in a state, from the last that did.
SELECT job.finished_at, job.id
FROM seawall.job
WHERE job.state = %(state)s AND job.finished_at IS NOT NULL
    AND (job.finished_at, job.id)
        < (coalesce(%(after_at)s::timestamptz, 'infinity'), %(after_id)s)
    AND (job.finished_at, job.id)
        >= (coalesce(%(until_at)s::timestamptz, '-infinity'), %(until_id)s)
    AND CASE WHEN
        (%(lanes)s::bigint[] IS NULL OR job.lane = ANY (%(lanes)s::bigint[]))
        AND (%(owner)s::text IS NULL OR job.owner = %(owner)s)
        AND (%(tag)s::text IS NULL OR (
            SELECT job_tag.job FROM seawall.job_tag
            WHERE job_tag.tag = %(tag)s AND job_tag.job = job.id
        ) IS NOT NULL)
        AND (%(created_after)s::timestamptz IS NULL OR job.created_at >= %(created_after)s)
        AND (%(created_before)s::timestamptz IS NULL OR job.created_at < %(created_before)s)
        AND (%(fault)s::text IS NULL OR starts_with(job.last_fault, %(fault)s))
        AND (%(argument)s::text IS NULL OR (
            SELECT strpos(lower(data.arguments COLLATE "C"), %(argument)s) > 0
            FROM seawall.job_data AS data WHERE data.job = job.id AND data.codec = 'json'
        ))
    THEN true ELSE false END
ORDER BY job.finished_at DESC, job.id DESC LIMIT %(limit)s;

-- name: page_running
-- Jobs that run, from the newest. They are few: all of them are looked at.
-- The running ones come first, whatever the planner believes: it would walk all jobs by their ids.
WITH running AS MATERIALIZED (SELECT * FROM seawall.job WHERE state = 'running')
SELECT NULL, job.id
FROM running AS job
WHERE job.id < %(after_id)s
    AND CASE WHEN
        (%(lanes)s::bigint[] IS NULL OR job.lane = ANY (%(lanes)s::bigint[]))
        AND (%(owner)s::text IS NULL OR job.owner = %(owner)s)
        AND (%(tag)s::text IS NULL OR (
            SELECT job_tag.job FROM seawall.job_tag
            WHERE job_tag.tag = %(tag)s AND job_tag.job = job.id
        ) IS NOT NULL)
        AND (%(created_after)s::timestamptz IS NULL OR job.created_at >= %(created_after)s)
        AND (%(created_before)s::timestamptz IS NULL OR job.created_at < %(created_before)s)
        AND (%(fault)s::text IS NULL OR starts_with(job.last_fault, %(fault)s))
        AND (%(argument)s::text IS NULL OR (
            SELECT strpos(lower(data.arguments COLLATE "C"), %(argument)s) > 0
            FROM seawall.job_data AS data WHERE data.job = job.id AND data.codec = 'json'
        ))
    THEN true ELSE false END
ORDER BY job.id DESC LIMIT %(limit)s;

-- name: page_tagged
-- Jobs with a tag, from the newest.
SELECT NULL, found.id
FROM seawall.job_tag
CROSS JOIN LATERAL (
    SELECT job.id FROM seawall.job
    WHERE job.id = job_tag.job
        AND CASE WHEN
            (%(state)s::text IS NULL OR job.state = %(state)s)
            AND (%(lanes)s::bigint[] IS NULL OR job.lane = ANY (%(lanes)s::bigint[]))
            AND (%(owner)s::text IS NULL OR job.owner = %(owner)s)
            AND (%(created_after)s::timestamptz IS NULL OR job.created_at >= %(created_after)s)
            AND (%(created_before)s::timestamptz IS NULL OR job.created_at < %(created_before)s)
            AND (%(fault)s::text IS NULL OR starts_with(job.last_fault, %(fault)s))
            AND (%(argument)s::text IS NULL OR (
                SELECT strpos(lower(data.arguments COLLATE "C"), %(argument)s) > 0
                FROM seawall.job_data AS data WHERE data.job = job.id AND data.codec = 'json'
            ))
        THEN true ELSE false END
    LIMIT 1  -- one look into the index for each row, whatever the planner believes
) AS found
WHERE job_tag.tag = %(tag)s AND job_tag.job < %(after_id)s AND job_tag.job >= %(until_id)s
ORDER BY job_tag.job DESC LIMIT %(limit)s;

-- name: page_owned
-- An owner's jobs, from the newest.
SELECT NULL, job.id
FROM seawall.job
WHERE job.owner = %(owner)s AND job.id < %(after_id)s AND job.id >= %(until_id)s
    AND CASE WHEN
        (%(state)s::text IS NULL OR job.state = %(state)s)
        AND (%(lanes)s::bigint[] IS NULL OR job.lane = ANY (%(lanes)s::bigint[]))
        AND (%(tag)s::text IS NULL OR (
            SELECT job_tag.job FROM seawall.job_tag
            WHERE job_tag.tag = %(tag)s AND job_tag.job = job.id
        ) IS NOT NULL)
        AND (%(created_after)s::timestamptz IS NULL OR job.created_at >= %(created_after)s)
        AND (%(created_before)s::timestamptz IS NULL OR job.created_at < %(created_before)s)
        AND (%(fault)s::text IS NULL OR starts_with(job.last_fault, %(fault)s))
        AND (%(argument)s::text IS NULL OR (
            SELECT strpos(lower(data.arguments COLLATE "C"), %(argument)s) > 0
            FROM seawall.job_data AS data WHERE data.job = job.id AND data.codec = 'json'
        ))
    THEN true ELSE false END
ORDER BY job.id DESC LIMIT %(limit)s;

-- name: page_of_run
-- Items of a run, from the newest.
SELECT NULL, job.id
FROM seawall.job
WHERE job.run = %(run)s AND job.id < %(after_id)s AND job.id >= %(until_id)s
    AND CASE WHEN
        (%(state)s::text IS NULL OR job.state = %(state)s)
        AND (%(lanes)s::bigint[] IS NULL OR job.lane = ANY (%(lanes)s::bigint[]))
        AND (%(owner)s::text IS NULL OR job.owner = %(owner)s)
        AND (%(tag)s::text IS NULL OR (
            SELECT job_tag.job FROM seawall.job_tag
            WHERE job_tag.tag = %(tag)s AND job_tag.job = job.id
        ) IS NOT NULL)
        AND (%(created_after)s::timestamptz IS NULL OR job.created_at >= %(created_after)s)
        AND (%(created_before)s::timestamptz IS NULL OR job.created_at < %(created_before)s)
        AND (%(fault)s::text IS NULL OR starts_with(job.last_fault, %(fault)s))
        AND (%(argument)s::text IS NULL OR (
            SELECT strpos(lower(data.arguments COLLATE "C"), %(argument)s) > 0
            FROM seawall.job_data AS data WHERE data.job = job.id AND data.codec = 'json'
        ))
    THEN true ELSE false END
ORDER BY job.id DESC LIMIT %(limit)s;

-- name: page_keyed
-- Jobs of these tasks with a key, from the newest: at most one of each task.
SELECT NULL, job.id
FROM seawall.job
WHERE job.id = ANY (ARRAY(
        SELECT job_key.job FROM seawall.job_key
        WHERE job_key.task = ANY (%(tasks)s) AND job_key.key = %(key)s
    ))
    AND job.id < %(after_id)s
    AND CASE WHEN
        (%(state)s::text IS NULL OR job.state = %(state)s)
        AND (%(lanes)s::bigint[] IS NULL OR job.lane = ANY (%(lanes)s::bigint[]))
        AND (%(owner)s::text IS NULL OR job.owner = %(owner)s)
        AND (%(tag)s::text IS NULL OR (
            SELECT job_tag.job FROM seawall.job_tag
            WHERE job_tag.tag = %(tag)s AND job_tag.job = job.id
        ) IS NOT NULL)
        AND (%(created_after)s::timestamptz IS NULL OR job.created_at >= %(created_after)s)
        AND (%(created_before)s::timestamptz IS NULL OR job.created_at < %(created_before)s)
        AND (%(fault)s::text IS NULL OR starts_with(job.last_fault, %(fault)s))
        AND (%(argument)s::text IS NULL OR (
            SELECT strpos(lower(data.arguments COLLATE "C"), %(argument)s) > 0
            FROM seawall.job_data AS data WHERE data.job = job.id AND data.codec = 'json'
        ))
    THEN true ELSE false END
ORDER BY job.id DESC LIMIT %(limit)s;

-- name: page_newest
-- Jobs from the newest.
SELECT NULL, job.id
FROM seawall.job
WHERE job.id < %(after_id)s AND job.id >= %(until_id)s
    AND CASE WHEN
        (%(state)s::text IS NULL OR job.state = %(state)s)
        AND (%(lanes)s::bigint[] IS NULL OR job.lane = ANY (%(lanes)s::bigint[]))
        AND (%(owner)s::text IS NULL OR job.owner = %(owner)s)
        AND (%(tag)s::text IS NULL OR (
            SELECT job_tag.job FROM seawall.job_tag
            WHERE job_tag.tag = %(tag)s AND job_tag.job = job.id
        ) IS NOT NULL)
        AND (%(created_after)s::timestamptz IS NULL OR job.created_at >= %(created_after)s)
        AND (%(created_before)s::timestamptz IS NULL OR job.created_at < %(created_before)s)
        AND (%(fault)s::text IS NULL OR starts_with(job.last_fault, %(fault)s))
        AND (%(argument)s::text IS NULL OR (
            SELECT strpos(lower(data.arguments COLLATE "C"), %(argument)s) > 0
            FROM seawall.job_data AS data WHERE data.job = job.id AND data.codec = 'json'
        ))
    THEN true ELSE false END
ORDER BY job.id DESC LIMIT %(limit)s;

-- name: look_queued
-- Where a look at so many of the jobs that wait in each of these lanes ends; nothing where it does
-- not end before the lane does.
SELECT due.due_at, due.id
FROM json_to_recordset(%(rows)s) AS visit (lane bigint)
CROSS JOIN LATERAL (
    SELECT job.due_at, job.id
    FROM seawall.job
    WHERE job.lane = visit.lane AND job.state = 'queued'
        AND (job.due_at, job.id)
            > (coalesce(%(after_at)s::timestamptz, '-infinity'), %(after_id)s)
    ORDER BY job.due_at, job.id LIMIT 1 OFFSET %(most)s
) AS due;

-- name: look_finished
-- The same for jobs that ended in a state.
SELECT job.finished_at, job.id
FROM seawall.job
WHERE job.state = %(state)s AND job.finished_at IS NOT NULL
    AND (job.finished_at, job.id)
        < (coalesce(%(after_at)s::timestamptz, 'infinity'), %(after_id)s)
ORDER BY job.finished_at DESC, job.id DESC LIMIT 1 OFFSET %(most)s;

-- name: look_tagged
-- The same for jobs with a tag.
SELECT NULL, job_tag.job
FROM seawall.job_tag
WHERE job_tag.tag = %(tag)s AND job_tag.job < %(after_id)s
ORDER BY job_tag.job DESC LIMIT 1 OFFSET %(most)s;

-- name: look_owned
-- The same for an owner's jobs.
SELECT NULL, job.id
FROM seawall.job
WHERE job.owner = %(owner)s AND job.id < %(after_id)s
ORDER BY job.id DESC LIMIT 1 OFFSET %(most)s;

-- name: look_of_run
-- The same for items of a run.
SELECT NULL, job.id
FROM seawall.job
WHERE job.run = %(run)s AND job.id < %(after_id)s
ORDER BY job.id DESC LIMIT 1 OFFSET %(most)s;

-- name: look_newest
-- The same for all jobs.
SELECT NULL, job.id
FROM seawall.job
WHERE job.id < %(after_id)s
ORDER BY job.id DESC LIMIT 1 OFFSET %(most)s;
