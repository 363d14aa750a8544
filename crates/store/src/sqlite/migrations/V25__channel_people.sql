-- How an owner got to know a person, and when a stranger was last told that nobody answers them; the rules of a channel's
-- key; the codes by which accounts on platforms are linked.

-- Everybody so far was made by an owner.
ALTER TABLE users ADD COLUMN known_by TEXT DEFAULT 'made';
ALTER TABLE users ADD COLUMN told_at INTEGER;
ALTER TABLE keys ADD COLUMN who TEXT;
ALTER TABLE keys ADD COLUMN threads TEXT;

-- One for each account. The code itself is not kept.
CREATE TABLE link_codes (
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    platform TEXT NOT NULL,
    external_id TEXT NOT NULL,
    hash TEXT NOT NULL,
    name TEXT,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tk, platform, external_id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX link_codes_by_hash ON link_codes (tk, hash);
