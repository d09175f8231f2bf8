-- Which of these files made seawall's tables.

CREATE TABLE seawall_migration (
    name TEXT PRIMARY KEY,
    checksum TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
