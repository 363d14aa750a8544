-- Documents that people and agents edit together. The log has every patch; a row has the value at one of them, so that
-- opening a document does not apply all of them.
CREATE TABLE documents (
    sk INTEGER NOT NULL REFERENCES session_heads (sk),
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    opened_seq INTEGER NOT NULL,
    snapshot_seq INTEGER NOT NULL,
    -- Of an entity or a view: the version of its row, and the fields as the document has last seen them.
    row_version INTEGER,
    snapshot TEXT NOT NULL,
    origin TEXT
);
CREATE UNIQUE INDEX documents_by_name ON documents (sk, kind, id);

-- Where the patches of a document are in a log; a log has the number of the session that began it.
CREATE TABLE document_patches (
    log INTEGER NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (log, kind, id, seq)
) WITHOUT ROWID;
