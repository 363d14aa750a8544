-- What is remembered of people beyond what was said. Not derived: a lost file is lost.
-- Tenants (tk) are those of `threads`. Times are microseconds since the epoch.

-- Numbers (n) order lists, newest first, and are never reused.
CREATE TABLE memories (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL,
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_referenced_at INTEGER NOT NULL,
    dormant_at INTEGER,
    body TEXT NOT NULL,
    -- Where it is filed, and under which words: what to take out again.
    drawer INTEGER NOT NULL,
    words TEXT NOT NULL,
    -- The model that looked at it last, if any did; what it made of it, as numbers of 32 bits, low byte first; and the
    -- place of that among the owner's.
    embedded_by TEXT NOT NULL DEFAULT '',
    vector BLOB,
    embedded_n INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tk, id)
);
CREATE INDEX memories_by_owner ON memories (tk, owner, kind, n, created_at, dormant_at);
CREATE INDEX memories_by_vector ON memories (tk, owner, embedded_by, embedded_n) WHERE vector IS NOT NULL;
CREATE INDEX memories_by_model ON memories (embedded_by) WHERE dormant_at IS NULL AND kind <> 'profile';

-- Full text. A drawer is an owner's memories of one kind, so a word that everybody has is as quickly looked up as
-- one that nobody else has, and the newest under a word can be had without the rest of them.
CREATE TABLE memory_words (
    drawer INTEGER NOT NULL,
    word TEXT NOT NULL,
    n INTEGER NOT NULL REFERENCES memories (n),
    times INTEGER NOT NULL,
    length INTEGER NOT NULL,
    PRIMARY KEY (drawer, word, n)
) WITHOUT ROWID;
