-- What people thought of sittings: a label, and nothing that they said.

CREATE TABLE session_feedback (
    insertion_order INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL,
    id TEXT NOT NULL,
    session_id_opaque TEXT NOT NULL,
    user_id_or_null TEXT,
    recorded_at TEXT NOT NULL,
    -- The day in UTC, by which it is forgotten.
    recorded_date TEXT NOT NULL,
    label TEXT NOT NULL CHECK (label IN ('positive', 'negative', 'skip')),
    turn_count_at_end INTEGER NOT NULL CHECK (turn_count_at_end >= 0),
    source TEXT NOT NULL CHECK (source IN ('cli_end', 'cli_exit', 'api_end', 'web_end', 'voice_end')),
    schema_version INTEGER NOT NULL,
    value TEXT NOT NULL,
    UNIQUE (tk, id)
);
CREATE INDEX feedback_by_session ON session_feedback (tk, session_id_opaque, insertion_order);
CREATE INDEX feedback_by_date ON session_feedback (recorded_date);
