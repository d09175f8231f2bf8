-- name: add_webhook
-- Keeps a new webhook, unless there are as many as may be: whatever happens is held against each.
INSERT INTO seawall_webhook (url, events, tasks, owners, secret, created_at)
SELECT :url, :events, :tasks, :owners, :secret, :now
WHERE (SELECT count(*) FROM seawall_webhook) < :most
RETURNING id, url, events, tasks, owners, created_at, NULL;

-- name: all_webhooks
-- Every webhook, or the one of that id, without its secrets.
SELECT id, url, events, tasks, owners, created_at, iif(old_until > :now, old_until, NULL)
FROM seawall_webhook
WHERE :id IS NULL OR id = :id
ORDER BY id;

-- name: read_webhook_secrets
-- Where a webhook leads and what its messages are signed with now: the newest first.
SELECT url, secret, iif(old_until > :now, old_secret, NULL)
FROM seawall_webhook WHERE id = :id;

-- name: rotate_webhook
-- Gives a webhook another secret; the one that it had signs as well for so long.
UPDATE seawall_webhook SET old_secret = secret, old_until = :now + :span, secret = :secret
WHERE id = :id
RETURNING id, url, events, tasks, owners, created_at, iif(old_until > :now, old_until, NULL);

-- name: drop_webhook
-- Nobody is told there any more.
DELETE FROM seawall_webhook WHERE id = :id
RETURNING id;

-- name: any_notes
-- Whether something happened of which somebody is to be told.
SELECT EXISTS (SELECT 1 FROM seawall_outbox);

-- name: read_notes
-- What happened and is to be told, the oldest first.
SELECT id, webhook, event, at, task, queue, job, run, owner, stage, attempt, cycle, delay, fault, reason
FROM seawall_outbox
ORDER BY id LIMIT :limit;

-- name: take_notes
-- Strikes off those of the notes that are there still.
DELETE FROM seawall_outbox WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING id;
