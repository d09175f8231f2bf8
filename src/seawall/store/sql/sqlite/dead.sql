-- name: page_letters
-- Dead letters in each of these states, from the newest: at most so many of each state.
SELECT
    letter.job, letter.state, letter.lane, letter.stage, letter.owner, letter.run, letter.fault,
    letter.first_at, letter.last_at, letter.attempts, letter.times, letter.note, letter.handled_at,
    letter.handled_by, letter.fingerprint
FROM seawall_dead_letter AS letter INDEXED BY seawall_dead_letter_state
WHERE letter.state = :state
    AND letter.last_at <= coalesce(:after_at, 9223372036854775807)
    AND (letter.last_at, letter.job) < (coalesce(:after_at, 9223372036854775807), :after_id)
    AND letter.last_at >= coalesce(:since, -9223372036854775807)
    AND letter.last_at < coalesce(:until, 9223372036854775807)
    AND (:lanes IS NULL OR letter.lane IN (SELECT value FROM json_each(:lanes)))
    AND (:stage IS NULL OR letter.stage = :stage)
    AND (:code IS NULL OR letter.code = :code)
    AND (:owner IS NULL OR letter.owner = :owner)
    AND (:fingerprint IS NULL OR letter.fingerprint = :fingerprint)
    AND (:run IS NULL OR letter.run = :run)
ORDER BY letter.last_at DESC, letter.job DESC LIMIT :limit;

-- name: page_letters_alike
-- The same for those that failed alike.
SELECT
    letter.job, letter.state, letter.lane, letter.stage, letter.owner, letter.run, letter.fault,
    letter.first_at, letter.last_at, letter.attempts, letter.times, letter.note, letter.handled_at,
    letter.handled_by, letter.fingerprint
FROM seawall_dead_letter AS letter INDEXED BY seawall_dead_letter_alike
WHERE letter.fingerprint = :fingerprint AND letter.state = :state
    AND letter.last_at <= coalesce(:after_at, 9223372036854775807)
    AND (letter.last_at, letter.job) < (coalesce(:after_at, 9223372036854775807), :after_id)
    AND letter.last_at >= coalesce(:since, -9223372036854775807)
    AND letter.last_at < coalesce(:until, 9223372036854775807)
    AND (:lanes IS NULL OR letter.lane IN (SELECT value FROM json_each(:lanes)))
    AND (:stage IS NULL OR letter.stage = :stage)
    AND (:code IS NULL OR letter.code = :code)
    AND (:owner IS NULL OR letter.owner = :owner)
    AND (:run IS NULL OR letter.run = :run)
ORDER BY letter.last_at DESC, letter.job DESC LIMIT :limit;

-- name: page_letters_of_run
-- The same for those of a run.
SELECT
    letter.job, letter.state, letter.lane, letter.stage, letter.owner, letter.run, letter.fault,
    letter.first_at, letter.last_at, letter.attempts, letter.times, letter.note, letter.handled_at,
    letter.handled_by, letter.fingerprint
FROM seawall_dead_letter AS letter INDEXED BY seawall_dead_letter_run
WHERE letter.run = :run AND letter.run IS NOT NULL AND letter.state = :state
    AND letter.last_at <= coalesce(:after_at, 9223372036854775807)
    AND (letter.last_at, letter.job) < (coalesce(:after_at, 9223372036854775807), :after_id)
    AND letter.last_at >= coalesce(:since, -9223372036854775807)
    AND letter.last_at < coalesce(:until, 9223372036854775807)
    AND (:lanes IS NULL OR letter.lane IN (SELECT value FROM json_each(:lanes)))
    AND (:stage IS NULL OR letter.stage = :stage)
    AND (:code IS NULL OR letter.code = :code)
    AND (:owner IS NULL OR letter.owner = :owner)
ORDER BY letter.last_at DESC, letter.job DESC LIMIT :limit;

-- name: read_letters
-- The dead letters of these jobs.
SELECT
    letter.job, letter.state, letter.lane, letter.stage, letter.owner, letter.run, letter.fault,
    letter.first_at, letter.last_at, letter.attempts, letter.times, letter.note, letter.handled_at,
    letter.handled_by, letter.fingerprint
FROM seawall_dead_letter AS letter
WHERE letter.job = :id;

-- name: count_letters
-- How many dead letters there are in these states, by where they failed and of what.
SELECT letter.state, letter.lane, letter.stage, letter.code, count(*)
FROM seawall_dead_letter AS letter INDEXED BY seawall_dead_letter_state
WHERE letter.state IN (SELECT value FROM json_each(:states))
    AND letter.last_at >= coalesce(:since, -9223372036854775807)
    AND letter.last_at < coalesce(:until, 9223372036854775807)
    AND (:lanes IS NULL OR letter.lane IN (SELECT value FROM json_each(:lanes)))
    AND (:stage IS NULL OR letter.stage = :stage)
    AND (:code IS NULL OR letter.code = :code)
    AND (:owner IS NULL OR letter.owner = :owner)
    AND (:fingerprint IS NULL OR letter.fingerprint = :fingerprint)
    AND (:run IS NULL OR letter.run = :run)
