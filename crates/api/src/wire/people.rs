//! Keys, users, share links and tenants on the wire.

use std::time::Duration;

use sederunt_core::access::{Role as CoreRole, ShareAccess as CoreAccess};
use sederunt_core::engine::{self, NewShare};
use sederunt_core::people as core;
use sederunt_core::session::query::Page;
use sederunt_core::talk::route::{ThreadRule as CoreThreadRule, Who as CoreWho};
use sederunt_core::{Error, SessionId, Timestamp, limits, store};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Count, words};
use crate::limits::{KEY_LIFE_S_MAX, ROW_CURSOR_CHARS_MAX, SHARE_CURSOR_CHARS_MAX};
use crate::query::params;

/// What a credential may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Owner,
    Member,
    Guest,
    Worker,
    Channel,
}

impl From<Role> for CoreRole {
    fn from(role: Role) -> Self {
        match role {
            Role::Owner => Self::Owner,
            Role::Member => Self::Member,
            Role::Guest => Self::Guest,
            Role::Worker => Self::Worker,
            Role::Channel => Self::Channel,
        }
    }
}

/// What a person may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PersonRole {
    Owner,
    Member,
    Guest,
}

impl From<PersonRole> for CoreRole {
    fn from(role: PersonRole) -> Self {
        match role {
            PersonRole::Owner => Self::Owner,
            PersonRole::Member => Self::Member,
            PersonRole::Guest => Self::Guest,
        }
    }
}

words!(
    /// What a share link allows.
    ShareAccess = CoreAccess { Read, Submit }
);

words!(
    /// Who may start turns in a channel: everyone, people whom an owner made, linked or gave a role, or people whose account
    /// an owner linked.
    Who = CoreWho { Everyone, Known, Linked }
);

words!(
    /// Which messages in a thread of a group are said to the agent: those that mention it, or every person's where the
    /// first message of the thread was said to it.
    ThreadRule = CoreThreadRule { Mention, Follow }
);

words!(
    /// How an owner got to know a person.
    KnownBy = core::KnownBy { Made, Role, Linked }
);

/// A key to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"role": "member", "user": "ada", "expires_in": 2_592_000}))]
pub struct NewKey {
    pub role: Role,
    /// The user of the key. Required for members and guests.
    #[schema(min_length = 1, max_length = 200)]
    pub user: Option<String>,
    /// The prefix of the session ids that a channel's key may use. Required for channels, not allowed for other
    /// roles.
    #[schema(min_length = 1, max_length = 200)]
    pub prefix: Option<String>,
    /// Only for a channel's key. Left out: `known`.
    pub who: Option<Who>,
    /// Only for a channel's key. Left out: `mention`.
    pub threads: Option<ThreadRule>,
    /// Whether the key may act for other users, by `X-Sederunt-User`.
    pub act_as: Option<bool>,
    /// Seconds; left out, the key does not expire.
    #[schema(minimum = 1, maximum = 3_153_600_000_u64)]
    pub expires_in: Option<u64>,
}

impl TryFrom<NewKey> for engine::NewKey {
    type Error = Error;

    fn try_from(wish: NewKey) -> Result<Self, Error> {
        if wish.expires_in.is_some_and(|seconds| !(1..=KEY_LIFE_S_MAX).contains(&seconds)) {
            return Err(Error::invalid("expires_in", format!("must be 1 to {KEY_LIFE_S_MAX}")));
        }
        Ok(Self {
            role: Some(wish.role.into()),
            user: wish.user,
            prefix: wish.prefix,
            who: wish.who.map(Into::into),
            threads: wish.threads.map(Into::into),
            act_as: wish.act_as.unwrap_or(false),
            expires_in: wish.expires_in.map(Duration::from_secs),
        })
    }
}

/// An API key without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Key {
    pub id: String,
    pub tenant: String,
    pub user: Option<String>,
    #[schema(value_type = Role)]
    pub role: String,
    pub prefix: Option<String>,
    /// Of a channel's key.
    pub who: Option<Who>,
    /// Of a channel's key.
    pub threads: Option<ThreadRule>,
    pub act_as: bool,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Timestamp>,
}

