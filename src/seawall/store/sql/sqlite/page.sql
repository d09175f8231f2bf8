-- name: page_queued
-- Jobs that wait in each of these lanes, by the time they are due: at most so many of each lane.
SELECT job.due_at, job.id
FROM seawall_job AS job INDEXED BY seawall_job_due
WHERE job.lane = :lane AND job.state = 'queued'
    AND (job.due_at, job.id) > (coalesce(:after_at, -9223372036854775807), :after_id)
    AND (job.due_at, job.id) <= (coalesce(:until_at, 9223372036854775807), :until_id)
    AND (:owner IS NULL OR job.owner = :owner)
    AND (:tag IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_tag AS tagged WHERE tagged.tag = :tag AND tagged.job = job.id
    ))
    AND (:created_after IS NULL OR job.created_at >= :created_after)
    AND (:created_before IS NULL OR job.created_at < :created_before)
    AND (:fault IS NULL OR substr(job.last_fault, 1, length(:fault)) = :fault)
    AND (:argument IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_data AS data
        WHERE data.job = job.id AND data.codec = 'json'
            AND instr(lower(data.arguments), :argument) > 0
    ))
ORDER BY job.due_at, job.id LIMIT :limit;

-- name: page_finished
-- Jobs that ended in a state, from the last that did.
SELECT job.finished_at, job.id
FROM seawall_job AS job INDEXED BY seawall_job_finished
WHERE job.state = :state AND job.finished_at IS NOT NULL
    AND job.finished_at <= coalesce(:after_at, 9223372036854775807)
    AND (job.finished_at, job.id) < (coalesce(:after_at, 9223372036854775807), :after_id)
    AND job.finished_at >= coalesce(:until_at, -9223372036854775807)
    AND (job.finished_at, job.id) >= (coalesce(:until_at, -9223372036854775807), :until_id)
    AND (:lanes IS NULL OR job.lane IN (SELECT value FROM json_each(:lanes)))
    AND (:owner IS NULL OR job.owner = :owner)
    AND (:tag IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_tag AS tagged WHERE tagged.tag = :tag AND tagged.job = job.id
    ))
    AND (:created_after IS NULL OR job.created_at >= :created_after)
    AND (:created_before IS NULL OR job.created_at < :created_before)
    AND (:fault IS NULL OR substr(job.last_fault, 1, length(:fault)) = :fault)
    AND (:argument IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_data AS data
        WHERE data.job = job.id AND data.codec = 'json'
            AND instr(lower(data.arguments), :argument) > 0
    ))
ORDER BY job.finished_at DESC, job.id DESC LIMIT :limit;

-- name: page_running
-- Jobs that run, from the newest. They are few: all of them are looked at.
SELECT NULL, job.id
FROM seawall_job AS job INDEXED BY seawall_job_lapse
WHERE job.state = 'running' AND job.id < :after_id
    AND (:lanes IS NULL OR job.lane IN (SELECT value FROM json_each(:lanes)))
    AND (:owner IS NULL OR job.owner = :owner)
    AND (:tag IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_tag AS tagged WHERE tagged.tag = :tag AND tagged.job = job.id
    ))
    AND (:created_after IS NULL OR job.created_at >= :created_after)
    AND (:created_before IS NULL OR job.created_at < :created_before)
    AND (:fault IS NULL OR substr(job.last_fault, 1, length(:fault)) = :fault)
    AND (:argument IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_data AS data
        WHERE data.job = job.id AND data.codec = 'json'
            AND instr(lower(data.arguments), :argument) > 0
    ))
ORDER BY job.id DESC LIMIT :limit;

-- name: page_tagged
-- Jobs with a tag, from the newest.
SELECT NULL, job.id
FROM seawall_job_tag AS tagged CROSS JOIN seawall_job AS job ON job.id = tagged.job
WHERE tagged.tag = :tag AND tagged.job < :after_id AND tagged.job >= :until_id
    AND (:state IS NULL OR job.state = :state)
    AND (:lanes IS NULL OR job.lane IN (SELECT value FROM json_each(:lanes)))
    AND (:owner IS NULL OR job.owner = :owner)
    AND (:created_after IS NULL OR job.created_at >= :created_after)
    AND (:created_before IS NULL OR job.created_at < :created_before)
    AND (:fault IS NULL OR substr(job.last_fault, 1, length(:fault)) = :fault)
    AND (:argument IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_data AS data
        WHERE data.job = job.id AND data.codec = 'json'
            AND instr(lower(data.arguments), :argument) > 0
    ))
ORDER BY tagged.job DESC LIMIT :limit;

-- name: page_owned
-- An owner's jobs, from the newest.
SELECT NULL, job.id
FROM seawall_job AS job INDEXED BY seawall_job_owner
WHERE job.owner = :owner AND job.id < :after_id AND job.id >= :until_id
    AND (:state IS NULL OR job.state = :state)
    AND (:lanes IS NULL OR job.lane IN (SELECT value FROM json_each(:lanes)))
    AND (:tag IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_tag AS tagged WHERE tagged.tag = :tag AND tagged.job = job.id
    ))
    AND (:created_after IS NULL OR job.created_at >= :created_after)
    AND (:created_before IS NULL OR job.created_at < :created_before)
    AND (:fault IS NULL OR substr(job.last_fault, 1, length(:fault)) = :fault)
    AND (:argument IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_data AS data
        WHERE data.job = job.id AND data.codec = 'json'
            AND instr(lower(data.arguments), :argument) > 0
    ))
