-- Sessions, their logs, the people, and the walls between tenants.
-- The tenant stands first in every key, so that the tables can be distributed by it.

CREATE TABLE tenants (
    tk         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- NULL while the tenant is being removed: its name is free at once, its rows go in portions.
    id         text COLLATE "C" UNIQUE,
    suspended  boolean NOT NULL DEFAULT false,
    created_at bigint NOT NULL
);
INSERT INTO tenants (id, created_at) VALUES ('default', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

-- Surrogates are never reused, so nothing that outlives a session can meet another one.
CREATE SEQUENCE session_keys AS bigint;

-- Hot and narrow: what guards read and appends write. No index holds a column that an append changes,
-- but for the minute of activity.
CREATE TABLE session_heads (
    tk               integer NOT NULL REFERENCES tenants (tk),
    sk               bigint NOT NULL,
    id               text COLLATE "C" NOT NULL,
    incarnation      uuid NOT NULL,
    session_type     text COLLATE "C" NOT NULL,
    is_talk          boolean NOT NULL,
    is_bridge        boolean NOT NULL,
    is_external      boolean NOT NULL,
    is_group         boolean NOT NULL,
    holder           text COLLATE "C",
    status           text COLLATE "C" NOT NULL,
    inactive         boolean NOT NULL,
    version          bigint NOT NULL,
    last_sequence    bigint NOT NULL,
    last_at          bigint NOT NULL,
    active_minute    bigint NOT NULL,
    message_count    bigint NOT NULL,
    turn_count       bigint NOT NULL,
    turn_sequence    bigint,
    turn_answered    boolean NOT NULL,
    preview          text,
    described        boolean NOT NULL,
    claim_worker     text,
    claim_credential text COLLATE "C",
    lease_until      bigint,
    epoch            bigint NOT NULL,
    attempts         integer NOT NULL,
    stop_requested   boolean NOT NULL,
    priority         integer NOT NULL,
    deadline_at      bigint,
    -- Of the wide half, but lists and claims look for them in the order of this one.
    task_id          text COLLATE "C",
    agent_slug       text COLLATE "C",
    entity_id        text COLLATE "C",
    -- Of the wide half too, but a claim writes it.
    started_at       bigint,
    -- Pending, but its task is not active: set aside by the first claim that meets it.
    held             boolean NOT NULL DEFAULT false,
    -- Moves with the title and the description, which the search index then reads again.
    words_version    bigint NOT NULL DEFAULT 0,
    -- For lists alone: an index of both columns would tempt the planner where claims look for what is pending.
    state            text COLLATE "C" NOT NULL GENERATED ALWAYS AS (session_type || '/' || status) STORED,
    PRIMARY KEY (tk, sk),
    UNIQUE (tk, id)
) WITH (fillfactor = 80);

-- Every index here is written whenever a session moves, and its minute of activity with it: so there are as few as
-- will do. A list that does not say the type or the status walks each of them.
CREATE INDEX heads_state ON session_heads (tk, state, active_minute, sk);
CREATE INDEX heads_work ON session_heads (tk, task_id, status, active_minute, sk) WHERE task_id IS NOT NULL;
CREATE INDEX heads_holder ON session_heads (tk, holder, active_minute, sk) WHERE holder IS NOT NULL;
CREATE INDEX heads_entity ON session_heads (tk, entity_id, active_minute, sk) WHERE entity_id IS NOT NULL;
CREATE INDEX heads_pending ON session_heads (tk, session_type, priority DESC, sk) WHERE status = 'pending' AND NOT held;
CREATE INDEX heads_pending_agent ON session_heads (tk, session_type, agent_slug, priority DESC, sk)
    WHERE status = 'pending' AND NOT held;
-- What counts against an agent's limit, and what a worker holds. The sweeper looks through all of it for leases that
-- have run out: the lease itself stands in no index, so that renewing one costs no more than its row.
CREATE INDEX heads_running ON session_heads (tk, agent_slug, claim_credential) WHERE status = 'running';
-- The sweeper looks at all tenants at once.
CREATE INDEX heads_deadline ON session_heads (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX heads_silent ON session_heads (active_minute) WHERE NOT inactive
    AND status NOT IN ('pending', 'running', 'waiting_human', 'awaiting_tool');

CREATE TABLE sessions (
    tk                 integer NOT NULL,
    sk                 bigint NOT NULL,
    source_kind        text COLLATE "C" NOT NULL,
    source_interactive boolean NOT NULL,
    source_platform    text COLLATE "C",
    source_trigger_id  text,
    source_is_group    boolean NOT NULL,
    metadata           text NOT NULL,
    parent_id          text COLLATE "C",
    root_id            text COLLATE "C",
    retry_of           text COLLATE "C",
    title              text,
    description        text,
    description_source text,
    working_memory     text,
    input              text,
    draft_values       text,
    result             text,
    usage              text,
    error_message      text,
    end_reason         text,
    memory_mode        text NOT NULL,
    is_anonymous       boolean NOT NULL,
    created_at         bigint NOT NULL,
    completed_at       bigint,
    -- The head's, here because nothing that happens to a session moves this half in its indexes.
    incarnation        uuid NOT NULL,
    PRIMARY KEY (tk, sk)
) WITH (fillfactor = 80);
CREATE INDEX sessions_parent ON sessions (tk, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX sessions_incarnation ON sessions (incarnation);

CREATE TABLE participants (
    tk      integer NOT NULL,
    sk      bigint NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tk, sk, user_id)
);
CREATE INDEX participants_user ON participants (tk, user_id, sk);

-- The scalars of a session's metadata that lists filter on.
CREATE TABLE session_metadata (
    tk    integer NOT NULL,
    sk    bigint NOT NULL,
    key   text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    PRIMARY KEY (tk, sk, key)
);
CREATE INDEX session_metadata_value ON session_metadata (tk, key, value, sk);

-- A log is named by the surrogate of the session that wrote it. JSON is kept as the text that it came as.
CREATE TABLE events (
    tk           integer NOT NULL,
    log          bigint NOT NULL,
    seq          bigint NOT NULL,
    type         text COLLATE "C" NOT NULL,
    content      text,
    metadata     text,
    subthread_id text,
    external_id  text COLLATE "C",
    turn         bigint,
    author       text,
    at           bigint NOT NULL,
    PRIMARY KEY (tk, log, seq)
);

CREATE TABLE external_ids (
    tk          integer NOT NULL,
    log         bigint NOT NULL,
    external_id text COLLATE "C" NOT NULL,
    seq         bigint NOT NULL,
    PRIMARY KEY (tk, log, external_id)
);

-- What a fork shares with others. A session's own log needs no row: it goes on after the last range.
CREATE TABLE session_ranges (
    tk       integer NOT NULL,
    sk       bigint NOT NULL,
    from_seq bigint NOT NULL,
    to_seq   bigint NOT NULL,
    log      bigint NOT NULL,
    PRIMARY KEY (tk, sk, from_seq)
);
CREATE INDEX session_ranges_log ON session_ranges (tk, log);

CREATE TABLE idempotency (
    tk        integer NOT NULL,
    scope     bytea NOT NULL,
    -- The session that the first commit touched; a key whose session is gone counts no more.
    sk        bigint,
    body      bytea NOT NULL,
    -- A dense range of sequences, or the list where it has holes.
    first     bigint,
    last      bigint,
    sequences bigint[],
    -- Surrogates and epochs in turn, of a claim.
    claims    bigint[],
    note      uuid,
    at        bigint NOT NULL,
    PRIMARY KEY (tk, scope)
);
CREATE INDEX idempotency_at ON idempotency USING brin (at);

CREATE TABLE users (
    tk          integer NOT NULL REFERENCES tenants (tk),
    id          text COLLATE "C" NOT NULL,
    name        text,
    role        text NOT NULL,
    suspended   boolean NOT NULL,
    merged_into text COLLATE "C",
    created_at  bigint NOT NULL,
    PRIMARY KEY (tk, id)
);

CREATE TABLE identities (
    tk          integer NOT NULL,
    platform    text COLLATE "C" NOT NULL,
    external_id text COLLATE "C" NOT NULL,
    user_id     text COLLATE "C" NOT NULL,
    PRIMARY KEY (tk, platform, external_id)
);
CREATE INDEX identities_user ON identities (tk, user_id);

CREATE TABLE api_keys (
    tk         integer NOT NULL REFERENCES tenants (tk),
    id         text COLLATE "C" NOT NULL,
    hash       bytea NOT NULL,
    user_id    text COLLATE "C",
    role       text NOT NULL,
    prefix     text,
    act_as     boolean NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    PRIMARY KEY (tk, id)
);
CREATE INDEX api_keys_hash ON api_keys (hash);

CREATE TABLE shares (
    tk         integer NOT NULL REFERENCES tenants (tk),
    id         text COLLATE "C" NOT NULL,
    hash       bytea NOT NULL,
    sk         bigint NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    access     text NOT NULL,
    created_by text COLLATE "C",
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    revoked_at bigint,
    PRIMARY KEY (tk, id)
);
CREATE INDEX shares_hash ON shares (hash);
CREATE INDEX shares_session ON shares (tk, sk);

CREATE TABLE audit (
    tk     integer NOT NULL REFERENCES tenants (tk),
    n      bigint GENERATED ALWAYS AS IDENTITY,
    at     bigint NOT NULL,
    actor  text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    PRIMARY KEY (tk, n)
);

-- Text search: one document per message, and one (seq 0) for title and description. The number begins with the
-- time of the text, so that newest first is its order.
CREATE TABLE search_docs (
    tk  integer NOT NULL,
    sk  bigint NOT NULL,
    seq bigint NOT NULL,
    n   bigint NOT NULL,
    tsv tsvector NOT NULL,
    PRIMARY KEY (tk, sk, seq),
    UNIQUE (tk, n)
);
CREATE INDEX search_docs_words ON search_docs USING gin (tsv);

-- How far the documents of a session reach, over how many messages, and of which title.
CREATE TABLE search_done (
    tk       integer NOT NULL,
    sk       bigint NOT NULL,
    done_to  bigint NOT NULL,
    messages bigint NOT NULL,
    version  bigint NOT NULL,
    PRIMARY KEY (tk, sk)
);

-- A new database has no statistics, and a planner that is left to guess takes a whole tenant for a handful of rows:
-- it would look through all of them instead of going by key, until it is told better, a minute or so later. So it is
-- shown an example first.
INSERT INTO session_heads (tk, sk, id, incarnation, session_type, is_talk, is_bridge, is_external, is_group, holder,
    status, inactive, version, last_sequence, last_at, active_minute, message_count, turn_count, turn_answered,
    described, claim_credential, lease_until, epoch, attempts, stop_requested, priority, deadline_at, task_id,
    agent_slug, entity_id)
SELECT 1, g, 'example-' || g, gen_random_uuid(), (ARRAY['agent', 'mixed'])[1 + g % 2], false, false, false, false,
    'user-' || g % 20, (ARRAY['pending', 'idle', 'running', 'completed'])[1 + g % 4], g % 10 = 0, 1, g, g, g, g, g, false,
    true, 'key-' || g % 20, g, 1, 1, false, g % 3, g, 'task-' || g % 20, 'agent-' || g % 20, 'entity-' || g % 20
FROM generate_series(1, 200) g;
INSERT INTO sessions (tk, sk, source_kind, source_interactive, source_is_group, metadata, parent_id, memory_mode,
    is_anonymous, created_at, incarnation)
SELECT 1, g, 'api', false, false, '{}', 'example-' || g / 2, 'local', false, g, gen_random_uuid()
FROM generate_series(1, 200) g;
INSERT INTO participants SELECT 1, g, 'user-' || g % 20 FROM generate_series(1, 200) g;
INSERT INTO session_metadata SELECT 1, g, 'key-' || g % 5, 'value-' || g FROM generate_series(1, 200) g;
INSERT INTO events (tk, log, seq, type, content, external_id, at)
SELECT 1, 1 + g % 10, 1 + g / 10, (ARRAY['user.message', 'agent.message', 'a.b'])[1 + g % 3], repeat('example', 10), g, g
FROM generate_series(0, 199) g;
INSERT INTO external_ids SELECT 1, 1 + g % 10, g, 1 + g / 10 FROM generate_series(0, 199) g;
INSERT INTO session_ranges SELECT 1, g, 1, 10, 1 + g % 10 FROM generate_series(1, 200) g;
INSERT INTO idempotency (tk, scope, sk, body, at)
SELECT 1, decode(md5(g::text), 'hex'), g, '', g FROM generate_series(1, 200) g;
INSERT INTO search_docs SELECT 1, 1 + g % 10, 1 + g / 10, g, array_to_tsvector(ARRAY['a', 'b' || g])
FROM generate_series(0, 199) g;
INSERT INTO search_done SELECT 1, g, g, g, 1 FROM generate_series(1, 200) g;
ANALYZE tenants, session_heads, sessions, participants, session_metadata, events, external_ids, session_ranges,
    idempotency, search_docs, search_done;
-- Deleted, not truncated: the size of the example counts as long as there is nothing else.
DELETE FROM session_heads;
DELETE FROM sessions;
DELETE FROM participants;
DELETE FROM session_metadata;
DELETE FROM events;
DELETE FROM external_ids;
DELETE FROM session_ranges;
DELETE FROM idempotency;
DELETE FROM search_docs;
DELETE FROM search_done;

-- The wall. Forced, so that it binds the owner of the tables too.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'session_heads', 'sessions', 'participants', 'session_metadata', 'events', 'external_ids', 'session_ranges',
        'idempotency', 'users', 'identities', 'api_keys', 'shares', 'audit', 'search_docs', 'search_done', 'tenants'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY app ON %I TO sederunt_app '
            'USING (tk = (SELECT NULLIF(current_setting(''app.tk'', true), '''')::integer))', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO sederunt_app', name);
    END LOOP;

    -- The batches of appends hold several tenants: a set, and never what was said. Asked in a way that no index
    -- answers, since otherwise the planner reckons with a search for every member of the set.
    FOREACH name IN ARRAY ARRAY[
        'session_heads', 'sessions', 'participants', 'external_ids', 'session_ranges', 'idempotency'
    ] LOOP
        EXECUTE format(
            'CREATE POLICY append ON %I TO sederunt_append '
            'USING (ARRAY[tk] <@ (SELECT NULLIF(current_setting(''app.tks'', true), '''')::integer[]))', name);
    END LOOP;
END $$;

GRANT USAGE ON SEQUENCE session_keys TO sederunt_app;

-- What a browser records about a person is written in the name of one tenant only.
CREATE POLICY append ON events FOR INSERT TO sederunt_append WITH CHECK (
    ARRAY[tk] <@ (SELECT NULLIF(current_setting('app.tks', true), '')::integer[])
    AND NOT starts_with(type, 'human.'));
GRANT INSERT ON events TO sederunt_append;
GRANT SELECT (
    tk, sk, id, incarnation, session_type, is_talk, is_bridge, is_external, is_group, holder, status, inactive, version,
    last_sequence, last_at, active_minute, message_count, turn_count, turn_sequence, turn_answered, described,
    claim_worker, claim_credential, lease_until, epoch, attempts, stop_requested, priority, deadline_at
) ON session_heads TO sederunt_append;
GRANT UPDATE (
    last_sequence, last_at, active_minute, message_count, turn_count, turn_sequence, turn_answered, preview, described,
    deadline_at
) ON session_heads TO sederunt_append;
GRANT SELECT (tk, sk), UPDATE (description, description_source) ON sessions TO sederunt_append;
GRANT SELECT ON participants, session_ranges TO sederunt_append;
GRANT SELECT, INSERT ON external_ids TO sederunt_append;
GRANT SELECT, INSERT, UPDATE ON idempotency TO sederunt_append;

-- Sweeps and polls look across tenants, at keys and states alone.
CREATE POLICY scan ON session_heads FOR SELECT TO sederunt_scan USING (true);
GRANT SELECT (
    tk, sk, id, incarnation, status, inactive, version, priority, lease_until, deadline_at, last_sequence, last_at,
    active_minute, message_count, words_version
) ON session_heads TO sederunt_scan;
CREATE POLICY scan ON sessions FOR SELECT TO sederunt_scan USING (true);
GRANT SELECT (tk, sk, incarnation) ON sessions TO sederunt_scan;
CREATE POLICY scan ON tenants FOR SELECT TO sederunt_scan USING (true);
GRANT SELECT ON tenants TO sederunt_scan;
CREATE POLICY scan ON idempotency FOR SELECT TO sederunt_scan USING (true);
GRANT SELECT (tk, at) ON idempotency TO sederunt_scan;
CREATE POLICY scan ON search_done FOR SELECT TO sederunt_scan USING (true);
GRANT SELECT ON search_done TO sederunt_scan;

-- No index on words can be used below a policy, since matching is not leakproof. So this role, which sees of a
-- document nothing but its number and its words, finds the numbers; what they stand for is read by `app`.
CREATE POLICY find ON search_docs FOR SELECT TO sederunt_find USING (true);
GRANT SELECT (tk, sk, n, tsv) ON search_docs TO sederunt_find;

-- A tenant is found by its name, a credential by the hash of its secret, before the tenant's number is known.
CREATE POLICY named ON tenants TO sederunt_app USING (id = NULLIF(current_setting('app.tenant', true), ''));
CREATE POLICY hashed ON api_keys FOR SELECT TO sederunt_app
    USING (hash = decode(NULLIF(current_setting('app.hash', true), ''), 'hex'));
CREATE POLICY hashed ON shares FOR SELECT TO sederunt_app
    USING (hash = decode(NULLIF(current_setting('app.hash', true), ''), 'hex'));
