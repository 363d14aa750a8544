//! The baselines: what the same durability and layout cost a program that does nothing else, and Redis.

pub mod fanout;
pub mod postgres;
pub mod redis;
pub mod sqlite;
pub mod work;

/// What a bare claim writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// One narrow row per session.
    Rows,
    /// The row, and in the same commit the two events that the product writes of a claim, in its layout.
    RowsAndEvents,
}

/// The second of the two events says the same every time.
const STATUS_CHANGE: &str = r#"{"from":"pending","to":"running"}"#;
