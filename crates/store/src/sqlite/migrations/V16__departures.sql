-- The people who have left a session by themselves: only they or an owner put them back.

CREATE TABLE departures (
    sk INTEGER NOT NULL REFERENCES session_heads (sk),
    user_id TEXT NOT NULL,
    tk INTEGER NOT NULL,
    PRIMARY KEY (sk, user_id)
) WITHOUT ROWID;
CREATE INDEX departures_by_user ON departures (tk, user_id, sk);
