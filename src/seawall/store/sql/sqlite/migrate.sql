-- name: has_tables
-- Whether seawall has been here before.
SELECT count(*) = 1 FROM sqlite_schema WHERE name = 'seawall_migration';

-- name: applied
-- Every migration that this store has seen, in order.
SELECT name, checksum FROM seawall_migration ORDER BY name;

-- name: record_migration
-- Writes down that a migration was applied.
INSERT INTO seawall_migration (name, checksum, applied_at) VALUES (:name, :checksum, :now)
RETURNING name;
