-- What is known of the upstreams that jobs call: how their calls went, and which of them are watched.

-- A job that waits for another try at an upstream stands in a lane of its own, so that retries can
-- be kept waiting without standing in anybody's way. SQLite cannot change what is unique, so the
-- table is made anew; ids stay, and so does the number of the last one.
CREATE TABLE seawall_lane_anew (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    stage INTEGER NOT NULL CHECK (stage >= 0),
    upstream TEXT NOT NULL,
    priority INTEGER NOT NULL,
    owner TEXT NOT NULL,
    retry INTEGER NOT NULL DEFAULT 0 CHECK (retry IN (0, 1)),
    UNIQUE (queue, task, stage, upstream, priority, owner, retry)
) STRICT;
INSERT INTO seawall_lane_anew (id, queue, task, stage, upstream, priority, owner)
SELECT id, queue, task, stage, upstream, priority, owner FROM seawall_lane ORDER BY id;
DROP TABLE seawall_lane;
ALTER TABLE seawall_lane_anew RENAME TO seawall_lane;

-- Upstreams under watch. Jobs of one that is gated (held, probed, let go again slowly, or limited) are
-- claimed by whoever has locked its row, and by nobody else; retries are in any case.
CREATE TABLE seawall_upstream (
    name TEXT PRIMARY KEY,
    state TEXT NOT NULL,  -- JSON; what it says is the affair of those who decide
    gated INTEGER NOT NULL DEFAULT 1 CHECK (gated IN (0, 1)),
    held_until INTEGER,
    reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- How calls ended, by the second in which it was written down.
CREATE TABLE seawall_observation (
    upstream TEXT NOT NULL,
    second INTEGER NOT NULL,  -- since 1970
    worker TEXT NOT NULL,
    firsts INTEGER NOT NULL CHECK (firsts >= 0),
    retries INTEGER NOT NULL CHECK (retries >= 0),
    failures INTEGER NOT NULL CHECK (failures >= 0),
    denied INTEGER NOT NULL CHECK (denied >= 0),
    slow INTEGER NOT NULL CHECK (slow >= 0),
    micros INTEGER NOT NULL CHECK (micros >= 0),
    PRIMARY KEY (upstream, second, worker)
) STRICT, WITHOUT ROWID;
-- What those are found by that are too old to matter.
-- By the minute, which serves nobody who wants the last seconds of one upstream.
CREATE INDEX seawall_observation_minute ON seawall_observation (second / 60);
