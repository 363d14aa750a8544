-- A link may open a view that belongs to no session: a share link has a session, a session and a view, or a view alone.

ALTER TABLE shares ALTER COLUMN sk DROP NOT NULL, ALTER COLUMN session_id DROP NOT NULL;
ALTER TABLE shares ADD CONSTRAINT shares_opens
    CHECK ((sk IS NULL) = (session_id IS NULL) AND (sk IS NOT NULL OR view_id IS NOT NULL));
CREATE INDEX shares_view ON shares (tk, view_id) WHERE view_id IS NOT NULL;
CREATE INDEX shares_time ON shares (tk, created_at, id);

-- The maker of a view sees the links to it alone, as the holder of a session sees the session's links.
ALTER POLICY app ON shares
    USING (tk = (SELECT NULLIF(current_setting('app.tk', true), '')::integer) AND (
        created_by = (SELECT NULLIF(current_setting('app.user', true), ''))
        OR (SELECT current_setting('app.role', true)) IN ('owner', 'store')
        OR EXISTS (SELECT 1 FROM session_heads h WHERE h.tk = shares.tk AND h.sk = shares.sk
            AND h.holder = (SELECT NULLIF(current_setting('app.user', true), '')))
        OR sk IS NULL AND EXISTS (SELECT 1 FROM docs d WHERE d.tk = shares.tk AND d.kind = 'view' AND d.id = shares.view_id
            AND d.created_by = (SELECT NULLIF(current_setting('app.user', true), '')))))
    -- Nobody makes one in another's name.
    WITH CHECK (tk = (SELECT NULLIF(current_setting('app.tk', true), '')::integer) AND (
        created_by IS NULL
        OR created_by = (SELECT NULLIF(current_setting('app.user', true), ''))
        OR (SELECT current_setting('app.role', true)) IN ('owner', 'store')
        OR EXISTS (SELECT 1 FROM session_heads h WHERE h.tk = shares.tk AND h.sk = shares.sk
            AND h.holder = (SELECT NULLIF(current_setting('app.user', true), '')))
        OR sk IS NULL AND EXISTS (SELECT 1 FROM docs d WHERE d.tk = shares.tk AND d.kind = 'view' AND d.id = shares.view_id
            AND d.created_by = (SELECT NULLIF(current_setting('app.user', true), '')))));

-- A link's own role. It reads by the hash of the token, and sees the session of one unexpired, unrevoked link that was made
-- for a session: of its row what a link shows, and of its log what was said. It writes nothing, and without the setting it
-- sees no row. The keys, the incarnation and the last sequence are there to find the log and its stream by.
GRANT USAGE ON SCHEMA {schema} TO {schema}_share;
CREATE POLICY share ON shares FOR SELECT TO {schema}_share USING (
    hash = (SELECT decode(NULLIF(current_setting('app.hash', true), ''), 'hex'))
    AND revoked_at IS NULL AND expires_at > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint);
GRANT SELECT (tk, sk, view_id) ON shares TO {schema}_share;
CREATE POLICY share ON session_heads FOR SELECT TO {schema}_share USING (
    tk = (SELECT s.tk FROM shares s WHERE s.view_id IS NULL LIMIT 1)
    AND sk = (SELECT s.sk FROM shares s WHERE s.view_id IS NULL LIMIT 1));
GRANT SELECT (tk, sk, id, incarnation, status, last_sequence) ON session_heads TO {schema}_share;
CREATE POLICY share ON sessions FOR SELECT TO {schema}_share USING (
    tk = (SELECT s.tk FROM shares s WHERE s.view_id IS NULL LIMIT 1)
    AND sk = (SELECT s.sk FROM shares s WHERE s.view_id IS NULL LIMIT 1));
GRANT SELECT (tk, sk, id, title, result) ON sessions TO {schema}_share;
CREATE POLICY share ON session_ranges FOR SELECT TO {schema}_share USING (
    tk = (SELECT s.tk FROM shares s WHERE s.view_id IS NULL LIMIT 1)
    AND sk = (SELECT s.sk FROM shares s WHERE s.view_id IS NULL LIMIT 1));
GRANT SELECT (tk, sk, from_seq, to_seq, log) ON session_ranges TO {schema}_share;
-- A fork shares the beginning of another session's log, and no more of it.
CREATE POLICY share ON events FOR SELECT TO {schema}_share USING (
    type IN ('user.message', 'agent.message')
    AND tk = (SELECT s.tk FROM shares s WHERE s.view_id IS NULL LIMIT 1)
    AND (log = (SELECT s.sk FROM shares s WHERE s.view_id IS NULL LIMIT 1)
        OR EXISTS (SELECT 1 FROM session_ranges r WHERE r.tk = events.tk AND r.log = events.log
            AND events.seq BETWEEN r.from_seq AND r.to_seq)));
GRANT SELECT (tk, log, seq, type, content, at) ON events TO {schema}_share;
