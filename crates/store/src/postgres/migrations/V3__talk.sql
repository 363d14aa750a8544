-- Conversations: what they have beside their rows; and, each in a schema of its own, what is remembered of people, the
-- log of crises and the ratings of sittings. `{schema}` stands for the name of the store's schema.

CREATE TABLE talks (
    tk        integer NOT NULL,
    sk        bigint NOT NULL,
    -- When the open sitting was last active; NULL without one.
    active_at bigint,
    -- The first message that waits for a turn.
    waiting   bigint,
    body      text NOT NULL,
    PRIMARY KEY (tk, sk)
);
-- The sweeper looks at all tenants at once.
CREATE INDEX talks_active ON talks (active_at) WHERE active_at IS NOT NULL;
CREATE INDEX talks_waiting ON talks (tk, sk) WHERE waiting IS NOT NULL;

-- A secret of this installation, made with it: of no tenant.
CREATE TABLE installation (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    key bytea NOT NULL CHECK (octet_length(key) = 32)
);
INSERT INTO installation (key)
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

CREATE SCHEMA {schema}_memory;
-- Numbers (n) order lists, newest first, and are never reused.
CREATE TABLE {schema}_memory.memories (
    tk                 integer NOT NULL REFERENCES tenants (tk),
    n                  bigint GENERATED ALWAYS AS IDENTITY,
    id                 text COLLATE "C" NOT NULL,
    owner              text COLLATE "C" NOT NULL,
    kind               text COLLATE "C" NOT NULL,
    created_at         bigint NOT NULL,
    last_referenced_at bigint NOT NULL,
    dormant_at         bigint,
    body               text NOT NULL,
    -- Where it is filed, and under which words: what to take out again.
    drawer             bigint NOT NULL,
    words              text NOT NULL,
    -- The model that looked at it last, if any did; what it made of it, as numbers of 32 bits, low byte first; and the
    -- place of that among the owner's.
    embedded_by        text COLLATE "C" NOT NULL DEFAULT '',
    vector             bytea,
    embedded_n         bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tk, n)
);
CREATE UNIQUE INDEX memories_id ON {schema}_memory.memories (tk, id);
CREATE INDEX memories_owner ON {schema}_memory.memories (tk, owner, kind, n);
CREATE INDEX memories_vector ON {schema}_memory.memories (tk, owner, embedded_by, embedded_n) WHERE vector IS NOT NULL;
CREATE INDEX memories_model ON {schema}_memory.memories (embedded_by) WHERE dormant_at IS NULL AND kind <> 'profile';
-- Full text, in an index that works below a policy, which no index on tsvector does. A drawer is an owner's memories of
-- one kind, so a word that everybody has is as quickly looked up as one that nobody else has, and the newest under a
-- word can be had without the rest of them.
CREATE TABLE {schema}_memory.memory_words (
    tk     integer NOT NULL,
    drawer bigint NOT NULL,
    word   text COLLATE "C" NOT NULL,
    n      bigint NOT NULL,
    times  bigint NOT NULL,
    length bigint NOT NULL,
    PRIMARY KEY (tk, drawer, word, n)
);

CREATE SCHEMA {schema}_crisis;
-- That a crisis was answered, when and how: codes and metadata, no word of what was said.
CREATE TABLE {schema}_crisis.crisis_log (
    tk                integer NOT NULL REFERENCES tenants (tk),
    insertion_order   bigint GENERATED ALWAYS AS IDENTITY,
    id                text COLLATE "C" NOT NULL,
    session_id_opaque text COLLATE "C" NOT NULL,
    detected_at       bigint NOT NULL,
    held_until        bigint,
    value             text NOT NULL,
    PRIMARY KEY (tk, insertion_order)
);
CREATE UNIQUE INDEX crisis_log_id ON {schema}_crisis.crisis_log (tk, id);
CREATE INDEX crisis_log_time ON {schema}_crisis.crisis_log (tk, detected_at, insertion_order);
CREATE INDEX crisis_log_session ON {schema}_crisis.crisis_log (tk, session_id_opaque);
-- For purges, which look across tenants: a list of one tenant could never go by it.
CREATE INDEX crisis_log_age ON {schema}_crisis.crisis_log USING brin (detected_at);

