-- Who may use the server: access tokens, of which only a hash is kept, and what servers of one store
-- share.

CREATE TABLE seawall_access_token (
    id TEXT PRIMARY KEY,  -- its public part
    digest TEXT NOT NULL UNIQUE,  -- SHA-256 of the whole token, which is random: no salt is needed
    owner TEXT,
    scope TEXT NOT NULL CHECK (scope IN ('owner', 'operator', 'read-only')),
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,  -- to within some minutes
    revoked_at INTEGER,
    CONSTRAINT an_owner_has_a_name CHECK (scope <> 'owner' OR owner IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- What all servers of the store must agree about and nobody else may know: what sessions are signed
-- with.
CREATE TABLE seawall_shared_secret (
    name TEXT PRIMARY KEY,
    content TEXT NOT NULL
) STRICT, WITHOUT ROWID;
