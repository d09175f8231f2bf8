-- name: release
-- Hands each job back as it was, at its old place in the lane; where a cancel was asked for, it
-- is cancelled. Only an attempt that had begun (`took` is given) leaves a line in history.
-- moves: release, stop
INSERT INTO seawall_attempt (job, seq, lease_no, cycle, stage, worker, started_at,
    finished_at, outcome, counted, span)
SELECT id, :seq, :lease_no, cycle, stage, worker, :now - :ago - :took, :now - :ago, 'released', 0,
    :span
FROM seawall_job
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
    AND :took IS NOT NULL;
INSERT INTO seawall_pace_change (minute, task, queue, outcome, became, took_bucket, age_bucket,
    many, took, age)
SELECT :now / 60000000, lane.task, lane.queue, iif(:took IS NULL, '', 'released'), became,
    (SELECT bucket FROM seawall_span_bucket WHERE upto >= coalesce(:took, 0) ORDER BY upto LIMIT 1),
    (SELECT bucket FROM seawall_span_bucket WHERE upto >= ended.age ORDER BY upto LIMIT 1),
    1, coalesce(:took, 0), age
FROM (
    SELECT lane, iif(cancel_requested, 'cancelled', '') AS became,
        iif(cancel_requested, max(0, :now - created_at), 0) AS age
    FROM seawall_job
    WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
        AND (:took IS NOT NULL OR cancel_requested)
) AS ended CROSS JOIN seawall_lane AS lane ON lane.id = ended.lane
WHERE true
ON CONFLICT (minute, task, queue, outcome, became, code, took_bucket, age_bucket) DO UPDATE
SET many = many + excluded.many, took = took + excluded.took, age = age + excluded.age;
UPDATE seawall_job
SET state = iif(cancel_requested, 'cancelled', 'queued'),
    seq = iif(:took IS NULL, seq, :seq),
    worker = NULL, claimed_at = NULL, leased_at = NULL, lease_until = NULL,
    cancel_requested = 0,
    started_at = coalesce(started_at, :now - :ago - :took),
    last_attempt_at = coalesce(:now - :ago - :took, last_attempt_at),
    finished_at = iif(cancel_requested, :now, NULL)
WHERE id = :id AND lease_no = :lease_no AND seq = :seq - 1 AND state = 'running'
RETURNING id, state, 0;
