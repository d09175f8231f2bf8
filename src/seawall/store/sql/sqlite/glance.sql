-- name: count_waiting
-- How many jobs wait in each of these lanes; at most so many of each are counted.
SELECT visit.value, (
    SELECT count(*) FROM (
        SELECT 1 FROM seawall_job AS job INDEXED BY seawall_job_due
        WHERE job.lane = visit.value AND job.state = 'queued'
        LIMIT :most
    )
)
FROM json_each(:visit) AS visit;

-- name: count_open_letters
-- How many dead letters are open; at most so many are counted.
SELECT count(*) FROM (
    SELECT 1 FROM seawall_dead_letter INDEXED BY seawall_dead_letter_state
    WHERE state = 'open' LIMIT :most
);

-- name: standing_of_owner
-- How many of an owner's newest jobs stand where, and how many of them left a letter that is open.
SELECT newest.lane, newest.state, count(*), count(letter.job)
FROM (
    SELECT job.id, job.lane, job.state
    FROM seawall_job AS job INDEXED BY seawall_job_owner
    WHERE job.owner = :owner AND job.owner IS NOT NULL
    ORDER BY job.id DESC LIMIT :most
) AS newest
LEFT JOIN seawall_dead_letter AS letter
    ON newest.state = 'failed' AND letter.job = newest.id AND letter.state = 'open'
GROUP BY newest.lane, newest.state;

-- name: seen_lately
-- How calls at each of these upstreams ended in the last seconds, and how many of a span of its own
-- were first ones.
SELECT asked.value ->> 0,
    coalesce(sum(seen.firsts + seen.retries) FILTER (WHERE seen.second > :now / 1000000 - :seconds), 0),
    coalesce(sum(seen.failures) FILTER (WHERE seen.second > :now / 1000000 - :seconds), 0),
    coalesce(sum(seen.micros) FILTER (WHERE seen.second > :now / 1000000 - :seconds), 0),
    coalesce(sum(seen.firsts) FILTER (WHERE seen.second > :now / 1000000 - (asked.value ->> 1)), 0)
FROM json_each(:asked) AS asked CROSS JOIN seawall_observation AS seen
WHERE seen.upstream = asked.value ->> 0
    AND seen.second > :now / 1000000 - max(:seconds, asked.value ->> 1)
GROUP BY asked.value ->> 0;
