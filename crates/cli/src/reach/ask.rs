//! What a command can ask for, whichever way it goes.

use std::time::Duration;

/// One question or order. Both ways answer every one of them.
#[derive(Clone, Debug)]
pub enum Ask {
    Sessions(SessionFilter),
    Session {
        id: String,
    },
    Retry {
        id: String,
    },
    Delete {
        id: String,
    },
    Claim {
        worker: String,
        session_types: Vec<String>,
        agent_slugs: Vec<String>,
        limit: u32,
        lease: Option<Duration>,
        wait: Duration,
    },
    Keys,
    CreateKey {
        user: Option<String>,
        role: String,
        prefix: Option<String>,
        act_as: bool,
        expires_in: Option<Duration>,
    },
    RevokeKey {
        id: String,
    },
    Users {
        after: Option<String>,
    },
    CreateUser {
        id: Option<String>,
        name: Option<String>,
        role: String,
    },
    SetRole {
        id: String,
        role: String,
    },
    Link {
        id: String,
        platform: String,
        external_id: String,
    },
    Merge {
        from: String,
        into: String,
    },
    Tenants,
    CreateTenant {
        id: String,
    },
    SuspendTenant {
        id: String,
        suspended: bool,
    },
    DeleteTenant {
        id: String,
    },
}

/// Filters of a list of sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    pub session_type: Option<String>,
    pub status: Option<String>,
    pub group: Option<String>,
    pub task_id: Option<String>,
    pub agent_slug: Option<String>,
    pub entity_id: Option<String>,
    pub user_id: Option<String>,
    pub metadata: Vec<(String, String)>,
    pub text: Option<String>,
    /// Hidden sessions too.
    pub all: bool,
    pub parents_only: bool,
    pub limit: u32,
    pub cursor: Option<String>,
}