impl From<core::Key> for Key {
    fn from(key: core::Key) -> Self {
        let rules = Some(key.rules).filter(|_| key.role == CoreRole::Channel);
        Self {
            id: key.id.to_string(),
            tenant: key.tenant.to_string(),
            user: key.user.map(|user| user.to_string()),
            role: key.role.as_str().to_owned(),
            prefix: key.prefix,
            who: rules.map(|rules| rules.who.into()),
            threads: rules.map(|rules| rules.threads.into()),
            act_as: key.act_as,
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
        }
    }
}

/// A key that was made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CreatedKey {
    /// The secret. Shown once: a repeat of the call with the same idempotency key has null.
    #[serde(rename = "key")]
    pub secret: Option<String>,
    #[serde(flatten)]
    pub made: Key,
    /// Whether the tenant has a user of this name; null for a key that names no user. A key may be made before its
    /// user is.
    pub user_exists: Option<bool>,
}

impl From<engine::CreatedKey> for CreatedKey {
    fn from(created: engine::CreatedKey) -> Self {
        Self { secret: created.secret, made: created.key.into(), user_exists: created.user_exists }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct KeyList {
    pub items: Vec<Key>,
    /// Always null: all keys are on one page.
    pub next_cursor: Option<String>,
}

/// A share link to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"access": "read", "expires_in": 86400}))]
pub struct ShareRequest {
    pub access: ShareAccess,
    /// Seconds, at most a year.
    #[schema(minimum = 1, maximum = 31_536_000)]
    pub expires_in: u64,
}

/// A link to a view to be made.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"expires_in": 86400}))]
pub struct ViewLinkRequest {
    /// The member or owner as whom a personal link answers. Left out: anyone who has the link responds.
    #[serde(alias = "userId")]
    #[schema(min_length = 1, max_length = 200)]
    pub user_id: Option<String>,
    /// Seconds, at most a year; a week for a personal link and 30 days for another unless said otherwise.
    #[schema(minimum = 1, maximum = 31_536_000)]
    pub expires_in: Option<u64>,
}

/// A share link that was made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Share {
    pub id: String,
    pub access: ShareAccess,
    /// The secret. Shown once: a repeat of the call with the same idempotency key has null.
    pub token: Option<String>,
    /// Where the holder of the link reads the session.
    pub url: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

impl Share {
    pub fn of(made: NewShare, base: &str) -> Self {
        let session = made.share.session.as_ref().map(|session| path_segment(session.as_str()));
        let url = made
            .token
            .as_ref()
            .zip(session)
            .map(|(token, session)| format!("{base}/api/sessions/{session}?share={token}"));
        Self {
            id: made.share.id,
            access: made.share.access.into(),
            token: made.token,
            url,
            expires_at: made.share.expires_at,
        }
    }
}

/// A share link in a list. Its token is not kept anywhere.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ListedShare {
    pub id: String,
    /// The session that it was made for; null for a link to a view alone.
    pub session_id: Option<String>,
    /// The one view that it opens; null if it opens the session.
    pub view_id: Option<String>,
    pub access: ShareAccess,
    /// The user who made it; null if a credential without a user did.
    pub created_by: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Timestamp>,
}

impl From<core::Share> for ListedShare {
    fn from(share: core::Share) -> Self {
        Self {
            id: share.id,
            session_id: share.session.map(|session| session.to_string()),
            view_id: share.view,
            access: share.access.into(),
            created_by: share.created_by.map(|user| user.to_string()),
            created_at: share.created_at,
            expires_at: share.expires_at,
            revoked_at: share.revoked_at,
        }
    }
}

/// A page of share links, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ShareList {
    pub items: Vec<ListedShare>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

impl From<Page<core::Share, core::ShareCursor>> for ShareList {
    fn from(page: Page<core::Share, core::ShareCursor>) -> Self {
        Self {
            items: page.items.into_iter().map(Into::into).collect(),
            next_cursor: page.next.map(|cursor| cursor.to_string()),
        }
    }
}

params! {
    /// Which share links.
    pub struct SharesQuery {
        /// Only those that were made for this session.
        session_id | "sessionId": Option<SessionId> =
            name().parsed("is no id of a session", |text| SessionId::parse(text).ok()),
        /// Only those that open this view.
        view_id | "viewId": Option<String> = name(),
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<core::ShareCursor> =
            text().chars_max(SHARE_CURSOR_CHARS_MAX).parsed("must be a `next_cursor` of this list", core::ShareCursor::parse),
    }
}

/// A link to a view that was made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ViewLink {
    pub id: String,
    /// The user who answers through a personal link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    pub access: ShareAccess,
    /// The secret. Shown once: a repeat of the call with the same idempotency key has null.
    pub token: Option<String>,
    /// The page on which people answer the form.
    pub url: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

impl ViewLink {
    pub fn of(made: NewShare, base: &str) -> Self {
        let view = path_segment(made.share.view.as_deref().unwrap_or_default());
        let url = made.token.as_ref().map(|token| format!("{base}/views/{view}?share={token}"));
        Self {
            id: made.share.id,
            user_id: made.share.user.map(|user| user.to_string()),
            access: made.share.access.into(),
            token: made.token,
            url,
            expires_at: made.share.expires_at,
        }
    }
}

/// A name as one segment of a path.
fn path_segment(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'@' => {
                segment.push(char::from(byte));
            }
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

/// A person of the tenant.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct User {
    pub id: String,
    pub name: Option<String>,
    #[schema(value_type = PersonRole)]
    pub role: String,
    /// The credentials of a suspended user are refused.
    pub suspended: bool,
    pub merged_into: Option<String>,
    /// Null: a stranger, whom the server made a guest when a channel brought their first message.
    pub known_by: Option<KnownBy>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    pub identities: Vec<Identity>,
}

impl From<core::User> for User {
    fn from(user: core::User) -> Self {
        Self {
            id: user.id.to_string(),
            name: user.name,
            role: user.role.as_str().to_owned(),
            suspended: user.suspended,
            merged_into: user.merged_into.map(|user| user.to_string()),
            known_by: user.known_by.map(Into::into),
            created_at: user.created_at,
            identities: user
                .identities
                .into_iter()
                .map(|identity| Identity { platform: identity.platform, external_id: identity.external_id })
                .collect(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct UserList {
    pub items: Vec<User>,
    pub next_cursor: Option<String>,
}

params! {
    /// A page of users.
    pub struct UsersQuery {
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<String> = text().chars_max(limits::NAME_CHARS_MAX),
    }
}

params! {
    /// A page of the audit trail.
    pub struct AuditQuery {
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<i64> =
            text().chars_max(ROW_CURSOR_CHARS_MAX).parsed("must be a `next_cursor` of this list", parse_row),
    }
}

/// One action of a caller, or refused calls.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"at": "2026-11-18T09:30:00.000000Z", "actor": "ada", "action": "task.loosen_approval",
    "target": "019a9b3e-0000-7000-8000-000000000000"}))]
pub struct AuditLine {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// A user, the credential of a caller without one, `operator`, or the address of refused calls.
    pub actor: String,
    /// What was done, such as `key.create`, `task.change`, `session.export` or `credential.refused`.
    pub action: String,
    /// The object of the action.
    pub target: String,
}

/// A page of the audit trail, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditList {
    pub items: Vec<AuditLine>,
    pub next_cursor: Option<String>,
}

