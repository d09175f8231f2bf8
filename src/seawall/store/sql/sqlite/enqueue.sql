-- name: enqueue
-- Writes each job with its data, key and tags, and counts it in. A row whose key is taken, or
-- whose lane is gone, is left out.
-- Six statements for each row, where PostgreSQL has one for all: here a statement costs no round
-- trip. Each of them does nothing if the one before it did nothing; a job without a key is there if
-- its lane is.
-- moves: enqueue, begin
INSERT INTO seawall_job (
    lane, state, due_at, due_set_at, stage, lease_no, worker, claimed_at, leased_at,
    lease_until, deadline_at, run, owner, created_at
)
SELECT
    :lane, iif(:worker IS NULL, 'queued', 'running'),
    max(coalesce(:run_after, :now + :run_after_span, :now), :now), iif(:run_after > :now, NULL, :now), :stage,
    iif(:worker IS NULL, 0, 1),
    :worker,
    iif(:worker IS NOT NULL, :now, NULL),
    iif(:worker IS NOT NULL, :now, NULL),
    iif(:worker IS NOT NULL, :now + :lease, NULL),
    coalesce(:deadline_at, :now + :deadline_span), :run, :owner, :now
WHERE EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane)
    AND (:key IS NULL
        OR NOT EXISTS (SELECT 1 FROM seawall_job_key WHERE task = :task AND key = :key))
RETURNING :position, id;
INSERT INTO seawall_job_data (job, codec, arguments, request_id, trace, parent)
SELECT last_insert_rowid(), :codec, :arguments, :request_id, :trace, :parent WHERE changes() = 1;
UPDATE seawall_tally SET jobs = jobs + 1 WHERE name = 'enqueued' AND changes() = 1;
INSERT INTO seawall_pace_change (minute, task, queue, became, many)
SELECT :now / 60000000, task, queue, 'created', 1 FROM seawall_lane
WHERE id = :lane AND changes() = 1
ON CONFLICT (minute, task, queue, outcome, became, code, took_bucket, age_bucket) DO UPDATE
SET many = many + excluded.many;
INSERT INTO seawall_job_key (task, key, job, digest)
SELECT :task, :key, last_insert_rowid(), :digest WHERE changes() = 1 AND :key IS NOT NULL;
INSERT INTO seawall_job_tag (tag, job)
SELECT value, last_insert_rowid() FROM json_each(:tags)
WHERE changes() = 1
    OR (:key IS NULL AND EXISTS (SELECT 1 FROM seawall_lane WHERE id = :lane));

-- name: enqueue_plain
-- What `enqueue` does, for jobs that are due now and have neither key nor tags: most of them, and in
-- bulk. None is written where a lane is gone. There is one writer, so their ids follow one another.
-- moves: enqueue
-- given: lane, stage, owner, codec, arguments, request_id, trace, parent
INSERT INTO seawall_job (lane, state, due_at, due_set_at, stage, owner, created_at)
SELECT lane, 'queued', :now, :now, stage, owner, :now FROM given_enqueue_plain
WHERE NOT EXISTS (
    SELECT 1 FROM given_enqueue_plain WHERE lane NOT IN (SELECT id FROM seawall_lane)
)
ORDER BY rowid;
INSERT INTO seawall_job_data (job, codec, arguments, request_id, trace, parent)
SELECT
    (SELECT seq FROM sqlite_sequence WHERE name = 'seawall_job')
        - (SELECT count(*) FROM given_enqueue_plain) + rowid,
    codec, arguments, request_id, trace, parent
FROM given_enqueue_plain
WHERE changes() > 0
ORDER BY rowid;
UPDATE seawall_tally SET jobs = jobs + changes() WHERE name = 'enqueued' AND changes() > 0;
INSERT INTO seawall_pace_change (minute, task, queue, became, many)
SELECT :now / 60000000, lane.task, lane.queue, 'created', alike.many
FROM (SELECT lane, count(*) AS many FROM given_enqueue_plain GROUP BY lane) AS alike
CROSS JOIN seawall_lane AS lane ON lane.id = alike.lane
WHERE changes() > 0
ON CONFLICT (minute, task, queue, outcome, became, code, took_bucket, age_bucket) DO UPDATE
SET many = many + excluded.many;
SELECT
    rowid - 1,
    (SELECT seq FROM sqlite_sequence WHERE name = 'seawall_job')
        - (SELECT count(*) FROM given_enqueue_plain) + rowid
FROM given_enqueue_plain
WHERE changes() > 0
ORDER BY rowid;

-- name: find_keys
-- Who holds each of these keys, and with which arguments.
SELECT :position, job, digest FROM seawall_job_key WHERE task = :task AND key = :key;

-- name: store_now
-- The store's own clock.
SELECT :now;
