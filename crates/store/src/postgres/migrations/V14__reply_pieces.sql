-- The text of replies that are still being written, for readers on other nodes. A notification is heard by every login
-- of the database, so the text goes by this table, behind the walls, and the notification only says that it is there.
-- Nothing here has to survive a crash: the finished message is an event.
CREATE UNLOGGED TABLE reply_pieces (
    tk          integer NOT NULL,
    incarnation uuid NOT NULL,
    -- The node that writes the reply numbers its pieces (n).
    node        uuid NOT NULL,
    n           bigint NOT NULL,
    epoch       bigint NOT NULL,
    -- Where in the reply the piece begins, in bytes.
    start_at    bigint NOT NULL,
    text        bytea NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tk, incarnation, node, n)
    -- Rows come and go by the second: the dead ones are cleared away by their number, whatever the size of the table.
) WITH (autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 2000);
ALTER TABLE reply_pieces ENABLE ROW LEVEL SECURITY;
ALTER TABLE reply_pieces FORCE ROW LEVEL SECURITY;

CREATE POLICY app ON reply_pieces TO {schema}_app
    USING (tk = (SELECT NULLIF(current_setting('app.tk', true), '')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON reply_pieces TO {schema}_app;

-- A burst holds text of several tenants. This role sees this table alone, and of it the tenants that it names.
GRANT USAGE ON SCHEMA {schema} TO {schema}_relay;
CREATE POLICY relay ON reply_pieces TO {schema}_relay
    USING (ARRAY[tk] <@ (SELECT NULLIF(current_setting('app.tks', true), '')::integer[]));
GRANT SELECT, INSERT, DELETE ON reply_pieces TO {schema}_relay;

-- Whose pieces are so old that their node must have died.
CREATE POLICY scan ON reply_pieces FOR SELECT TO {schema}_scan USING (true);
GRANT SELECT (tk, at) ON reply_pieces TO {schema}_scan;
