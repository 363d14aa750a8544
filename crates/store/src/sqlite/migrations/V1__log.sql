-- Tenants, sessions, their logs, the keys of repeated requests, and people.
-- Surrogates (tk, sk) are never reused and never leave the store. Times are microseconds since the epoch.

-- A tenant whose id is NULL is being removed: nobody can name it any more.
CREATE TABLE tenants (
    tk INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT UNIQUE,
    suspended INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
);
INSERT INTO tenants (id, created_at) VALUES ('default', CAST(unixepoch('subsec') * 1000000 AS INTEGER));

-- The hot half of a session: what every append reads.
CREATE TABLE session_heads (
    sk INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    id TEXT NOT NULL,
    incarnation BLOB NOT NULL,
    session_type TEXT NOT NULL,
    is_talk INTEGER NOT NULL,
    is_bridge INTEGER NOT NULL,
    is_external INTEGER NOT NULL,
    is_group INTEGER NOT NULL,
    holder TEXT,
    status TEXT NOT NULL,
    inactive INTEGER NOT NULL,
    version INTEGER NOT NULL,
    claim_worker TEXT,
    claim_credential TEXT,
    lease_until INTEGER,
    epoch INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    stop_requested INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    deadline_at INTEGER,
    -- Of the wide half, but a claim looks for the one and writes the other.
    agent_slug TEXT,
    started_at INTEGER,
    -- Pending, but its task is not active: set aside by the first claim that meets it.
    held INTEGER NOT NULL DEFAULT 0,
    -- The last sequence that lies in other sessions' logs (see session_ranges); 0 unless it is a fork.
    prefix_to INTEGER NOT NULL,
    UNIQUE (tk, id)
);
CREATE INDEX pending_by_type ON session_heads (tk, session_type, priority DESC, sk)
    WHERE status = 'pending' AND held = 0;
CREATE INDEX pending_by_agent ON session_heads (tk, session_type, agent_slug, priority DESC, sk)
    WHERE status = 'pending' AND held = 0 AND agent_slug IS NOT NULL;
-- What counts against an agent's limit, and what workers hold. The sweeper looks through all of it for leases that
-- have run out: the lease itself stands in no index, so that renewing one costs no more than its row.
CREATE INDEX running ON session_heads (tk, agent_slug) WHERE status = 'running';
CREATE INDEX deadlines ON session_heads (deadline_at) WHERE deadline_at IS NOT NULL;

-- What every append writes: apart from the head and narrow, because the cost of an append is the
-- pages that it touches.
CREATE TABLE session_tails (
    sk INTEGER PRIMARY KEY REFERENCES session_heads (sk),
    last_sequence INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    message_count INTEGER NOT NULL,
    turn_count INTEGER NOT NULL,
    turn INTEGER,
    turn_answered INTEGER NOT NULL,
    described INTEGER NOT NULL,
    preview TEXT
);

-- What lists filter and order by, and nothing wider, for the minute of activity is written often.
-- Every index here ends with sk by itself. Each is written whenever a session moves, so there are as few as will do: a
-- list without a type or a status walks all of them.
CREATE TABLE sessions (
    sk INTEGER PRIMARY KEY REFERENCES session_heads (sk),
    tk INTEGER NOT NULL,
    session_type TEXT NOT NULL,
    status TEXT NOT NULL,
    inactive INTEGER NOT NULL,
    active_minute INTEGER NOT NULL,
    user_id TEXT,
    source_kind TEXT NOT NULL,
    interactive INTEGER NOT NULL,
    platform TEXT,
    task_id TEXT,
    agent_slug TEXT,
    entity_id TEXT,
    parent_id TEXT
);
CREATE INDEX sessions_by_state ON sessions (tk, session_type, status, inactive, active_minute);
CREATE INDEX sessions_by_user ON sessions (tk, user_id, active_minute) WHERE user_id IS NOT NULL;
-- What runs, waits and ends on a task.
CREATE INDEX sessions_by_work ON sessions (tk, task_id, status, active_minute) WHERE task_id IS NOT NULL;
CREATE INDEX sessions_by_entity ON sessions (tk, entity_id, active_minute) WHERE entity_id IS NOT NULL;
CREATE INDEX sessions_by_parent ON sessions (tk, parent_id, active_minute) WHERE parent_id IS NOT NULL;

