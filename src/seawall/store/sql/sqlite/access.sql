-- name: add_access
-- Keeps a new access token, by its hash.
INSERT INTO seawall_access_token (id, digest, owner, scope, created_at, expires_at)
VALUES (:id, :digest, :owner, :scope, :now, :now + :lasts)
RETURNING id, owner, scope, created_at, expires_at, last_used_at, revoked_at, 1;

-- name: find_access
-- The access token of that hash, or of that public part, and whether it stands now.
SELECT id, owner, scope, created_at, expires_at, last_used_at, revoked_at,
    revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
FROM seawall_access_token
WHERE digest = :digest OR id = :id;

-- name: page_access
-- Access tokens by their public parts, those after one of them.
SELECT id, owner, scope, created_at, expires_at, last_used_at, revoked_at,
    revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
FROM seawall_access_token
WHERE id > :after
ORDER BY id LIMIT :limit;

-- name: revoke_access
-- Ends an access token, for good.
UPDATE seawall_access_token SET revoked_at = :now
WHERE id = :id AND revoked_at IS NULL
RETURNING id;

-- name: note_access
-- Notes that an access token was used, unless that was noted a short while ago.
UPDATE seawall_access_token SET last_used_at = :now
WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :now - :every)
RETURNING id;

-- name: share_secret
-- Keeps a secret for all servers of the store, unless there is one of that name.
INSERT INTO seawall_shared_secret (name, content) VALUES (:name, :content)
ON CONFLICT (name) DO NOTHING
RETURNING name;

-- name: read_secret
-- The secret of that name.
SELECT content FROM seawall_shared_secret WHERE name = :name;
