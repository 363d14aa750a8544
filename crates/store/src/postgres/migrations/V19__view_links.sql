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
