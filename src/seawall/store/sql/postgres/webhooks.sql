-- name: add_webhook
-- Keeps a new webhook, unless there are as many as may be: whatever happens is held against each.
INSERT INTO seawall.webhook (url, events, tasks, owners, secret, created_at)
SELECT %(url)s, %(events)s::text[], %(tasks)s::text[], %(owners)s::text[], %(secret)s,
    coalesce(%(now)s::timestamptz, now())
WHERE (SELECT count(*) FROM seawall.webhook) < %(most)s
RETURNING id, url, events, tasks, owners, created_at, NULL::timestamptz;

-- name: all_webhooks
-- Every webhook, or the one of that id, without its secrets.
SELECT id, url, events, tasks, owners, created_at,
    CASE WHEN old_until > coalesce(%(now)s::timestamptz, now()) THEN old_until END
FROM seawall.webhook
WHERE %(id)s::bigint IS NULL OR id = %(id)s::bigint
ORDER BY id;

-- name: read_webhook_secrets
-- Where a webhook leads and what its messages are signed with now: the newest first.
SELECT url, secret, CASE WHEN old_until > coalesce(%(now)s::timestamptz, now()) THEN old_secret END
FROM seawall.webhook WHERE id = %(id)s;

-- name: rotate_webhook
-- Gives a webhook another secret; the one that it had signs as well for so long.
UPDATE seawall.webhook
SET old_secret = secret, secret = %(secret)s,
    old_until = coalesce(%(now)s::timestamptz, now()) + %(span)s::bigint * interval '1 microsecond'
WHERE id = %(id)s
RETURNING id, url, events, tasks, owners, created_at,
    CASE WHEN old_until > coalesce(%(now)s::timestamptz, now()) THEN old_until END;

-- name: drop_webhook
-- Nobody is told there any more.
DELETE FROM seawall.webhook WHERE id = %(id)s
RETURNING id;

-- name: any_notes
-- Whether something happened of which somebody is to be told.
SELECT EXISTS (SELECT FROM seawall.outbox);

-- name: read_notes
-- What happened and is to be told, the oldest first.
SELECT id, webhook, event, at, task, queue, job, run, owner, stage, attempt, cycle, delay, fault, reason
FROM seawall.outbox
ORDER BY id LIMIT %(limit)s;

-- name: take_notes
-- Strikes off those of the notes that are there still.
-- What another worker is about to strike off is skipped: it is that one's to tell.
DELETE FROM seawall.outbox
WHERE id = ANY (ARRAY(
    SELECT id FROM seawall.outbox WHERE id = ANY (%(ids)s::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED
))
RETURNING id;
