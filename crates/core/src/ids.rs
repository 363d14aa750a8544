//! Ids of tenants, sessions, users and credentials. Every id is a newtype that was checked when it was made, so
//! code below the surfaces need not check it again.

use std::fmt;
use std::sync::Arc;

use rand::Rng;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::limits;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes a caller's text, or says what is wrong with it.
            pub fn parse(text: &str) -> Result<Self> {
                check_name($field, text)?;
                Ok(Self(text.into()))
            }

            /// Wraps text that a store wrote: it was checked on its way in.
            pub fn stored(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0)
            }
        }
    };
}

text_id!(
    /// A tenant: the boundary of all data and access.
    TenantId,
    "tenant"
);
text_id!(
    /// A session, unique within its tenant.
    SessionId,
    "id"
);
text_id!(
    /// A person in a tenant.
    UserId,
    "user_id"
);
text_id!(
    /// What a caller authenticated with; claims and idempotency keys are bound to it.
    CredentialId,
    "credential"
);

/// A worker inside this process: its claims end with the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessWorker {
    /// Runs tasks.
    Executor,
    /// Runs turns of conversations.
    Talker,
}

impl ProcessWorker {
    pub const ALL: [Self; 2] = [Self::Executor, Self::Talker];

    /// How the credential of such a worker begins. No credential of a caller does: keys are named by UUIDs, and
    /// everything else by a prefix of its own.
    pub const fn credential_prefix(self) -> &'static str {
        match self {
            Self::Executor => "executor:",
            Self::Talker => "talker:",
        }
    }
}

impl CredentialId {
    /// A new credential for a worker inside this process. Its claims end with the process, even if their leases last
    /// longer; a claim that was made over HTTP belongs to another process.
    pub fn of_process(worker: ProcessWorker) -> Self {
        Self::stored(format!("{}{}", worker.credential_prefix(), random_hex::<8>()))
    }
}

impl SessionId {
    /// A new id, for a session that the caller did not name.
    pub fn drawn(ids: &dyn IdSource) -> Self {
        Self(ids.ordered().to_string().into())
    }

    /// Takes an id that a caller wants for a session, or says why it cannot have it.
    pub fn parse_new(text: &str) -> Result<Self> {
        let id = Self::parse(text)?;
        if text == "human" {
            return Err(Error::invalid("id", "`human` is reserved; choose another id"));
        }
        Ok(id)
    }
}

/// One life of a session: a deleted and recreated id meets nothing of its past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(pub Uuid);

impl Incarnation {
    pub fn drawn(ids: &dyn IdSource) -> Self {
        Self(ids.ordered())
    }
}

/// Reads an optional user id that a store wrote.
pub(crate) fn optional_user_id<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<UserId>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(UserId::stored))
}

/// Reads a user id that a store wrote.
pub(crate) fn user_id<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<UserId, D::Error> {
    String::deserialize(from).map(UserId::stored)
}

/// Checks a name: 1 to 200 characters, without control characters or slashes, so that it fits in a path, a log
/// line and a table.
pub fn check_name(field: &'static str, text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(field, "must not be empty"));
    }
    if text.chars().nth(limits::NAME_CHARS_MAX).is_some() {
        return Err(Error::invalid(field, format!("is longer than {} characters", limits::NAME_CHARS_MAX)));
    }
    if text.chars().any(|c| c.is_control() || c == '/') {
        return Err(Error::invalid(field, "must not contain control characters or `/`"));
    }
    if text == "." || text == ".." || text.trim() != text {
        return Err(Error::invalid(field, "must not be a dot path, nor start or end with white space"));
    }
    Ok(())
}

/// A sentence or title given by a caller: bounded, and free of the one character that no store keeps.
pub fn check_text(field: &'static str, text: &str, chars_max: usize) -> Result<()> {
    if text.chars().nth(chars_max).is_some() {
        return Err(Error::invalid(field, format!("is longer than {chars_max} characters")));
    }
    if text.contains('\0') {
        return Err(Error::invalid(field, "must not contain NUL"));
    }
    Ok(())
}

/// Where ids and secrets are drawn. The engine has one, and hands decisions the ids that they need, so that a decision
/// with the same input is the same decision.
pub trait IdSource: Send + Sync + std::fmt::Debug {
    /// An id whose order is that of the time at which it was drawn.
    fn ordered(&self) -> Uuid;

    fn fill(&self, bytes: &mut [u8]);

    /// An id that says nothing about when it was drawn.
    fn unordered(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// 256 bits, printed so that they fit a header and a URL.
    fn secret(&self) -> String {
        use base64::Engine as _;
        let mut bytes = [0; 32];
        self.fill(&mut bytes);
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
    }

    /// 128 bits in lower-case hexadecimal.
    fn hex(&self) -> String {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        hex(&bytes)
    }
}

/// The source of every id outside tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn ordered(&self) -> Uuid {
        Uuid::now_v7()
    }

    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}

/// Counts: the n-th id drawn from it ends in n.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct CountedIds(std::sync::atomic::AtomicU64);

#[cfg(test)]
impl IdSource for CountedIds {
    fn ordered(&self) -> Uuid {
        let drawn = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        Uuid::from_u128(drawn.into())
    }

    fn fill(&self, bytes: &mut [u8]) {
        let drawn = self.ordered().into_bytes();
        bytes
            .iter_mut()
            .rev()
            .zip(drawn.iter().rev().chain(std::iter::repeat(&0)))
            .for_each(|(to, from)| *to = *from);
    }
}

/// 256 random bits, printed so that they fit a header and a URL.
pub fn random_secret() -> String {
    RandomIds.secret()
}

/// Lower-case hexadecimal, `2 * bytes` characters of it.
pub fn random_hex<const BYTES: usize>() -> String {
    let mut bytes = [0; BYTES];
    RandomIds.fill(&mut bytes);
    hex(&bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl<'de> Deserialize<'de> for TenantId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_of_200_characters_is_taken_and_one_more_is_refused() {
        assert!(SessionId::parse(&"é".repeat(limits::NAME_CHARS_MAX)).is_ok());
        assert!(SessionId::parse(&"é".repeat(limits::NAME_CHARS_MAX + 1)).is_err());
    }

    #[test]
    fn ids_that_would_break_a_path_or_a_log_line_are_refused() {
        for bad in ["", "a/b", "a\nb", "a\0b", "..", " a", "a ", "\u{85}"] {
            assert!(SessionId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(SessionId::parse_new("human").is_err());
        for good in ["cli:main", "telegram:2026-11-15-0011aabb", "schedule:x", "übung"] {
            assert!(SessionId::parse_new(good).is_ok(), "{good:?}");
        }
    }
}
