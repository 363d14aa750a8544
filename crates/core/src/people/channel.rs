//! People who come through channels: who says a message, how somebody unknown becomes a guest, how an account is linked
//! by a code, and how much strangers may send. All pure but for the counters of [`StrangerRates`].

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::{Identity, KnownBy, User};
use crate::access::{Actor, Role};
use crate::error::{Error, Result};
use crate::ids::{CredentialId, IdSource, TenantId, UserId, check_name};
use crate::limits;
use crate::talk::speaker_name::shown_name;
use crate::time::Timestamp;

/// What a stranger in a direct chat is told, once a day and without a model.
pub const STRANGER_TOLD: &str = "I answer only people whom the owners of this assistant know. Send /link for a code that \
                                 an owner can link your account with.";
/// The characters of a code: none of them is taken for another one.
const CODE_CHARS: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// Who says a message, as a channel tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelSender {
    pub identity: Identity,
    pub name: Option<String>,
    /// It is a bot: it wakes nobody, and is nobody.
    pub is_bot: bool,
}

impl ChannelSender {
    /// Only a channel says who speaks, and only about accounts of its own platform.
    pub fn check(&self, actor: &Actor) -> Result<()> {
        let own = platform_of(actor).ok_or_else(|| {
            Error::invalid("sender", "only a channel's key says who speaks; leave `sender` out")
        })?;
        if self.identity.platform != own {
            let sentence = format!("this key speaks for accounts of `{own}` alone");
            return Err(Error::invalid("sender.platform", sentence));
        }
        check_external_id("sender.external_id", &self.identity)
    }

    /// The guest whom somebody unknown becomes.
    pub fn guest(&self, now: Timestamp, ids: &dyn IdSource) -> User {
        User {
            id: UserId::stored(ids.ordered().to_string()),
            name: self.name.as_deref().map(shown_name),
            role: Role::Guest,
            suspended: false,
            merged_into: None,
            known_by: None,
            told_at: None,
            created_at: now,
            identities: vec![self.identity.clone()],
        }
    }
}

/// The platform of a channel's credential: the first part of its prefix.
pub fn platform_of(actor: &Actor) -> Option<&str> {
    let prefix = actor.prefix.as_deref().filter(|_| actor.role == Role::Channel)?;
    prefix.split(':').next().filter(|platform| !platform.is_empty())
}

/// An id on a platform. A user of Slack is somebody only within a workspace.
pub fn check_external_id(field: &'static str, identity: &Identity) -> Result<()> {
    check_name(field, &identity.external_id)?;
    let of_team =
        |id: &str| id.split_once(':').is_some_and(|(team, user)| !team.is_empty() && !user.is_empty());
    if identity.platform == "slack" && !of_team(&identity.external_id) {
        return Err(Error::invalid(field, "an account of Slack is `team:user`, such as `T012:U345`"));
    }
    Ok(())
}

/// What happened to a conversation beside a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelChangeKind {
    Edit,
    Deletion,
    Join,
    Pin,
}

impl ChannelChangeKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Deletion => "deletion",
            Self::Join => "join",
            Self::Pin => "pin",
        }
    }
}

/// An edit, a deletion, a join or a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelChange {
    pub kind: ChannelChangeKind,
    /// The sequence of the message that it is about; a join is about none.
    pub of: Option<u64>,
}

impl ChannelChange {
    pub fn check(&self, last_sequence: u64) -> Result<()> {
        match (self.kind, self.of) {
            (ChannelChangeKind::Join, None) => Ok(()),
            (ChannelChangeKind::Join, Some(_)) => {
                Err(Error::invalid("change.of", "a join is about no message"))
            }
            (_, Some(of)) if (1..=last_sequence).contains(&of) => Ok(()),
            (_, _) => Err(Error::invalid(
                "change.of",
                format!("must be the sequence of a message, 1 to {last_sequence}"),
            )),
        }
    }
}

