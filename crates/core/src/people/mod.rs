//! The people room: tenants, users and their channel identities, those who come through channels, keys, share links, the audit trail. Owns their
//! shapes and checks; the commands are in [`crate::engine`].

pub mod browser;
pub mod channel;
mod store;

use std::fmt;
use std::ops::AddAssign;

use crate::access::{ActingUser, Role, ShareAccess, effective_role};
use crate::error::{Error, Result};
use crate::ids::{CredentialId, Incarnation, SessionId, TenantId, UserId};
use crate::json::Json;
use crate::session::{Details, Head, Session, SessionSource, SessionType, SourceKind, Status};
use crate::talk::route::ChannelRules;
use crate::time::Timestamp;

pub use browser::{BrowserSession, FoundBrowserSession, SignInProof};
pub use channel::{ChannelChange, ChannelChangeKind, ChannelSender, LinkCode, StrangerRates};
pub use store::{AuditStore, BrowserSessionStore, KeyStore, ShareStore, TenantRowStore, UserStore};

/// A tenant: the boundary around all data of one customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    pub id: TenantId,
    pub suspended: bool,
    pub created_at: Timestamp,
}

/// A person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub name: Option<String>,
    pub role: Role,
    /// A suspended user's credentials are refused.
    pub suspended: bool,
    /// The user that this one was merged into.
    pub merged_into: Option<UserId>,
    /// How an owner got to know them; `None`: a stranger, whom the engine made when a channel brought their first message.
    pub known_by: Option<KnownBy>,
    /// When a stranger was last told that nobody answers them.
    pub told_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub identities: Vec<Identity>,
}

impl User {
    /// Whether credentials in this user's name open anything: neither a suspended nor a merged user's do.
    pub fn is_active(&self) -> bool {
        !self.suspended && self.merged_into.is_none()
    }
}

/// How an owner got to know a person. The engine makes guests of unknown senders: nobody knows those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBy {
    /// An owner made the user.
    Made,
    /// An owner gave them a role.
    Role,
    /// An owner linked their account on a platform.
    Linked,
}

impl KnownBy {
    pub const ALL: [Self; 3] = [Self::Made, Self::Role, Self::Linked];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Made => "made",
            Self::Role => "role",
            Self::Linked => "linked",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known_by| known_by.as_str() == text)
    }
}

/// A user's account on a platform.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    pub platform: String,
    pub external_id: String,
}

/// The platforms that identities and channels know.
pub const PLATFORMS: [&str; 3] = ["telegram", "slack", "discord"];

/// Checks a platform's name.
pub fn check_platform(text: &str) -> Result<()> {
    if PLATFORMS.contains(&text) {
        return Ok(());
    }
    Err(Error::invalid("platform", "must be telegram, slack or discord"))
}

/// An API key without its secret: only the hash of that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub id: CredentialId,
    pub tenant: TenantId,
    pub user: Option<UserId>,
    pub role: Role,
    pub prefix: Option<String>,
    /// Who is answered in the channel of a channel's key.
    pub rules: ChannelRules,
    /// Whether the key may lend itself to another user of the tenant.
    pub act_as: bool,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

/// The key of a presented secret, with the rows that its validity depends on: the store joins them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundKey {
    pub key: Key,
    pub tenant_suspended: bool,
    /// The user of the key was suspended, or merged into another user.
    pub user_refused: bool,
    /// The role in the row of the key's user, if the key names a user who has a row.
    pub user_role: Option<Role>,
}

impl FoundKey {
    /// The role that the key has now.
    pub fn role(&self) -> Role {
        effective_role(self.key.role, self.user_role)
    }

    /// Whether the key opens anything now.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        !self.tenant_suspended && !self.user_refused && self.key.is_current(now)
    }
}

impl Key {
    /// Whether the key is neither revoked nor expired.
    pub fn is_current(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|until| until > now)
    }
}

/// A share link without its token. It opens a session, a view that a session has published, or a view that collects
/// responses and belongs to no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub id: String,
    pub tenant: TenantId,
    /// The session that it was made for; `None`: the link is to a view alone.
    pub session: Option<SessionId>,
    pub access: ShareAccess,
    /// The one view that it opens; `None`: the session.
    pub view: Option<String>,
    /// The user as whom it opens its view; set for a personal link.
    pub user: Option<UserId>,
    pub created_by: Option<UserId>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
    pub tenant_suspended: bool,
}

