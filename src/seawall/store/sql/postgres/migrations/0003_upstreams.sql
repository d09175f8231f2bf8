-- What is known of the upstreams that jobs call: how their calls went, and which of them are watched.

-- A job that waits for another try at an upstream stands in a lane of its own, so that retries can
-- be kept waiting without standing in anybody's way.
ALTER TABLE seawall.lane
    ADD COLUMN retry boolean NOT NULL DEFAULT false,
    DROP CONSTRAINT lane_queue_task_stage_upstream_priority_owner_key,
    ADD CONSTRAINT lane_key UNIQUE (queue, task, stage, upstream, priority, owner, retry);

-- Upstreams under watch. Jobs of one that is gated (held, probed, let go again slowly, or limited) are
-- claimed by whoever has locked its row, and by nobody else; retries are in any case.
CREATE TABLE seawall.upstream (
    name text PRIMARY KEY,
    state text NOT NULL,  -- JSON; what it says is the affair of those who decide
    gated boolean NOT NULL DEFAULT true,
    held_until timestamptz,
    reason text NOT NULL
) WITH (fillfactor = 50);

-- How calls ended, by the second in which it was written down.
CREATE TABLE seawall.observation (
    upstream text NOT NULL,
    second bigint NOT NULL,  -- since 1970
    worker text NOT NULL,
    firsts bigint NOT NULL CHECK (firsts >= 0),
    retries bigint NOT NULL CHECK (retries >= 0),
    failures bigint NOT NULL CHECK (failures >= 0),
    denied bigint NOT NULL CHECK (denied >= 0),
    slow bigint NOT NULL CHECK (slow >= 0),
    micros bigint NOT NULL CHECK (micros >= 0),
    PRIMARY KEY (upstream, second, worker)
) WITH (fillfactor = 50);
-- What those are found by that are too old to matter.
-- By the minute, which serves nobody who wants the last seconds of one upstream.
CREATE INDEX observation_minute ON seawall.observation ((second / 60));
