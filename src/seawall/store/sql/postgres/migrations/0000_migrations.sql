-- Where seawall's tables live, and which of these files made them.

-- Where an administrator has made the schema, we need no right to make one.
DO $$
BEGIN
    IF to_regnamespace('seawall') IS NULL THEN
        CREATE SCHEMA seawall;
    END IF;
END $$;

CREATE TABLE seawall.migration (
    name text PRIMARY KEY,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL
);
