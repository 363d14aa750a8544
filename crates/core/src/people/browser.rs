//! Browser sessions: a person who signed in with a key or a token holds a cookie instead of it.
//!
//! The row holds the hash of the cookie and names the credential. A browser session ends with that credential, after
//! twelve hours without a request, and after seven days in any case.

use crate::access::{Role, effective_role};
use crate::ids::{CredentialId, TenantId, UserId};
use crate::limits;
use crate::time::Timestamp;

/// A person's sign-in from one browser, without its secret: only the hash of that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserSession {
    pub id: String,
    pub tenant: TenantId,
    pub proof: SignInProof,
    pub user: Option<UserId>,
    /// The role that the credential had. The role of now is never higher.
    pub role: Role,
    /// What the browser called itself.
    pub browser: Option<String>,
    pub created_at: Timestamp,
    /// When it was last used, to within [`limits::BROWSER_SESSION_SEEN_EVERY`].
    pub seen_at: Timestamp,
    pub expires_at: Timestamp,
}

/// The credential that a person signed in with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignInProof {
    Key(CredentialId),
    /// A token of an outside issuer. It has no row, so its end is that of the browser session.
    Token,
}

impl SignInProof {
    /// The key's id, if it was a key.
    pub fn key(&self) -> Option<&CredentialId> {
        match self {
            Self::Key(id) => Some(id),
            Self::Token => None,
        }
    }
}

impl BrowserSession {
    /// Whether it is over by time alone.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at <= now || self.seen_at.plus(limits::BROWSER_SESSION_IDLE_MAX) <= now
    }

    /// Whether its use is to be written down again.
    pub fn is_long_unseen(&self, now: Timestamp) -> bool {
        self.seen_at.plus(limits::BROWSER_SESSION_SEEN_EVERY) <= now
    }
}

/// The browser session of a presented cookie, with the rows that its validity depends on: the store joins them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundBrowserSession {
    pub session: BrowserSession,
    pub tenant_suspended: bool,
    /// The user was suspended, or merged into another user.
    pub user_refused: bool,
    pub user_role: Option<Role>,
    /// Whether the key it was made with is there and not revoked; `None` for a token.
    pub has_key: Option<bool>,
}

impl FoundBrowserSession {
    /// The role that it has now.
    pub fn role(&self) -> Role {
        effective_role(self.session.role, self.user_role)
    }

    /// Whether the cookie opens anything now.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        !self.tenant_suspended
            && !self.user_refused
            && self.has_key != Some(false)
            && !self.session.is_over(now)
    }
}

/// When a browser session that is made now ends, at the latest: after its longest life, or with its credential.
pub fn latest_end(now: Timestamp, credential_ends_at: Option<Timestamp>) -> Timestamp {
    let longest = now.plus(limits::BROWSER_SESSION_LIFE_MAX);
    credential_ends_at.map_or(longest, |end| end.min(longest))
}

/// The browser sessions that a further one of the same person removes: those that are over and, where too many are left,
/// the ones that were not used for the longest time.
pub fn removed_by_another(mut own: Vec<BrowserSession>, now: Timestamp) -> Vec<BrowserSession> {
    own.sort_by_key(|session| (!session.is_over(now), session.seen_at));
    let over = own.iter().filter(|session| session.is_over(now)).count();
    let left_out = (own.len() + 1).saturating_sub(limits::BROWSER_SESSIONS_MAX);
    own.truncate(over.max(left_out));
    own
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn session(id: &str, seen_at: Timestamp) -> BrowserSession {
        BrowserSession {
            id: id.to_owned(),
            tenant: TenantId::stored("t"),
            proof: SignInProof::Key(CredentialId::stored("k")),
            user: Some(UserId::stored("ada")),
            role: Role::Member,
            browser: None,
            created_at: seen_at,
            seen_at,
            expires_at: seen_at.plus(limits::BROWSER_SESSION_LIFE_MAX),
        }
    }

    #[test]
    fn a_browser_session_ends_with_its_credential_its_user_silence_and_time() {
        let start = Timestamp::from_micros(1_000_000_000);
        let now = start.plus(HOUR);
        let good = FoundBrowserSession {
            session: session("b", start),
            tenant_suspended: false,
            user_refused: false,
            user_role: None,
            has_key: Some(true),
        };
        assert!(good.is_valid(now));
        assert!(FoundBrowserSession { has_key: None, ..good.clone() }.is_valid(now), "a token has no row");
        assert!(good.is_valid(start.plus(limits::BROWSER_SESSION_IDLE_MAX - Duration::from_micros(1))));
        assert!(!good.is_valid(start.plus(limits::BROWSER_SESSION_IDLE_MAX)));
        let of_a_short_key = BrowserSession { expires_at: now, ..good.session.clone() };
        for bad in [
            FoundBrowserSession { tenant_suspended: true, ..good.clone() },
            FoundBrowserSession { user_refused: true, ..good.clone() },
            FoundBrowserSession { has_key: Some(false), ..good.clone() },
            FoundBrowserSession { session: of_a_short_key, ..good.clone() },
        ] {
            assert!(!bad.is_valid(now), "{bad:?}");
        }
        assert_eq!(good.role(), Role::Member);
        assert_eq!(FoundBrowserSession { user_role: Some(Role::Guest), ..good.clone() }.role(), Role::Guest);
        assert_eq!(FoundBrowserSession { user_role: Some(Role::Owner), ..good }.role(), Role::Member);
    }

    #[test]
    fn a_browser_session_outlives_neither_seven_days_nor_its_credential() {
        let now = Timestamp::from_micros(5);
        let longest = now.plus(limits::BROWSER_SESSION_LIFE_MAX);
        assert_eq!(latest_end(now, None), longest);
        assert_eq!(latest_end(now, Some(now.plus(HOUR))), now.plus(HOUR));
        assert_eq!(latest_end(now, Some(longest.plus(HOUR))), longest);
    }

    #[test]
    fn another_browser_session_removes_those_that_are_over_and_the_longest_unused() {
        let now = Timestamp::from_micros(0).plus(limits::BROWSER_SESSION_IDLE_MAX * 2);
        let minutes_ago =
            |minutes: u64| Timestamp::from_micros(now.as_micros() - (minutes * 60_000_000).cast_signed());
        let ids =
            |removed: Vec<BrowserSession>| -> Vec<String> { removed.into_iter().map(|one| one.id).collect() };
        let few = vec![session("fresh", now), session("silent", minutes_ago(12 * 60)), session("old", now)];
        assert_eq!(ids(removed_by_another(few, now)), ["silent"]);
        let full: Vec<_> = (0..limits::BROWSER_SESSIONS_MAX as u64)
            .map(|n| session(&n.to_string(), minutes_ago(n)))
            .collect();
        let oldest = (limits::BROWSER_SESSIONS_MAX - 1).to_string();
        assert_eq!(
            ids(removed_by_another(full[1..].to_vec(), now)),
            Vec::<String>::new(),
            "one more has room"
        );
        assert_eq!(ids(removed_by_another(full, now)), [oldest]);
    }
}
