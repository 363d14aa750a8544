//! Five block statuses for clients that show fields and blocks, and the map from a page's sessions to the status of
//! each of its fields.

use std::collections::{BTreeMap, HashMap};

use super::Status;
use crate::json::Json;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockStatus {
    Pending,
    InProgress,
    WaitingHuman,
    Complete,
    Failed,
}

impl BlockStatus {
    pub const fn of(status: Status) -> Self {
        match status {
            Status::Draft | Status::Pending => Self::Pending,
            Status::Running | Status::Idle => Self::InProgress,
            Status::WaitingHuman | Status::AwaitingTool => Self::WaitingHuman,
            Status::Completed => Self::Complete,
            Status::Failed | Status::Expired | Status::Abandoned => Self::Failed,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in-progress",
            Self::WaitingHuman => "waiting-human",
            Self::Complete => "complete",
            Self::Failed => "failed",
        }
    }
}

/// What [`build_task_status_map`] needs to know of a session.
#[derive(Clone, Debug)]
pub struct SessionBlock<'a> {
    pub session_id: &'a str,
    pub block_id: Option<&'a str>,
    pub status: Status,
}

/// State by field name and by block. The default is the empty map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskStatusMap {
    pub by_field: BTreeMap<String, BlockStatus>,
    pub by_block: BTreeMap<String, BlockStatus>,
}

/// The key of a session's metadata that names the block of a page which the session works on.
const BLOCK_ID: &str = "block_id";

/// The block that a session works on, by its metadata.
pub fn block_of(metadata: &Json) -> Option<String> {
    // Most sessions have none: a text search spares parsing them.
    if !metadata.as_str().contains(BLOCK_ID) {
        return None;
    }
    let named = metadata.fields().into_iter().find(|(key, _)| key == BLOCK_ID)?;
    named.1.read().ok()
}

/// The newest session that touches a field or block decides its state.
pub fn build_task_status_map(
    newest_first: &[SessionBlock<'_>],
    fields_by_session: Option<&HashMap<String, Vec<String>>>,
) -> TaskStatusMap {
    let mut map = TaskStatusMap::default();
    for session in newest_first {
        let status = BlockStatus::of(session.status);
        if let Some(block) = session.block_id {
            map.by_block.entry(block.to_owned()).or_insert(status);
        }
        let fields = fields_by_session.and_then(|fields| fields.get(session.session_id));
        for field in fields.into_iter().flatten() {
            map.by_field.entry(field.clone()).or_insert(status);
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_statuses_fold_into_five() {
        let table = [
            ("draft", "pending"),
            ("pending", "pending"),
            ("running", "in-progress"),
            ("idle", "in-progress"),
            ("waiting_human", "waiting-human"),
            ("awaiting_tool", "waiting-human"),
            ("completed", "complete"),
            ("failed", "failed"),
            ("expired", "failed"),
            ("abandoned", "failed"),
        ];
        for (status, block) in table {
            assert_eq!(BlockStatus::of(Status::parse(status).unwrap()).as_str(), block);
        }
    }

    #[test]
    fn the_newest_session_touching_a_field_decides_it() {
        let sessions = [
            SessionBlock { session_id: "new", block_id: Some("b"), status: Status::Running },
            SessionBlock { session_id: "old", block_id: Some("b"), status: Status::Failed },
        ];
        let fields = HashMap::from([
            ("new".to_owned(), vec!["price".to_owned()]),
            ("old".to_owned(), vec!["price".to_owned(), "name".to_owned()]),
        ]);
        let map = build_task_status_map(&sessions, Some(&fields));
        assert_eq!(map.by_field["price"], BlockStatus::InProgress);
        assert_eq!(map.by_field["name"], BlockStatus::Failed);
        assert_eq!(map.by_block["b"], BlockStatus::InProgress);
        assert_eq!(build_task_status_map(&[], None), TaskStatusMap::default());
    }

    #[test]
    fn a_block_is_named_by_text_in_the_metadata() {
        let block = |metadata: &str| block_of(&Json::stored(metadata));
        assert_eq!(block(r#"{"a":1,"block_id":"b"}"#).as_deref(), Some("b"));
        for none in [r#"{}"#, r#"{"block_id":1}"#, r#"{"a":{"block_id":"b"}}"#, r#"{"my_block_id":"b"}"#] {
            assert_eq!(block(none), None, "{none}");
        }
    }
}
