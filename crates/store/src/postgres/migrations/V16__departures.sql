-- The people who have left a session by themselves: only they or an owner put them back.

CREATE TABLE departures (
    tk      integer NOT NULL,
    sk      bigint NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tk, sk, user_id)
);
ALTER TABLE departures SET (autovacuum_vacuum_threshold = 2000, autovacuum_analyze_threshold = 2000);
CREATE INDEX departures_user ON departures (tk, user_id, sk);

-- The wall, for one tenant at a time.
ALTER TABLE departures ENABLE ROW LEVEL SECURITY;
ALTER TABLE departures FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON departures TO {schema}_app
    USING (tk = (SELECT NULLIF(current_setting('app.tk', true), '')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON departures TO {schema}_app;
