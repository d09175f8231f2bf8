-- name: page_letters
-- Dead letters in each of these states, from the newest: at most so many of each state.
-- As in `page`, what else is asked for is one CASE: taken apart, the planner would believe that it
-- leaves next to nothing, and gather and sort all of a list for a part of it.
SELECT
    found.job, found.state, found.lane, found.stage, found.owner, found.run, found.fault,
    found.first_at, found.last_at, found.attempts, found.times, found.note, found.handled_at,
    found.handled_by, found.fingerprint
FROM json_to_recordset(%(rows)s) AS visit (state text)
CROSS JOIN LATERAL (
    SELECT * FROM seawall.dead_letter AS letter
    WHERE letter.state = visit.state
        AND (letter.last_at, letter.job)
            < (coalesce(%(after_at)s::timestamptz, 'infinity'), %(after_id)s)
        AND letter.last_at >= coalesce(%(since)s::timestamptz, '-infinity')
        AND letter.last_at < coalesce(%(until)s::timestamptz, 'infinity')
        AND CASE WHEN
            (%(lanes)s::bigint[] IS NULL OR letter.lane = ANY (%(lanes)s::bigint[]))
            AND (%(stage)s::integer IS NULL OR letter.stage = %(stage)s)
            AND (%(code)s::text IS NULL OR letter.code = %(code)s)
            AND (%(owner)s::text IS NULL OR letter.owner = %(owner)s)
            AND (%(fingerprint)s::text IS NULL OR letter.fingerprint = %(fingerprint)s)
            AND (%(run)s::bigint IS NULL OR letter.run = %(run)s)
        THEN true ELSE false END
    ORDER BY letter.last_at DESC, letter.job DESC LIMIT %(limit)s
) AS found;

-- name: page_letters_alike
-- The same for those that failed alike.
SELECT
    found.job, found.state, found.lane, found.stage, found.owner, found.run, found.fault,
    found.first_at, found.last_at, found.attempts, found.times, found.note, found.handled_at,
    found.handled_by, found.fingerprint
FROM json_to_recordset(%(rows)s) AS visit (state text, fingerprint text)
CROSS JOIN LATERAL (
    SELECT * FROM seawall.dead_letter AS letter
    WHERE letter.fingerprint = visit.fingerprint AND letter.state = visit.state
        AND (letter.last_at, letter.job)
            < (coalesce(%(after_at)s::timestamptz, 'infinity'), %(after_id)s)
        AND letter.last_at >= coalesce(%(since)s::timestamptz, '-infinity')
        AND letter.last_at < coalesce(%(until)s::timestamptz, 'infinity')
        AND CASE WHEN
            (%(lanes)s::bigint[] IS NULL OR letter.lane = ANY (%(lanes)s::bigint[]))
            AND (%(stage)s::integer IS NULL OR letter.stage = %(stage)s)
            AND (%(code)s::text IS NULL OR letter.code = %(code)s)
            AND (%(owner)s::text IS NULL OR letter.owner = %(owner)s)
            AND (%(run)s::bigint IS NULL OR letter.run = %(run)s)
        THEN true ELSE false END
    ORDER BY letter.last_at DESC, letter.job DESC LIMIT %(limit)s
) AS found;

-- name: page_letters_of_run
-- The same for those of a run.
SELECT
    found.job, found.state, found.lane, found.stage, found.owner, found.run, found.fault,
    found.first_at, found.last_at, found.attempts, found.times, found.note, found.handled_at,
    found.handled_by, found.fingerprint
