-- A person has at most one running bridge. A plain unique index would allow any number of them without a holder.
CREATE UNIQUE INDEX one_running_bridge ON session_heads (tk, (coalesce(holder, '')))
    WHERE is_bridge AND status = 'running';
CREATE INDEX bridges_of_holder ON session_heads (tk, (coalesce(holder, '')), sk) WHERE is_bridge;

-- A poll tells what a person recorded to fewer readers than other events.
GRANT SELECT (is_bridge) ON session_heads TO sederunt_scan;

-- A copy carries what was recorded in bridges that have ended: by the login that owns the tables, of one tenant at a time.
CREATE POLICY copy ON events FOR INSERT TO CURRENT_USER
    WITH CHECK (tk = (SELECT NULLIF(current_setting('app.tk', true), '')::integer));

-- What a person records goes into their own running bridge alone. `app.user` is the person; without a user it is the
-- one person of an installation without authentication. Rows of any other type are not asked.
DO $$
DECLARE
    verb text;
BEGIN
    FOREACH verb IN ARRAY ARRAY['INSERT', 'UPDATE'] LOOP
        EXECUTE format(
            'CREATE POLICY human_%s ON events AS RESTRICTIVE FOR %s TO sederunt_app %s '
            'WITH CHECK (CASE WHEN starts_with(type, ''human.'') THEN EXISTS ('
            'SELECT 1 FROM session_heads h WHERE h.tk = events.tk AND h.sk = events.log AND h.is_bridge '
            'AND h.status = ''running'' '
            'AND h.holder IS NOT DISTINCT FROM NULLIF(current_setting(''app.user'', true), '''')) ELSE true END)',
            lower(verb), verb, CASE verb WHEN 'UPDATE' THEN 'USING (true)' ELSE '' END);
    END LOOP;
END $$;
