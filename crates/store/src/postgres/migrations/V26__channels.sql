-- Channels: what a channel was told, the session that each of its conversations is held in, what is to be sent, and
-- which node holds it.

CREATE TABLE channels (
    tk          integer NOT NULL REFERENCES tenants (tk),
    name        text COLLATE "C" NOT NULL,
    paused      boolean NOT NULL DEFAULT false,
    lease_node  text,
    lease_until bigint,
    -- Of the last lease: what an older one writes is refused.
    epoch       bigint NOT NULL DEFAULT 0,
    -- Where a reader of the platform goes on.
    cursor      text,
    error       text,
    error_at    bigint,
    PRIMARY KEY (tk, name)
);

-- Platforms repeat themselves, also after a conversation has got another session.
CREATE TABLE channel_updates (
    tk         integer NOT NULL REFERENCES tenants (tk),
    channel    text COLLATE "C" NOT NULL,
    update_key text COLLATE "C" NOT NULL,
    at         bigint NOT NULL,
    PRIMARY KEY (tk, channel, update_key)
);
CREATE INDEX channel_updates_time ON channel_updates (tk, channel, at);

CREATE TABLE channel_conversations (
    tk      integer NOT NULL REFERENCES tenants (tk),
    channel text COLLATE "C" NOT NULL,
    chat    text COLLATE "C" NOT NULL,
    -- Empty outside threads.
    thread  text COLLATE "C" NOT NULL,
    sk      bigint NOT NULL,
    PRIMARY KEY (tk, channel, chat, thread)
);
CREATE INDEX channel_conversations_session ON channel_conversations (tk, sk);

-- Numbers (n) order what is sent to a conversation, and are never reused.
CREATE TABLE channel_deliveries (
    tk          integer NOT NULL REFERENCES tenants (tk),
    n           bigint GENERATED ALWAYS AS IDENTITY,
    id          text COLLATE "C" NOT NULL,
    channel     text COLLATE "C" NOT NULL,
    chat        text COLLATE "C" NOT NULL,
    thread      text COLLATE "C" NOT NULL,
    sk          bigint NOT NULL,
    turn_seq    bigint NOT NULL,
    end_seq     bigint NOT NULL,
    sentence    text,
    state       text COLLATE "C" NOT NULL,
    parts_sent  bigint NOT NULL,
    -- A JSON array.
    message_ids text NOT NULL,
    attempts    bigint NOT NULL,
    due_at      bigint NOT NULL,
    filed_at    bigint NOT NULL,
    reason      text,
    PRIMARY KEY (tk, n)
);
CREATE UNIQUE INDEX channel_deliveries_id ON channel_deliveries (tk, id);
CREATE INDEX channel_deliveries_place ON channel_deliveries (tk, channel, chat, thread, n) WHERE state = 'waiting';
CREATE INDEX channel_deliveries_state ON channel_deliveries (tk, channel, state, n);
CREATE INDEX channel_deliveries_session ON channel_deliveries (tk, sk);

ALTER TABLE channels SET (autovacuum_vacuum_threshold = 2000, autovacuum_analyze_threshold = 2000);
ALTER TABLE channel_updates SET (autovacuum_vacuum_threshold = 2000, autovacuum_analyze_threshold = 2000);
ALTER TABLE channel_conversations SET (autovacuum_vacuum_threshold = 2000, autovacuum_analyze_threshold = 2000);
ALTER TABLE channel_deliveries SET (autovacuum_vacuum_threshold = 2000, autovacuum_analyze_threshold = 2000);

-- The example that the planner is shown (V1).
INSERT INTO channels (tk, name) SELECT 1, 'channel-' || g FROM generate_series(1, 200) g;
INSERT INTO channel_updates (tk, channel, update_key, at)
SELECT 1, 'channel-' || g % 20, 'key-' || g, g FROM generate_series(1, 200) g;
INSERT INTO channel_conversations (tk, channel, chat, thread, sk)
SELECT 1, 'channel-' || g % 20, 'chat-' || g, '', -g FROM generate_series(1, 200) g;
INSERT INTO channel_deliveries (tk, n, id, channel, chat, thread, sk, turn_seq, end_seq, state, parts_sent, message_ids,
    attempts, due_at, filed_at) OVERRIDING SYSTEM VALUE
SELECT 1, -g, 'id-' || g, 'channel-' || g % 20, 'chat-' || g, '', -g, 1, 1, (ARRAY['waiting', 'given_up'])[1 + g % 2], 0,
    '[]', 0, g, g
FROM generate_series(1, 200) g;
ANALYZE channels, channel_updates, channel_conversations, channel_deliveries;
DELETE FROM channels;
DELETE FROM channel_updates;
DELETE FROM channel_conversations;
DELETE FROM channel_deliveries;

-- The wall, for one tenant at a time.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['channels', 'channel_updates', 'channel_conversations', 'channel_deliveries'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY app ON %I TO {schema}_app '
            'USING (tk = (SELECT NULLIF(current_setting(''app.tk'', true), '''')::integer))', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO {schema}_app', name);
    END LOOP;
END $$;