ORDER BY job.id DESC LIMIT :limit;

-- name: page_of_run
-- Items of a run, from the newest.
SELECT NULL, job.id
FROM seawall_job AS job INDEXED BY seawall_job_run
WHERE job.run = :run AND job.id < :after_id AND job.id >= :until_id
    AND (:state IS NULL OR job.state = :state)
    AND (:lanes IS NULL OR job.lane IN (SELECT value FROM json_each(:lanes)))
    AND (:owner IS NULL OR job.owner = :owner)
    AND (:tag IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_tag AS tagged WHERE tagged.tag = :tag AND tagged.job = job.id
    ))
    AND (:created_after IS NULL OR job.created_at >= :created_after)
    AND (:created_before IS NULL OR job.created_at < :created_before)
    AND (:fault IS NULL OR substr(job.last_fault, 1, length(:fault)) = :fault)
    AND (:argument IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_data AS data
        WHERE data.job = job.id AND data.codec = 'json'
            AND instr(lower(data.arguments), :argument) > 0
    ))
ORDER BY job.id DESC LIMIT :limit;

-- name: page_keyed
-- Jobs of these tasks with a key, from the newest: at most one of each task.
SELECT NULL, job.id
FROM seawall_job AS job
WHERE job.id IN (
        SELECT held.job FROM json_each(:tasks) AS named
        CROSS JOIN seawall_job_key AS held ON held.task = named.value AND held.key = :key
    )
    AND job.id < :after_id
    AND (:state IS NULL OR job.state = :state)
    AND (:lanes IS NULL OR job.lane IN (SELECT value FROM json_each(:lanes)))
    AND (:owner IS NULL OR job.owner = :owner)
    AND (:tag IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_tag AS tagged WHERE tagged.tag = :tag AND tagged.job = job.id
    ))
    AND (:created_after IS NULL OR job.created_at >= :created_after)
    AND (:created_before IS NULL OR job.created_at < :created_before)
    AND (:fault IS NULL OR substr(job.last_fault, 1, length(:fault)) = :fault)
    AND (:argument IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_data AS data
        WHERE data.job = job.id AND data.codec = 'json'
            AND instr(lower(data.arguments), :argument) > 0
    ))
ORDER BY job.id DESC LIMIT :limit;

-- name: page_newest
-- Jobs from the newest.
SELECT NULL, job.id
FROM seawall_job AS job NOT INDEXED
WHERE job.id < :after_id AND job.id >= :until_id
    AND (:state IS NULL OR job.state = :state)
    AND (:lanes IS NULL OR job.lane IN (SELECT value FROM json_each(:lanes)))
    AND (:owner IS NULL OR job.owner = :owner)
    AND (:tag IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_tag AS tagged WHERE tagged.tag = :tag AND tagged.job = job.id
    ))
    AND (:created_after IS NULL OR job.created_at >= :created_after)
    AND (:created_before IS NULL OR job.created_at < :created_before)
    AND (:fault IS NULL OR substr(job.last_fault, 1, length(:fault)) = :fault)
    AND (:argument IS NULL OR EXISTS (
        SELECT 1 FROM seawall_job_data AS data
        WHERE data.job = job.id AND data.codec = 'json'
            AND instr(lower(data.arguments), :argument) > 0
    ))
ORDER BY job.id DESC LIMIT :limit;

-- name: look_queued
-- Where a look at so many of the jobs that wait in each of these lanes ends; nothing where it does
-- not end before the lane does.
SELECT job.due_at, job.id
FROM seawall_job AS job INDEXED BY seawall_job_due
WHERE job.lane = :lane AND job.state = 'queued'
    AND (job.due_at, job.id) > (coalesce(:after_at, -9223372036854775807), :after_id)
ORDER BY job.due_at, job.id LIMIT 1 OFFSET :most;

-- name: look_finished
-- The same for jobs that ended in a state.
SELECT job.finished_at, job.id
FROM seawall_job AS job INDEXED BY seawall_job_finished
WHERE job.state = :state AND job.finished_at IS NOT NULL
    AND job.finished_at <= coalesce(:after_at, 9223372036854775807)
    AND (job.finished_at, job.id) < (coalesce(:after_at, 9223372036854775807), :after_id)
ORDER BY job.finished_at DESC, job.id DESC LIMIT 1 OFFSET :most;

-- name: look_tagged
-- The same for jobs with a tag.
SELECT NULL, tagged.job
FROM seawall_job_tag AS tagged
WHERE tagged.tag = :tag AND tagged.job < :after_id
ORDER BY tagged.job DESC LIMIT 1 OFFSET :most;

-- name: look_owned
-- The same for an owner's jobs.
SELECT NULL, job.id
FROM seawall_job AS job INDEXED BY seawall_job_owner
WHERE job.owner = :owner AND job.id < :after_id
ORDER BY job.id DESC LIMIT 1 OFFSET :most;

-- name: look_of_run
-- The same for items of a run.
SELECT NULL, job.id
FROM seawall_job AS job INDEXED BY seawall_job_run
WHERE job.run = :run AND job.id < :after_id
ORDER BY job.id DESC LIMIT 1 OFFSET :most;

-- name: look_newest
-- The same for all jobs.
SELECT NULL, job.id
FROM seawall_job AS job NOT INDEXED
WHERE job.id < :after_id
ORDER BY job.id DESC LIMIT 1 OFFSET :most;
