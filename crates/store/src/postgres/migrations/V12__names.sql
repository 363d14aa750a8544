-- A session is found by its name in the half that does not move. Whenever a session moves, or its minute of activity
-- does, every index of heads gets an entry; that of the names was one more of them, and the widest.
-- The owner of the tables looks past the walls for as long as it takes to copy the names.
ALTER TABLE sessions NO FORCE ROW LEVEL SECURITY;
ALTER TABLE session_heads NO FORCE ROW LEVEL SECURITY;
ALTER TABLE sessions ADD COLUMN id text COLLATE "C";
UPDATE sessions s SET id = h.id FROM session_heads h WHERE h.tk = s.tk AND h.sk = s.sk;
ALTER TABLE sessions ALTER COLUMN id SET NOT NULL;
CREATE UNIQUE INDEX sessions_id ON sessions (tk, id);
ALTER TABLE session_heads DROP CONSTRAINT session_heads_tk_id_key;
GRANT SELECT (id) ON sessions TO sederunt_append;

-- The example that the planner is shown (V1), now with names, which no session can have; after the
-- index, because that counts the rows that it finds.
INSERT INTO sessions (tk, sk, id, source_kind, source_interactive, source_is_group, metadata, parent_id, memory_mode,
    is_anonymous, created_at, incarnation)
SELECT 1, -g, '/example-' || g, 'api', false, false, '{}', 'example-' || g / 2, 'local', false, g, gen_random_uuid()
FROM generate_series(1, 200) g;
ANALYZE sessions;
DELETE FROM sessions WHERE sk < 0;
ALTER TABLE sessions FORCE ROW LEVEL SECURITY;
ALTER TABLE session_heads FORCE ROW LEVEL SECURITY;
