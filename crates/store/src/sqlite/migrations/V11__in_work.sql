-- A session that waits to be run or runs stands in the list of its task by its task alone: not by its status and not by
-- its minute. A claim moves both, for sessions of as many tasks as it takes sessions, and tasks lie anywhere in their
-- list, so each would touch two pages of it.
ALTER TABLE sessions ADD COLUMN in_work INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET in_work = 1 WHERE status IN ('pending', 'running');
DROP INDEX sessions_by_work;
CREATE INDEX sessions_by_work ON sessions (tk, task_id, status, active_minute)
    WHERE task_id IS NOT NULL AND in_work = 0;
CREATE INDEX sessions_in_work ON sessions (tk, task_id) WHERE task_id IS NOT NULL AND in_work = 1;

-- What runs is listed by its agent only while it counts against a limit: few agents have one, and every claim and every
-- end of a run would write the list.
DROP INDEX running;
ALTER TABLE session_heads ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;
UPDATE session_heads SET counted = 1 WHERE status = 'running' AND agent_slug IS NOT NULL;
CREATE INDEX running ON session_heads (tk, agent_slug) WHERE counted = 1;
