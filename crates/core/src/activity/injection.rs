//! Whose recent activity a model is given. One pure rule for talk and for runs: only the activity of the person for
//! whom the model works, and only where nobody else takes part in what it says.

use serde::{Deserialize, Serialize};

use crate::access::{Actor, Role};
use crate::definitions::Agent;
use crate::error::Result;
use crate::event::{Event, EventType, NewEvent};
use crate::ids::{SessionId, UserId, user_id};
use crate::json::Json;
use crate::lesson::shown;
use crate::memory::owner::TurnSpeaker;
use crate::session::{MemoryMode, Session};
use crate::work::run::Run;

/// A person who can have a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BridgePerson {
    User(#[serde(deserialize_with = "user_id")] UserId),
    /// The one person of an installation without authentication.
    OnlyPerson,
}

impl BridgePerson {
    /// The person behind a caller. A key without a user, a worker, a channel and a share link are nobody.
    pub fn of(actor: &Actor) -> Option<Self> {
        match &actor.user {
            _ if !matches!(actor.role, Role::Owner | Role::Member) => None,
            Some(user) => Some(Self::User(user.clone())),
            None => actor.names_users().then_some(Self::OnlyPerson),
        }
    }

    /// The holder of this person's bridges.
    pub fn holder(&self) -> Option<&UserId> {
        match self {
            Self::User(user) => Some(user),
            Self::OnlyPerson => None,
        }
    }
}

/// Whose activity a turn of a conversation is given: the speaker's, if it is direct talk in a conversation of their own
/// without other participants. A local caller who names a user speaks for somebody who has recorded nothing.
pub fn person_of_turn(session: &Session, speaker: &TurnSpeaker) -> Option<BridgePerson> {
    if !session.head.is_talk || is_shared(session) {
        return None;
    }
    let person = match (&speaker.caller, &speaker.user) {
        (Some(caller), Some(user)) if caller == user => BridgePerson::User(user.clone()),
        (None, None) if speaker.is_local => BridgePerson::OnlyPerson,
        _ => return None,
    };
    let is_alone = session.participants.iter().all(|one| person.holder() == Some(one));
    (session.head.holder.as_ref() == person.holder() && is_alone).then_some(person)
}

/// Whose activity a run is given: that of the person who triggered it, if the run is theirs and its agent asks for it.
pub fn person_of_run(session: &Session, agent: Option<&Agent>) -> Option<BridgePerson> {
    if is_shared(session) || !agent.is_some_and(|agent| agent.activity) {
        return None;
    }
    Run::of(session).triggered_by.filter(|person| session.head.holder.as_ref() == person.holder())
}

/// The kind of injected context under which a log lists the bridges whose activity entered a prompt.
pub const INJECTED: &str = "activity";

/// The event that says that the activity of a bridge enters prompts.
pub fn injected(bridge: &SessionId) -> Result<NewEvent> {
    let metadata = Json::of(&serde_json::json!({"kind": INJECTED, "ids": [bridge.as_str()]}))?;
    Ok(NewEvent::engine(EventType::known(shown::INJECTION), Some(metadata)))
}

/// Whether an event says that the activity of this bridge entered prompts.
pub fn names_bridge(event: &Event, bridge: &SessionId) -> bool {
    shown::injected_ids(event, INJECTED).iter().any(|id| id == bridge.as_str())
}

