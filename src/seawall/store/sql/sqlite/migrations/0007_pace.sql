-- The history of pace: how much was asked for, how it ended and how long it took, by task and queue,
-- over all time and by the minute; and how upstreams did meanwhile.

-- By how long something took, in microseconds, as a number from 0 to 28: up to 1 ms, 2.5 ms, 5 ms,
-- 10 ms and so on up to 1,000,000 s, and more than that. PostgreSQL has a function for it.
CREATE TABLE seawall_span_bucket (upto INTEGER PRIMARY KEY, bucket INTEGER NOT NULL) STRICT;
INSERT INTO seawall_span_bucket VALUES
    (1000, 0), (2500, 1), (5000, 2), (10000, 3), (25000, 4), (50000, 5), (100000, 6), (250000, 7),
    (500000, 8), (1000000, 9), (2500000, 10), (5000000, 11), (10000000, 12), (25000000, 13),
    (50000000, 14), (100000000, 15), (250000000, 16), (500000000, 17), (1000000000, 18),
    (2500000000, 19), (5000000000, 20), (10000000000, 21), (25000000000, 22), (50000000000, 23),
    (100000000000, 24), (250000000000, 25), (500000000000, 26), (1000000000000, 27),
    (9223372036854775807, 28);

-- What batches did, one row for all that is alike, until it is folded: an attempt ended so
-- (`outcome`), or none did; the job became that (`became`), or went on. There is one writer at a
-- time, so that a row can be added to; on PostgreSQL each batch appends its own.
CREATE TABLE seawall_pace_change (
    minute INTEGER NOT NULL,  -- since 1970
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    outcome TEXT NOT NULL DEFAULT '',
    became TEXT NOT NULL DEFAULT '' CHECK (became IN ('', 'created', 'redriven', 'succeeded',
        'skipped', 'failed', 'cancelled')),
    code TEXT NOT NULL DEFAULT '',
    took_bucket INTEGER NOT NULL DEFAULT 0,
    age_bucket INTEGER NOT NULL DEFAULT 0,
    many INTEGER NOT NULL CHECK (many > 0),
    took INTEGER NOT NULL DEFAULT 0,  -- all the attempts together
    age INTEGER NOT NULL DEFAULT 0,  -- from the jobs' creation to their end, together
    tokens_in INTEGER NOT NULL DEFAULT 0,
    tokens_out INTEGER NOT NULL DEFAULT 0,
    cost REAL NOT NULL DEFAULT 0,
    captures INTEGER NOT NULL DEFAULT 0,  -- raw outputs that were kept
    PRIMARY KEY (minute, task, queue, outcome, became, code, took_bucket, age_bucket)
) STRICT, WITHOUT ROWID;

-- The same over all time, jobs and attempts each for themselves.
CREATE TABLE seawall_pace_total (
    kind TEXT NOT NULL CHECK (kind IN ('job', 'attempt')),
    what TEXT NOT NULL,  -- what jobs became; how attempts ended
    task TEXT NOT NULL,  -- empty for jobs that were pruned before anybody counted by task
    queue TEXT NOT NULL,
    code TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    many INTEGER NOT NULL,
    micros INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    cost REAL NOT NULL,
    captures INTEGER NOT NULL,
    PRIMARY KEY (kind, what, task, queue, code, bucket)
) STRICT, WITHOUT ROWID;

-- The same by the minute; the empty task stands for all of them.
CREATE TABLE seawall_pace_minute (
    task TEXT NOT NULL,
    minute INTEGER NOT NULL,
    created INTEGER NOT NULL,
    redriven INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    retried INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    PRIMARY KEY (task, minute)
) STRICT, WITHOUT ROWID;
CREATE INDEX seawall_pace_minute_minute ON seawall_pace_minute (minute);

