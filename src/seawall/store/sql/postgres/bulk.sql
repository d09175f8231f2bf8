-- name: reserve_ids
-- As many new job ids as are asked for, and the time: what is loaded in bulk must know both
-- beforehand. None where a lane is gone, which COPY could not tell.
SELECT nextval('seawall.job_id_seq'), coalesce(%(now)s::timestamptz, now())
FROM generate_series(1, %(many)s)
WHERE %(lane_count)s = (SELECT count(*) FROM seawall.lane WHERE id = ANY (%(lanes)s::bigint[]));

-- name: load_jobs
-- Bulk: the same as `enqueue` for jobs that have no key and are not born running.
-- moves: enqueue
COPY seawall.job (id, lane, state, due_at, due_set_at, stage, deadline_at, run, owner, created_at)
FROM STDIN;

-- name: load_data
-- Bulk: their data.
COPY seawall.job_data (job, codec, arguments, request_id) FROM STDIN;

-- name: count_in
-- Bulk: counts them in.
INSERT INTO seawall.intake (jobs) VALUES (%(jobs)s) RETURNING id;

-- name: tell
-- Wakes whoever waits for work. Nothing is lost if it is: its commit need not wait for the disk.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('seawall', '');
