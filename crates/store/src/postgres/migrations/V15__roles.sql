-- The roles carry the name of the schema. Until now all installations of a server shared theirs, so that a login of one
-- could take the roles of another. What was granted to the shared roles in this store is granted to its own, its policies
-- are about those, and the shared ones keep nothing of it. Who may take the new roles is for the operator to say.
DO $$
DECLARE
    schemas constant text[] := ARRAY['{schema}', '{schema}_memory', '{schema}_crisis', '{schema}_feedback'];
    part text;
    old  oid;
    new  text;
    one  record;
BEGIN
    FOREACH part IN ARRAY ARRAY['app', 'scan', 'append', 'find'] LOOP
        SELECT oid INTO old FROM pg_roles WHERE rolname = 'sederunt_' || part;
        new := '{schema}_' || part;
        CONTINUE WHEN old IS NULL OR new = 'sederunt_' || part;

        FOR one IN
            SELECT p.polname, p.polrelid::regclass AS place FROM pg_policy p
            JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace s ON s.oid = c.relnamespace
            WHERE s.nspname = ANY (schemas) AND old = ANY (p.polroles)
        LOOP
            EXECUTE format('ALTER POLICY %I ON %s TO %I', one.polname, one.place, new);
        END LOOP;

        FOR one IN
            SELECT c.oid::regclass AS place, CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind,
                a.privilege_type
            FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace CROSS JOIN LATERAL aclexplode(c.relacl) a
            WHERE s.nspname = ANY (schemas) AND a.grantee = old
        LOOP
            EXECUTE format('GRANT %s ON %s %s TO %I', one.privilege_type, one.kind, one.place, new);
            EXECUTE format('REVOKE %s ON %s %s FROM %I', one.privilege_type, one.kind, one.place, old::regrole::text);
        END LOOP;

        FOR one IN
            SELECT c.oid::regclass AS place, t.attname, a.privilege_type
            FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid JOIN pg_namespace s ON s.oid = c.relnamespace
            CROSS JOIN LATERAL aclexplode(t.attacl) a
            WHERE s.nspname = ANY (schemas) AND NOT t.attisdropped AND a.grantee = old
        LOOP
            EXECUTE format('GRANT %s (%I) ON TABLE %s TO %I', one.privilege_type, one.attname, one.place, new);
            EXECUTE format('REVOKE %s (%I) ON TABLE %s FROM %I', one.privilege_type, one.attname, one.place,
                old::regrole::text);
        END LOOP;

        FOR one IN
            SELECT s.nspname, a.privilege_type FROM pg_namespace s CROSS JOIN LATERAL aclexplode(s.nspacl) a
            WHERE s.nspname = ANY (schemas) AND a.grantee = old
        LOOP
            EXECUTE format('GRANT %s ON SCHEMA %I TO %I', one.privilege_type, one.nspname, new);
            EXECUTE format('REVOKE %s ON SCHEMA %I FROM %I', one.privilege_type, one.nspname, old::regrole::text);
        END LOOP;
    END LOOP;
END $$;

-- Share links are rows of people, not of the whole tenant: whoever made one, the holder of its session and owners see it,
-- and whoever has its token reads it by the hash (the policy `hashed`). `store` is the role of what takes all of a session or a tenant away.
DROP POLICY app ON shares;
CREATE POLICY app ON shares TO {schema}_app
    USING (tk = (SELECT NULLIF(current_setting('app.tk', true), '')::integer) AND (
        created_by = (SELECT NULLIF(current_setting('app.user', true), ''))
        OR (SELECT current_setting('app.role', true)) IN ('owner', 'store')
        OR EXISTS (SELECT 1 FROM session_heads h WHERE h.tk = shares.tk AND h.sk = shares.sk
            AND h.holder = (SELECT NULLIF(current_setting('app.user', true), '')))))
    -- Nobody makes one in another's name.
    WITH CHECK (tk = (SELECT NULLIF(current_setting('app.tk', true), '')::integer) AND (
        created_by IS NULL
        OR created_by = (SELECT NULLIF(current_setting('app.user', true), ''))
        OR (SELECT current_setting('app.role', true)) IN ('owner', 'store')
        OR EXISTS (SELECT 1 FROM session_heads h WHERE h.tk = shares.tk AND h.sk = shares.sk
            AND h.holder = (SELECT NULLIF(current_setting('app.user', true), '')))));
