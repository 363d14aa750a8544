//! Sessions on the wire.

use sederunt_core::session::decide::{self, PatchSession as CorePatch, SourceWish as CoreSourceWish};
use sederunt_core::session::export::ExportFormat as CoreFormat;
use sederunt_core::session::query::{ListCursor, Page, SessionQuery, TypeFilter};
use sederunt_core::session::source::Company as CoreCompany;
use sederunt_core::session::{self as core, StatusSet};
use sederunt_core::work::run::StepOf;
use sederunt_core::{Error, SessionId, Timestamp, UserId, limits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Count, Raw, words};
use crate::limits::{SESSION_IDS_CHARS_MAX, SESSION_IDS_MAX};
use crate::query::params;
use sederunt_core::strict::{Object, given};

words!(
    /// What a session is for. Never changes.
    SessionType = core::SessionType { Agent, Response, Tool, Mixed }
);
words!(
    /// The status of a session.
    Status = core::Status {
        Draft, Pending, Running, WaitingHuman, AwaitingTool, Idle, Completed, Failed, Expired, Abandoned
    }
);
words!(
    /// Where a session's memory may go.
    MemoryMode = core::MemoryMode { Local, Synced, Incognito }
);
words!(
    /// Who wrote a description.
    DescriptionSource = core::DescriptionSource { Fallback, Introspection, User }
);
words!(
    /// The surface that a session was opened through.
    SourceKind = core::SourceKind { Cli, Api, Web, Channel, Schedule, Task, HumanSessionBridge } in "kebab-case"
);
words!(
    /// Between one person and the agent, or among several people.
    Company = CoreCompany { Direct, Group }
);

/// Where a session came from. Written once, by the surface.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Source {
    pub kind: SourceKind,
    pub interactive: bool,
    pub platform: Option<String>,
    pub trigger_id: Option<String>,
    #[serde(rename = "type")]
    pub company: Company,
}

/// A worker's exclusive, leased right to run the session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Claim {
    pub worker: String,
    pub epoch: u64,
    #[schema(value_type = String, format = DateTime)]
    pub lease_until: Timestamp,
    pub attempts: u32,
}

/// The place of a session in the graph of its parent, frozen when the run was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionStep {
    pub key: String,
    /// The step's name, or its key where it has none.
    pub name: String,
    /// Keys of the steps that must be done first. What was imported may name steps that do not exist, or go in a circle.
    pub depends_on: Vec<String>,
}

impl From<StepOf> for SessionStep {
    fn from(step: StepOf) -> Self {
        let StepOf { key, name, depends_on } = step;
        Self { name: name.unwrap_or_else(|| key.clone()), key, depends_on }
    }
}

/// A durable thread of talk or work.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Session {
    pub id: String,
    pub tenant_id: String,
    pub session_type: SessionType,
    pub source: Source,
    pub status: Status,
    /// Hidden from lists unless asked for.
    pub inactive: bool,
    /// The holder: whose session it is.
    pub user_id: Option<String>,
    pub participants: Vec<String>,
    pub task_id: Option<String>,
    pub agent_slug: Option<String>,
    pub entity_id: Option<String>,
    pub parent_id: Option<String>,
    pub root_id: Option<String>,
    pub retry_of: Option<String>,
    /// Of a child in a graph of steps; null for other sessions.
    #[serde(default)]
    pub step: Option<SessionStep>,
    pub title: Option<String>,
    pub description: Option<String>,
    pub description_source: Option<DescriptionSource>,
    pub last_message_preview: Option<String>,
    pub message_count: u64,
    /// Completed turns.
    pub turn_count: u64,
    #[schema(value_type = Raw, required = false)]
    pub working_memory: Option<Raw>,
    #[schema(value_type = Object)]
    pub metadata: Raw,
    #[schema(value_type = Raw, required = false)]
    pub input: Option<Raw>,
    #[schema(value_type = Raw, required = false)]
    pub draft_values: Option<Raw>,
    #[schema(value_type = Raw, required = false)]
    pub result: Option<Raw>,
    #[schema(value_type = Raw, required = false)]
    pub usage: Option<Raw>,
    pub error_message: Option<String>,
    pub end_reason: Option<String>,
    pub memory_mode: MemoryMode,
    pub is_anonymous: bool,
    pub priority: i32,
    pub stop_requested: bool,
    pub last_sequence: u64,
    /// Counts changes of the row, not of the log.
    pub version: u64,
    pub claim: Option<Claim>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub completed_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    pub last_activity_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline_at: Option<Timestamp>,
}

