-- What runs leave that fail: among feedback, and never counted with it. A thumb has no code.

ALTER TABLE feedback_events ADD COLUMN code TEXT;
ALTER TABLE feedback_events ADD COLUMN task_id TEXT;
-- Counting reads an index alone, of thumbs or of failures.
DROP INDEX feedback_by_time;
CREATE INDEX feedback_by_time ON feedback_events (tk, at, signal, author) WHERE code IS NULL;
CREATE INDEX failures_by_time ON feedback_events (tk, at, code) WHERE code IS NOT NULL;
CREATE INDEX failures ON feedback_events (tk, n) WHERE code IS NOT NULL;
CREATE INDEX failures_by_task ON feedback_events (tk, task_id, n) WHERE code IS NOT NULL;
CREATE INDEX failures_by_session ON feedback_events (tk, session_id, n) WHERE code IS NOT NULL;
