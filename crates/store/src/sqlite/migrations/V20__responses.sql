-- Responses: who answers which view, and the form as it was when the response was opened. Each has a session; its
-- values are there.

CREATE TABLE responses (
    sk INTEGER PRIMARY KEY REFERENCES session_heads (sk),
    tk INTEGER NOT NULL,
    view_id TEXT NOT NULL,
    -- The name under which the respondent answers this view; nobody can guess it.
    respondent TEXT NOT NULL,
    respondent_kind TEXT NOT NULL,
    respondent_id TEXT NOT NULL,
    -- Which of the respondent's responses to the view it is, from 1.
    ordinal INTEGER NOT NULL,
    is_anonymous INTEGER NOT NULL,
    once INTEGER NOT NULL,
    state TEXT NOT NULL,
    saved_at INTEGER NOT NULL,
    form TEXT NOT NULL
);
-- A respondent has one open response to a view, and submits one where the view says so.
CREATE UNIQUE INDEX responses_standing ON responses (tk, view_id, respondent)
    WHERE state = 'open' OR (once AND state = 'submitted');
CREATE UNIQUE INDEX responses_by_respondent ON responses (tk, view_id, respondent, ordinal);
CREATE INDEX responses_by_view ON responses (tk, view_id, sk);
CREATE INDEX responses_by_state ON responses (tk, view_id, state, sk);
CREATE INDEX responses_drafts ON responses (tk, view_id, saved_at) WHERE state = 'open' AND is_anonymous;

-- The promotions that wait for a decision: their sessions are closed and have no deadline, so the sweeper finds them
-- by their own.
CREATE INDEX approvals_by_expiry ON approvals (expires_at) WHERE kind = 'promotion' AND state = 'pending';