impl From<core::Session> for Session {
    fn from(session: core::Session) -> Self {
        let step = StepOf::of(&session).map(Into::into);
        let core::Session { tenant, id, head, details, participants } = session;
        let text = |text: Option<Box<str>>| text.map(String::from);
        Self {
            id: id.to_string(),
            tenant_id: tenant.to_string(),
            session_type: head.session_type.into(),
            source: Source {
                kind: details.source.kind.into(),
                interactive: details.source.interactive,
                platform: details.source.platform.map(|platform| platform.into_owned()),
                trigger_id: details.source.trigger_id,
                company: details.source.company.into(),
            },
            status: head.status.into(),
            inactive: head.inactive,
            user_id: head.holder.map(|user| user.to_string()),
            participants: participants.iter().map(ToString::to_string).collect(),
            task_id: text(details.task_id),
            agent_slug: text(details.agent_slug),
            entity_id: text(details.entity_id),
            parent_id: details.parent_id.map(|id| id.to_string()),
            root_id: details.root_id.map(|id| id.to_string()),
            retry_of: details.retry_of.map(|id| id.to_string()),
            step,
            title: text(details.title),
            description: text(details.description),
            description_source: details.description_source.map(Into::into),
            last_message_preview: text(head.preview),
            message_count: head.message_count,
            turn_count: head.turn_count,
            working_memory: details.working_memory.map(Raw),
            metadata: Raw(details.metadata),
            input: details.input.map(Raw),
            draft_values: details.draft_values.map(Raw),
            result: details.result.map(Raw),
            usage: details.usage.map(Raw),
            error_message: text(details.error_message),
            end_reason: text(details.end_reason),
            memory_mode: details.memory_mode.into(),
            is_anonymous: details.is_anonymous,
            priority: head.priority,
            stop_requested: head.stop_requested,
            last_sequence: head.last_sequence,
            version: head.version,
            claim: head.claim.map(|claim| Claim {
                worker: claim.worker.into(),
                epoch: head.epoch,
                lease_until: claim.lease_until,
                attempts: head.attempts,
            }),
            created_at: details.created_at,
            started_at: details.started_at,
            completed_at: details.completed_at,
            last_activity_at: head.last_at,
            deadline_at: head.deadline_at,
        }
    }
}

/// What a share link shows of a session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedSession {
    pub id: String,
    pub title: Option<String>,
    pub status: Status,
    #[schema(value_type = Raw, required = false)]
    pub result: Option<Raw>,
}

impl From<core::Session> for SharedSession {
    fn from(session: core::Session) -> Self {
        Self {
            id: session.id.to_string(),
            title: session.details.title.map(String::from),
            status: session.head.status.into(),
            result: session.details.result.map(Raw),
        }
    }
}

/// A session, as far as the caller may see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum SessionView {
    Full(Box<Session>),
    Shared(SharedSession),
}

/// A page of sessions, newest activity first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    pub items: Vec<Session>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

impl From<Page<core::Session>> for SessionList {
    fn from(page: Page<core::Session>) -> Self {
        Self {
            items: page.items.into_iter().map(Into::into).collect(),
            next_cursor: page.next.map(|cursor| cursor.to_string()),
        }
    }
}

/// A session to open. An existing id is opened again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"session_type": "mixed", "title": "Plan the move"}))]
pub struct OpenSession {
    /// Left out: the server draws one. No control characters, no `/`; `human` is reserved.
    #[serde(alias = "sessionId")]
    #[schema(min_length = 1, max_length = 200)]
    pub id: Option<String>,
    pub session_type: SessionType,
    #[schema(value_type = Option<SourceWish>)]
    pub source: Option<Object<SourceWish>>,
    pub status: Option<OpeningStatus>,
    #[serde(alias = "taskId")]
    #[schema(min_length = 1, max_length = 200)]
    pub task_id: Option<String>,
    #[schema(min_length = 1, max_length = 200)]
    pub agent_slug: Option<String>,
    #[serde(alias = "entityId")]
    #[schema(min_length = 1, max_length = 200)]
    pub entity_id: Option<String>,
    #[schema(min_length = 1, max_length = 200)]
    pub parent_id: Option<String>,
    #[schema(max_length = 200)]
    pub title: Option<String>,
    /// At most 256 KiB.
    #[schema(value_type = Raw, required = false)]
    pub input: Option<Raw>,
    /// An object of at most 16 KiB; its scalars can be filtered on.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Raw>,
    pub memory_mode: Option<MemoryMode>,
    #[serde(default)]
    #[schema(max_items = 200)]
    pub participants: Option<Vec<String>>,
    #[schema(minimum = -1000, maximum = 1000)]
    pub priority: Option<i32>,
}

