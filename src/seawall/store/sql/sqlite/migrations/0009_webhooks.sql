-- Who is to be told of what happens, and what nobody has been told of yet. A note is written with the
-- very change that it tells of, so that no crash comes between the two. PostgreSQL's statements write
-- theirs with a whole batch; here triggers do, as for items of runs, and where nobody listens each
-- costs one look into an empty table.

CREATE TABLE seawall_webhook (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    url TEXT NOT NULL,
    events TEXT NOT NULL,  -- JSON; each a word of ours, without anything that JSON would write otherwise
    tasks TEXT,  -- JSON; NULL: every task
    owners TEXT,  -- JSON; NULL: whoever owns the job, or nobody
    secret TEXT NOT NULL,
    old_secret TEXT,  -- signs as well for a while, after it was replaced
    old_until INTEGER,
    created_at INTEGER NOT NULL,
    CONSTRAINT an_old_secret_ends CHECK ((old_secret IS NULL) = (old_until IS NULL))
) STRICT;

CREATE TABLE seawall_outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook INTEGER NOT NULL,
    event TEXT NOT NULL,
    at INTEGER NOT NULL,
    task TEXT NOT NULL,  -- or pipeline
    queue TEXT,
    job INTEGER,
    run INTEGER,
    owner TEXT,
    stage INTEGER,
    attempt INTEGER,
    cycle INTEGER,
    delay INTEGER,
    fault TEXT,
    reason TEXT,
    CONSTRAINT of_something CHECK (coalesce(job, run) IS NOT NULL)
) STRICT;

CREATE TRIGGER seawall_a_job_is_told_of AFTER INSERT ON seawall_job
WHEN EXISTS (SELECT 1 FROM seawall_webhook)
BEGIN
    INSERT INTO seawall_outbox (webhook, event, at, task, queue, job, run, owner, stage, attempt, cycle)
    SELECT hook.id, 'job.queued', NEW.created_at, lane.task, lane.queue, NEW.id, NEW.run, NEW.owner,
        NEW.stage, 0, 0
    FROM seawall_lane AS lane CROSS JOIN seawall_webhook AS hook
    WHERE lane.id = NEW.lane AND lane.task <> 'seawall.webhook'
        AND instr(hook.events, '"job.queued"') > 0
        AND (hook.tasks IS NULL OR lane.task IN (SELECT value FROM json_each(hook.tasks)))
        AND (hook.owners IS NULL OR NEW.owner IN (SELECT value FROM json_each(hook.owners)));
END;

CREATE TRIGGER seawall_a_move_is_told_of AFTER UPDATE OF state ON seawall_job
WHEN NEW.state <> OLD.state AND (NEW.finished_at IS NOT NULL OR OLD.finished_at IS NOT NULL)
    AND EXISTS (SELECT 1 FROM seawall_webhook)
BEGIN
    INSERT INTO seawall_outbox (webhook, event, at, task, queue, job, run, owner, stage, attempt, cycle,
        fault)
    SELECT hook.id, told.event, coalesce(NEW.finished_at, NEW.due_set_at), lane.task, lane.queue, NEW.id,
        NEW.run, NEW.owner, NEW.stage, NEW.seq, NEW.cycle, iif(NEW.state = 'failed', NEW.last_fault, NULL)
    FROM (
        SELECT CASE NEW.state WHEN 'succeeded' THEN 'job.complete' WHEN 'skipped' THEN 'job.skipped'
            WHEN 'cancelled' THEN 'job.cancelled' WHEN 'queued' THEN 'job.redriven'
            ELSE iif(json_extract(NEW.last_fault, '$.code') = 'EXPIRED',
                'job.expired', 'job.failed') END AS event
    ) AS told CROSS JOIN seawall_lane AS lane CROSS JOIN seawall_webhook AS hook
    WHERE lane.id = NEW.lane AND lane.task <> 'seawall.webhook'
        AND instr(hook.events, '"' || told.event || '"') > 0
        AND (hook.tasks IS NULL OR lane.task IN (SELECT value FROM json_each(hook.tasks)))
        AND (hook.owners IS NULL OR NEW.owner IN (SELECT value FROM json_each(hook.owners)));
END;

-- An attempt after which the job goes on: of its end the move tells. Where a cancel was asked for, the
-- job does not wait for another one.
CREATE TRIGGER seawall_an_attempt_is_told_of AFTER INSERT ON seawall_attempt
WHEN (NEW.outcome = 'advanced' OR NEW.delay IS NOT NULL) AND EXISTS (SELECT 1 FROM seawall_webhook)
BEGIN
    INSERT INTO seawall_outbox (webhook, event, at, task, queue, job, run, owner, stage, attempt, cycle,
        delay, fault)
    SELECT hook.id, told.event, NEW.finished_at, lane.task, lane.queue, job.id, job.run, job.owner,
        NEW.stage, NEW.seq, NEW.cycle, NEW.delay, NEW.fault
    FROM (
        SELECT CASE NEW.outcome WHEN 'retried' THEN 'job.retry' ELSE 'job.' || NEW.outcome END AS event
    ) AS told CROSS JOIN seawall_job AS job CROSS JOIN seawall_lane AS lane
        CROSS JOIN seawall_webhook AS hook
    WHERE job.id = NEW.job AND (NEW.outcome = 'advanced' OR NOT job.cancel_requested)
        AND lane.id = job.lane AND lane.task <> 'seawall.webhook'
        AND instr(hook.events, '"' || told.event || '"') > 0
        AND (hook.tasks IS NULL OR lane.task IN (SELECT value FROM json_each(hook.tasks)))
        AND (hook.owners IS NULL OR job.owner IN (SELECT value FROM json_each(hook.owners)));
END;

CREATE TRIGGER seawall_a_runs_end_is_told_of AFTER UPDATE OF closed_at ON seawall_run
WHEN OLD.closed_at IS NULL AND NEW.closed_at IS NOT NULL
BEGIN
    INSERT INTO seawall_outbox (webhook, event, at, task, run, owner, reason)
    SELECT hook.id, 'run.finished', NEW.closed_at, NEW.pipeline, NEW.id, NEW.owner, NEW.reason
    FROM seawall_webhook AS hook
    WHERE instr(hook.events, '"run.finished"') > 0
        AND (hook.tasks IS NULL OR NEW.pipeline IN (SELECT value FROM json_each(hook.tasks)))
        AND (hook.owners IS NULL OR NEW.owner IN (SELECT value FROM json_each(hook.owners)));
END;

CREATE TRIGGER seawall_a_runs_stop_is_told_of AFTER UPDATE OF stop ON seawall_run
WHEN NEW.stop IS NOT NULL AND NEW.stop IS NOT OLD.stop
BEGIN
    INSERT INTO seawall_outbox (webhook, event, at, task, run, owner, reason)
    SELECT hook.id, 'run.' || NEW.stop, NEW.stopped_at, NEW.pipeline, NEW.id, NEW.owner, NEW.reason
    FROM seawall_webhook AS hook
    WHERE instr(hook.events, '"run.' || NEW.stop || '"') > 0
        AND (hook.tasks IS NULL OR NEW.pipeline IN (SELECT value FROM json_each(hook.tasks)))
        AND (hook.owners IS NULL OR NEW.owner IN (SELECT value FROM json_each(hook.owners)));
END;
