-- Who is to be told of what happens, and what nobody has been told of yet. A note is written with the
-- very change that it tells of, so that no crash comes between the two: by the statement that makes
-- the change, for its whole batch.

CREATE TABLE seawall.webhook (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    url text NOT NULL,
    events text[] NOT NULL,
    tasks text[],  -- NULL: every task
    owners text[],  -- NULL: whoever owns the job, or nobody
    secret text NOT NULL,
    old_secret text,  -- signs as well for a while, after it was replaced
    old_until timestamptz,
    created_at timestamptz NOT NULL,
    CONSTRAINT an_old_secret_ends CHECK ((old_secret IS NULL) = (old_until IS NULL))
);

CREATE TABLE seawall.outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook bigint NOT NULL,
    event text NOT NULL,
    at timestamptz NOT NULL,
    task text NOT NULL,  -- or pipeline
    queue text,
    job bigint,
    run bigint,
    owner text,
    stage integer,
    attempt bigint,
    cycle bigint,
    delay bigint,
    fault text,
    reason text,
    CONSTRAINT of_something CHECK (coalesce(job, run) IS NOT NULL)
);
