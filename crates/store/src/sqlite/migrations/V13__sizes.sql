-- How many bytes the log of a session has: quotas are counted by it. What was written before counts as nothing.
ALTER TABLE session_tails ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
