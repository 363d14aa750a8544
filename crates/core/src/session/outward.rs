//! The three status vocabularies of older callers. They are translated at the surface and never stored; a word that
//! is stored and translated back is the same word.

use super::Status;

/// One outward vocabulary: its words for stored sessions, and what each word means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    Response,
    Tool,
    Conversation,
}

/// The stored columns that a word means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredColumns {
    pub status: Status,
    pub inactive: bool,
    pub promoted: bool,
}

impl StoredColumns {
    const fn plain(status: Status) -> Self {
        Self { status, inactive: false, promoted: false }
    }
}

impl Vocabulary {
    /// The words, in the order of a session's life.
    pub const fn words(self) -> &'static [&'static str] {
        match self {
            Self::Response => &["draft", "submitted", "promoted", "abandoned"],
            Self::Tool => &["active", "completed", "cancelled"],
            Self::Conversation => &["idle", "running", "awaiting_approval", "inactive"],
        }
    }

    pub const fn outward(self, stored: StoredColumns) -> &'static str {
        use Status as S;
        match self {
            Self::Response => match stored.status {
                S::Draft | S::Pending | S::Running | S::WaitingHuman => "draft",
                S::Completed if stored.promoted => "promoted",
                S::Completed => "submitted",
                S::AwaitingTool | S::Idle | S::Failed | S::Expired | S::Abandoned => "abandoned",
            },
            Self::Tool => match stored.status {
                S::Completed => "completed",
                status if status.is_terminal() => "cancelled",
                _ => "active",
            },
            Self::Conversation => match stored.status {
                _ if stored.inactive => "inactive",
                S::Pending | S::Running => "running",
                S::AwaitingTool => "awaiting_approval",
                _ => "idle",
            },
        }
    }

    pub fn stored(self, word: &str) -> Option<StoredColumns> {
        use Status as S;
        Some(match (self, word) {
            (Self::Response, "draft") => StoredColumns::plain(S::Draft),
            (Self::Response, "submitted") => StoredColumns::plain(S::Completed),
            (Self::Response, "promoted") => {
                StoredColumns { promoted: true, ..StoredColumns::plain(S::Completed) }
            }
            (Self::Response, "abandoned") => StoredColumns::plain(S::Abandoned),
            (Self::Tool, "active") => StoredColumns::plain(S::Running),
            (Self::Tool, "completed") => StoredColumns::plain(S::Completed),
            (Self::Tool, "cancelled") => StoredColumns::plain(S::Abandoned),
            (Self::Conversation, "idle") => StoredColumns::plain(S::Idle),
            (Self::Conversation, "running") => StoredColumns::plain(S::Running),
            (Self::Conversation, "awaiting_approval") => StoredColumns::plain(S::AwaitingTool),
            (Self::Conversation, "inactive") => {
                StoredColumns { inactive: true, ..StoredColumns::plain(S::Idle) }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Vocabulary; 3] = [Vocabulary::Response, Vocabulary::Tool, Vocabulary::Conversation];

    #[test]
    fn outward_to_stored_to_outward_is_the_identity() {
        for vocabulary in ALL {
            for word in vocabulary.words() {
                assert_eq!(vocabulary.outward(vocabulary.stored(word).unwrap()), *word);
            }
            assert_eq!(vocabulary.stored("no such word"), None);
        }
    }

    #[test]
    fn every_stored_state_has_a_word_that_is_listed() {
        for vocabulary in ALL {
            for status in Status::ALL {
                for (inactive, promoted) in [(false, false), (true, false), (false, true)] {
                    let word = vocabulary.outward(StoredColumns { status, inactive, promoted });
                    assert!(vocabulary.words().contains(&word));
                }
            }
        }
    }
}
