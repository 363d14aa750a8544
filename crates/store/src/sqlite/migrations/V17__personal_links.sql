-- A personal link opens its view as this user.

ALTER TABLE shares ADD COLUMN user_id TEXT;
