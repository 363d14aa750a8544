-- Sign-ins from browsers: the hash of the cookie, and the credential that it was exchanged for.

CREATE TABLE browser_sessions (
    tk         integer NOT NULL REFERENCES tenants (tk),
    id         text COLLATE "C" NOT NULL,
    hash       bytea NOT NULL,
    key_id     text COLLATE "C",
    user_id    text COLLATE "C",
    role       text NOT NULL,
    browser    text,
    created_at bigint NOT NULL,
    seen_at    bigint NOT NULL,
    expires_at bigint NOT NULL,
    PRIMARY KEY (tk, id)
);
ALTER TABLE browser_sessions SET (autovacuum_vacuum_threshold = 2000, autovacuum_analyze_threshold = 2000);
CREATE INDEX browser_sessions_hash ON browser_sessions (hash);
CREATE INDEX browser_sessions_user ON browser_sessions (tk, user_id);
CREATE INDEX browser_sessions_key ON browser_sessions (tk, key_id);

-- The wall, for one tenant at a time. Like every credential, it is found by its hash before its tenant is known.
ALTER TABLE browser_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE browser_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON browser_sessions TO {schema}_app
    USING (tk = (SELECT NULLIF(current_setting('app.tk', true), '')::integer));
CREATE POLICY hashed ON browser_sessions FOR SELECT TO {schema}_app
    USING (hash = decode(NULLIF(current_setting('app.hash', true), ''), 'hex'));
GRANT SELECT, INSERT, UPDATE, DELETE ON browser_sessions TO {schema}_app;