CREATE SCHEMA {schema}_feedback;
-- What people thought of sittings: a label, and nothing that they said.
CREATE TABLE {schema}_feedback.session_feedback (
    tk                integer NOT NULL REFERENCES tenants (tk),
    insertion_order   bigint GENERATED ALWAYS AS IDENTITY,
    id                text COLLATE "C" NOT NULL,
    session_id_opaque text COLLATE "C" NOT NULL,
    user_id_or_null   text COLLATE "C",
    recorded_at       text COLLATE "C" NOT NULL,
    -- The day in UTC, by which it is forgotten.
    recorded_date     text COLLATE "C" NOT NULL,
    label             text NOT NULL CHECK (label IN ('positive', 'negative', 'skip')),
    turn_count_at_end bigint NOT NULL CHECK (turn_count_at_end >= 0),
    source            text NOT NULL CHECK (source IN ('cli_end', 'cli_exit', 'api_end', 'web_end', 'voice_end')),
    schema_version    integer NOT NULL,
    value             text NOT NULL,
    PRIMARY KEY (tk, insertion_order)
);
CREATE UNIQUE INDEX session_feedback_id ON {schema}_feedback.session_feedback (tk, id);
CREATE INDEX session_feedback_session ON {schema}_feedback.session_feedback (tk, session_id_opaque, insertion_order);
CREATE INDEX session_feedback_date ON {schema}_feedback.session_feedback USING brin (recorded_date);

-- An example for the planner, as in the first step.
INSERT INTO talks SELECT 1, g, g, CASE WHEN g % 100 = 0 THEN g END, '{}' FROM generate_series(1, 200) g;
INSERT INTO {schema}_memory.memories (tk, n, id, owner, kind, created_at, last_referenced_at, body, drawer, words)
OVERRIDING SYSTEM VALUE
SELECT 1, g, 'example-' || g, 'user:' || g % 20, (ARRAY['fact', 'arc'])[1 + g % 2], g, g, '{}', g % 20, 'a b'
FROM generate_series(1, 200) g;
INSERT INTO {schema}_memory.memory_words SELECT 1, g % 20, 'word-' || g % 50, g, 1, 5 FROM generate_series(1, 200) g;
INSERT INTO {schema}_crisis.crisis_log (tk, insertion_order, id, session_id_opaque, detected_at, value)
OVERRIDING SYSTEM VALUE
SELECT 1, g, 'example-' || g, 'session-' || g % 20, g, '{}' FROM generate_series(1, 200) g;
INSERT INTO {schema}_feedback.session_feedback (tk, insertion_order, id, session_id_opaque, recorded_at, recorded_date,
    label, turn_count_at_end, source, schema_version, value) OVERRIDING SYSTEM VALUE
SELECT 1, g, 'example-' || g, 'session-' || g % 20, '', '2000-01-' || g % 28, 'skip', 1, 'api_end', 1, '{}'
FROM generate_series(1, 200) g;
ANALYZE talks, {schema}_memory.memories, {schema}_memory.memory_words, {schema}_crisis.crisis_log,
    {schema}_feedback.session_feedback;
DELETE FROM talks;
DELETE FROM {schema}_memory.memories;
DELETE FROM {schema}_memory.memory_words;
DELETE FROM {schema}_crisis.crisis_log;
DELETE FROM {schema}_feedback.session_feedback;

-- The wall, for one tenant at a time.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'talks', '{schema}_memory.memories', '{schema}_memory.memory_words', '{schema}_crisis.crisis_log',
        '{schema}_feedback.session_feedback'
    ] LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY app ON %s TO sederunt_app '
            'USING (tk = (SELECT NULLIF(current_setting(''app.tk'', true), '''')::integer))', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO sederunt_app', name);
    END LOOP;
END $$;
GRANT USAGE ON SCHEMA {schema}_memory, {schema}_crisis, {schema}_feedback TO sederunt_app, sederunt_scan;
GRANT SELECT ON installation TO sederunt_scan;

-- Sweeps and purges look across tenants, at keys and times alone.
CREATE POLICY scan ON talks FOR SELECT TO sederunt_scan USING (true);
GRANT SELECT (tk, sk, active_at, waiting) ON talks TO sederunt_scan;
CREATE POLICY scan ON {schema}_memory.memories FOR SELECT TO sederunt_scan USING (true);
GRANT SELECT (tk, id, kind, dormant_at, embedded_by) ON {schema}_memory.memories TO sederunt_scan;
CREATE POLICY scan ON {schema}_crisis.crisis_log FOR SELECT TO sederunt_scan USING (true);
GRANT SELECT (tk, detected_at, held_until) ON {schema}_crisis.crisis_log TO sederunt_scan;
CREATE POLICY scan ON {schema}_feedback.session_feedback FOR SELECT TO sederunt_scan USING (true);
GRANT SELECT (tk, recorded_date) ON {schema}_feedback.session_feedback TO sederunt_scan;
