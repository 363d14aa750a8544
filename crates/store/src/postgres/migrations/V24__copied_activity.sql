-- A copy carries what was recorded in bridges that have ended, by a role of its own, of one tenant at a time. A login has
-- the rights of the roles that it may take, unless it inherits nothing, so the policy on what people record bound the
-- owner of the tables too.
DROP POLICY copy ON events;
CREATE POLICY copy ON events FOR INSERT TO {schema}_copy
    WITH CHECK (tk = (SELECT NULLIF(current_setting('app.tk', true), '')::integer));
GRANT USAGE ON SCHEMA {schema} TO {schema}_copy;
GRANT INSERT ON events TO {schema}_copy;