/// The statuses that a session may be opened in.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OpeningStatus {
    Draft,
    Pending,
    Idle,
}

/// The source that a caller may state; it must agree with the surface of the request.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceWish {
    pub kind: Option<SourceKind>,
    pub interactive: Option<bool>,
    #[schema(max_length = 200)]
    pub platform: Option<String>,
    #[serde(rename = "type")]
    pub company: Option<Company>,
}

impl From<OpenSession> for decide::OpenSession {
    fn from(wish: OpenSession) -> Self {
        Self {
            id: wish.id,
            session_type: Some(wish.session_type.into()),
            source: wish.source.map(|Object(source)| CoreSourceWish {
                kind: source.kind.map(Into::into),
                interactive: source.interactive,
                platform: source.platform,
                company: source.company.map(Into::into),
            }),
            status: wish.status.map(|status| match status {
                OpeningStatus::Draft => core::Status::Draft,
                OpeningStatus::Pending => core::Status::Pending,
                OpeningStatus::Idle => core::Status::Idle,
            }),
            task_id: wish.task_id,
            agent_slug: wish.agent_slug,
            entity_id: wish.entity_id,
            parent_id: wish.parent_id,
            title: wish.title,
            input: wish.input.map(|raw| raw.0),
            metadata: wish.metadata.map(|raw| raw.0),
            memory_mode: wish.memory_mode.map(Into::into),
            participants: wish.participants.unwrap_or_default(),
            priority: wish.priority,
        }
    }
}

/// What to change; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchSession {
    /// `null` removes it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 200)]
    pub title: Option<Option<String>>,
    /// `null` removes it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 2000)]
    pub description: Option<Option<String>>,
    /// Merged key by key; a key with `null` is removed.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Raw>,
    pub inactive: Option<bool>,
    #[schema(max_items = 200)]
    pub participants: Option<Vec<String>>,
}

impl From<PatchSession> for CorePatch {
    fn from(wish: PatchSession) -> Self {
        Self {
            title: wish.title,
            description: wish.description,
            metadata: wish.metadata.map(|raw| raw.0),
            inactive: wish.inactive,
            participants: wish.participants,
        }
    }
}

/// A change of status that a caller may request.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Transition {
    pub to: Status,
    /// The status that the caller has seen; another one is 409 `invalid_transition`.
    pub expected: Option<Status>,
    #[schema(max_length = 2000)]
    pub reason: Option<String>,
}

impl From<Transition> for decide::Transition {
    fn from(wish: Transition) -> Self {
        Self { to: wish.to.into(), expected: wish.expected.map(Into::into), reason: wish.reason }
    }
}

/// The point at which a fork begins.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// The last sequence that both have in common.
    #[schema(value_type = Count)]
    pub at_sequence: Count,
}

params! {
    /// Filters of a list; all that are given must hold.
    pub struct SessionsQuery {
        /// Only these, at most 100, separated by commas. The answer leaves out those that the caller may not see. An id with
        /// a comma cannot be asked for.
        ids: Vec<String> = text().chars_max(SESSION_IDS_CHARS_MAX).list(),
        session_type | "type": Option<SessionType> = word(),
        /// One status, or several separated by commas: sessions in any of them.
        status: Option<String> = name().example("running,waiting_human"),
        group: Option<Group> = word(),
        kind: Option<SourceKind> = word(),
        platform: Option<String> = text(),
        interactive: Option<bool> = flag(),
        task_id | "taskId": Option<String> = text(),
        entity_id | "entityId": Option<String> = text(),
        agent_slug: Option<String> = text(),
        /// The holder.
        user_id: Option<String> = name(),
        /// Words in title, description or messages.
        q: Option<String> = text().chars_max(limits::QUERY_CHARS_MAX),
        /// Left out: only visible sessions. `true`: only hidden ones. `false`: both.
        inactive: Option<bool> = flag(),
        /// Only sessions without a parent.
        parents_only | "parentsOnly": bool = switch(),
        /// Any `metadata.<key>=<value>` filters by a scalar of the metadata.
        metadata as "metadata.key": Vec<(String, String)> =
            under("metadata.", text().chars_max(limits::METADATA_FILTER_CHARS_MAX)),
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<ListCursor> = list_cursor(),
    }
}

