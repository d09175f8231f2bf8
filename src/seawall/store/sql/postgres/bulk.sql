-- name: reserve_ids
-- As many new job ids as are asked for: what is loaded in bulk must know its ids beforehand.
SELECT nextval('seawall.job_id_seq') FROM generate_series(1, %(many)s);

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
-- Wakes whoever waits for work, once this is committed.
SELECT pg_notify('seawall', '');
