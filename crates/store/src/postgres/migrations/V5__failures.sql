-- What runs leave that fail: among feedback, and never counted with it. A thumb has no code.

ALTER TABLE feedback_events ADD COLUMN code text COLLATE "C", ADD COLUMN task_id text COLLATE "C";
-- Counting reads an index alone, of thumbs or of failures.
DROP INDEX feedback_events_time;
CREATE INDEX feedback_events_time ON feedback_events (tk, at) INCLUDE (signal, author) WHERE code IS NULL;
CREATE INDEX failures_time ON feedback_events (tk, at) INCLUDE (code) WHERE code IS NOT NULL;
CREATE INDEX failures ON feedback_events (tk, n) WHERE code IS NOT NULL;
CREATE INDEX failures_task ON feedback_events (tk, task_id, n) WHERE code IS NOT NULL;
CREATE INDEX failures_session ON feedback_events (tk, session_id, n) WHERE code IS NOT NULL;
