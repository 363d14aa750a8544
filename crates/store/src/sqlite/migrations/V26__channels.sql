-- Channels: what a channel was told, the session that each of its conversations is held in, what is to be sent, and
-- which node holds it.

CREATE TABLE channels (
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    name TEXT NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    lease_node TEXT,
    lease_until INTEGER,
    -- Of the last lease: what an older one writes is refused.
    epoch INTEGER NOT NULL DEFAULT 0,
    -- Where a reader of the platform goes on.
    cursor TEXT,
    error TEXT,
    error_at INTEGER,
    PRIMARY KEY (tk, name)
) WITHOUT ROWID;

-- Platforms repeat themselves, also after a conversation has got another session.
CREATE TABLE channel_updates (
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    channel TEXT NOT NULL,
    update_key TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tk, channel, update_key)
) WITHOUT ROWID;
CREATE INDEX channel_updates_by_time ON channel_updates (tk, channel, at);

CREATE TABLE channel_conversations (
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    channel TEXT NOT NULL,
    chat TEXT NOT NULL,
    -- Empty outside threads.
    thread TEXT NOT NULL,
    sk INTEGER NOT NULL REFERENCES session_heads (sk),
    PRIMARY KEY (tk, channel, chat, thread)
) WITHOUT ROWID;
CREATE INDEX channel_conversations_by_session ON channel_conversations (sk);

-- Numbers (n) order what is sent to a conversation, and are never reused.
CREATE TABLE channel_deliveries (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    id TEXT NOT NULL,
    channel TEXT NOT NULL,
    chat TEXT NOT NULL,
    thread TEXT NOT NULL,
    sk INTEGER NOT NULL REFERENCES session_heads (sk),
    turn_seq INTEGER NOT NULL,
    end_seq INTEGER NOT NULL,
    sentence TEXT,
    state TEXT NOT NULL,
    parts_sent INTEGER NOT NULL,
    -- A JSON array.
    message_ids TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    filed_at INTEGER NOT NULL,
    reason TEXT,
    UNIQUE (tk, id)
);
CREATE INDEX channel_deliveries_by_place ON channel_deliveries (tk, channel, chat, thread, n) WHERE state = 'waiting';
CREATE INDEX channel_deliveries_by_state ON channel_deliveries (tk, channel, state, n);
CREATE INDEX channel_deliveries_by_session ON channel_deliveries (sk);