GROUP BY letter.state, letter.lane, letter.stage, letter.code;

-- name: group_letters
-- Dead letters that failed alike, the most numerous first; with how many groups and letters there
-- are in all.
SELECT
    letter.fingerprint, count(*), count(*) FILTER (WHERE letter.times > 1),
    min(letter.first_at), max(letter.last_at),
    json_group_array(DISTINCT letter.code), json_group_array(DISTINCT letter.stage),
    json_group_array(DISTINCT letter.lane),
    count(*) OVER (), sum(count(*)) OVER ()
FROM seawall_dead_letter AS letter INDEXED BY seawall_dead_letter_state
WHERE letter.state IN (SELECT value FROM json_each(:states))
    AND letter.last_at >= coalesce(:since, -9223372036854775807)
    AND letter.last_at < coalesce(:until, 9223372036854775807)
    AND (:lanes IS NULL OR letter.lane IN (SELECT value FROM json_each(:lanes)))
    AND (:stage IS NULL OR letter.stage = :stage)
    AND (:code IS NULL OR letter.code = :code)
    AND (:owner IS NULL OR letter.owner = :owner)
    AND (:fingerprint IS NULL OR letter.fingerprint = :fingerprint)
    AND (:run IS NULL OR letter.run = :run)
GROUP BY letter.fingerprint
ORDER BY count(*) DESC, max(letter.last_at) DESC, letter.fingerprint LIMIT :limit;

-- name: letter_trends
-- When dead letters that failed alike did so last, counted by parts of a span of time: at most so
-- many of each state, from the newest.
SELECT :fingerprint, :state, latest.part, count(*)
FROM (
    SELECT min((letter.last_at - :begin) * :parts / :span, :parts - 1) AS part
    FROM seawall_dead_letter AS letter INDEXED BY seawall_dead_letter_alike
    WHERE letter.fingerprint = :fingerprint AND letter.state = :state
        AND letter.last_at >= max(:begin, coalesce(:since, :begin))
        AND letter.last_at < coalesce(:until, 9223372036854775807)
        AND (:lanes IS NULL OR letter.lane IN (SELECT value FROM json_each(:lanes)))
        AND (:stage IS NULL OR letter.stage = :stage)
        AND (:code IS NULL OR letter.code = :code)
        AND (:owner IS NULL OR letter.owner = :owner)
        AND (:run IS NULL OR letter.run = :run)
    ORDER BY letter.last_at DESC LIMIT :limit
) AS latest
GROUP BY latest.part;

-- name: read_ends
-- Which policy and which configuration these attempts had.
SELECT attempt.job, attempt.policy, attempt.config
FROM seawall_attempt AS attempt WHERE attempt.job = :id AND attempt.seq = :seq;

-- name: dismiss
-- Marks the dead letters of failed jobs as dealt with, with a note; one that was dismissed before
-- gets the new note. The jobs stay as they are.
UPDATE seawall_dead_letter
SET state = 'dismissed', note = :note, handled_by = :by, handled_at = :now
WHERE job = :id AND state IN ('open', 'dismissed')
    AND EXISTS (SELECT 1 FROM seawall_job AS job WHERE job.id = :id AND job.state = 'failed')
RETURNING job, state;

-- name: undismiss
-- Opens again the dead letters that were dismissed; their notes stay.
UPDATE seawall_dead_letter
SET state = 'open', handled_by = NULL, handled_at = NULL
WHERE job = :id AND state = 'dismissed'
    AND EXISTS (SELECT 1 FROM seawall_job AS job WHERE job.id = :id AND job.state = 'failed')
RETURNING job, state;

-- name: new_letters
-- Counts the failures since the fleet last told of some, and takes them for told where there are
-- so many; otherwise it answers nothing. What is told is counted first: the mark moves after it.
WITH news AS (
    SELECT count(*) AS many
    FROM seawall_told AS mark JOIN seawall_dead_letter AS letter
        ON letter.state IN ('open', 'redriven', 'dismissed') AND letter.last_at > mark.until
    WHERE mark.what = 'dead letters'
)
SELECT many FROM news WHERE many >= :every;
UPDATE seawall_told
SET until = (
    SELECT max(letter.last_at) FROM seawall_dead_letter AS letter
    WHERE letter.state IN ('open', 'redriven', 'dismissed') AND letter.last_at > seawall_told.until
)
WHERE what = 'dead letters' AND :every <= (
    SELECT count(*) FROM seawall_dead_letter AS letter
    WHERE letter.state IN ('open', 'redriven', 'dismissed') AND letter.last_at > seawall_told.until
);
