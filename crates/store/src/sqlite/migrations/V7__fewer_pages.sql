-- What a commit costs is the pages that it touches: three of them are touched less often from here on.

-- A key is found by the front of its scope, which lies anywhere among those of the last day: one page of the index for
-- every key that is kept. So keys are filed in portions. The writer has in mind which of the last ones are not filed yet.
ALTER TABLE idempotency ADD COLUMN filed INTEGER NOT NULL DEFAULT 1;
DROP INDEX idempotency_by_scope;
CREATE INDEX idempotency_by_scope ON idempotency (scope_head) WHERE filed = 1;

-- Every turn moves the activity of its sitting twice. What is noted of it is never later and at most a minute earlier: the
-- index is written once a minute, and what has fallen silent is among what was noted before.
ALTER TABLE talks ADD COLUMN noted_at INTEGER;
UPDATE talks SET noted_at = active_at;
DROP INDEX talks_by_activity;
CREATE INDEX talks_by_activity ON talks (noted_at) WHERE noted_at IS NOT NULL;

-- What counts against an agent's limit. What else runs, whose lease has run out and what a worker holds is found by its
-- state: a turn of talk that no agent limits need not be written down twice.
DROP INDEX running;
CREATE INDEX running ON session_heads (tk, agent_slug) WHERE status = 'running' AND agent_slug IS NOT NULL;
