-- name: has_tables
-- Whether seawall has been here before.
-- Read from the catalogue's rows: to_regclass may answer from a cache that is older than the lock.
SELECT count(*) = 1 FROM pg_catalog.pg_tables
WHERE schemaname = 'seawall' AND tablename = 'migration';

-- name: applied
-- Every migration that this store has seen, in order.
SELECT name, checksum FROM seawall.migration ORDER BY name;

-- name: record_migration
-- Writes down that a migration was applied.
INSERT INTO seawall.migration (name, checksum, applied_at)
VALUES (%(name)s, %(checksum)s, coalesce(%(now)s::timestamptz, now()))
RETURNING name;
