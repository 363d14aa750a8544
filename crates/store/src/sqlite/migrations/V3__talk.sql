-- Conversations: what they have beside their rows, and what a commit leaves to be written into other files.

CREATE TABLE talks (
    sk INTEGER PRIMARY KEY REFERENCES session_heads (sk),
    tk INTEGER NOT NULL,
    -- When the open sitting was last active; NULL without one.
    active_at INTEGER,
    -- The first message that waits for a turn.
    waiting INTEGER,
    body TEXT NOT NULL
);
CREATE INDEX talks_by_activity ON talks (active_at) WHERE active_at IS NOT NULL;
CREATE INDEX talks_waiting ON talks (sk) WHERE waiting IS NOT NULL;

-- What belongs in another file, in the order in which it was committed. A line is crossed out once it is there.
CREATE TABLE talk_outbox (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL,
    what TEXT NOT NULL,
    body TEXT NOT NULL
);

-- A secret of this installation, made with it. The generator is seeded by the operating system.
CREATE TABLE installation (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    key BLOB NOT NULL CHECK (length(key) = 32)
);
INSERT INTO installation VALUES (1, randomblob(32));