FROM json_to_recordset(%(rows)s) AS visit (state text)
CROSS JOIN LATERAL (
    SELECT * FROM seawall.dead_letter AS letter
    WHERE letter.run = %(run)s AND letter.run IS NOT NULL AND letter.state = visit.state
        AND (letter.last_at, letter.job)
            < (coalesce(%(after_at)s::timestamptz, 'infinity'), %(after_id)s)
        AND letter.last_at >= coalesce(%(since)s::timestamptz, '-infinity')
        AND letter.last_at < coalesce(%(until)s::timestamptz, 'infinity')
        AND CASE WHEN
            (%(lanes)s::bigint[] IS NULL OR letter.lane = ANY (%(lanes)s::bigint[]))
            AND (%(stage)s::integer IS NULL OR letter.stage = %(stage)s)
            AND (%(code)s::text IS NULL OR letter.code = %(code)s)
            AND (%(owner)s::text IS NULL OR letter.owner = %(owner)s)
        THEN true ELSE false END
    ORDER BY letter.last_at DESC, letter.job DESC LIMIT %(limit)s
) AS found;

-- name: read_letters
-- The dead letters of these jobs.
SELECT
    letter.job, letter.state, letter.lane, letter.stage, letter.owner, letter.run, letter.fault,
    letter.first_at, letter.last_at, letter.attempts, letter.times, letter.note, letter.handled_at,
    letter.handled_by, letter.fingerprint
FROM json_to_recordset(%(rows)s) AS given (id bigint)
JOIN seawall.dead_letter AS letter ON letter.job = given.id;

-- name: count_letters
-- How many dead letters there are in these states, by where they failed and of what.
SELECT letter.state, letter.lane, letter.stage, letter.code, count(*)
FROM seawall.dead_letter AS letter
WHERE letter.state = ANY (%(states)s::text[])
    AND letter.last_at >= coalesce(%(since)s::timestamptz, '-infinity')
    AND letter.last_at < coalesce(%(until)s::timestamptz, 'infinity')
    AND (%(lanes)s::bigint[] IS NULL OR letter.lane = ANY (%(lanes)s::bigint[]))
    AND (%(stage)s::integer IS NULL OR letter.stage = %(stage)s)
    AND (%(code)s::text IS NULL OR letter.code = %(code)s)
    AND (%(owner)s::text IS NULL OR letter.owner = %(owner)s)
    AND (%(fingerprint)s::text IS NULL OR letter.fingerprint = %(fingerprint)s)
    AND (%(run)s::bigint IS NULL OR letter.run = %(run)s)
GROUP BY letter.state, letter.lane, letter.stage, letter.code;

-- name: group_letters
-- Dead letters that failed alike, the most numerous first; with how many groups and letters there
-- are in all.
SELECT
    letter.fingerprint, count(*), count(*) FILTER (WHERE letter.times > 1),
    min(letter.first_at), max(letter.last_at),
    json_agg(DISTINCT letter.code)::text, json_agg(DISTINCT letter.stage)::text,
    json_agg(DISTINCT letter.lane)::text,
    count(*) OVER (), (sum(count(*)) OVER ())::bigint
FROM seawall.dead_letter AS letter
WHERE letter.state = ANY (%(states)s::text[])
    AND letter.last_at >= coalesce(%(since)s::timestamptz, '-infinity')
    AND letter.last_at < coalesce(%(until)s::timestamptz, 'infinity')
    AND (%(lanes)s::bigint[] IS NULL OR letter.lane = ANY (%(lanes)s::bigint[]))
    AND (%(stage)s::integer IS NULL OR letter.stage = %(stage)s)
    AND (%(code)s::text IS NULL OR letter.code = %(code)s)
    AND (%(owner)s::text IS NULL OR letter.owner = %(owner)s)
    AND (%(fingerprint)s::text IS NULL OR letter.fingerprint = %(fingerprint)s)
    AND (%(run)s::bigint IS NULL OR letter.run = %(run)s)
GROUP BY letter.fingerprint
ORDER BY count(*) DESC, max(letter.last_at) DESC, letter.fingerprint LIMIT %(limit)s;

