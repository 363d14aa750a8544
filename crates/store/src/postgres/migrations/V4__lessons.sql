-- What people say about the work of agents, what they add to it, and what it teaches.
-- Times are microseconds since the epoch; numbers (n) order lists, newest first, and are never reused.

CREATE TABLE feedback_events (
    tk         integer NOT NULL REFERENCES tenants (tk),
    n          bigint GENERATED ALWAYS AS IDENTITY,
    id         text COLLATE "C" NOT NULL,
    at         bigint NOT NULL,
    signal     text COLLATE "C" NOT NULL,
    author     text COLLATE "C",
    session_id text COLLATE "C",
    body       text NOT NULL,
    PRIMARY KEY (tk, n)
);
CREATE UNIQUE INDEX feedback_events_id ON feedback_events (tk, id);
-- Counting reads the index alone.
CREATE INDEX feedback_events_time ON feedback_events (tk, at) INCLUDE (signal, author);
CREATE INDEX feedback_events_author ON feedback_events (tk, author, n) WHERE author IS NOT NULL;

-- What thumbs are counted by: their tags and skills.
CREATE TABLE feedback_names (
    tk     integer NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    n      bigint NOT NULL,
    signal text COLLATE "C" NOT NULL,
    author text COLLATE "C",
    PRIMARY KEY (tk, kind, name, n) INCLUDE (signal, author)
);

CREATE TABLE feedback_sessions (
    tk         integer NOT NULL REFERENCES tenants (tk),
    n          bigint GENERATED ALWAYS AS IDENTITY,
    id         text COLLATE "C" NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    signal     text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL,
    opened_at  bigint NOT NULL,
    expires_at bigint NOT NULL,
    author     text COLLATE "C",
    version    bigint NOT NULL,
    body       text NOT NULL,
    PRIMARY KEY (tk, n)
);
CREATE UNIQUE INDEX feedback_sessions_id ON feedback_sessions (tk, id);
CREATE INDEX feedback_sessions_state ON feedback_sessions (tk, state, n);
CREATE INDEX feedback_sessions_author ON feedback_sessions (tk, author, n) WHERE author IS NOT NULL;
-- The sweeper looks at all tenants at once, and only at what is open.
CREATE INDEX feedback_sessions_open ON feedback_sessions (expires_at) WHERE state = 'open';

CREATE TABLE lessons (
    tk             integer NOT NULL REFERENCES tenants (tk),
    n              bigint GENERATED ALWAYS AS IDENTITY,
    id             text COLLATE "C" NOT NULL,
    polarity       text COLLATE "C" NOT NULL,
    state          text COLLATE "C" NOT NULL,
    occurrences    bigint NOT NULL,
    created_at     bigint NOT NULL,
    updated_at     bigint NOT NULL,
    version        bigint NOT NULL,
    body           text NOT NULL,
    -- Where it is filed, and under which words: what to take out again.
    drawer         bigint NOT NULL,
    words          text NOT NULL,
    -- What it has done.
    shown          bigint NOT NULL DEFAULT 0,
    first_shown_at bigint,
    last_shown_at  bigint,
    negative_since bigint NOT NULL DEFAULT 0,
    positive_since bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tk, n)
);
CREATE UNIQUE INDEX lessons_id ON lessons (tk, id);
CREATE INDEX lessons_state ON lessons (tk, state, n);
-- Rules are few among lessons.
CREATE INDEX lessons_often ON lessons (tk, state, n) WHERE occurrences >= 2;

-- Full text, as memories have it. A drawer is the lessons of one state.
CREATE TABLE lesson_words (
    tk     integer NOT NULL,
    drawer bigint NOT NULL,
    word   text COLLATE "C" NOT NULL,
    n      bigint NOT NULL,
    times  bigint NOT NULL,
    length bigint NOT NULL,
    PRIMARY KEY (tk, drawer, word, n)
);

-- An example for the planner, as in the first step.
INSERT INTO feedback_events (tk, n, id, at, signal, author, body) OVERRIDING SYSTEM VALUE
SELECT 1, g, 'example-' || g, g, 'up', 'user-' || g % 20, '{}' FROM generate_series(1, 200) g;
INSERT INTO feedback_names SELECT 1, 'tag', 'tag-' || g % 20, g, 'up', 'user-' || g % 20 FROM generate_series(1, 200) g;
INSERT INTO feedback_sessions (tk, n, id, event_id, signal, state, opened_at, expires_at, author, version, body)
OVERRIDING SYSTEM VALUE
SELECT 1, g, 'example-' || g, 'event-' || g, 'up', CASE WHEN g % 100 = 0 THEN 'open' ELSE 'finalized' END, g, g,
    'user-' || g % 20, 1, '{}'
FROM generate_series(1, 200) g;
INSERT INTO lessons (tk, n, id, polarity, state, occurrences, created_at, updated_at, version, body, drawer, words)
OVERRIDING SYSTEM VALUE
SELECT 1, g, 'example-' || g, 'negative', CASE WHEN g % 10 = 0 THEN 'retired' ELSE 'active' END, 1 + g % 3, g, g, 1,
    '{}', g % 3, 'a b'
FROM generate_series(1, 200) g;
INSERT INTO lesson_words SELECT 1, g % 3, 'word-' || g % 50, g, 1, 5 FROM generate_series(1, 200) g;
ANALYZE feedback_events, feedback_names, feedback_sessions, lessons, lesson_words;
DELETE FROM feedback_events;
DELETE FROM feedback_names;
DELETE FROM feedback_sessions;
DELETE FROM lessons;
DELETE FROM lesson_words;

-- The wall, for one tenant at a time.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['feedback_events', 'feedback_names', 'feedback_sessions', 'lessons', 'lesson_words'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY app ON %I TO sederunt_app '
            'USING (tk = (SELECT NULLIF(current_setting(''app.tk'', true), '''')::integer))', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO sederunt_app', name);
    END LOOP;
END $$;

-- Sweeps look across tenants, at keys and times alone.
CREATE POLICY scan ON feedback_sessions FOR SELECT TO sederunt_scan USING (true);
GRANT SELECT (tk, id, state, expires_at) ON feedback_sessions TO sederunt_scan;
