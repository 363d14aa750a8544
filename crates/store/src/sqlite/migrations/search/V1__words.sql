-- Words of titles, descriptions and messages. Derived: a lost file is filled again from the logs.

-- doc begins with the time of the text, so that newest first is the order of the key. seq is 0 for
-- title and description.
CREATE TABLE docs (
    doc INTEGER PRIMARY KEY,
    sk INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    -- `t<tenant> s<session>`: words of a column of their own, so that a query stays within them.
    scope TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX docs_by_session ON docs (sk, seq);
CREATE VIRTUAL TABLE words USING fts5 (
    scope, text, content = 'docs', content_rowid = 'doc', tokenize = 'unicode61 remove_diacritics 2'
);
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);

-- How far each session's log has been read.
CREATE TABLE done (sk INTEGER PRIMARY KEY, done_to INTEGER NOT NULL);
-- Everything that happened before this instant has been read.
CREATE TABLE progress (only INTEGER PRIMARY KEY CHECK (only = 1), read_to INTEGER NOT NULL);
INSERT INTO progress VALUES (1, 0);
