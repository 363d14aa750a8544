-- That a crisis was answered, when and how: codes and metadata, no word of what was said.

CREATE TABLE crisis_log (
    insertion_order INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL,
    id TEXT NOT NULL,
    session_id_opaque TEXT NOT NULL,
    -- Microseconds since the epoch.
    detected_at INTEGER NOT NULL,
    held_until INTEGER,
    value TEXT NOT NULL,
    UNIQUE (tk, id)
);
CREATE INDEX crises_by_time ON crisis_log (tk, detected_at);
CREATE INDEX crises_by_session ON crisis_log (tk, session_id_opaque);
CREATE INDEX crises_by_age ON crisis_log (detected_at);
