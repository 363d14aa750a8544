use serde_json::Value;

use super::*;
use crate::event::{AppendOutcome, Event, advance};
use crate::ids::{SessionId, UserId};
use crate::session::SessionType;
use crate::session::decide::tests::session_in;
use crate::session::row::{Claim, Turn};

pub const NOW: Timestamp = Timestamp::from_micros(100_000_000);
pub const SETTINGS: Settings = Settings {
    idle_after: Duration::from_secs(60),
    lease: Duration::from_secs(30),
    confirm_within: Duration::from_secs(120),
};

pub fn hold() -> TurnHost {
    TurnHost { worker: "w".into(), credential: CredentialId::stored("c"), lease: SETTINGS.lease }
}

fn talking(status: Status) -> Session {
    let mut session = session_in(status);
    session.head.is_talk = true;
    session.head.session_type = SessionType::Mixed;
    session.participants = vec![UserId::stored("holder")];
    session
}

/// A session in which a turn runs, with this much of its lease left.
pub fn running(left: i64) -> Session {
    let mut session = talking(Status::Running);
    session.head.turn = Some(Turn { sequence: 3, answered: false });
    session.head.last_sequence = 4;
    session.head.claim = Some(Claim {
        worker: "w".into(),
        credential: CredentialId::stored("c"),
        lease_until: Timestamp::from_micros(NOW.as_micros() + left),
    });
    session
}