impl Share {
    /// Its place in a list.
    pub fn cursor(&self) -> ShareCursor {
        ShareCursor { created_at: self.created_at, id: self.id.clone() }
    }

    pub fn is_valid(&self, now: Timestamp) -> bool {
        !self.tenant_suspended && self.revoked_at.is_none() && self.expires_at > now
    }
}

/// What a share link shows of its session, and by what the session's stream is found.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedSession {
    pub id: SessionId,
    pub incarnation: Incarnation,
    pub title: Option<Box<str>>,
    pub status: Status,
    pub result: Option<Json>,
    pub last_sequence: u64,
}

/// How far a link to a view alone reaches in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkReach {
    /// It does not open the view: it is another view's, revoked or expired.
    Nothing,
    /// It opens the view, and the response that was asked about is not there or not its respondent's.
    View,
    /// It opens the view, and the response is its respondent's.
    Response,
}

impl LinkReach {
    /// `found` says of a link that opens the view whether the response is its respondent's.
    pub const fn of(found: Option<bool>) -> Self {
        match found {
            None => Self::Nothing,
            Some(false) => Self::View,
            Some(true) => Self::Response,
        }
    }
}

impl SharedSession {
    pub fn of(session: Session) -> Self {
        let Session { id, head, details, .. } = session;
        Self {
            id,
            incarnation: head.incarnation,
            title: details.title,
            status: head.status,
            result: details.result,
            last_sequence: head.last_sequence,
        }
    }

    /// A session of which nothing else is known: every other column is blank.
    pub fn into_session(self, tenant: TenantId) -> Session {
        Session {
            tenant,
            id: self.id,
            head: Head {
                last_sequence: self.last_sequence,
                ..Head::blank(self.incarnation, SessionType::Mixed, self.status, None)
            },
            details: Details {
                title: self.title,
                result: self.result,
                ..Details::blank(SessionSource::direct(SourceKind::Web, false))
            },
            participants: Vec::new(),
        }
    }
}

/// Which share links are listed, newest first.
#[derive(Clone, Debug)]
pub struct ShareListQuery {
    /// Only those that were made for this session.
    pub session: Option<SessionId>,
    /// Only those that open this view.
    pub view: Option<String>,
    /// Owners see all. A user sees those that the user made, those of sessions that the user holds, and the links to
    /// a view alone that the user has made.
    pub by: ActingUser,
    pub after: Option<ShareCursor>,
    pub limit: usize,
}

/// The last share link of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareCursor {
    pub created_at: Timestamp,
    pub id: String,
}

impl ShareCursor {
    pub fn parse(text: &str) -> Option<Self> {
        let (micros, id) = text.split_once('.')?;
        Some(Self { created_at: Timestamp::from_micros(micros.parse().ok()?), id: id.to_owned() })
    }
}

impl fmt::Display for ShareCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.created_at.as_micros(), self.id)
    }
}

/// SHA-256 of a secret: what is stored and looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecretHash(pub [u8; 32]);

impl SecretHash {
    pub fn of(secret: &str) -> Self {
        use sha2::Digest;
        Self(sha2::Sha256::digest(secret.as_bytes()).into())
    }
}

/// Every API key starts with this, so that a leaked one is recognised.
pub const KEY_PREFIX: &str = "sdr_";

/// One line of the audit trail of administration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    pub actor: String,
    pub action: &'static str,
    pub target: String,
}

/// How often credentials from one address were refused within a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedCredentials {
    /// All refused attempts.
    pub times: u64,
    /// Attempts that were refused without a look-up, because too many before had failed.
    pub unchecked: u64,
}

impl AddAssign for RefusedCredentials {
    fn add_assign(&mut self, more: Self) {
        self.times += more.times;
        self.unchecked += more.unchecked;
    }
}

impl fmt::Display for RefusedCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} within a minute", self.times)?;
        match self.unchecked {
            0 => Ok(()),
            unchecked => write!(f, ", {unchecked} of them unchecked after too many wrong ones"),
        }
    }
}
