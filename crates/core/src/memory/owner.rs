//! Whose memory a turn reads and feeds, and who may give commands to that memory. One pure rule for every surface:
//! talk in text and voice, the routes of the memory, and the end of a sitting all ask here.
//!
//! A person's memory (`user:…`) is used only while that person speaks in a conversation of their own without other
//! participants: recalled memories show up in the replies, and every participant reads them. Otherwise the memory is
//! the conversation's (`session:…`). The rule is asked at every turn, because people join and leave in between.

use serde::{Deserialize, Serialize};

use super::Owner;
use crate::access::{Actor, Role};
use crate::error::{Error, Result};
use crate::ids::{UserId, optional_user_id};
use crate::session::{MemoryMode, Session};

/// The speaker of a turn: whose memory and whose rights it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnSpeaker {
    /// The user of the credential; `None` on a server without authentication.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_user_id")]
    pub caller: Option<UserId>,
    /// The person whose memory is meant: the caller, or the user that a local caller names.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_user_id")]
    pub user: Option<UserId>,
    /// The caller has the role `owner`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_owner: bool,
    /// The caller names users and has none: the one person of an installation without authentication, or its
    /// operator.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_local: bool,
    /// In a group: an owner said it to others, and not to the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_aside: bool,
}

impl TurnSpeaker {
    /// Who speaks by this credential. Only a caller on this machine, and the operator, may name another user than the
    /// credential does; a key acts for others by the header that says so.
    pub fn of(actor: &Actor, named: Option<&str>) -> Result<Self> {
        let is_person = matches!(actor.role, Role::Owner | Role::Member | Role::Guest);
        let caller = actor.user.clone().filter(|_| is_person);
        let user = match (named, &caller) {
            (None, caller) => caller.clone(),
            (Some(named), Some(caller)) if named == caller.as_str() => Some(caller.clone()),
            (Some(named), None) if actor.names_users() => Some(UserId::parse(named)?),
            (Some(_), _) => {
                return Err(Error::denied(
                    "this credential does not speak for another user; leave `user_id` out, or use a key that may act \
                     for others",
                ));
            }
        };
        let (is_owner, is_local) = (actor.role == Role::Owner, actor.names_users());
        Ok(Self { caller, user, is_owner, is_local, is_aside: false })
    }

    /// The same speaker in a conversation with this open sitting. On a server without authentication all callers are
    /// one person, so a caller who names no user goes on as the user whose memory the sitting uses.
    #[must_use]
    pub fn in_sitting_of(mut self, actor: &Actor, session: &Session, open: Option<&Owner>) -> Self {
        if self.user.is_none() && actor.names_users() && session.head.holder.is_none() {
            self.user = open.and_then(Owner::user_id);
        }
        self
    }

    /// Whether the session is this speaker's. Sessions without a holder belong to the callers of a server without
    /// authentication.
    fn holds(&self, session: &Session) -> bool {
        match &session.head.holder {
            Some(holder) => self.user.as_ref() == Some(holder),
            None => self.caller.is_none(),
        }
    }
}

/// Whose memory a turn of this speaker uses, as the session is now.
pub fn memory_owner(session: &Session, speaker: &TurnSpeaker) -> Owner {
    let is_shared = session.head.is_group || session.details.memory_mode == MemoryMode::Incognito;
    match &speaker.user {
        Some(user) if !is_shared && speaker.holds(session) && is_alone(user, &session.participants) => {
            Owner::user(user)
        }
        _ => Owner::session(&session.id),
    }
}

fn is_alone(user: &UserId, participants: &[UserId]) -> bool {
    participants.iter().all(|participant| participant == user)
}

/// Whether a sitting on this memory has to end before the session gets these participants: the memory is one
/// person's, and another participant would hear what is recalled from it.
pub fn must_end_before(owner: &Owner, participants: &[UserId]) -> bool {
    owner.user_id().is_some_and(|user| !is_alone(&user, participants))
}