-- Calls at upstreams by the minute, as each worker told of them until they are folded: the empty
-- worker stands for all of them, and minute 0 for all time. Bucket -1 has every call, the others
-- those that took so long.
CREATE TABLE seawall_upstream_pace (
    upstream TEXT NOT NULL,
    minute INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    worker TEXT NOT NULL,
    calls INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    denied INTEGER NOT NULL,
    micros INTEGER NOT NULL,
    PRIMARY KEY (upstream, minute, bucket, worker)
) STRICT, WITHOUT ROWID;
CREATE INDEX seawall_upstream_pace_told ON seawall_upstream_pace (minute) WHERE worker <> '';
CREATE INDEX seawall_upstream_pace_folded ON seawall_upstream_pace (minute) WHERE worker = '';

-- What a breaker turned to, and when; the last of an upstream is never forgotten.
CREATE TABLE seawall_upstream_phase (
    id INTEGER PRIMARY KEY,
    upstream TEXT NOT NULL,
    at INTEGER NOT NULL,
    phase TEXT NOT NULL CHECK (phase IN ('closed', 'open', 'half_open', 'held', 'forced_closed')),
    until INTEGER,  -- when it ends by itself
    open_before INTEGER NOT NULL CHECK (open_before >= 0)  -- how long it had been shut by then, in all
) STRICT;
CREATE INDEX seawall_upstream_phase_upstream ON seawall_upstream_phase (upstream, id);
CREATE INDEX seawall_upstream_phase_at ON seawall_upstream_phase (at);

-- What is there already is counted as it stands: each job, its end and its attempts, under the task
-- where it stands now.
INSERT INTO seawall_pace_total
SELECT 'job', 'created', task, queue, '', 0, sum(jobs), 0, 0, 0, 0, 0
FROM (
    SELECT lane.task, lane.queue, count(*) AS jobs
    FROM seawall_job AS job JOIN seawall_lane AS lane ON lane.id = job.lane
    GROUP BY lane.task, lane.queue
    UNION ALL SELECT '', '', sum(jobs) FROM seawall_tally WHERE name <> 'enqueued'
) AS there
GROUP BY task, queue HAVING sum(jobs) > 0;
INSERT INTO seawall_pace_total
SELECT 'job', state, task, queue, code,
    (SELECT bucket FROM seawall_span_bucket WHERE upto >= age ORDER BY upto LIMIT 1),
    sum(jobs), sum(age), 0, 0, 0, 0
FROM (
    SELECT job.state, lane.task, lane.queue,
        iif(job.state = 'failed', coalesce(job.last_fault ->> 'code', ''), '') AS code,
        max(0, job.finished_at - job.created_at) AS age, 1 AS jobs
    FROM seawall_job AS job JOIN seawall_lane AS lane ON lane.id = job.lane
    WHERE job.finished_at IS NOT NULL
    UNION ALL SELECT name, '', '', '', 0, jobs FROM seawall_tally
    WHERE name <> 'enqueued' AND jobs > 0
) AS there
GROUP BY 2, 3, 4, 5, 6;
INSERT INTO seawall_pace_total
SELECT 'attempt', attempt.outcome, lane.task, lane.queue, coalesce(attempt.fault ->> 'code', ''),
    (
        SELECT bucket FROM seawall_span_bucket
        WHERE upto >= attempt.finished_at - attempt.started_at ORDER BY upto LIMIT 1
    ),
    count(*), sum(attempt.finished_at - attempt.started_at),
    coalesce(sum(used.tokens_in), 0), coalesce(sum(used.tokens_out), 0), coalesce(sum(used.cost), 0),
    count(evidence.raw_output)
FROM seawall_attempt AS attempt
JOIN seawall_job AS job ON job.id = attempt.job JOIN seawall_lane AS lane ON lane.id = job.lane
LEFT JOIN seawall_usage AS used ON used.job = attempt.job AND used.seq = attempt.seq
LEFT JOIN seawall_evidence AS evidence ON evidence.job = attempt.job AND evidence.seq = attempt.seq
GROUP BY 2, 3, 4, 5, 6;
