-- What people define before anything runs, and what waits for them while it does.

ALTER TABLE session_details ADD COLUMN run TEXT;

-- Numbers (n) order lists, newest first, and are never reused.
CREATE TABLE docs (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    slug TEXT,
    body TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_by TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (tk, kind, id)
);
CREATE UNIQUE INDEX docs_slug ON docs (tk, kind, slug) WHERE slug IS NOT NULL;
CREATE INDEX docs_by_kind ON docs (tk, kind, n);

-- What lists of documents filter by.
CREATE TABLE doc_facets (
    tk INTEGER NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    n INTEGER NOT NULL REFERENCES docs (n),
    PRIMARY KEY (tk, kind, key, value, n)
) WITHOUT ROWID;
CREATE INDEX facets_of_doc ON doc_facets (n);

CREATE TABLE approvals (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    id TEXT NOT NULL,
    sk INTEGER NOT NULL REFERENCES session_heads (sk),
    -- NULL in rows from before there were kinds.
    kind TEXT,
    state TEXT NOT NULL,
    task_id TEXT,
    assigned_to TEXT,
    expires_at INTEGER,
    created_at INTEGER NOT NULL,
    decided_by TEXT,
    decided_at INTEGER,
    body TEXT NOT NULL,
    UNIQUE (tk, id)
);
-- The state stands in each of them, since what still waits is asked for most and is the least.
CREATE INDEX approvals_by_state ON approvals (tk, state, n);
CREATE INDEX approvals_by_assignee ON approvals (tk, assigned_to, state, n);
CREATE INDEX approvals_by_task ON approvals (tk, task_id, state, n) WHERE task_id IS NOT NULL;
CREATE INDEX approvals_by_session ON approvals (sk, n);
