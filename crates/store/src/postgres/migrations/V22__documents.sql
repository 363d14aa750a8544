-- Documents that people and agents edit together. The log has every patch; a row has the value at one of them, so that
-- opening a document does not apply all of them.
CREATE TABLE documents (
    tk           integer NOT NULL,
    sk           bigint NOT NULL,
    kind         text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    opened_seq   bigint NOT NULL,
    snapshot_seq bigint NOT NULL,
    -- Of an entity or a view: the version of its row, and the fields as the document has last seen them.
    row_version  bigint,
    snapshot     text NOT NULL,
    origin       text,
    PRIMARY KEY (tk, sk, kind, id)
);
ALTER TABLE documents SET (autovacuum_vacuum_threshold = 2000, autovacuum_analyze_threshold = 2000);

-- Where the patches of a document are in a log; a log has the number of the session that began it.
CREATE TABLE document_patches (
    tk   integer NOT NULL,
    log  bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id   text COLLATE "C" NOT NULL,
    seq  bigint NOT NULL,
    PRIMARY KEY (tk, log, kind, id, seq)
);
ALTER TABLE document_patches SET (autovacuum_vacuum_threshold = 2000, autovacuum_analyze_threshold = 2000);

-- The example that the planner is shown (V1).
INSERT INTO documents (tk, sk, kind, id, opened_seq, snapshot_seq, snapshot)
SELECT 1, -g % 50, 'scratch', 'document-' || g, 1, 1, '{}' FROM generate_series(1, 200) g;
INSERT INTO document_patches (tk, log, kind, id, seq)
SELECT 1, -g % 50, 'scratch', 'document-' || g % 100, g FROM generate_series(1, 200) g;
ANALYZE documents, document_patches;
DELETE FROM documents;
DELETE FROM document_patches;

-- The wall, for one tenant at a time, and for the tenants of a batch of appends, which never reads a value.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['documents', 'document_patches'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY app ON %I TO {schema}_app '
            'USING (tk = (SELECT NULLIF(current_setting(''app.tk'', true), '''')::integer))', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO {schema}_app', name);
        EXECUTE format(
            'CREATE POLICY append ON %I TO {schema}_append '
            'USING (ARRAY[tk] <@ (SELECT NULLIF(current_setting(''app.tks'', true), '''')::integer[]))', name);
    END LOOP;
END $$;
GRANT SELECT (tk, sk, kind, id, snapshot_seq) ON documents TO {schema}_append;
GRANT SELECT, INSERT ON document_patches TO {schema}_append;
