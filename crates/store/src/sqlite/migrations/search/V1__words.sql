-- Words of titles, descriptions and messages. Derived: a lost file is filled again from the logs.

-- doc begins with the time of the text, so that newest first is the order of the key. seq is 0 for
-- title and description.
CREATE TABLE docs (
    doc INTEGER PRIMARY KEY,
    tk INTEGER NOT NULL,
    sk INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX docs_by_session ON docs (sk, seq);
-- The words are cut before they come here, with `§t<tenant>` and `§s<session>` before them, which no text contains. Only
-- which document has which word is kept: places and counts would be paid for with every message and asked for never.
CREATE VIRTUAL TABLE words USING fts5 (bag, content = '', detail = 'none', columnsize = 0, tokenize = 'ascii');
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
-- Merged in larger steps: words come all the time, questions now and then.
INSERT INTO words (words, rank) VALUES ('automerge', 8);

-- How far each session's log has been read.
CREATE TABLE done (sk INTEGER PRIMARY KEY, done_to INTEGER NOT NULL);
-- Everything that happened before this instant has been read.
CREATE TABLE progress (only INTEGER PRIMARY KEY CHECK (only = 1), read_to INTEGER NOT NULL);
INSERT INTO progress VALUES (1, 0);