impl From<Page<store::AuditLine, i64>> for AuditList {
    fn from(page: Page<store::AuditLine, i64>) -> Self {
        let line = |line: store::AuditLine| AuditLine {
            at: line.at,
            actor: line.actor,
            action: line.action,
            target: line.target,
        };
        Self {
            items: page.items.into_iter().map(line).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}

/// A person to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "ada", "name": "Ada Lovelace", "role": "member"}))]
pub struct NewUser {
    /// Left out: the server draws one.
    #[schema(min_length = 1, max_length = 200)]
    pub id: Option<String>,
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// Left out: member.
    pub role: Option<PersonRole>,
}

impl From<NewUser> for engine::NewUser {
    fn from(wish: NewUser) -> Self {
        Self { id: wish.id, name: wish.name, role: wish.role.map(Into::into) }
    }
}

/// What to change; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchUser {
    pub role: Option<PersonRole>,
    #[schema(max_length = 200)]
    pub name: Option<String>,
    pub suspended: Option<bool>,
}

impl From<PatchUser> for engine::UserPatch {
    fn from(wish: PatchUser) -> Self {
        Self { role: wish.role.map(Into::into), name: wish.name, suspended: wish.suspended }
    }
}

/// A person's identity on a platform.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// `telegram`, `slack` or `discord`.
    pub platform: String,
    /// The account on that platform; on Slack `team:user`.
    #[schema(min_length = 1, max_length = 200)]
    pub external_id: String,
}

