-- Who may use the server: access tokens, of which only a hash is kept, and what servers of one store
-- share.

CREATE TABLE seawall.access_token (
    id text PRIMARY KEY,  -- its public part
    digest text NOT NULL UNIQUE,  -- SHA-256 of the whole token, which is random: no salt is needed
    owner text,
    scope text NOT NULL CHECK (scope IN ('owner', 'operator', 'read-only')),
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    last_used_at timestamptz,  -- to within some minutes
    revoked_at timestamptz,
    CONSTRAINT an_owner_has_a_name CHECK (scope <> 'owner' OR owner IS NOT NULL)
);

-- What all servers of the store must agree about and nobody else may know: what sessions are signed
-- with.
CREATE TABLE seawall.shared_secret (
    name text PRIMARY KEY,
    content text NOT NULL
);
