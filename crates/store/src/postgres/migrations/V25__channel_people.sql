-- How an owner got to know a person, and when a stranger was last told that nobody answers them; the rules of a channel's
-- key; the codes by which accounts on platforms are linked.

-- Everybody so far was made by an owner. The default is for those alone.
ALTER TABLE users ADD COLUMN known_by text DEFAULT 'made', ADD COLUMN told_at bigint;
ALTER TABLE users ALTER COLUMN known_by DROP DEFAULT;
ALTER TABLE api_keys ADD COLUMN who text, ADD COLUMN threads text;

-- One for each account. The code itself is not kept.
CREATE TABLE link_codes (
    tk          integer NOT NULL REFERENCES tenants (tk),
    platform    text COLLATE "C" NOT NULL,
    external_id text COLLATE "C" NOT NULL,
    hash        text COLLATE "C" NOT NULL,
    name        text,
    expires_at  bigint NOT NULL,
    PRIMARY KEY (tk, platform, external_id)
);
ALTER TABLE link_codes SET (autovacuum_vacuum_threshold = 2000, autovacuum_analyze_threshold = 2000);
CREATE UNIQUE INDEX link_codes_hash ON link_codes (tk, hash);

-- The wall, for one tenant at a time.
ALTER TABLE link_codes ENABLE ROW LEVEL SECURITY;
ALTER TABLE link_codes FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON link_codes TO {schema}_app
    USING (tk = (SELECT NULLIF(current_setting('app.tk', true), '')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON link_codes TO {schema}_app;
