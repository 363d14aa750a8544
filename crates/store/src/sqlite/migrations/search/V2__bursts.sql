-- A document holds the messages of one session that were said within a moment, from seq on: their texts one behind the
-- other, and in cuts, for each, how far behind seq it stands and how many bytes it has. What is there is written anew from
-- the logs.
DROP TABLE docs;
DROP TABLE words;
CREATE TABLE docs (
    doc INTEGER PRIMARY KEY,
    tk INTEGER NOT NULL,
    sk INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    cuts TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX docs_by_session ON docs (sk, seq);
CREATE VIRTUAL TABLE words USING fts5 (bag, content = '', detail = 'none', columnsize = 0, tokenize = 'ascii');
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
INSERT INTO words (words, rank) VALUES ('automerge', 8);
DELETE FROM done;
UPDATE progress SET read_to = 0;