-- name: letter_trends
-- When dead letters that failed alike did so last, counted by parts of a span of time: at most so
-- many of each state, from the newest.
SELECT visit.fingerprint, visit.state, latest.part, count(*)
FROM json_to_recordset(%(rows)s) AS visit (state text, fingerprint text)
CROSS JOIN LATERAL (
    SELECT least(
        (extract(epoch FROM letter.last_at - %(begin)s::timestamptz) * 1000000)::bigint
            * %(parts)s::bigint / %(span)s::bigint,
        %(parts)s::bigint - 1
    ) AS part
    FROM seawall.dead_letter AS letter
    WHERE letter.fingerprint = visit.fingerprint AND letter.state = visit.state
        AND letter.last_at
            >= greatest(%(begin)s::timestamptz, coalesce(%(since)s::timestamptz, '-infinity'))
        AND letter.last_at < coalesce(%(until)s::timestamptz, 'infinity')
        AND CASE WHEN
            (%(lanes)s::bigint[] IS NULL OR letter.lane = ANY (%(lanes)s::bigint[]))
            AND (%(stage)s::integer IS NULL OR letter.stage = %(stage)s)
            AND (%(code)s::text IS NULL OR letter.code = %(code)s)
            AND (%(owner)s::text IS NULL OR letter.owner = %(owner)s)
            AND (%(run)s::bigint IS NULL OR letter.run = %(run)s)
        THEN true ELSE false END
    ORDER BY letter.last_at DESC LIMIT %(limit)s
) AS latest
GROUP BY visit.fingerprint, visit.state, latest.part;

-- name: read_ends
-- Which policy and which configuration these attempts had.
SELECT ended.job, ended.policy, ended.config
FROM json_to_recordset(%(rows)s) AS given (id bigint, seq integer)
CROSS JOIN LATERAL (
    SELECT * FROM seawall.attempt
    WHERE attempt.job = given.id AND attempt.seq = given.seq
    LIMIT 1  -- one look into the index for each row, whatever the planner believes
) AS ended;

-- name: dismiss
-- Marks the dead letters of failed jobs as dealt with, with a note; one that was dismissed before
-- gets the new note. The jobs stay as they are, and are locked first, as by all who change both.
-- The CASE keeps the planner from gathering all letters in those states.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s) AS r (id bigint) ORDER BY id
),
locked AS MATERIALIZED (
    SELECT mine.id
    FROM given CROSS JOIN LATERAL (
        SELECT job.id FROM seawall.job WHERE job.id = given.id AND job.state = 'failed' FOR UPDATE
    ) AS mine
)
UPDATE seawall.dead_letter
SET state = 'dismissed', note = %(note)s, handled_by = %(by)s,
    handled_at = coalesce(%(now)s::timestamptz, now())
WHERE dead_letter.job = ANY (ARRAY(SELECT id FROM locked))
    AND CASE WHEN dead_letter.state IN ('open', 'dismissed') THEN true ELSE false END
RETURNING dead_letter.job, dead_letter.state;

-- name: undismiss
-- Opens again the dead letters that were dismissed; their notes stay.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s) AS r (id bigint) ORDER BY id
),
locked AS MATERIALIZED (
    SELECT mine.id
    FROM given CROSS JOIN LATERAL (
        SELECT job.id FROM seawall.job WHERE job.id = given.id AND job.state = 'failed' FOR UPDATE
    ) AS mine
)
UPDATE seawall.dead_letter
SET state = 'open', handled_by = NULL, handled_at = NULL
WHERE dead_letter.job = ANY (ARRAY(SELECT id FROM locked))
    AND CASE WHEN dead_letter.state = 'dismissed' THEN true ELSE false END
RETURNING dead_letter.job, dead_letter.state;

-- name: new_letters
-- Counts the failures since the fleet last told of some, and takes them for told where there are
-- so many; otherwise it answers nothing. Whoever asks meanwhile waits, and counts from there.
WITH mark AS MATERIALIZED (
    SELECT until FROM seawall.told WHERE what = 'dead letters' FOR UPDATE
),
news AS MATERIALIZED (
    SELECT count(*) AS many, max(letter.last_at) AS latest
    FROM mark JOIN seawall.dead_letter AS letter
        ON letter.state = ANY ('{open,redriven,dismissed}') AND letter.last_at > mark.until
)
UPDATE seawall.told SET until = news.latest
FROM news
WHERE told.what = 'dead letters' AND news.many >= %(every)s
RETURNING news.many;
