-- name: tell
-- Wakes whoever waits for work. Nothing is lost if it is: its commit need not wait for the disk.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('seawall', '');
