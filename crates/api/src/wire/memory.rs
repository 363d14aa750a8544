//! Memories on the wire, as their owner sees them.

use sederunt_core::engine::MemoryStatus as CoreStatus;
use sederunt_core::memory::{Memory, MemorySource, Profile};
use sederunt_core::session::query::Page;
use sederunt_core::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::feedback::LabelCounts;
use super::{Confidence, Count};
use crate::query::params;

params! {
    /// Whose memory.
    pub struct MemoryQuery {
        /// A conversation: the memory of its user, or its own if it has no user.
        thread as "thread_id" | "threadId": Option<SessionId> =
            name().parsed("is no id of a conversation", session_id),
        /// A user, if the caller may act for others. Left out: the caller.
        user as "user_id" | "userId": Option<String> = name(),
    }
}

params! {
    /// Whose memory, and which page of it.
    pub struct MemoryPageQuery {
        /// A conversation: the memory of its user, or its own if it has no user.
        thread as "thread_id" | "threadId": Option<SessionId> =
            name().parsed("is no id of a conversation", session_id),
        /// A user, if the caller may act for others. Left out: the caller.
        user as "user_id" | "userId": Option<String> = name(),
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<i64> = row_cursor(),
    }
}

impl MemoryPageQuery {
    pub fn whose(&self) -> MemoryQuery {
        MemoryQuery { thread: self.thread.clone(), user: self.user.clone() }
    }
}

/// The messages that a memory came from.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Provenance {
    pub session_id: String,
    pub sequences: Vec<Count>,
}

fn provenance(sources: &[MemorySource]) -> Vec<Provenance> {
    sources
        .iter()
        .map(|source| Provenance {
            session_id: source.session.clone(),
            sequences: source.sequences.iter().copied().map(Count).collect(),
        })
        .collect()
}

/// A fact that is remembered beyond the sitting in which it was said.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Fact {
    pub id: String,
    pub subject: String,
    pub predicate: String,
    pub object: String,
    pub quote: String,
    pub category: String,
    pub confidence: Confidence,
    pub support: u32,
    pub sources: Vec<Provenance>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub last_referenced_at: Timestamp,
}

/// A page of facts, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FactList {
    pub items: Vec<Fact>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

impl From<Page<Memory, i64>> for FactList {
    fn from(page: Page<Memory, i64>) -> Self {
        let fact = |memory: Memory| {
            let fact = memory.fact()?.clone();
            Some(Fact {
                id: memory.id,
                subject: fact.subject,
                predicate: fact.predicate,
                object: fact.object,
                quote: fact.quote,
                category: serde_json::to_value(fact.category).ok()?.as_str()?.to_owned(),
                confidence: fact.confidence.into(),
                support: fact.support,
                sources: provenance(&fact.sources),
                created_at: memory.created_at,
                last_referenced_at: memory.last_referenced_at,
            })
        };
        Self {
            items: page.items.into_iter().filter_map(fact).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}

/// What one sitting was about.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Arc {
    pub id: String,
    pub session_id: String,
    pub summary: String,
    pub themes: Vec<String>,
    pub mood_opened: String,
    pub mood_closed: String,
    pub open_loops: Vec<String>,
    pub resolved_threads: Vec<String>,
    pub approach: Option<String>,
    pub turn_count: u32,
    pub sources: Vec<Provenance>,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub ended_at: Timestamp,
}

/// A page of arcs, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ArcList {
    pub items: Vec<Arc>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

impl From<Page<Memory, i64>> for ArcList {
    fn from(page: Page<Memory, i64>) -> Self {
        let arc = |memory: Memory| {
            let arc = memory.arc()?.clone();
            Some(Arc {
                id: memory.id,
                session_id: arc.session,
                summary: arc.summary,
                themes: arc.themes,
                mood_opened: arc.mood_opened,
                mood_closed: arc.mood_closed,
                open_loops: arc.open_loops,
                resolved_threads: arc.resolved_threads,
                approach: arc.approach,
                turn_count: arc.turn_count,
                sources: provenance(&arc.sources),
                started_at: arc.started_at,
                ended_at: arc.ended_at,
            })
        };
        Self {
            items: page.items.into_iter().filter_map(arc).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}

/// A rule for how the agent talks to a person.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Rule {
    pub id: String,
    pub text: String,
    pub confidence: Confidence,
    pub quotes: Vec<String>,
    pub sources: Vec<Provenance>,
}

/// The standing rules, oldest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RuleList {
    pub items: Vec<Rule>,
    /// `false`: agents do not mention memories unasked. The rules apply either way.
    pub recall_enabled: bool,
}

impl From<Profile> for RuleList {
    fn from(profile: Profile) -> Self {
        let items = profile.rules.into_iter().map(|rule| Rule {
            sources: provenance(&rule.sources),
            id: rule.id,
            text: rule.text,
            confidence: rule.confidence.into(),
            quotes: rule.quotes,
        });
        Self { items: items.collect(), recall_enabled: profile.recall_enabled }
    }
}

/// Counts of memories.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct MemoryStatus {
    pub facts: Count,
    pub arcs: Count,
    pub rules: Count,
    pub recall_enabled: bool,
    /// Ratings of this conversation. If none is named: the caller's own, for owners those of the tenant.
    pub session_feedback_count: Count,
    /// The same ratings by label.
    pub ratings: LabelCounts,
    pub crisis_log_count: Count,
}

impl From<CoreStatus> for MemoryStatus {
    fn from(status: CoreStatus) -> Self {
        Self {
            facts: Count(status.facts),
            arcs: Count(status.arcs),
            rules: Count(status.rules as u64),
            recall_enabled: status.recall_enabled,
            session_feedback_count: Count(status.ratings.total()),
            ratings: status.ratings.into(),
            crisis_log_count: Count(status.crises),
        }
    }
}

/// Whether agents may mention memories unasked.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"enabled": true, "thread_id": "cli:main"}))]
pub struct RecallRequest {
    pub enabled: bool,
    #[schema(min_length = 1, max_length = 200)]
    pub thread_id: Option<String>,
    #[schema(min_length = 1, max_length = 200)]
    pub user_id: Option<String>,
}

/// The setting.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RecallDone {
    pub enabled: bool,
}
