-- name: add_access
-- Keeps a new access token, by its hash.
INSERT INTO seawall.access_token (id, digest, owner, scope, created_at, expires_at)
VALUES (%(id)s, %(digest)s, %(owner)s, %(scope)s, coalesce(%(now)s::timestamptz, now()),
    coalesce(%(now)s::timestamptz, now()) + %(lasts)s::bigint * interval '1 microsecond')
RETURNING id, owner, scope, created_at, expires_at, last_used_at, revoked_at, true;

-- name: find_access
-- The access token of that hash, or of that public part, and whether it stands now.
SELECT id, owner, scope, created_at, expires_at, last_used_at, revoked_at,
    revoked_at IS NULL
        AND (expires_at IS NULL OR expires_at > coalesce(%(now)s::timestamptz, now()))
FROM seawall.access_token
WHERE digest = %(digest)s OR id = %(id)s;

-- name: page_access
-- Access tokens by their public parts, those after one of them.
SELECT id, owner, scope, created_at, expires_at, last_used_at, revoked_at,
    revoked_at IS NULL
        AND (expires_at IS NULL OR expires_at > coalesce(%(now)s::timestamptz, now()))
FROM seawall.access_token
WHERE id > %(after)s
ORDER BY id LIMIT %(limit)s;

-- name: revoke_access
-- Ends an access token, for good.
UPDATE seawall.access_token SET revoked_at = coalesce(%(now)s::timestamptz, now())
WHERE id = %(id)s AND revoked_at IS NULL
RETURNING id;

-- name: note_access
-- Notes that an access token was used, unless that was noted a short while ago.
UPDATE seawall.access_token SET last_used_at = coalesce(%(now)s::timestamptz, now())
WHERE id = %(id)s AND (last_used_at IS NULL OR last_used_at
    < coalesce(%(now)s::timestamptz, now()) - %(every)s * interval '1 microsecond')
RETURNING id;

-- name: share_secret
-- Keeps a secret for all servers of the store, unless there is one of that name.
INSERT INTO seawall.shared_secret (name, content) VALUES (%(name)s, %(content)s)
ON CONFLICT (name) DO NOTHING
RETURNING name;

-- name: read_secret
-- The secret of that name.
SELECT content FROM seawall.shared_secret WHERE name = %(name)s;
