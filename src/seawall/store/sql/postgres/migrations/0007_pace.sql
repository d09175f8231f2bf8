-- The history of pace: how much was asked for, how it ended and how long it took, by task and queue,
-- over all time and by the minute; and how upstreams did meanwhile.

-- By how long something took, in microseconds, as a number from 0 to 28: up to 1 ms, 2.5 ms, 5 ms,
-- 10 ms and so on up to 1,000,000 s, and more than that.
CREATE FUNCTION seawall.span_bucket(micros bigint) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN width_bucket(micros - 1, ARRAY[
        1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000,
        1000000, 2500000, 5000000, 10000000, 25000000, 50000000, 100000000, 250000000, 500000000,
        1000000000, 2500000000, 5000000000, 10000000000, 25000000000, 50000000000,
        100000000000, 250000000000, 500000000000, 1000000000000
    ]::bigint[]);

-- What a batch did, one row for all that is alike in it, until it is folded: an attempt ended so
-- (`outcome`), or none did; the job became that (`became`), or went on. A row that all wrote to would
-- make them wait for one another.
CREATE TABLE seawall.pace_change (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    minute bigint NOT NULL,  -- since 1970
    task text NOT NULL,
    queue text NOT NULL,
    outcome text NOT NULL DEFAULT '',
    became text NOT NULL DEFAULT '' CHECK (became IN ('', 'created', 'redriven', 'succeeded',
        'skipped', 'failed', 'cancelled')),
    code text NOT NULL DEFAULT '',
    took_bucket integer NOT NULL DEFAULT 0,
    age_bucket integer NOT NULL DEFAULT 0,
    many bigint NOT NULL CHECK (many > 0),
    took bigint NOT NULL DEFAULT 0,  -- all the attempts together
    age bigint NOT NULL DEFAULT 0,  -- from the jobs' creation to their end, together
    tokens_in bigint NOT NULL DEFAULT 0,
    tokens_out bigint NOT NULL DEFAULT 0,
    cost double precision NOT NULL DEFAULT 0,
    captures bigint NOT NULL DEFAULT 0  -- raw outputs that were kept
);

-- The same over all time, jobs and attempts each for themselves.
CREATE TABLE seawall.pace_total (
    kind text NOT NULL CHECK (kind IN ('job', 'attempt')),
    what text NOT NULL,  -- what jobs became; how attempts ended
    task text NOT NULL,  -- empty for jobs that were pruned before anybody counted by task
    queue text NOT NULL,
    code text NOT NULL,
    bucket integer NOT NULL,
    many bigint NOT NULL,
    micros bigint NOT NULL,
    tokens_in bigint NOT NULL,
    tokens_out bigint NOT NULL,
    cost double precision NOT NULL,
    captures bigint NOT NULL,
    PRIMARY KEY (kind, what, task, queue, code, bucket)
) WITH (fillfactor = 50);

-- The same by the minute; the empty task stands for all of them.
CREATE TABLE seawall.pace_minute (
    task text NOT NULL,
    minute bigint NOT NULL,
    created bigint NOT NULL,
    redriven bigint NOT NULL,
    succeeded bigint NOT NULL,
    skipped bigint NOT NULL,
    failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    retried bigint NOT NULL,
    lost bigint NOT NULL,
    PRIMARY KEY (task, minute)
) WITH (fillfactor = 50);
CREATE INDEX pace_minute_minute ON seawall.pace_minute (minute);

-- Calls at upstreams by the minute, as each worker told of them until they are folded: the empty
-- worker stands for all of them, and minute 0 for all time. Bucket -1 has every call, the others
-- those that took so long.
CREATE TABLE seawall.upstream_pace (
    upstream text NOT NULL,
    minute bigint NOT NULL,
    bucket integer NOT NULL,
    worker text NOT NULL,
    calls bigint NOT NULL,
    failures bigint NOT NULL,
    denied bigint NOT NULL,
    micros bigint NOT NULL,
    PRIMARY KEY (upstream, minute, bucket, worker)
) WITH (fillfactor = 50);
CREATE INDEX upstream_pace_told ON seawall.upstream_pace (minute) WHERE worker <> '';
CREATE INDEX upstream_pace_folded ON seawall.upstream_pace (minute) WHERE worker = '';

-- What a breaker turned to, and when; the last of an upstream is never forgotten.
CREATE TABLE seawall.upstream_phase (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    upstream text NOT NULL,
    at timestamptz NOT NULL,
    phase text NOT NULL CHECK (phase IN ('closed', 'open', 'half_open', 'held', 'forced_closed')),
    until timestamptz,  -- when it ends by itself
    open_before bigint NOT NULL CHECK (open_before >= 0)  -- how long it had been shut by then, in all
);
CREATE INDEX upstream_phase_upstream ON seawall.upstream_phase (upstream, id);
CREATE INDEX upstream_phase_at ON seawall.upstream_phase (at);

-- What is there already is counted as it stands: each job, its end and its attempts, under the task
-- where it stands now.
INSERT INTO seawall.pace_total
SELECT 'job', 'created', task, queue, '', 0, sum(jobs), 0, 0, 0, 0, 0
FROM (
    SELECT lane.task, lane.queue, count(*) AS jobs
    FROM seawall.job JOIN seawall.lane ON lane.id = job.lane GROUP BY lane.task, lane.queue
    UNION ALL SELECT '', '', sum(jobs) FROM seawall.tally WHERE name <> 'enqueued'
) AS there
GROUP BY task, queue HAVING sum(jobs) > 0;
INSERT INTO seawall.pace_total
SELECT 'job', state, task, queue, code, bucket, sum(jobs), sum(age), 0, 0, 0, 0
FROM (
    SELECT job.state, lane.task, lane.queue,
        CASE WHEN job.state = 'failed' THEN coalesce(job.last_fault::json ->> 'code', '') ELSE '' END AS code,
        seawall.span_bucket(spent.micros) AS bucket, 1 AS jobs, spent.micros AS age
    FROM seawall.job JOIN seawall.lane ON lane.id = job.lane
    CROSS JOIN LATERAL (
        SELECT greatest(0, extract(epoch FROM job.finished_at - job.created_at) * 1000000)::bigint AS micros
    ) AS spent
    WHERE job.finished_at IS NOT NULL
    UNION ALL SELECT name, '', '', '', 0, jobs, 0 FROM seawall.tally
    WHERE name <> 'enqueued' AND jobs > 0
) AS there
GROUP BY state, task, queue, code, bucket;
INSERT INTO seawall.pace_total
SELECT 'attempt', attempt.outcome, lane.task, lane.queue, coalesce(attempt.fault::json ->> 'code', ''),
    seawall.span_bucket(spent.micros), count(*), sum(spent.micros),
    coalesce(sum(used.tokens_in), 0), coalesce(sum(used.tokens_out), 0), coalesce(sum(used.cost), 0),
    count(evidence.raw_output)
FROM seawall.attempt
JOIN seawall.job ON job.id = attempt.job JOIN seawall.lane ON lane.id = job.lane
LEFT JOIN seawall.usage AS used ON used.job = attempt.job AND used.seq = attempt.seq
LEFT JOIN seawall.evidence ON evidence.job = attempt.job AND evidence.seq = attempt.seq
CROSS JOIN LATERAL (
    SELECT (extract(epoch FROM attempt.finished_at - attempt.started_at) * 1000000)::bigint AS micros
) AS spent
GROUP BY attempt.outcome, lane.task, lane.queue, coalesce(attempt.fault::json ->> 'code', ''),
    seawall.span_bucket(spent.micros);
