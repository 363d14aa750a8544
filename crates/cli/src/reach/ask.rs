//! What a command can ask for, whichever way it goes.

use std::time::Duration;

use sederunt::Json;

use super::feedback::{FeedbackAsk, LessonAsk};

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
    /// Asks a session to stop.
    Stop {
        id: String,
    },
    Delete {
        id: String,
        /// Also a group's session.
        force: bool,
    },
    Claim {
        worker: String,
        session_types: Vec<String>,
        agent_slugs: Vec<String>,
        limit: u32,
        lease: Option<Duration>,
        wait: Duration,
    },
    /// Answers the question of a run.
    Reply {
        id: String,
        reply: Json,
    },
    /// Completes a person's step.
    HumanComplete {
        id: String,
        result: Option<Json>,
        text: Option<String>,
    },
    Definitions {
        noun: Noun,
        /// Names of parameters with their values.
        filters: Vec<(&'static str, String)>,
        limit: u32,
        cursor: Option<String>,
    },
    Definition {
        noun: Noun,
        name: String,
    },
    Define {
        noun: Noun,
        body: Json,
    },
    Redefine {
        noun: Noun,
        name: String,
        patch: Json,
    },
    /// What people answered to a view.
    Answers {
        view: String,
        limit: u32,
        cursor: Option<String>,
    },
    Trigger {
        task: String,
        input: Option<Json>,
    },
    TaskStatus {
        task: String,
    },
    /// The audit trail.
    Audit {
        limit: u32,
        cursor: Option<String>,
    },
    ExportBundle,
    ImportBundle {
        bundle: Json,
    },
    Approvals {
        /// Left out: all of them.
        state: Option<&'static str>,
        limit: u32,
        cursor: Option<String>,
    },
    Approval {
        id: String,
    },
    Decide {
        id: String,
        decision: Decision,
    },
    QueueCounts {
        zone: Option<String>,
    },
    Queue {
        bucket: String,
        zone: Option<String>,
        limit: u32,
        cursor: Option<String>,
    },
    Feedback(FeedbackAsk),
    Lessons(LessonAsk),
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
    Purge {
        ratings_days: Option<u32>,
        crisis_days: Option<u32>,
        /// Only counts what would be deleted.
        preview: bool,
    },
    HoldCrises {
        until: String,
        thread: Option<String>,
        reason: Option<String>,
    },
    DeleteTenant {
        id: String,
    },
}

impl Ask {
    /// What the question is about: its noun, and its name as the caller wrote it.
    pub fn subject(&self) -> Option<(&'static str, &str)> {
        Some(match self {
            Self::Session { id }
            | Self::Retry { id }
            | Self::Stop { id }
            | Self::Delete { id, .. }
            | Self::Reply { id, .. }
            | Self::HumanComplete { id, .. } => ("session", id),
            Self::Approval { id } | Self::Decide { id, .. } => ("approval", id),
            Self::Definition { noun, name } | Self::Redefine { noun, name, .. } => (noun.as_str(), name),
            Self::Answers { view, .. } => ("view", view),
            Self::Trigger { task, .. } | Self::TaskStatus { task } => ("task", task),
            Self::RevokeKey { id } => ("key", id),
            Self::SetRole { id, .. } | Self::Link { id, .. } | Self::Merge { from: id, .. } => ("user", id),
            Self::SuspendTenant { id, .. } | Self::DeleteTenant { id } => ("tenant", id),
            _ => return None,
        })
    }

    /// The same question about the session or approval that has this whole id.
    pub fn about(mut self, whole: String) -> Self {
        match &mut self {
            Self::Session { id }
            | Self::Retry { id }
            | Self::Stop { id }
            | Self::Delete { id, .. }
            | Self::Reply { id, .. }
            | Self::HumanComplete { id, .. }
            | Self::Approval { id }
            | Self::Decide { id, .. } => *id = whole,
            _ => {}
        }
        self
    }
}

/// What people define.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noun {
    Task,
    Agent,
    Entity,
    CriteriaSet,
    View,
}

impl Noun {
    /// As people say it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Agent => "agent",
            Self::Entity => "entity",
            Self::CriteriaSet => "criteria set",
            Self::View => "view",
        }
    }

    /// Its name in paths.
    pub const fn segment(self) -> &'static str {
        match self {
            Self::Task => "tasks",
            Self::Agent => "agents",
            Self::Entity => "entities",
            Self::CriteriaSet => "criteria-sets",
            Self::View => "views",
        }
    }
}

/// What a person says about an approval.
#[derive(Clone, Debug)]
pub struct Decision {
    pub approve: bool,
    pub modified_args: Option<Json>,
    pub modified_output: Option<Json>,
    pub reason: Option<String>,
    pub digest: Option<String>,
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