/// Neither a group nor an incognito session is one person's.
fn is_shared(session: &Session) -> bool {
    session.head.is_group || session.details.memory_mode == MemoryMode::Incognito
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

    fn speaker(role: Role, name: Option<&str>) -> TurnSpeaker {
        let credential = CredentialId::stored("key");
        let actor = Actor { role, user: name.map(user), credential, ..Actor::local(SourceKind::Api) };
        TurnSpeaker::of(&actor, None).unwrap()
    }

    #[test]
    fn a_turn_is_given_the_activity_of_the_person_who_talks_alone() {
        let local = Actor::local(SourceKind::Api);
        let nameless = TurnSpeaker::of(&local, None).unwrap();
        let named = TurnSpeaker::of(&local, Some("ann")).unwrap();
        let (ann, boss) = (speaker(Role::Member, Some("ann")), speaker(Role::Owner, Some("boss")));
        let (keyless, channel) = (speaker(Role::Owner, None), speaker(Role::Channel, Some("ann")));
        let (of_ann, of_boss) = (BridgePerson::User(user("ann")), BridgePerson::User(user("boss")));
        type PersonRow<'a> =
            (&'a str, Option<&'a str>, &'a [&'a str], &'a TurnSpeaker, Option<&'a BridgePerson>);
        let table: [PersonRow<'_>; 14] = [
            ("the holder alone", Some("ann"), &["ann"], &ann, Some(&of_ann)),
            ("the holder, nobody is listed", Some("ann"), &[], &ann, Some(&of_ann)),
            ("an owner alone", Some("boss"), &["boss"], &boss, Some(&of_boss)),
            ("with another participant", Some("ann"), &["ann", "bob"], &ann, None),
            ("in another's session", Some("bob"), &["ann", "bob"], &ann, None),
            ("an owner in a member's session", Some("ann"), &["ann"], &boss, None),
            ("a session that nobody holds", None, &["ann"], &ann, None),
            ("local, nobody named", None, &[], &nameless, Some(&BridgePerson::OnlyPerson)),
            ("local, others are listed", None, &["ann"], &nameless, None),
            ("local, in a user's session", Some("ann"), &["ann"], &nameless, None),
            ("local, a user is named", None, &[], &named, None),
            ("local, the holder is named", Some("ann"), &["ann"], &named, None),
            ("a key without a user", None, &[], &keyless, None),
            ("a channel's key", Some("ann"), &["ann"], &channel, None),
        ];
        for (case, holder, participants, speaker, expected) in table {
            let mut session = session(holder, participants);
            assert_eq!(person_of_turn(&session, speaker).as_ref(), expected, "{case}");
            session.head.is_group = true;
            assert_eq!(person_of_turn(&session, speaker), None, "{case}, in a group");
            session.head.is_group = false;
            session.details.memory_mode = MemoryMode::Incognito;
            assert_eq!(person_of_turn(&session, speaker), None, "{case}, incognito");
            session.details.memory_mode = MemoryMode::Local;
            session.head.is_talk = false;
            assert_eq!(person_of_turn(&session, speaker), None, "{case}, in work");
        }
    }

    #[test]
    fn only_people_trigger_runs_with_their_activity() {
        let by = |role, name: Option<&str>| {
            let credential = CredentialId::stored("key");
            let actor = Actor { role, user: name.map(user), credential, ..Actor::local(SourceKind::Api) };
            BridgePerson::of(&actor)
        };
        for role in [Role::Owner, Role::Member] {
            assert_eq!(by(role, Some("ann")), Some(BridgePerson::User(user("ann"))));
            assert_eq!(by(role, None), None);
        }
        for role in [Role::Guest, Role::Worker, Role::Channel, Role::Share] {
            assert_eq!(by(role, Some("ann")), None, "{role:?}");
        }
        assert_eq!(BridgePerson::of(&Actor::local(SourceKind::Cli)), Some(BridgePerson::OnlyPerson));
    }

    #[test]
    fn a_run_is_given_the_activity_of_the_person_who_triggered_it_where_its_agent_says_so() {
        let agent = |activity: bool| -> Agent {
            let text = format!(r#"{{"slug":"a","name":"A","activity":{activity}}}"#);
            crate::definitions::read(&Json::stored(text)).unwrap().1
        };
        let (wants, silent) = (agent(true), agent(false));
        let plain: Agent = crate::definitions::read(&Json::stored(r#"{"slug":"a","name":"A"}"#)).unwrap().1;
        let run = |holder: Option<&str>, triggered_by: Option<BridgePerson>| {
            let mut session = session(holder, &["ann", "bob"]);
            session.head.is_talk = false;
            session.details.run = Some(Run { triggered_by, ..Run::default() }.to_json().unwrap());
            session
        };
        let ann = BridgePerson::User(user("ann"));
        let of_ann = run(Some("ann"), Some(ann.clone()));
        assert_eq!(person_of_run(&of_ann, Some(&wants)), Some(ann.clone()));
        for (case, agent) in [("no", Some(&silent)), ("nothing", Some(&plain)), ("no agent", None)] {
            assert_eq!(person_of_run(&of_ann, agent), None, "{case}");
        }
        let local = run(None, Some(BridgePerson::OnlyPerson));
        assert_eq!(person_of_run(&local, Some(&wants)), Some(BridgePerson::OnlyPerson));
        let retried_by_another = run(Some("bob"), Some(ann));
        assert_eq!(person_of_run(&retried_by_another, Some(&wants)), None);
        for holder in [None, Some("ann")] {
            assert_eq!(person_of_run(&run(holder, None), Some(&wants)), None, "by a schedule or a worker");
        }
        let mut group = of_ann.clone();
        group.head.is_group = true;
        assert_eq!(person_of_run(&group, Some(&wants)), None);
        let mut incognito = of_ann;
        incognito.details.memory_mode = MemoryMode::Incognito;
        assert_eq!(person_of_run(&incognito, Some(&wants)), None);
    }
}
