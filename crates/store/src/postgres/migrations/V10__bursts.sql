-- A document holds the messages of one session that were said within a moment, from seq to upto, and its number has room
-- behind it for each of them. The words have the places of their messages. What is there is written anew from the logs.
TRUNCATE search_docs, search_done;
ALTER TABLE search_docs ADD COLUMN upto bigint NOT NULL;

-- The example that the planner is shown (V1), since nothing is left of the size of the first one. The owner of the tables
-- looks past the walls for as long as it takes.
ALTER TABLE search_docs NO FORCE ROW LEVEL SECURITY;
ALTER TABLE search_done NO FORCE ROW LEVEL SECURITY;
INSERT INTO search_docs (tk, sk, seq, upto, n, tsv)
SELECT 1, 1 + g % 10, 1 + g / 10, 1 + g / 10, g, array_to_tsvector(ARRAY['a', 'b' || g]) FROM generate_series(0, 199) g;
INSERT INTO search_done SELECT 1, g, g, g, 1 FROM generate_series(1, 200) g;
ANALYZE search_docs, search_done;
DELETE FROM search_docs;
DELETE FROM search_done;
ALTER TABLE search_docs FORCE ROW LEVEL SECURITY;
ALTER TABLE search_done FORCE ROW LEVEL SECURITY;
