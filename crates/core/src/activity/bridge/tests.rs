use super::*;
use crate::access::Role;
use crate::ids::{CredentialId, RandomIds, TenantId};
use crate::store::NewSession as Made;

const HERE: &str = "0190d3c0-0000-7000-8000-00000000000a";
const NOW: Timestamp = Timestamp::from_micros(1_000_000);

fn task(id: &str, status: TaskStatus) -> StoredDefinition<Task> {
    let text = format!(r#"{{"slug":"{id}","name":"The {id}","status":"{}"}}"#, status.as_str());
    StoredDefinition {
        id: id.into(),
        value: serde_json::from_str(&text).unwrap(),
        version: 1,
        created_by: None,
        created_at: NOW,
        updated_at: NOW,
    }
}

fn made(start: BridgeStart) -> (Option<SessionStep>, Made) {
    match start {
        BridgeStart::New { ended, new } => (ended.map(|step| *step), *new),
        BridgeStart::Running => panic!("nothing was made"),
    }
}

fn running(task_id: &str) -> Session {
    let holder = Some(UserId::stored("ada"));
    let (_, mut new) =
        made(start(holder, &task(task_id, TaskStatus::Active), None, NOW, &RandomIds).unwrap());
    new.stamp(NOW);
    let head = new.head.clone();
    new.made(TenantId::stored("t"), head, NOW)
}

#[test]
fn a_start_makes_a_running_bridge_of_the_task() {
    let session = running("q2");
    assert!(session.head.is_bridge && !session.head.is_talk);
    assert_eq!((session.head.status, session.head.session_type), (Status::Running, SessionType::Mixed));
    assert_eq!(session.details.title.as_deref(), Some("The q2"));
    assert_eq!(session.details.task_id.as_deref(), Some("q2"));
    assert_eq!(session.details.source.kind, SourceKind::HumanSessionBridge);
    assert!(session.details.source.interactive);
    assert_eq!(session.head.deadline_at, Some(NOW.plus(limits::BRIDGE_DEADLINE)));
    assert_eq!(session.participants, [UserId::stored("ada")]);
}

#[test]
fn a_start_keeps_the_same_task_and_supersedes_another() {
    let former = running("q2");
    let begin = |name: &str, now| {
        start(Some(UserId::stored("ada")), &task(name, TaskStatus::Active), Some(&former), now, &RandomIds)
    };
    assert!(matches!(begin("q2", NOW).unwrap(), BridgeStart::Running));
    let (ended, _) = made(begin("q3", NOW).unwrap());
    let ended = ended.unwrap().update;
    assert_eq!((ended.status, ended.end_reason.as_deref()), (Some(Status::Completed), Some("superseded")));
    assert!(ended.completed);

    let late = NOW.plus(limits::BRIDGE_DEADLINE);
    let (ended, _) = made(begin("q2", late).unwrap());
    let ended = ended.unwrap().update;
    assert_eq!((ended.status, ended.end_reason.as_deref()), (Some(Status::Abandoned), Some("deadline")));
}

#[test]
fn only_an_active_task_is_worked_on() {
    for status in [TaskStatus::Paused, TaskStatus::Done, TaskStatus::Archived] {
        let refused = start(None, &task("q2", status), None, NOW, &RandomIds).unwrap_err();
        assert_eq!(refused.code(), "task_not_active", "{status:?}");
    }
}

#[test]
fn a_bridge_stays_on_a_task_that_was_paused_meanwhile() {
    let on_it = running("q2");
    let begin = |task_id: &str, now| {
        start(Some(UserId::stored("ada")), &task(task_id, TaskStatus::Paused), Some(&on_it), now, &RandomIds)
    };
    assert!(matches!(begin("q2", NOW).unwrap(), BridgeStart::Running), "nothing is written");
    assert_eq!(begin("q3", NOW).unwrap_err().code(), "task_not_active");
    let late = NOW.plus(limits::BRIDGE_DEADLINE);
    assert_eq!(begin("q2", late).unwrap_err().code(), "task_not_active", "a new one is not started");
}

#[test]
fn a_stop_ends_a_bridge_once() {
    let mut session = running("q2");
    let step = stop(&session).unwrap().unwrap();
    assert_eq!((step.update.status, step.update.completed), (Some(Status::Completed), true));
    for ended in [Status::Completed, Status::Abandoned] {
        session.head.status = ended;
        assert!(stop(&session).unwrap().is_none());
    }
}

#[test]
fn a_person_is_a_user_or_the_one_caller_without_authentication() {
    let local = Actor::local(SourceKind::Api);
    let operator = Actor { credential: CredentialId::stored("operator"), ..local.clone() };
    let key = Actor { credential: CredentialId::stored("k"), ..local.clone() };
    let apart = ActivitySettings::default();
    let alone = ActivitySettings { one_person: true, ..apart.clone() };
    assert_eq!(person(&local, &apart).unwrap(), None);
    assert_eq!(person(&operator, &alone).unwrap(), None);
    assert_eq!(person(&operator, &apart).unwrap_err().code(), "denied");
    assert_eq!(person(&key, &alone).unwrap_err().code(), "denied");
    for role in Role::ALL {
        let ada = Actor { role, user: Some(UserId::stored("ada")), ..key.clone() };
        let may = matches!(role, Role::Owner | Role::Member);
        assert_eq!(person(&ada, &apart).is_ok(), may, "{role:?}");
    }
}

fn checked(kind: &str, content: Option<&str>, metadata: &str) -> Result<Recorded> {
    let json = |text: &str| Json::parse(text.as_bytes()).unwrap();
    check_event(&EventType::parse(kind).unwrap(), content.map(json).as_ref(), Some(&json(metadata)))
}

#[test]
fn aliases_are_stored_in_snake_case() {
    let sent = format!(
        r#"{{"entityId":"{}","entityType":"companies","pathname":"/t/acme/companies/{HERE}?tab=1#top"}}"#,
        HERE.to_uppercase()
    );
    let view = checked("human.entity_view", None, &sent).unwrap();
    let stored = format!(
        r#"{{"entity_id":"{HERE}","entity_type":"companies","pathname":"/t/acme/companies/{HERE}"}}"#
    );
    assert_eq!(view.metadata.unwrap().value(), serde_json::from_str::<Value>(&stored).unwrap());
    assert_eq!(view.external_event_id.as_deref(), Some(&*format!("human.entity_view:{HERE}")));
    let switch = checked("human.task_switch", None, r#"{"fromTaskId":"a","toTaskId":"b"}"#).unwrap();
    let kind = EventType::known(TASK_SWITCH);
    let expected = TaskSwitch { from_task_id: "a".into(), to_task_id: "b".into() };
    assert_eq!(TaskSwitch::of(&kind, switch.metadata.as_ref()), Some(expected));
}

#[test]
fn a_path_is_cut_at_its_query_and_bounded() {
    let path = |text: &str| {
        let sent = Json::of(&serde_json::json!({ "pathname": text })).unwrap();
        checked("human.navigate", None, sent.as_str())
            .map(|event| event.metadata.unwrap().value()["pathname"].as_str().unwrap().to_owned())
    };
    for (sent, stored) in [("/chat?q=secret", "/chat"), ("/a#b?c", "/a"), ("/?", "/"), ("/ä b", "/ä b")] {
        assert_eq!(path(sent).unwrap(), stored);
    }
    let most = format!("/{}", "é".repeat(limits::PATHNAME_CHARS_MAX - 1));
    assert_eq!(path(&format!("{most}?{}", "x".repeat(10_000))).unwrap(), most);
    for bad in ["chat", "", "?a", "https://a/b", "/a\nb", "/a\u{7f}", &format!("{most}x")] {
        assert_eq!(path(bad).unwrap_err().code(), "invalid", "{bad:?}");
    }
}

#[test]
fn nothing_but_the_listed_keys_is_recorded() {
    let at = r#""at":"2026-11-18T10:00:00.123Z""#;
    assert!(checked("human.navigate", None, &format!(r#"{{"pathname":"/",{at}}}"#)).is_ok());
    assert!(checked("human.marker", Some(r#"[{"type":"text","text":"x"}]"#), &format!("{{{at}}}")).is_ok());
    // A time may name a zone, and a long name is no place for other data.
    let of_zone = |bytes: usize| {
        let zone = "A".repeat(bytes - "2026-11-18T10:00:00Z[]".len());
        checked("human.navigate", None, &format!(r#"{{"pathname":"/","at":"2026-11-18T10:00:00Z[{zone}]"}}"#))
    };
    assert!(of_zone(limits::TIME_BYTES_MAX).is_ok());
    assert!(of_zone(limits::TIME_BYTES_MAX + 1).is_err());
    for (kind, metadata, field) in [
        ("human.navigate", r#"{"pathname":"/","title":"Inbox"}"#, "metadata.title"),
        ("human.navigate", r#"{"pathname":"/","at":{"screenshot":"…"}}"#, "metadata.at"),
        ("human.navigate", r#"{"pathname":"/","at":"yesterday"}"#, "metadata.at"),
        ("human.navigate", r#"{"pathname":{"a":1}}"#, "metadata.pathname"),
        ("human.navigate", "{}", "metadata.pathname"),
        (
            "human.task_switch",
            r#"{"from_task_id":"a","fromTaskId":"a","to_task_id":"b"}"#,
            "metadata.fromTaskId",
        ),
        ("human.task_switch", r#"{"from_task_id":"a"}"#, "metadata.to_task_id"),
        ("human.task_switch", r#"{"from_task_id":"a","to_task_id":"b","pathname":"/"}"#, "metadata.pathname"),
        ("human.task_switch", r#"{"from_task_id":"a","to_task_id":""}"#, "metadata.to_task_id"),
        (
            "human.entity_view",
            r#"{"entity_id":"x","entity_type":"c","pathname":"/entities/x"}"#,
            "metadata.entity_id",
        ),
    ] {
        match checked(kind, None, metadata).unwrap_err() {
            Error::Invalid { field: named, .. } => assert_eq!(named, field, "{kind} {metadata}"),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_view_leads_to_the_entity_that_it_names() {
    let view = |path: &str| {
        let sent = format!(r#"{{"entity_id":"{HERE}","entity_type":"companies","pathname":"{path}"}}"#);
        checked("human.entity_view", None, &sent).is_ok()
    };
    let other = HERE.replace('a', "b");
    for (path, fits) in [
        (format!("/entities/{HERE}"), true),
        (format!("/t/acme/companies/{HERE}"), true),
        (format!("/t/acme/companies/{HERE}/edit"), false),
        (format!("/t//companies/{HERE}"), false),
        (format!("/t/acme/{HERE}"), false),
        (format!("/entities/{other}"), false),
        (format!("/entities/{}", HERE.replace('-', "")), false),
        ("/entities".to_owned(), false),
        ("/".to_owned(), false),
    ] {
        assert_eq!(view(&path), fits, "{path}");
    }
}

#[test]
fn only_a_marker_says_something_and_it_is_one_text() {
    let marker = |text: &str| checked("human.marker", Some(text), "{}");
    let of = |n: usize| format!(r#"[{{"type":"text","text":"{}"}}]"#, "é".repeat(n));
    assert!(marker(&of(1)).is_ok() && marker(&of(limits::MARKER_CHARS_MAX)).is_ok());
    for bad in [
        of(0),
        of(limits::MARKER_CHARS_MAX + 1),
        "[]".into(),
        r#"[{"type":"data","text":"x"}]"#.into(),
        r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#.into(),
        r#"[{"type":"text","text":"a","image":"b"}]"#.into(),
        r#"[{"type":"text"}]"#.into(),
    ] {
        assert_eq!(marker(&bad).unwrap_err().code(), "invalid", "{bad}");
    }
    assert_eq!(checked("human.marker", None, "{}").unwrap_err().code(), "invalid");
    let said = checked("human.navigate", Some(&of(1)), r#"{"pathname":"/"}"#);
    assert_eq!(said.unwrap_err().code(), "invalid");
}

#[test]
fn a_switch_moves_on_from_the_task_of_the_bridge_only() {
    let to = task("q3", TaskStatus::Active);
    let sent = Json::stored(r#"{"from_task_id":"slug","to_task_id":"q3"}"#);
    let (title, metadata) = switch(Some("q2"), Some("q2"), &to, &sent).unwrap();
    assert_eq!(&*title, "The q3");
    assert_eq!(metadata.value()["from_task_id"], "q2");
    for (current, from) in [(Some("q2"), Some("q1")), (Some("q2"), None), (None, None)] {
        assert_eq!(switch(current, from, &to, &sent).unwrap_err().code(), "stale_base");
    }
    let paused = task("q3", TaskStatus::Paused);
    assert_eq!(switch(Some("q2"), Some("q2"), &paused, &sent).unwrap_err().code(), "task_not_active");
}

#[test]
fn excluded_paths_are_recognised_by_their_beginning() {
    let settings = ActivitySettings { exclude: vec!["/admin".into()], ..ActivitySettings::default() };
    let visit = |kind: &'static str, path: &str| {
        let metadata = Json::of(&serde_json::json!({ "pathname": path })).unwrap();
        NewEvent::engine(EventType::parse(kind).unwrap(), Some(metadata))
    };
    assert!(is_excluded(&visit("human.navigate", "/admin/keys"), &settings));
    assert!(is_excluded(&visit("human.entity_view", "/administrators"), &settings));
    assert!(!is_excluded(&visit("human.navigate", "/"), &settings));
    assert!(!is_excluded(&visit("a.b", "/admin"), &settings));
    assert!(!is_excluded(&visit("human.navigate", "/admin"), &ActivitySettings::default()));
}
