-- What people define before anything runs, and what waits for them while it does.

ALTER TABLE sessions ADD COLUMN run text;

-- Numbers (n) order lists, newest first, and are never reused.
CREATE TABLE docs (
    tk         integer NOT NULL REFERENCES tenants (tk),
    n          bigint GENERATED ALWAYS AS IDENTITY,
    kind       text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    slug       text COLLATE "C",
    body       text NOT NULL,
    version    bigint NOT NULL,
    created_by text COLLATE "C",
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (tk, n)
);
-- The id first: a document that is there already is found by it before its slug is.
CREATE UNIQUE INDEX docs_id ON docs (tk, kind, id);
CREATE UNIQUE INDEX docs_slug ON docs (tk, kind, slug) WHERE slug IS NOT NULL;
CREATE INDEX docs_kind ON docs (tk, kind, n);

-- What lists of documents filter by.
CREATE TABLE doc_facets (
    tk    integer NOT NULL,
    kind  text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    n     bigint NOT NULL,
    PRIMARY KEY (tk, kind, key, value, n)
);
CREATE INDEX doc_facets_doc ON doc_facets (tk, n);

CREATE TABLE approvals (
    tk          integer NOT NULL REFERENCES tenants (tk),
    n           bigint GENERATED ALWAYS AS IDENTITY,
    id          text COLLATE "C" NOT NULL,
    sk          bigint NOT NULL,
    -- NULL in rows from before there were kinds.
    kind        text COLLATE "C",
    state       text COLLATE "C" NOT NULL,
    task_id     text COLLATE "C",
    assigned_to text COLLATE "C",
    expires_at  bigint,
    created_at  bigint NOT NULL,
    decided_by  text,
    decided_at  bigint,
    body        text NOT NULL,
    PRIMARY KEY (tk, n)
);
CREATE UNIQUE INDEX approvals_id ON approvals (tk, id);
-- The state stands in each of them, since what still waits is asked for most and is the least.
CREATE INDEX approvals_state ON approvals (tk, state, n);
CREATE INDEX approvals_assignee ON approvals (tk, assigned_to, state, n) WHERE assigned_to IS NOT NULL;
-- Of its own, since rows without a value have no order in the index by value.
CREATE INDEX approvals_nobody ON approvals (tk, state, n) WHERE assigned_to IS NULL;
CREATE INDEX approvals_task ON approvals (tk, task_id, state, n) WHERE task_id IS NOT NULL;
CREATE INDEX approvals_session ON approvals (tk, sk, n);

-- An example for the planner, as in the first step.
INSERT INTO docs (tk, n, kind, id, slug, body, version, created_by, created_at, updated_at) OVERRIDING SYSTEM VALUE
SELECT 1, g, (ARRAY['task', 'entity'])[1 + g % 2], 'example-' || g, 'example-' || g, '{}', 1, 'user-' || g % 20, g, g
FROM generate_series(1, 200) g;
INSERT INTO doc_facets SELECT 1, (ARRAY['task', 'entity'])[1 + g % 2], 'created_by', 'user-' || g % 20, g
FROM generate_series(1, 200) g;
INSERT INTO doc_facets SELECT 1, (ARRAY['task', 'entity'])[1 + g % 2], 'agent_slug', 'agent-' || g % 40, g
FROM generate_series(1, 200) g;
INSERT INTO approvals (tk, n, id, sk, kind, state, task_id, assigned_to, created_at, body) OVERRIDING SYSTEM VALUE
SELECT 1, g, 'example-' || g, g, 'tool', (ARRAY['pending', 'approved', 'denied'])[1 + g % 3], 'task-' || g % 20,
    'user-' || g % 20, g, '{}'
FROM generate_series(1, 200) g;
ANALYZE docs, doc_facets, approvals;
DELETE FROM docs;
DELETE FROM doc_facets;
DELETE FROM approvals;

-- The wall, for one tenant at a time: neither batches nor sweeps have anything to do here.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['docs', 'doc_facets', 'approvals'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY app ON %I TO sederunt_app '
            'USING (tk = (SELECT NULLIF(current_setting(''app.tk'', true), '''')::integer))', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO sederunt_app', name);
    END LOOP;
END $$;
