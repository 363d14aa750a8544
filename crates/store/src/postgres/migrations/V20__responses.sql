-- Responses: who answers which view, and the form as it was when the response was opened. Each has a session; its
-- values are there.

CREATE TABLE responses (
    tk              integer NOT NULL,
    sk              bigint NOT NULL,
    view_id         text COLLATE "C" NOT NULL,
    -- The name under which the respondent answers this view; nobody can guess it.
    respondent      text COLLATE "C" NOT NULL,
    respondent_kind text COLLATE "C" NOT NULL,
    respondent_id   text COLLATE "C" NOT NULL,
    -- Which of the respondent's responses to the view it is, from 1.
    ordinal         bigint NOT NULL,
    is_anonymous    boolean NOT NULL,
    once            boolean NOT NULL,
    state           text COLLATE "C" NOT NULL,
    saved_at        bigint NOT NULL,
    form            text NOT NULL,
    PRIMARY KEY (tk, sk)
);
ALTER TABLE responses SET (autovacuum_vacuum_threshold = 2000, autovacuum_analyze_threshold = 2000);
-- A respondent has one open response to a view, and submits one where the view says so.
CREATE UNIQUE INDEX responses_standing ON responses (tk, view_id, respondent)
    WHERE state = 'open' OR (once AND state = 'submitted');
CREATE UNIQUE INDEX responses_respondent ON responses (tk, view_id, respondent, ordinal);
CREATE INDEX responses_view ON responses (tk, view_id, sk);
CREATE INDEX responses_state ON responses (tk, view_id, state, sk);
CREATE INDEX responses_drafts ON responses (tk, view_id, saved_at) WHERE state = 'open' AND is_anonymous;

-- The example that the planner is shown (V1).
INSERT INTO responses (tk, sk, view_id, respondent, respondent_kind, respondent_id, ordinal, is_anonymous, once, state,
    saved_at, form)
SELECT 1, -g, 'view-' || g % 20, 'name-' || g, 'cookie', 'id-' || g, 1, g % 2 = 0, true,
    (ARRAY['open', 'submitted', 'abandoned'])[1 + g % 3], g, '{}'
FROM generate_series(1, 200) g;
ANALYZE responses;
DELETE FROM responses;

-- The wall, for one tenant at a time.
ALTER TABLE responses ENABLE ROW LEVEL SECURITY;
ALTER TABLE responses FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON responses TO {schema}_app
    USING (tk = (SELECT NULLIF(current_setting('app.tk', true), '')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON responses TO {schema}_app;

-- The promotions that wait for a decision: their sessions are closed and have no deadline, so the sweeper finds them
-- by their own.
CREATE INDEX approvals_expiry ON approvals (expires_at) WHERE kind = 'promotion' AND state = 'pending';
-- The example that the planner is shown (V2), after the index, because making one counts the rows that it finds.
ALTER TABLE approvals NO FORCE ROW LEVEL SECURITY;
INSERT INTO approvals (tk, n, id, sk, kind, state, task_id, assigned_to, created_at, body) OVERRIDING SYSTEM VALUE
SELECT 1, -g, '/example-' || g, -g, 'tool', (ARRAY['pending', 'approved', 'denied'])[1 + g % 3], 'task-' || g % 20,
    'user-' || g % 20, g, '{}'
FROM generate_series(1, 200) g;
ANALYZE approvals;
DELETE FROM approvals WHERE sk < 0;
ALTER TABLE approvals FORCE ROW LEVEL SECURITY;
CREATE POLICY scan ON approvals FOR SELECT TO {schema}_scan USING (kind = 'promotion' AND state = 'pending');
GRANT SELECT (tk, id, kind, state, expires_at) ON approvals TO {schema}_scan;

-- The bearer of a link to a view alone sees the anonymous responses to it that are this respondent's, and of their
-- sessions what a link shows.
CREATE POLICY share ON responses FOR SELECT TO {schema}_share USING (
    is_anonymous AND tk = (SELECT s.tk FROM shares s WHERE s.sk IS NULL LIMIT 1)
    AND view_id = (SELECT s.view_id FROM shares s WHERE s.sk IS NULL LIMIT 1)
    AND respondent = (SELECT NULLIF(current_setting('app.respondent', true), '')));
GRANT SELECT (tk, sk, view_id, state) ON responses TO {schema}_share;
CREATE POLICY share_response ON session_heads FOR SELECT TO {schema}_share USING (
    tk = (SELECT s.tk FROM shares s WHERE s.sk IS NULL LIMIT 1)
    AND sk IN (SELECT r.sk FROM responses r WHERE r.tk = session_heads.tk));
CREATE POLICY share_response ON sessions FOR SELECT TO {schema}_share USING (
    tk = (SELECT s.tk FROM shares s WHERE s.sk IS NULL LIMIT 1)
    AND sk IN (SELECT r.sk FROM responses r WHERE r.tk = sessions.tk));
