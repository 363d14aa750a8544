-- A person has at most one running bridge. A plain unique index would allow any number of them without a holder.
CREATE UNIQUE INDEX one_running_bridge ON session_heads (tk, (coalesce(holder, '')))
    WHERE is_bridge AND status = 'running';
CREATE INDEX bridges_of_holder ON session_heads (tk, (coalesce(holder, '')), sk) WHERE is_bridge;

-- The example that the planner is shown (V1), after the indexes, because making one counts the rows that it finds. The
-- owner of the tables looks past the walls for as long as it takes.
ALTER TABLE session_heads NO FORCE ROW LEVEL SECURITY;
INSERT INTO session_heads (tk, sk, id, incarnation, session_type, is_talk, is_bridge, is_external, is_group, holder,
    status, inactive, version, last_sequence, last_at, active_minute, message_count, turn_count, turn_answered,
    described, claim_credential, lease_until, epoch, attempts, stop_requested, priority, deadline_at, task_id,
    agent_slug, entity_id)
SELECT 1, -g, '/example-' || g, gen_random_uuid(), (ARRAY['agent', 'mixed'])[1 + g % 2], false, false, false, false,
    'user-' || g % 20, (ARRAY['pending', 'idle', 'running', 'completed'])[1 + g % 4], g % 10 = 0, 1, g, g, g, g, g, false,
    true, 'key-' || g % 20, g, 1, 1, false, g % 3, g, 'task-' || g % 20, 'agent-' || g % 20, 'entity-' || g % 20
FROM generate_series(1, 200) g;
ANALYZE session_heads;
DELETE FROM session_heads WHERE sk < 0;
ALTER TABLE session_heads FORCE ROW LEVEL SECURITY;

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