/// Groups of statuses.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    Active,
    Live,
    Failing,
    Terminal,
}

impl From<Group> for StatusSet {
    fn from(group: Group) -> Self {
        match group {
            Group::Active => Self::ACTIVE,
            Group::Live => Self::LIVE,
            Group::Failing => Self::FAILING,
            Group::Terminal => Self::TERMINAL,
        }
    }
}

impl TryFrom<SessionsQuery> for SessionQuery {
    type Error = Error;

    fn try_from(query: SessionsQuery) -> Result<Self, Error> {
        if query.metadata.len() > limits::METADATA_FILTER_KEYS_MAX {
            return Err(Error::invalid("metadata", "names too many keys"));
        }
        if query.ids.len() > SESSION_IDS_MAX {
            return Err(Error::invalid("ids", format!("must be at most {SESSION_IDS_MAX}")));
        }
        Ok(Self {
            ids: query.ids.iter().map(|id| SessionId::parse(id)).collect::<Result<_, _>>()?,
            types: query.session_type.map_or(TypeFilter::All, |one| TypeFilter::Only(one.into())),
            status: query.status.as_deref().map(StatusSet::parse).transpose()?,
            group: query.group.map(Into::into),
            kind: query.kind.map(|kind| core::SourceKind::from(kind).as_str().to_owned()),
            platform: query.platform,
            interactive: query.interactive,
            task_id: query.task_id,
            entity_id: query.entity_id,
            agent_slug: query.agent_slug,
            user_id: query.user_id.as_deref().map(UserId::parse).transpose()?,
            parent_id: None,
            metadata: query.metadata,
            text: query.q.filter(|text| !text.trim().is_empty()),
            inactive: query.inactive,
            parents_only: query.parents_only,
            talks_only: false,
            without_bridges: false,
            seen_by: None,
            after: query.after,
            limit: query.limit,
        })
    }
}

params! {
    /// A page of a list.
    pub struct PageQuery {
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<ListCursor> = list_cursor(),
    }
}

params! {
    /// A share link's token, instead of a key.
    pub struct ShareQuery {
        share: () = ShareToken,
    }
}

params! {
    /// How to delete.
    pub struct DeleteQuery {
        /// For owners: also a group's session.
        force: bool = switch().says_default(),
    }
}

params! {
    /// The format of an export, and how much of the log it holds.
    pub struct ExportQuery {
        format: Option<ExportFormat> = word(),
        /// The whole log, not only messages. JSON always has the whole log.
        all: bool = switch(),
    }
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    Md,
    Json,
    Txt,
}

impl From<ExportFormat> for CoreFormat {
    fn from(format: ExportFormat) -> Self {
        match format {
            ExportFormat::Md => Self::Markdown,
            ExportFormat::Json => Self::Json,
            ExportFormat::Txt => Self::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::read;

    #[test]
    fn so_many_sessions_are_asked_for_by_their_ids() {
        let ask = |ids: &str| {
            let query = read::<SessionsQuery>(Some(&format!("ids={ids}")))?;
            SessionQuery::try_from(query).map(|query| query.ids.len())
        };
        let ids = |count: usize| (0..count).map(|nth| format!("s{nth}")).collect::<Vec<_>>().join(",");
        assert_eq!(ask(&ids(SESSION_IDS_MAX)).unwrap(), SESSION_IDS_MAX);
        assert!(ask(&ids(SESSION_IDS_MAX + 1)).unwrap_err().to_string().contains("ids"));
        let long = |chars: usize| "x".repeat(chars - 2) + ",y";
        let longest = ask(&long(SESSION_IDS_CHARS_MAX)).unwrap_err().to_string();
        let too_long = ask(&long(SESSION_IDS_CHARS_MAX + 1)).unwrap_err().to_string();
        assert_ne!(longest, too_long, "the one is too long as an id, the other as a list");
    }
}
