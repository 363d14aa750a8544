-- Sign-ins from browsers: the hash of the cookie, and the credential that it was exchanged for.

CREATE TABLE browser_sessions (
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    id TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    key_id TEXT,
    user_id TEXT,
    role TEXT NOT NULL,
    browser TEXT,
    created_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tk, id)
);
CREATE INDEX browser_sessions_by_user ON browser_sessions (tk, user_id);
CREATE INDEX browser_sessions_by_key ON browser_sessions (tk, key_id);