/// The kinds of access to a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryAct {
    /// See what is kept.
    Read,
    /// Have something kept.
    Remember,
    /// Have something deleted, or not kept.
    Forget,
    /// Switch on or off that the agent brings up the past unasked.
    SwitchRecall,
}

/// Why a command to a memory is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryRefusal {
    /// The memory is the conversation's, and the speaker neither holds it nor is an owner.
    NotTheHolder,
    /// The memory is a group's, and the speaker is no owner.
    NotAnOwner,
}

impl MemoryRefusal {
    /// The sentence that the person reads.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotTheHolder => {
                "What is remembered here belongs to the whole conversation: only the person who holds it, or an owner, \
                 may ask for that."
            }
            Self::NotAnOwner => {
                "What is remembered here belongs to the group: only an owner may delete it or switch recall."
            }
        }
    }
}

impl From<MemoryRefusal> for Error {
    fn from(refusal: MemoryRefusal) -> Self {
        Self::denied(refusal.text())
    }
}

/// Whether a speaker may do this with the memory that [`memory_owner`] names for them. That they may speak in the
/// session at all was checked before.
pub fn check_memory_act(
    session: &Session,
    speaker: &TurnSpeaker,
    act: MemoryAct,
) -> std::result::Result<(), MemoryRefusal> {
    if memory_owner(session, speaker).user_id().is_some() || speaker.is_owner {
        return Ok(());
    }
    match (session.head.is_group, act) {
        (true, MemoryAct::Read | MemoryAct::Remember) => Ok(()),
        (true, MemoryAct::Forget | MemoryAct::SwitchRecall) => Err(MemoryRefusal::NotAnOwner),
        (false, _) if speaker.holds(session) => Ok(()),
        (false, _) => Err(MemoryRefusal::NotTheHolder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::CredentialId;
    use crate::session::decide::tests::session_in;
    use crate::session::{SourceKind, Status};

    fn user(name: &str) -> UserId {
        UserId::stored(name)
    }

    fn session(holder: Option<&str>, participants: &[&str]) -> Session {
        let mut session = session_in(Status::Idle);
        session.head.is_talk = true;
        session.head.holder = holder.map(user);
        session.participants = participants.iter().copied().map(user).collect();
        session
    }

    fn actor(role: Role, name: Option<&str>) -> Actor {
        Actor {
            role,
            user: name.map(user),
            credential: CredentialId::stored("key"),
            ..Actor::local(SourceKind::Api)
        }
    }

    fn speaker(role: Role, name: &str) -> TurnSpeaker {
        TurnSpeaker::of(&actor(role, Some(name)), None).unwrap()
    }

    #[test]
    fn a_persons_memory_is_used_only_by_that_person_alone_in_a_session_of_their_own() {
        let local = Actor::local(SourceKind::Api);
        let named = |name| TurnSpeaker::of(&local, Some(name)).unwrap();
        let nameless = TurnSpeaker::of(&local, None).unwrap();
        let (alice, gus, boss) =
            (speaker(Role::Member, "alice"), speaker(Role::Guest, "gus"), speaker(Role::Owner, "boss"));
        let keyless = TurnSpeaker::of(&actor(Role::Owner, None), None).unwrap();
        let channel = TurnSpeaker::of(&actor(Role::Channel, Some("alice")), None).unwrap();
        type OwnerRow<'a> = (&'a str, Option<&'a str>, &'a [&'a str], &'a TurnSpeaker, Option<&'a str>);
        let table: [OwnerRow<'_>; 14] = [
            ("the holder alone", Some("alice"), &["alice"], &alice, Some("alice")),
            ("the holder, nobody is listed", Some("alice"), &[], &alice, Some("alice")),
            ("the holder with a guest", Some("alice"), &["alice", "gus"], &alice, None),
            ("the guest of a holder", Some("alice"), &["alice", "gus"], &gus, None),
            ("whoever was named at the opening", Some("mallory"), &["alice", "mallory"], &alice, None),
            ("an owner in a member's session", Some("alice"), &["alice"], &boss, None),
            ("a key without a user in a member's session", Some("alice"), &["alice"], &keyless, None),
            ("a channel's key speaks for strangers", Some("alice"), &["alice"], &channel, None),
            ("a session that nobody holds", None, &["alice"], &alice, None),
            ("local, nobody named", None, &[], &nameless, None),
            ("local, somebody named", None, &[], &named("alice"), Some("alice")),
            ("local, named and listed", None, &["alice"], &named("alice"), Some("alice")),
            ("local, others are listed", None, &["gus"], &named("alice"), None),
            ("local, the holder is named", Some("alice"), &["alice"], &named("alice"), Some("alice")),
        ];
        for (case, holder, participants, speaker, expected) in table {
            let mut session = session(holder, participants);
            let own = Owner::session(&session.id);
            let expected = expected.map_or_else(|| own.clone(), |name| Owner::user(&user(name)));
            assert_eq!(memory_owner(&session, speaker), expected, "{case}");
            session.head.is_group = true;
            assert_eq!(memory_owner(&session, speaker), own, "{case}, in a group");
            session.head.is_group = false;
            session.details.memory_mode = MemoryMode::Incognito;
            assert_eq!(memory_owner(&session, speaker), own, "{case}, incognito");
        }
    }

    #[test]
    fn only_callers_without_authentication_name_the_user() {
        let operator =
            Actor { credential: CredentialId::stored("operator"), ..Actor::local(SourceKind::Cli) };
        assert!(TurnSpeaker::of(&operator, Some("alice")).is_ok());
        for (role, own) in [
            (Role::Owner, None),
            (Role::Owner, Some("boss")),
            (Role::Member, Some("ben")),
            (Role::Guest, Some("gus")),
            (Role::Channel, Some("alice")),
        ] {
            let refused = TurnSpeaker::of(&actor(role, own), Some("alice")).unwrap_err();
            assert_eq!(refused.code(), "denied", "{role:?} {own:?}");
        }
        assert_eq!(
            TurnSpeaker::of(&actor(Role::Member, Some("alice")), Some("alice")).unwrap().user,
            Some(user("alice"))
        );
    }

    #[test]
    fn commands_are_the_users_the_holders_or_the_owners() {
        use MemoryAct::{Forget, Read, Remember, SwitchRecall};
        let (alice, gus, boss) =
            (speaker(Role::Member, "alice"), speaker(Role::Guest, "gus"), speaker(Role::Owner, "boss"));
        let shared = session(Some("alice"), &["alice", "gus"]);
        let mut group = session(Some("alice"), &["alice", "gus"]);
        group.head.is_group = true;
        for act in [Read, Remember, Forget, SwitchRecall] {
            assert_eq!(check_memory_act(&session(Some("alice"), &["alice"]), &alice, act), Ok(()), "{act:?}");
            assert_eq!(check_memory_act(&shared, &alice, act), Ok(()), "{act:?}");
            assert_eq!(check_memory_act(&shared, &boss, act), Ok(()), "{act:?}");
            assert_eq!(check_memory_act(&shared, &gus, act), Err(MemoryRefusal::NotTheHolder), "{act:?}");
            assert_eq!(check_memory_act(&group, &boss, act), Ok(()), "{act:?}");
            let in_group = match act {
                Read | Remember => Ok(()),
                Forget | SwitchRecall => Err(MemoryRefusal::NotAnOwner),
            };
            for one in [&alice, &gus] {
                assert_eq!(check_memory_act(&group, one, act), in_group, "{act:?}");
            }
        }
    }

    #[test]
    fn a_sitting_ends_before_somebody_else_hears_a_persons_memory() {
        let alice = Owner::user(&user("alice"));
        assert!(!must_end_before(&alice, &[user("alice")]));
        assert!(must_end_before(&alice, &[user("alice"), user("gus")]));
        assert!(!must_end_before(&Owner::stored("session:s"), &[user("alice"), user("gus")]));
    }
}
