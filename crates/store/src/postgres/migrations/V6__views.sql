-- The link of a published view opens that view, and nothing else of its session.

ALTER TABLE shares ADD COLUMN view_id text COLLATE "C";
