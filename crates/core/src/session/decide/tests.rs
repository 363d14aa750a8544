use super::*;
use crate::ids::{CredentialId, RandomIds, TenantId};

/// A work session of an owner, in this status.
pub(crate) fn session_in(status: Status) -> Session {
    Session {
        tenant: TenantId::stored("t"),
        id: SessionId::stored("s"),
        head: Head::blank(
            Incarnation::drawn(&RandomIds),
            SessionType::Agent,
            status,
            Some(UserId::stored("holder")),
        ),
        details: Details::blank(SessionSource::direct(SourceKind::Api, false)),
        participants: vec![UserId::stored("holder"), UserId::stored("friend")],
    }
}

fn actor(role: Role, user: Option<&str>) -> Actor {
    Actor {
        tenant: TenantId::stored("t"),
        credential: CredentialId::stored("c"),
        role,
        user: user.map(UserId::stored),
        prefix: (role == Role::Channel).then(|| "telegram:".into()),
        shared: None,
        view: None,
        link: None,
        surface: SourceKind::Api,
        rules: crate::talk::route::ChannelRules::default(),
    }
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

fn wish() -> OpenSession {
    OpenSession { session_type: Some(SessionType::Mixed), ..OpenSession::default() }
}

#[test]
fn public_moves_are_those_of_the_table_and_no_others() {
    let ok = [
        ("draft", "pending", "owner"),
        ("draft", "abandoned", "owner"),
        ("draft", "abandoned", "holder"),
        ("draft", "expired", "owner"),
        ("pending", "abandoned", "owner"),
        ("pending", "expired", "owner"),
        ("running", "abandoned", "owner"),
        ("running", "abandoned", "holder"),
        ("running", "expired", "owner"),
        ("waiting_human", "abandoned", "owner"),
        ("waiting_human", "abandoned", "holder"),
        ("waiting_human", "expired", "owner"),
        ("awaiting_tool", "abandoned", "owner"),
        ("awaiting_tool", "abandoned", "holder"),
        ("awaiting_tool", "expired", "owner"),
        ("idle", "abandoned", "owner"),
        ("idle", "abandoned", "holder"),
        ("idle", "expired", "owner"),
    ];
    for from in Status::ALL {
        for to in Status::ALL {
            for (who, actor) in [
                ("owner", actor(Role::Owner, Some("boss"))),
                ("holder", actor(Role::Member, Some("holder"))),
                ("friend", actor(Role::Member, Some("friend"))),
                ("guest", actor(Role::Guest, Some("friend"))),
            ] {
                let asked = Transition { to, expected: None, reason: None };
                let answer = transition(&actor, &session_in(from), None, &asked);
                let listed = ok.contains(&(from.as_str(), to.as_str(), who));
                assert_eq!(answer.is_ok(), listed, "{from} to {to} by {who}: {answer:?}");
            }
        }
    }
}

#[test]
fn an_external_session_is_moved_by_its_holder() {
    let mut session = session_in(Status::Idle);
    session.head.is_external = true;
    let asked = Transition { to: Status::Running, expected: Some(Status::Idle), reason: None };
    assert!(transition(&actor(Role::Member, Some("holder")), &session, None, &asked).is_ok());
    assert_eq!(
        transition(&actor(Role::Member, Some("friend")), &session, None, &asked).unwrap_err().code(),
        "denied"
    );
    let stale = Transition { to: Status::Running, expected: Some(Status::Draft), reason: None };
    let error = transition(&actor(Role::Member, Some("holder")), &session, None, &stale).unwrap_err();
    assert_eq!(error.code(), "invalid_transition");
}

#[test]
fn a_child_of_a_graph_is_never_started_by_hand() {
    let mut child = session_in(Status::Draft);
    child.details.parent_id = Some(SessionId::stored("parent"));
    let asked = Transition { to: Status::Pending, expected: None, reason: None };
    assert!(transition(&actor(Role::Owner, None), &child, None, &asked).is_err());
}

#[test]
fn only_owners_open_work() {
    let member = actor(Role::Member, Some("m"));
    let work = [
        OpenSession { status: Some(Status::Pending), ..wish() },
        OpenSession { task_id: Some("t".into()), ..wish() },
        OpenSession { agent_slug: Some("a".into()), ..wish() },
        OpenSession { parent_id: Some("p".into()), ..wish() },
        OpenSession { priority: Some(1), ..wish() },
    ];
    for wish in work {
        let id = SessionId::stored("x");
        assert_eq!(open(&member, id.clone(), wish.clone(), &RandomIds).unwrap_err().code(), "denied");
        assert!(open(&actor(Role::Owner, None), id, wish, &RandomIds).is_ok());
    }
}

#[test]
fn reserved_ids_and_platform_keys_belong_to_channels() {
    let id = SessionId::stored("telegram:2026-11-15-00000000");
    assert_eq!(
        open(&actor(Role::Owner, None), id.clone(), wish(), &RandomIds).unwrap_err().code(),
        "invalid"
    );
    let channel = open(&actor(Role::Channel, None), id, wish(), &RandomIds).unwrap();
    assert_eq!(channel.details.source.platform.as_deref(), Some("telegram"));
    assert_eq!(channel.details.source.kind, SourceKind::Channel);
    let outside = open(&actor(Role::Channel, None), SessionId::stored("cli:x"), wish(), &RandomIds);
    assert_eq!(outside.unwrap_err().code(), "denied");
    let forged = OpenSession { metadata: Some(json(r#"{"slack_thread_ts":"1"}"#)), ..wish() };
    assert_eq!(
        open(&actor(Role::Owner, None), SessionId::stored("x"), forged, &RandomIds).unwrap_err().code(),
        "invalid"
    );
}

#[test]
fn a_source_that_contradicts_the_surface_is_refused() {
    let source = SourceWish { kind: Some(SourceKind::Schedule), ..SourceWish::default() };
    let forged = OpenSession { source: Some(source), ..wish() };
    assert_eq!(
        open(&actor(Role::Owner, None), SessionId::stored("x"), forged, &RandomIds).unwrap_err().code(),
        "invalid"
    );
}

#[test]
fn talk_is_a_mixed_session_that_opens_idle() {
    let owner = actor(Role::Owner, None);
    let talk = |wish| open(&owner, SessionId::stored("x"), wish, &RandomIds).unwrap().head.is_talk;
    assert!(talk(wish()));
    assert!(!talk(OpenSession { status: Some(Status::Pending), ..wish() }));
    assert!(!talk(OpenSession { session_type: Some(SessionType::Agent), ..wish() }));
}

#[test]
fn reopening_merges_scalars_shows_again_and_leaves_closed_sessions_alone() {
    let owner = actor(Role::Owner, None);
    let mut session = session_in(Status::Idle);
    session.details.metadata = json(r#"{"a":1,"b":2}"#);
    session.head.inactive = true;
    let wish = OpenSession {
        session_type: Some(SessionType::Agent),
        metadata: Some(json(r#"{"b":3,"c":[1],"d":"x"}"#)),
        ..OpenSession::default()
    };
    let step = reopen(&owner, &session, &wish).unwrap().unwrap();
    assert_eq!(step.update.metadata.unwrap().value(), json(r#"{"a":1,"b":3,"d":"x"}"#).value());
    assert_eq!(step.update.inactive, Some(false));
    session.head.status = Status::Failed;
    assert!(reopen(&owner, &session, &wish).unwrap().is_none());
    let other = OpenSession { session_type: Some(SessionType::Tool), ..OpenSession::default() };
    assert_eq!(reopen(&owner, &session, &other).unwrap_err().code(), "type_mismatch");
}

#[test]
fn only_failing_sessions_are_retried_and_the_link_is_kept() {
    let owner = actor(Role::Owner, None);
    for status in Status::ALL {
        let again = retry(&owner, &session_in(status), &RandomIds);
        assert_eq!(again.is_ok(), status.is_failing(), "{status}");
        if let Ok(again) = again {
            assert_eq!(again.details.retry_of, Some(SessionId::stored("s")));
            assert_eq!(again.head.status, Status::Pending);
        }
    }
}

#[test]
fn running_waiting_and_group_sessions_are_kept() {
    let (owner, member) = (actor(Role::Owner, None), actor(Role::Member, Some("holder")));
    for status in Status::ALL {
        let kept = matches!(status, Status::Running | Status::WaitingHuman | Status::AwaitingTool);
        assert_eq!(
            check_deletable(&owner, &session_in(status), None, Deletion::Ordinary).is_err(),
            kept,
            "{status}"
        );
    }
    let mut group = session_in(Status::Idle);
    group.head.is_group = true;
    for (actor, how, code) in [
        (&owner, Deletion::Ordinary, Some("group_session")),
        (&member, Deletion::Ordinary, Some("group_session")),
        (&owner, Deletion::Forced, None),
        (&member, Deletion::Forced, Some("denied")),
    ] {
        let refused = check_deletable(actor, &group, None, how).err();
        assert_eq!(refused.map(|error| error.code()), code, "{how:?}");
    }
}

#[test]
fn a_patch_of_participants_is_the_holders_or_owners() {
    let wish = PatchSession { participants: Some(vec!["new".into()]), ..PatchSession::default() };
    let session = session_in(Status::Idle);
    let step = patch(&actor(Role::Member, Some("holder")), &session, &[], &wish).unwrap().unwrap();
    let named = step.update.participants.unwrap();
    assert_eq!(named, [UserId::stored("holder"), UserId::stored("new")]);
    assert_eq!(
        patch(&actor(Role::Member, Some("friend")), &session, &[], &wish).unwrap_err().code(),
        "denied"
    );
}

#[test]
fn limits_are_met_exactly_and_refused_one_past() {
    let owner = actor(Role::Owner, None);
    let open_with = |wish| open(&owner, SessionId::stored("x"), wish, &RandomIds).map(drop);
    let title = |n: usize| OpenSession { title: Some("t".repeat(n)), ..wish() };
    assert!(open_with(title(limits::NAME_CHARS_MAX)).is_ok());
    assert!(open_with(title(limits::NAME_CHARS_MAX + 1)).is_err());
    let metadata = |n: usize| {
        let text = format!(r#"{{"k":"{}"}}"#, "v".repeat(n - r#"{"k":""}"#.len()));
        OpenSession { metadata: Some(json(&text)), ..wish() }
    };
    assert!(open_with(metadata(limits::METADATA_BYTES_MAX)).is_ok());
    assert_eq!(open_with(metadata(limits::METADATA_BYTES_MAX + 1)).unwrap_err().code(), "too_large");
    let people = |n: usize| OpenSession { participants: (0..n).map(|i| format!("u{i}")).collect(), ..wish() };
    assert!(open_with(people(limits::PARTICIPANTS_MAX)).is_ok());
    assert!(open_with(people(limits::PARTICIPANTS_MAX + 1)).is_err());
    let priority = |n| OpenSession { priority: Some(n), ..wish() };
    assert!(open_with(priority(*limits::PRIORITY_RANGE.end())).is_ok());
    assert!(open_with(priority(limits::PRIORITY_RANGE.end() + 1)).is_err());
}

#[test]
fn whoever_has_left_is_put_back_by_an_owner_or_comes_back_by_themselves() {
    let session = session_in(Status::Idle);
    let departed = [UserId::stored("gone")];
    let wish = PatchSession { participants: Some(vec!["gone".into()]), ..PatchSession::default() };
    let put_back = |by: &Actor| patch(by, &session, &departed, &wish).map(drop).map_err(|error| error.code());
    assert_eq!(put_back(&actor(Role::Member, Some("holder"))), Err("denied"));
    assert_eq!(put_back(&actor(Role::Owner, Some("boss"))), Ok(()));
    let back = |who: &str, departed: &[UserId]| {
        let step = come_back(&actor(Role::Guest, Some(who)), &session, departed);
        step.map(|step| step.is_some()).map_err(|error| error.code())
    };
    assert_eq!(back("gone", &departed), Ok(true));
    assert_eq!(back("holder", &departed), Ok(false), "whoever takes part has nothing to come back to");
    assert_eq!(back("stranger", &departed), Err("not_found"));
    assert_eq!(back("gone", &[]), Err("not_found"), "whoever was taken off by others does not come back");
    assert_eq!(leave(&actor(Role::Member, Some("holder")), &session).unwrap_err().code(), "denied");
    let left = leave(&actor(Role::Guest, Some("friend")), &session).unwrap();
    assert_eq!(left.update.leaves, Some(UserId::stored("friend")));
}