/// A code by which an account is linked, without the code: only its hash is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkCode {
    pub identity: Identity,
    /// The name of the account, as it stood when the code was shown.
    pub name: Option<String>,
    pub expires_at: Timestamp,
}

/// Whether a message in a direct chat asks for a code. Strangers begin with `/start`, as platforms do.
pub fn asks_for_code(text: &str, known_by: Option<KnownBy>) -> bool {
    match text.trim() {
        "/link" => true,
        "/start" => known_by.is_none(),
        _ => false,
    }
}

/// A new code, as its owner-to-be reads it.
pub fn drawn_code(ids: &dyn IdSource) -> String {
    let mut bytes = [0; limits::LINK_CODE_CHARS];
    ids.fill(&mut bytes);
    bytes.iter().map(|byte| char::from(CODE_CHARS[usize::from(byte % 32)])).collect()
}

/// What is kept of a code, however it was typed. `None`: it is no code.
pub fn code_hash(typed: &str) -> Option<String> {
    let code: String =
        typed.chars().filter(|c| !c.is_whitespace() && *c != '-').map(|c| c.to_ascii_uppercase()).collect();
    let fits = code.len() == limits::LINK_CODE_CHARS && code.bytes().all(|byte| CODE_CHARS.contains(&byte));
    fits.then(|| Sha256::digest(code.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What the person is told who asked for a code.
pub fn code_told(code: &str) -> String {
    let minutes = limits::LINK_CODE_LIFE.as_secs() / 60;
    format!(
        "Your code is {code}. An owner links your account with it within {minutes} minutes; it works once."
    )
}

/// Counts what strangers send, in this process: by channel and by sender.
#[derive(Debug, Default)]
pub struct StrangerRates(Mutex<HashMap<RateOf, RateWindow>>);

#[derive(Debug, PartialEq, Eq, Hash)]
enum RateOf {
    Channel(CredentialId),
    Sender(TenantId, String, String),
}

#[derive(Debug)]
struct RateWindow {
    since: Timestamp,
    count: u32,
}

/// Channels and senders that are counted at once; those whose minute is over make room.
const COUNTED_MAX: usize = 10_000;
const WINDOW: Duration = Duration::from_secs(60);

impl StrangerRates {
    /// Counts a message of a stranger, or refuses it.
    pub fn count(&self, actor: &Actor, identity: &Identity, now: Timestamp) -> Result<()> {
        let sender =
            RateOf::Sender(actor.tenant.clone(), identity.platform.clone(), identity.external_id.clone());
        let channel = RateOf::Channel(actor.credential.clone());
        let mut counted = self.0.lock();
        if counted.len() >= COUNTED_MAX {
            counted.retain(|_, window| window.since.plus(WINDOW) > now);
        }
        for (of, max) in
            [(sender, limits::STRANGER_MESSAGES_MAX), (channel, limits::STRANGERS_OF_CHANNEL_MESSAGES_MAX)]
        {
            let is_full = counted.len() >= COUNTED_MAX && !counted.contains_key(&of);
            let window = counted.entry(of).or_insert(RateWindow { since: now, count: 0 });
            if window.since.plus(WINDOW) <= now {
                *window = RateWindow { since: now, count: 0 };
            }
            if window.count >= max || is_full {
                return Err(Error::RateLimited(WINDOW));
            }
            window.count += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RandomIds;
    use crate::session::SourceKind;

    fn channel(prefix: &str) -> Actor {
        Actor {
            role: Role::Channel,
            prefix: Some(prefix.into()),
            credential: CredentialId::stored(prefix),
            ..Actor::local(SourceKind::Api)
        }
    }

    fn sender(platform: &str, external_id: &str) -> ChannelSender {
        let identity = Identity { platform: platform.into(), external_id: external_id.into() };
        ChannelSender { identity, name: Some("Ann\n]".into()), is_bot: false }
    }

    #[test]
    fn a_channel_says_who_speaks_about_accounts_of_its_own_platform_alone() {
        let table = [
            (channel("telegram:"), sender("telegram", "-42"), None),
            (channel("telegram:bot2:"), sender("telegram", "4503599627370495"), None),
            (channel("matrix:"), sender("matrix", "@a:b"), None),
            (channel("slack:"), sender("slack", "T1:U1"), None),
            (channel("slack:"), sender("slack", "U1"), Some("sender.external_id")),
            (channel("slack:"), sender("slack", "T1:"), Some("sender.external_id")),
            (channel("telegram:"), sender("slack", "T1:U1"), Some("sender.platform")),
            (channel("telegram:"), sender("telegram", ""), Some("sender.external_id")),
            (Actor::local(SourceKind::Api), sender("telegram", "1"), Some("sender")),
        ];
        for (actor, sender, expected) in table {
            let field = sender.check(&actor).err().map(|error| match error {
                Error::Invalid { field, .. } => field.to_string(),
                other => panic!("{other:?}"),
            });
            assert_eq!(field.as_deref(), expected, "{:?} {sender:?}", actor.prefix);
        }
    }

    #[test]
    fn somebody_unknown_becomes_a_guest_whom_nobody_knows() {
        let guest = sender("telegram", "1").guest(Timestamp::default(), &RandomIds);
        assert_eq!((guest.role, guest.known_by, guest.name.as_deref()), (Role::Guest, None, Some("Ann")));
    }

    #[test]
    fn a_code_is_found_however_it_is_typed() {
        let code = drawn_code(&RandomIds);
        assert_eq!(code.len(), limits::LINK_CODE_CHARS);
        let hash = code_hash(&code).unwrap();
        assert_eq!(code_hash(&format!(" {}-{} ", code[..4].to_lowercase(), &code[4..])), Some(hash));
        for wrong in ["", "ABCDEFG", "ABCDEFGHJ", "ABCDEFG0", "ABCDEFG\u{e9}"] {
            assert_eq!(code_hash(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_strangers_begin_with_a_code() {
        assert!(asks_for_code(" /link ", Some(KnownBy::Linked)) && asks_for_code("/start", None));
        assert!(!asks_for_code("/start", Some(KnownBy::Made)) && !asks_for_code("/link me", None));
    }

    #[test]
    fn strangers_are_counted_by_sender_and_by_channel() {
        let (rates, actor) = (StrangerRates::default(), channel("telegram:"));
        let now = Timestamp::from_micros(0);
        let of = |n: u32| sender("telegram", &n.to_string()).identity;
        for _ in 0..limits::STRANGER_MESSAGES_MAX {
            rates.count(&actor, &of(0), now).unwrap();
        }
        assert_eq!(rates.count(&actor, &of(0), now).unwrap_err().code(), "rate_limited");
        let left = limits::STRANGERS_OF_CHANNEL_MESSAGES_MAX - limits::STRANGER_MESSAGES_MAX;
        for n in 0..left {
            rates.count(&actor, &of(n + 1), now).unwrap();
        }
        assert_eq!(rates.count(&actor, &of(left + 1), now).unwrap_err().code(), "rate_limited");
        rates.count(&channel("slack:"), &of(0), now.plus(WINDOW)).unwrap();
        rates.count(&actor, &of(0), now.plus(WINDOW)).unwrap();
    }

    #[test]
    fn a_change_names_the_message_that_it_is_about() {
        use ChannelChangeKind::{Deletion, Edit, Join, Pin};
        for (kind, of, fits) in [
            (Edit, Some(3), true),
            (Deletion, Some(1), true),
            (Pin, Some(4), false),
            (Pin, Some(0), false),
            (Edit, None, false),
            (Join, None, true),
            (Join, Some(1), false),
        ] {
            assert_eq!(ChannelChange { kind, of }.check(3).is_ok(), fits, "{kind:?} {of:?}");
        }
    }
}
