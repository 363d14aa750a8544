-- How many bytes the log of a session has: quotas are counted by it. What was written before counts as nothing.
ALTER TABLE session_heads ADD COLUMN bytes bigint NOT NULL DEFAULT 0;
GRANT SELECT (bytes), UPDATE (bytes) ON session_heads TO sederunt_append;
