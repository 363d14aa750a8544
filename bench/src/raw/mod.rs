//! The baselines: the same durability and layout in a program that does nothing else, and Redis.

pub mod fanout;
pub mod postgres;
pub mod redis;
pub mod route;
pub mod sqlite;
pub mod work;

/// What a bare claim writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// One narrow row per session.
    Rows,
    /// The row, and in the same commit the two events that the product writes of a claim, in its layout.
    RowsAndEvents,
    /// The same, and the row is in the product's lists: by state, by task, by agent, by deadline.
    RowsEventsAndLists,
}

/// The columns and indexes for that, for both databases. The rows belong to a hundred tasks and five agents, as the
/// product's sessions do.
const LISTS: &str = "
    ALTER TABLE session_heads ADD COLUMN task TEXT;
    ALTER TABLE session_heads ADD COLUMN agent TEXT;
    ALTER TABLE session_heads ADD COLUMN active_minute BIGINT;
    ALTER TABLE session_heads ADD COLUMN deadline_at BIGINT;
    UPDATE session_heads SET task = 'task-' || sk % 100, agent = 'agent-' || sk % 5, active_minute = 29000000,
        deadline_at = sk;
    CREATE INDEX by_state ON session_heads (status, active_minute, sk);
    CREATE INDEX by_work ON session_heads (task, status, active_minute, sk);
    CREATE INDEX pending_by_agent ON session_heads (agent, priority DESC, sk) WHERE status = 1;
    CREATE INDEX running ON session_heads (agent) WHERE status = 2;
    CREATE INDEX deadlines ON session_heads (deadline_at) WHERE deadline_at IS NOT NULL;";

/// The second of the two events is always the same.
const STATUS_CHANGE: &str = r#"{"from":"pending","to":"running"}"#;
