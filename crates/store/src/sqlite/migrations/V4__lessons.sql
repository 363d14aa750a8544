-- What people say about the work of agents, what they add to it, and what it teaches.
-- Times are microseconds since the epoch; numbers (n) order lists, newest first, and are never reused.

CREATE TABLE feedback_events (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    signal TEXT NOT NULL,
    author TEXT,
    session_id TEXT,
    body TEXT NOT NULL,
    UNIQUE (tk, id)
);
-- Counting reads the index alone.
CREATE INDEX feedback_by_time ON feedback_events (tk, at, signal, author);
CREATE INDEX feedback_by_author ON feedback_events (tk, author, n) WHERE author IS NOT NULL;

-- What thumbs are counted by: their tags and skills.
CREATE TABLE feedback_names (
    tk INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    n INTEGER NOT NULL REFERENCES feedback_events (n),
    signal TEXT NOT NULL,
    author TEXT,
    PRIMARY KEY (tk, kind, name, n)
) WITHOUT ROWID;

CREATE TABLE feedback_sessions (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    signal TEXT NOT NULL,
    state TEXT NOT NULL,
    opened_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    author TEXT,
    version INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (tk, id)
);
CREATE INDEX feedback_sessions_by_state ON feedback_sessions (tk, state, n);
CREATE INDEX feedback_sessions_by_author ON feedback_sessions (tk, author, n) WHERE author IS NOT NULL;
-- The sweeper looks at all tenants at once, and only at what is open.
CREATE INDEX feedback_sessions_open ON feedback_sessions (expires_at) WHERE state = 'open';

CREATE TABLE lessons (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    id TEXT NOT NULL,
    polarity TEXT NOT NULL,
    state TEXT NOT NULL,
    occurrences INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    body TEXT NOT NULL,
    -- Where it is filed, and under which words: what to take out again.
    drawer INTEGER NOT NULL,
    words TEXT NOT NULL,
    -- What it has done.
    shown INTEGER NOT NULL DEFAULT 0,
    first_shown_at INTEGER,
    last_shown_at INTEGER,
    negative_since INTEGER NOT NULL DEFAULT 0,
    positive_since INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tk, id)
);
CREATE INDEX lessons_by_state ON lessons (tk, state, n);
-- Rules are few among lessons.
CREATE INDEX lessons_often ON lessons (tk, state, n) WHERE occurrences >= 2;

-- Full text, as memories have it. A drawer is the lessons of one state.
CREATE TABLE lesson_words (
    drawer INTEGER NOT NULL,
    word TEXT NOT NULL,
    n INTEGER NOT NULL REFERENCES lessons (n),
    times INTEGER NOT NULL,
    length INTEGER NOT NULL,
    PRIMARY KEY (drawer, word, n)
) WITHOUT ROWID;