-- The wide half: what changes with decisions.
CREATE TABLE session_details (
    sk INTEGER PRIMARY KEY REFERENCES session_heads (sk),
    trigger_id TEXT,
    is_group INTEGER NOT NULL,
    root_id TEXT,
    retry_of TEXT,
    title TEXT,
    description TEXT,
    description_source TEXT,
    memory_mode TEXT NOT NULL,
    is_anonymous INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    completed_at INTEGER,
    error_message TEXT,
    end_reason TEXT,
    metadata TEXT NOT NULL,
    usage TEXT,
    working_memory TEXT,
    draft_values TEXT,
    input TEXT,
    result TEXT
);

CREATE TABLE participants (
    sk INTEGER NOT NULL REFERENCES session_heads (sk),
    user_id TEXT NOT NULL,
    tk INTEGER NOT NULL,
    PRIMARY KEY (sk, user_id)
) WITHOUT ROWID;
CREATE INDEX participants_by_user ON participants (tk, user_id, sk);

-- The scalar metadata that lists filter by. Rows are removed by computing them again from the row.
CREATE TABLE session_metadata (
    tk INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    sk INTEGER NOT NULL,
    PRIMARY KEY (tk, key, value, sk)
) WITHOUT ROWID;

-- k = log << 32 | sequence, where a log has the number of the session that began it.
CREATE TABLE events (
    k INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    at INTEGER NOT NULL,
    turn INTEGER,
    author TEXT,
    external_id TEXT,
    subthread TEXT,
    content TEXT,
    metadata TEXT
);
CREATE TABLE event_external (
    log INTEGER NOT NULL,
    external_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (log, external_id)
) WITHOUT ROWID;

-- The beginning of a fork, by reference. What follows prefix_to lies in the session's own log.
CREATE TABLE session_ranges (
    sk INTEGER NOT NULL REFERENCES session_heads (sk),
    from_seq INTEGER NOT NULL,
    to_seq INTEGER NOT NULL,
    log INTEGER NOT NULL,
    PRIMARY KEY (sk, from_seq)
) WITHOUT ROWID;
CREATE INDEX ranges_by_log ON session_ranges (log, to_seq);

-- Keys of repeated requests. A key whose session is gone says nothing.
CREATE TABLE idempotency (
    ik INTEGER PRIMARY KEY,
    -- The first 64 bits of the scope: a narrow index, and the scope itself is compared after.
    scope_head INTEGER NOT NULL,
    scope BLOB NOT NULL,
    body BLOB NOT NULL,
    tk INTEGER NOT NULL,
    sk INTEGER,
    first INTEGER,
    last INTEGER,
    -- Only when they are not first..last.
    sequences TEXT,
    note BLOB,
    -- What a claim handed out: `surrogate.epoch` words.
    taken TEXT,
    at INTEGER NOT NULL
);
CREATE INDEX idempotency_by_scope ON idempotency (scope_head);

CREATE TABLE users (
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    id TEXT NOT NULL,
    name TEXT,
    role TEXT NOT NULL,
    suspended INTEGER NOT NULL,
    merged_into TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tk, id)
) WITHOUT ROWID;
CREATE TABLE identities (
    tk INTEGER NOT NULL,
    platform TEXT NOT NULL,
    external_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    PRIMARY KEY (tk, platform, external_id),
    FOREIGN KEY (tk, user_id) REFERENCES users (tk, id)
) WITHOUT ROWID;
CREATE INDEX identities_by_user ON identities (tk, user_id);

CREATE TABLE keys (
    kk INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    id TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    user_id TEXT,
    role TEXT NOT NULL,
    prefix TEXT,
    act_as INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    UNIQUE (tk, id)
);
CREATE TABLE shares (
    hk INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    id TEXT NOT NULL,
    sk INTEGER NOT NULL REFERENCES session_heads (sk),
    hash BLOB NOT NULL UNIQUE,
    access TEXT NOT NULL,
    created_by TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER,
    UNIQUE (tk, id)
);
CREATE INDEX shares_by_session ON shares (sk);

CREATE TABLE audit (
    ak INTEGER PRIMARY KEY AUTOINCREMENT,
    tk INTEGER NOT NULL REFERENCES tenants (tk),
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL
);
CREATE INDEX audit_by_tenant ON audit (tk);

-- Sessions whose words the search file must still take up or forget: those that were renamed or
-- removed. What was merely active is found by its minute.
CREATE TABLE search_outbox (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    sk INTEGER NOT NULL
);