pub fn message(on_busy: OnBusy) -> IncomingMessage {
    let content = Json::stored(r#"[{"type":"text","text":"hi"}]"#);
    let event =
        NewEvent { content: Some(content), ..NewEvent::engine(EventType::known("user.message"), None) };
    IncomingMessage { event, on_busy, tier: Tier::Fast, speaker: alone() }
}

/// The holder of [`talking`], who is its only participant.
pub fn alone() -> TurnSpeaker {
    let holder = Some(UserId::stored("holder"));
    TurnSpeaker { caller: holder.clone(), user: holder, ..TurnSpeaker::default() }
}

pub fn sat(active: i64) -> Talk {
    sat_on("user:holder", active)
}

/// A sitting on this memory.
fn sat_on(owner: &str, active: i64) -> Talk {
    let mut talk = Talk::default();
    let _ = open_sitting(&mut talk, &Owner::stored(owner), &TurnSpeaker::default()).unwrap();
    if let Some(open) = &mut talk.sitting {
        open.active_at = Some(Timestamp::from_micros(NOW.as_micros() - active));
    }
    talk
}

fn begun(session: &Session, talk: &Talk, on_busy: OnBusy) -> Result<MessagePlan> {
    begin(session, talk, message(on_busy), &hold(), NOW, &SETTINGS)
}

pub fn kinds(step: &SessionStep) -> Vec<&str> {
    step.events.iter().map(|event| event.kind.as_str()).collect()
}

#[test]
fn the_first_message_opens_a_sitting_and_its_turn() {
    let MessagePlan::Started(plan) = begun(&talking(Status::Idle), &Talk::default(), OnBusy::Queue).unwrap()
    else {
        panic!("it did not start")
    };
    assert_eq!(kinds(&plan.step), ["session.sitting_started", "user.message", "session.status_change"]);
    assert_eq!(plan.step.update.status, Some(Status::Running));
    assert!(matches!(plan.step.update.claim, Some(ClaimChange::Take { .. })));
    let open = plan.talk.sitting.unwrap();
    assert_eq!((open.number, open.turns, open.owner.as_str()), (1, 0, "user:holder"));
}

#[test]
fn a_sitting_stays_open_and_keeps_its_owner() {
    let MessagePlan::Started(plan) = begun(&talking(Status::Idle), &sat(1), OnBusy::Queue).unwrap() else {
        panic!("it did not start")
    };
    assert_eq!(kinds(&plan.step), ["user.message", "session.status_change"]);
    assert_eq!(plan.talk.sitting.unwrap().owner.as_str(), "user:holder");
}

fn speaks(name: &str, is_owner: bool) -> TurnSpeaker {
    let user = Some(UserId::stored(name));
    TurnSpeaker { caller: user.clone(), user, is_owner, ..TurnSpeaker::default() }
}

#[test]
fn a_turn_on_another_memory_ends_the_sitting_first() {
    let with_friend = || {
        let mut session = talking(Status::Idle);
        session.participants.push(UserId::stored("friend"));
        session
    };
    let other = Some(EndFirst { sitting: 1, why: EndReason::MemoryOwnerChanged });
    let own = format!("session:{}", talking(Status::Idle).id);
    let table = [
        ("the holder alone", talking(Status::Idle), "user:holder", alone(), None),
        ("the holder, whom somebody has joined", with_friend(), "user:holder", alone(), other),
        ("whoever joined", with_friend(), "user:holder", speaks("friend", false), other),
        ("an owner who joins by speaking", talking(Status::Idle), "user:holder", speaks("boss", true), other),
        ("two in a sitting of both", with_friend(), own.as_str(), speaks("friend", false), None),
        ("the holder alone again", talking(Status::Idle), own.as_str(), alone(), other),
    ];
    for (case, session, owner, speaker, expected) in table {
        let talk = sat_on(owner, 1);
        let asked = IncomingMessage { speaker: speaker.clone(), ..message(OnBusy::Queue) };
        let found = match begin(&session, &talk, asked, &hold(), NOW, &SETTINGS).unwrap() {
            MessagePlan::EndFirst(first) => Some(first),
            MessagePlan::Started(_) => None,
            MessagePlan::Queued(_) => panic!("{case} waits"),
        };
        assert_eq!(found, expected, "{case}");
        let mut waiting = talk.clone();
        waiting.queue.push(QueuedMessage { sequence: Some(4), steers: false, tier: Tier::Fast, speaker });
        let found = match next(&session, &waiting, &hold(), NOW, &SETTINGS).unwrap() {
            Some(MessagePlan::EndFirst(first)) => Some(first),
            Some(MessagePlan::Started(_)) => None,
            other => panic!("{case}: {other:?}"),
        };
        assert_eq!(found, expected, "{case}, after it has waited");
    }
}

#[test]
fn an_owner_takes_part_from_the_turn_on_in_which_they_speak() {
    let asked = || IncomingMessage { speaker: speaks("boss", true), ..message(OnBusy::Steer) };
    let MessagePlan::Queued(plan) = begin(&running(1), &sat(1), asked(), &hold(), NOW, &SETTINGS).unwrap()
    else {
        panic!("it does not wait")
    };
    assert_eq!(plan.step.update.add_participant, None, "the running turn uses the holder's memory");
    assert!(!plan.talk.queue[0].steers, "and is not steered by somebody else");
    let MessagePlan::Started(plan) =
        begin(&talking(Status::Idle), &Talk::default(), asked(), &hold(), NOW, &SETTINGS).unwrap()
    else {
        panic!("it did not start")
    };
    assert_eq!(plan.step.update.add_participant, Some(UserId::stored("boss")));
}

#[test]
fn a_message_while_a_turn_runs_does_what_it_asks_for() {
    for (on_busy, place, stops, steers) in [
        (OnBusy::Queue, 1, None, false),
        (OnBusy::Interrupt, 0, Some(true), false),
        (OnBusy::Steer, 1, None, true),
    ] {
        let mut talk = sat(1);
        talk.queue.push(QueuedMessage {
            sequence: Some(4),
            steers: false,
            tier: Tier::Fast,
            speaker: alone(),
        });
        let MessagePlan::Queued(plan) = begun(&running(1), &talk, on_busy).unwrap() else {
            panic!("{on_busy:?}")
        };
        assert_eq!(kinds(&plan.step), ["user.message"], "{on_busy:?}");
        assert_eq!(
            plan.talk.queue[place],
            QueuedMessage { sequence: None, steers, tier: Tier::Fast, speaker: alone() },
            "{on_busy:?}"
        );
        assert_eq!((plan.step.update.stop_requested, plan.step.update.status), (stops, None), "{on_busy:?}");
    }
    let refused = begun(&running(1), &sat(1), OnBusy::Reject).unwrap_err();
    assert_eq!(refused.code(), "session_busy");
    let mut full = sat(1);
    full.queue = vec![
        QueuedMessage { sequence: Some(4), steers: false, tier: Tier::Fast, speaker: alone() };
        limits::TURN_QUEUE_MAX - 1
    ];
    assert!(begun(&running(1), &full, OnBusy::Queue).is_ok());
    full.queue.push(full.queue[0].clone());
    assert_eq!(begun(&running(1), &full, OnBusy::Queue).unwrap_err().code(), "session_busy");
}

#[test]
fn a_message_waits_while_a_person_is_asked_something() {
    for status in [Status::WaitingHuman, Status::AwaitingTool] {
        assert!(
            matches!(begun(&talking(status), &sat(1), OnBusy::Queue), Ok(MessagePlan::Queued(_))),
            "{status}"
        );
    }
}

#[test]
fn a_dead_turn_is_closed_in_the_log_and_the_next_one_works() {
    let MessagePlan::Started(plan) = begun(&running(0), &sat(1), OnBusy::Reject).unwrap() else {
        panic!("it did not start")
    };
    assert_eq!(
        kinds(&plan.step),
        ["session.turn", "session.status_change", "user.message", "session.status_change"]
    );
    let closed = plan.step.events[0].metadata.as_ref().unwrap().value();
    assert_eq!((closed["turn"].as_u64(), closed["outcome"].as_str()), (Some(3), Some("interrupted")));
    assert!(!plan.talk.interrupted);
}

#[test]
fn a_dead_turn_leaves_the_state_that_its_log_tells_of() {
    let mut talk = sat(1);
    talk.state
        .touch(&StateFields::default().with("route", "talk".into()).with("diagnostics", json!({"a": 1})));
    let session = running(-1);
    let swept = interrupted(&session, &talk).unwrap();
    let Ok(MessagePlan::Started(next)) = begun(&session, &talk, OnBusy::Queue) else {
        panic!("no turn begins")
    };
    for plan in [&swept, &*next] {
        assert_eq!(plan.talk.state.get("route"), None, "what describes a turn is gone with the next");
        assert!(plan.talk.state.at("diagnostics", "a").is_some());
    }
}

#[test]
fn a_sitting_that_was_silent_for_too_long_is_ended_first() {
    let silent = 60_000_000;
    assert!(matches!(
        begun(&talking(Status::Idle), &sat(silent), OnBusy::Queue),
        Ok(MessagePlan::EndFirst(_))
    ));
    assert!(matches!(
        begun(&talking(Status::Idle), &sat(silent - 1), OnBusy::Queue),
        Ok(MessagePlan::Started(_))
    ));
}

#[test]
fn what_waits_gets_its_turn_when_nothing_runs() {
    let mut talk = sat(1);
    assert!(next(&talking(Status::Idle), &talk, &hold(), NOW, &SETTINGS).unwrap().is_none());
    talk.queue.push(QueuedMessage { sequence: Some(7), steers: true, tier: Tier::Quality, speaker: alone() });
    assert!(next(&running(1), &talk, &hold(), NOW, &SETTINGS).unwrap().is_none());
    for (name, session) in [("idle", talking(Status::Idle)), ("dead", running(0))] {
        let Some(MessagePlan::Started(plan)) = next(&session, &talk, &hold(), NOW, &SETTINGS).unwrap() else {
            panic!("{name}")
        };
        assert_eq!(plan.step.update.turn, Some(7), "{name}");
        assert!(plan.talk.queue.is_empty(), "{name}");
    }
}

#[test]
fn the_end_of_a_turn_keeps_its_change_and_the_whole_state_now_and_then() {
    let outcome = || TurnOutcome {
        kind: TurnOutcomeKind::Answered,
        events: Vec::new(),
        change: StateFields::default().with("route", "talk".into()),
        buffer: Buffer::default(),
        crisis: 2,
        records: TurnRecords::default(),
        usage: None,
    };
    let mut talk = sat(1);
    for turn in 1..=state::WHOLE_EVERY {
        let plan = finish(&running(1), &talk, outcome()).unwrap();
        assert_eq!(kinds(&plan.step), ["session.turn", "session.status_change"]);
        let said = plan.step.events[0].metadata.as_ref().unwrap().value();
        assert_eq!(said["whole"], if turn == state::WHOLE_EVERY { Value::Bool(true) } else { Value::Null });
        assert_eq!(said["state"]["session_progress"]["turn_count"], turn);
        assert_eq!(said["turn"], 3);
        talk = plan.talk;
    }
    let open = talk.sitting.as_ref().unwrap();
    assert_eq!((open.turns, open.crisis_max), (state::WHOLE_EVERY, 2));
    assert_eq!(talk.state.get("route"), Some(&Value::from("talk")));
}

#[test]
fn a_message_that_waits_does_not_take_over_the_running_turn() {
    let mut session = running(1);
    let (appended, _) =
        advance(&session.id, &mut session.head, vec![message(OnBusy::Queue).event], NOW, |_| None);
    let [AppendOutcome::New(waiting)] = &appended[..] else { panic!("it was not kept") };
    assert_eq!((waiting.sequence, waiting.turn), (5, Some(5)));
    assert_eq!(session.head.turn.unwrap().sequence, 3);
    let mut dead = running(0);
    advance(&dead.id, &mut dead.head, vec![message(OnBusy::Queue).event], NOW, |_| None);
    assert_eq!(dead.head.turn.unwrap().sequence, 5);
}

#[test]
fn a_row_knows_its_sequences_and_times_once_it_has_landed() {
    let mut session = talking(Status::Idle);
    let MessagePlan::Started(plan) = begun(&session, &Talk::default(), OnBusy::Queue).unwrap() else {
        panic!("it did not start")
    };
    let mut talk = plan.talk;
    talk.queue.push(QueuedMessage { sequence: None, steers: false, tier: Tier::Fast, speaker: alone() });
    let (appended, _) = advance(&session.id, &mut session.head, plan.step.events, NOW, |_| None);
    talk.land(&appended, NOW);
    let first = appended[0].sequence();
    let open = talk.sitting.clone().unwrap();
    assert_eq!((open.first, open.opened_at, open.active_at), (Some(first), Some(NOW), Some(NOW)));
    assert_eq!(talk.waiting(), Some(first + 1));
    let later = NOW.plus(Duration::from_secs(1));
    talk.land(&[], later);
    assert_eq!((talk.sitting.unwrap().opened_at, talk.queue[0].sequence), (Some(NOW), Some(first + 1)));
}

#[test]
fn a_conversation_stands_as_its_rows_say() {
    let silent = 60_000_000;
    let cases = [
        ("nothing said", talking(Status::Idle), Talk::default(), Liveness::Absent),
        ("in the middle", running(1), sat(silent), Liveness::Active),
        ("just now", talking(Status::Idle), sat(1), Liveness::Active),
        ("long ago", talking(Status::Idle), sat(silent), Liveness::Expired),
        ("its runner is gone", running(0), sat(1), Liveness::Interrupted),
        (
            "its runner was gone",
            talking(Status::Idle),
            Talk { interrupted: true, ..sat(1) },
            Liveness::Interrupted,
        ),
    ];
    for (name, session, talk, expected) in cases {
        assert_eq!(liveness(&session, &talk, NOW, &SETTINGS), expected, "{name}");
    }
}

#[test]
fn a_sitting_ends_once_and_not_under_a_running_turn() {
    let end =
        |session: &Session, talk: &Talk, why| sitting::end(session, talk, why, None, None, Vec::new(), NOW);
    use sitting::EndReason::{Asked, Discarded, Silence};
    assert!(end(&talking(Status::Idle), &Talk::default(), Asked).unwrap().is_none());
    assert_eq!(end(&running(1), &sat(1), Silence).unwrap_err().code(), "session_busy");
    for (why, discarded) in [(Asked, false), (Silence, false), (Discarded, true)] {
        let plan = end(&talking(Status::Idle), &sat(1), why).unwrap().unwrap();
        assert_eq!(kinds(&plan.step), ["session.sitting_ended"]);
        let ended = plan.talk.ended.clone().unwrap();
        assert_eq!((ended.number, ended.discarded, ended.rated), (1, discarded, false));
        assert!(end(&talking(Status::Idle), &plan.talk, why).unwrap().is_none());
    }
}

#[test]
fn a_summary_uses_the_persons_calm_messages_and_their_answers_alone() {
    let said = |sequence, kind, author: Option<&str>, turn, text: &str| Event {
        session_id: SessionId::stored("s"),
        sequence,
        kind: EventType::known(kind),
        content: Some(Json::of(&json!([{"type": "text", "text": text}])).unwrap()),
        metadata: None,
        subthread_id: None,
        external_event_id: None,
        turn,
        author: author.map(Into::into),
        at: NOW,
    };
    let all = vec![
        said(1, "user.message", Some("holder"), None, "I feel lonely"),
        said(2, "agent.message", None, Some(1), "Tell me more"),
        said(3, "user.message", Some("other"), None, "I want to join"),
        said(4, "user.message", Some("holder"), None, "A message that was noted as a crisis"),
        said(5, "agent.message", None, Some(4), "There is help"),
        said(6, "user.message", Some("holder"), None, "I want to kill myself"),
        said(7, "agent.message", None, Some(6), "There is help"),
    ];
    let mut open = sat(1).sitting.unwrap();
    open.crisis_turns.push(4);
    let used = |open: &Sitting| -> Vec<u64> {
        let settings = crate::safety::Settings::default();
        sitting::summarisable(open, all.clone(), &settings).iter().map(|event| event.sequence).collect()
    };
    assert_eq!(used(&open), [1, 2]);
    open.owner = Owner::stored("session:s");
    assert_eq!(used(&open), [1, 2, 3], "the memory of a conversation holds what all of its people say");
}

#[test]
fn a_sitting_notes_the_newest_messages_with_a_crisis_and_no_more_than_the_bound() {
    let mut talk = sat(1);
    let noted = |talk: &Talk| talk.sitting.as_ref().unwrap().crisis_turns.clone();
    let most = limits::CRISIS_TURNS_NOTED_MAX as u64;
    for turn in 0..=most {
        let outcome = TurnOutcome {
            kind: TurnOutcomeKind::Answered,
            events: Vec::new(),
            change: StateFields::default(),
            buffer: Buffer::default(),
            crisis: 1,
            records: TurnRecords::default(),
            usage: None,
        };
        let mut session = running(1);
        session.head.turn = Some(Turn { sequence: turn, answered: false });
        talk = finish(&session, &talk, outcome).unwrap().talk;
        if turn + 1 == most {
            assert_eq!(noted(&talk), (0..most).collect::<Vec<_>>());
        }
    }
    assert_eq!(noted(&talk), (1..=most).collect::<Vec<_>>(), "the oldest makes room");
}