impl From<Identity> for core::Identity {
    fn from(identity: Identity) -> Self {
        Self { platform: identity.platform, external_id: identity.external_id }
    }
}

/// A code that a channel showed to a person who asked for one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"code": "ABCD2345"}))]
pub struct LookAtCode {
    pub code: String,
}

/// A code, and the user whose the account is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"code": "ABCD2345", "user_id": "ada"}))]
pub struct UseCode {
    pub code: String,
    /// The account becomes this user's, with everything that its guest has. Left out: the guest is known from now on.
    #[schema(min_length = 1, max_length = 200)]
    pub user_id: Option<String>,
}

/// The account that a code is for.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CodeAccount {
    pub platform: String,
    pub external_id: String,
    /// The name that the platform shows for it. It is other people's text.
    pub name: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

impl From<core::LinkCode> for CodeAccount {
    fn from(code: core::LinkCode) -> Self {
        let core::Identity { platform, external_id } = code.identity;
        Self { platform, external_id, name: code.name, expires_at: code.expires_at }
    }
}

/// The user that another user is merged into.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    #[schema(min_length = 1, max_length = 200)]
    pub into: String,
}

/// A tenant: no data crosses from one to another.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Tenant {
    pub id: String,
    pub suspended: bool,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl From<core::Tenant> for Tenant {
    fn from(tenant: core::Tenant) -> Self {
        Self { id: tenant.id.to_string(), suspended: tenant.suspended, created_at: tenant.created_at }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TenantList {
    pub items: Vec<Tenant>,
    /// Always null: all tenants are on one page.
    pub next_cursor: Option<String>,
}

/// A tenant to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTenant {
    #[schema(min_length = 1, max_length = 200)]
    pub id: String,
}

/// Whether a tenant's credentials are refused.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchTenant {
    pub suspended: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_in_a_link_keeps_its_path() {
        assert_eq!(path_segment("cli:main"), "cli:main");
        assert_eq!(path_segment("a b?#%é"), "a%20b%3F%23%25%C3%A9");
    }
}

/// How many days of records to keep. Left out: the server's own retention.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"ratings_days": 180, "crisis_days": 90}))]
pub struct Purge {
    #[schema(minimum = 1, maximum = 36500)]
    pub ratings_days: Option<u32>,
    #[schema(minimum = 1, maximum = 36500)]
    pub crisis_days: Option<u32>,
    /// Only count the records; delete none.
    pub preview: bool,
}

/// A backup that was made of the store.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "2026-11-15"}))]
pub struct BackupMade {
    /// The name of its directory.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
}

/// How many records were deleted, or would be.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Purged {
    pub ratings: Count,
    pub crises: Count,
}

impl From<sederunt_core::engine::PurgeCounts> for Purged {
    fn from(purged: sederunt_core::engine::PurgeCounts) -> Self {
        Self { ratings: Count(purged.ratings), crises: Count(purged.crises) }
    }
}
