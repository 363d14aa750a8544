-- A link may open a view that belongs to no session: a share link has a session, a session and a view, or a view alone.
-- SQLite cannot take NOT NULL from a column, so the table is made anew.

CREATE TABLE new_shares (
    hk INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    id TEXT NOT NULL,
    sk INTEGER REFERENCES session_heads (sk),
    hash BLOB NOT NULL UNIQUE,
    access TEXT NOT NULL,
    created_by TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER,
    view_id TEXT,
    user_id TEXT,
    UNIQUE (tk, id),
    CHECK (sk IS NOT NULL OR view_id IS NOT NULL)
);
INSERT INTO new_shares (hk, tk, id, sk, hash, access, created_by, created_at, expires_at, revoked_at, view_id, user_id)
SELECT hk, tk, id, sk, hash, access, created_by, created_at, expires_at, revoked_at, view_id, user_id FROM shares;
DROP TABLE shares;
ALTER TABLE new_shares RENAME TO shares;
CREATE INDEX shares_by_session ON shares (sk);
CREATE INDEX shares_by_view ON shares (tk, view_id) WHERE view_id IS NOT NULL;
CREATE INDEX shares_by_time ON shares (tk, created_at, id);
