//! Lists of sessions: each filter alone and combined, what each caller sees, and pages that neither repeat nor skip.

use std::collections::HashSet;
use std::time::Duration;

use sederunt_core::session::query::{SessionQuery, TypeFilter, Visibility};
use sederunt_core::session::{Session, SessionType, SourceKind, Status, StatusSet};
use sederunt_core::store::{Change, ClaimChange, NewSession, Update};

use crate::builders::*;
use crate::stores::TestStore;

on_each_store! {
    each_filter_chooses_alone,
    filters_hold_together,
    conversations_are_chosen_before_the_page_is_cut,
    metadata_is_filtered_by_its_scalars_as_they_are_now,
    words_choose_sessions_by_title_description_or_message,
    hidden_sessions_are_listed_only_when_asked_for,
    eyes_see_no_further_than_they_may,
    the_newest_activity_comes_first,
    a_task_lists_its_sessions_in_one_order_wherever_they_stand,
    listed_sessions_are_whole,
    three_hundred_sessions_are_paged_without_gap_or_repeat,
    wide_filters_are_paged_like_narrow_ones,
    activity_between_two_pages_repeats_nothing_and_hides_no_other_session,
}

const MINUTE: Duration = Duration::from_secs(60);

async fn listed(store: &TestStore, query: SessionQuery) -> Vec<String> {
    let mut names = store.listed(query).await;
    names.sort_unstable();
    names
}

async fn each_filter_chooses_alone(store: &TestStore) {
    type Made = (&'static str, fn(&mut NewSession));
    let sessions: [Made; 12] = [
        ("agent", |new| new.head.session_type = SessionType::Agent),
        ("running", |new| new.head.status = Status::Running),
        ("failed", |new| new.head.status = Status::Failed),
        ("cli", |new| new.details.source.kind = SourceKind::Cli),
        ("bridge", |new| new.details.source.kind = SourceKind::HumanSessionBridge),
        ("telegram", |new| new.details.source.platform = Some("telegram".into())),
        ("interactive", |new| new.details.source.interactive = true),
        ("task", |new| new.details.task_id = Some("t1".into())),
        ("entity", |new| new.details.entity_id = Some("e1".into())),
        ("slug", |new| new.details.agent_slug = Some("writer".into())),
        ("held", |new| new.head.holder = Some(user("ann"))),
        ("child", |new| new.details.parent_id = Some(id("task"))),
    ];
    let all: Vec<&str> = sessions.iter().map(|(name, _)| *name).collect();
    for (name, adjust) in sessions {
        store.create(a_session(name, adjust)).await;
    }
    let but = |without: &[&str]| -> Vec<&str> {
        all.iter().copied().filter(|name| !without.contains(name)).collect()
    };
    let q = everything;
    let several = |statuses: &[Status]| Some(StatusSet::of(statuses));
    let cases: Vec<(SessionQuery, Vec<&str>)> = vec![
        (q(), all.clone()),
        (SessionQuery { types: TypeFilter::Only(SessionType::Agent), ..q() }, vec!["agent"]),
        (SessionQuery { types: TypeFilter::Only(SessionType::Tool), ..q() }, vec![]),
        (SessionQuery { status: Some(Status::Running.into()), ..q() }, vec!["running"]),
        (SessionQuery { status: Some(Status::Idle.into()), ..q() }, but(&["running", "failed"])),
        (
            SessionQuery { status: several(&[Status::Failed, Status::Running]), ..q() },
            vec!["running", "failed"],
        ),
        (SessionQuery { status: several(&[Status::Idle, Status::Failed]), ..q() }, but(&["running"])),
        (SessionQuery { status: several(&[Status::Draft, Status::Expired]), ..q() }, vec![]),
        (
            SessionQuery {
                status: several(&[Status::Failed, Status::Running]),
                group: Some(StatusSet::FAILING),
                ..q()
            },
            vec!["failed"],
        ),
        (
            SessionQuery { status: several(&[Status::Running]), group: Some(StatusSet::FAILING), ..q() },
            vec![],
        ),
        (SessionQuery { group: Some(StatusSet::LIVE), ..q() }, vec!["running"]),
        (SessionQuery { group: Some(StatusSet::FAILING), ..q() }, vec!["failed"]),
        (SessionQuery { group: Some(StatusSet::ACTIVE), ..q() }, but(&["failed"])),
        (SessionQuery { kind: Some("cli".into()), ..q() }, vec!["cli"]),
        (SessionQuery { kind: Some("human-session-bridge".into()), ..q() }, vec!["bridge"]),
        (SessionQuery { platform: Some("telegram".into()), ..q() }, vec!["telegram"]),
        (SessionQuery { interactive: Some(true), ..q() }, vec!["interactive"]),
        (SessionQuery { interactive: Some(false), ..q() }, but(&["interactive"])),
        (SessionQuery { task_id: Some("t1".into()), ..q() }, vec!["task"]),
        (SessionQuery { task_id: Some("%".into()), ..q() }, vec![]),
        (SessionQuery { entity_id: Some("e1".into()), ..q() }, vec!["entity"]),
        (SessionQuery { agent_slug: Some("writer".into()), ..q() }, vec!["slug"]),
        (SessionQuery { user_id: Some(user("ann")), ..q() }, vec!["held"]),
        (SessionQuery { user_id: Some(user("bob")), ..q() }, vec![]),
        (SessionQuery { parent_id: Some(id("task")), ..q() }, vec!["child"]),
        (SessionQuery { parents_only: true, ..q() }, but(&["child"])),
        (SessionQuery { ids: vec![id("task"), id("gone"), id("held")], ..q() }, vec!["task", "held"]),
        (SessionQuery { ids: vec![id("gone"), id("%"), id("[\"task\"]")], ..q() }, vec![]),
        (SessionQuery { ids: vec![id("task"), id("held")], user_id: Some(user("ann")), ..q() }, vec!["held"]),
        (
            SessionQuery { ids: vec![id("failed"), id("task")], status: several(&[Status::Failed]), ..q() },
            vec!["failed"],
        ),
        (
            SessionQuery {
                ids: vec![id("held"), id("task")],
                seen_by: Some(Visibility::Participant(user("ann"))),
                ..q()
            },
            vec!["held"],
        ),
    ];
    for (query, mut expected) in cases {
        expected.sort_unstable();
        assert_eq!(listed(store, query.clone()).await, expected, "{query:?}");
    }
}

async fn conversations_are_chosen_before_the_page_is_cut(store: &TestStore) {
    for n in 0..8 {
        let is_talk = n < 2 || n == 5;
        store.create(a_session(&format!("s{n}"), |new| new.head.is_talk = is_talk)).await;
    }
    let talks = |seen_by| SessionQuery {
        types: TypeFilter::Only(SessionType::Mixed),
        talks_only: true,
        seen_by,
        limit: 2,
        ..everything()
    };
    for seen_by in [None, Some(Visibility::Participant(user("ann")))] {
        let first = store.sessions(&store.tenant, talks(seen_by.clone())).await.unwrap();
        if seen_by.is_some() {
            assert!(first.items.is_empty(), "ann takes part in none of them");
            continue;
        }
        let names = |sessions: &[Session]| -> Vec<String> {
            sessions.iter().map(|session| session.id.to_string()).collect()
        };
        assert_eq!(names(&first.items), ["s5", "s1"]);
        let rest = SessionQuery { after: first.next, ..talks(None) };
        let rest = store.sessions(&store.tenant, rest).await.unwrap();
        assert_eq!((names(&rest.items), rest.next.is_none()), (vec!["s0".to_owned()], true));
    }
}

async fn filters_hold_together(store: &TestStore) {
    for (n, status) in [Status::Idle, Status::Running, Status::Idle, Status::Running].into_iter().enumerate()
    {
        store
            .create(a_session(&format!("s{n}"), |new| {
                new.head.status = status;
                new.head.holder = Some(user(if n < 2 { "ann" } else { "bob" }));
                new.details.agent_slug = Some("writer".into());
                new.details.metadata = json(&format!("{{\"n\":{n},\"even\":{}}}", n % 2 == 0));
            }))
            .await;
    }
    let both = SessionQuery {
        status: Some(Status::Running.into()),
        user_id: Some(user("bob")),
        agent_slug: Some("writer".into()),
        types: TypeFilter::Only(SessionType::Mixed),
        kind: Some("api".into()),
        metadata: vec![("even".into(), "false".into()), ("n".into(), "3".into())],
        group: Some(StatusSet::LIVE),
        seen_by: Some(Visibility::Participant(user("bob"))),
        ..everything()
    };
    assert_eq!(listed(store, both.clone()).await, ["s3"]);
    let other_eyes = SessionQuery { seen_by: Some(Visibility::Participant(user("ann"))), ..both.clone() };
    assert_eq!(listed(store, other_eyes).await, [""; 0]);
    let other_group = SessionQuery { group: Some(StatusSet::FAILING), ..both.clone() };
    assert_eq!(listed(store, other_group).await, [""; 0]);
    assert_eq!(
        listed(store, SessionQuery { user_id: Some(user("ann")), seen_by: None, ..both }).await,
        [""; 0]
    );
}

async fn metadata_is_filtered_by_its_scalars_as_they_are_now(store: &TestStore) {
    let metadata =
        r#"{"text":"red","number":1.50,"flag":true,"none":null,"list":[1],"quo'te":"it's","é":"ü"}"#;
    store.create(a_session("s", |new| new.details.metadata = json(metadata))).await;
    store
        .create(a_session("other", |new| new.details.metadata = json(r#"{"text":"blue","number":1}"#)))
        .await;
    let found = async |pairs: &[(&str, &str)]| {
        let metadata = pairs.iter().map(|&(key, value)| (key.into(), value.into())).collect();
        listed(store, SessionQuery { metadata, ..everything() }).await
    };
    for pair in [("text", "red"), ("number", "1.5"), ("flag", "true"), ("quo'te", "it's"), ("é", "ü")] {
        assert_eq!(found(&[pair]).await, ["s"], "{pair:?}");
    }
    for pair in
        [("text", "RED"), ("text", "re"), ("text", "%"), ("none", "null"), ("list", "[1]"), ("red", "text")]
    {
        assert_eq!(found(&[pair]).await, [""; 0], "{pair:?}");
    }
    assert_eq!(found(&[("text", "blue"), ("number", "1")]).await, ["other"]);
    assert_eq!(found(&[("text", "blue"), ("flag", "true")]).await, [""; 0]);

    store.update("s", Update { metadata: Some(json(r#"{"text":"green"}"#)), ..Update::default() }).await;
    assert_eq!(found(&[("text", "green")]).await, ["s"]);
    assert_eq!(found(&[("text", "red")]).await, [""; 0]);
    assert_eq!(found(&[("flag", "true")]).await, [""; 0]);
}

async fn words_choose_sessions_by_title_description_or_message(store: &TestStore) {
    store.create(a_session("titled", |new| new.details.title = Some("a zebra".into()))).await;
    store.create(a_session("described", |new| new.details.description = Some("two zebras".into()))).await;
    store.open("said").await;
    store.append("said", vec![message("zebra one"), message("zebra two")]).await;
    store.open("other").await;
    store.append("other", vec![message("a horse")]).await;
    store.index_now().await.unwrap();
    let text = |text: &str| SessionQuery { text: Some(text.into()), ..everything() };
    assert_eq!(listed(store, text("zebra")).await, ["described", "said", "titled"]);
    assert_eq!(listed(store, text("two zebra")).await, ["described", "said"]);
    assert_eq!(listed(store, text("one two")).await, [""; 0], "no message has both");
    assert_eq!(listed(store, text("horse \" OR zebra")).await, [""; 0]);
    let idle = SessionQuery { status: Some(Status::Running.into()), ..text("zebra") };
    assert_eq!(listed(store, idle).await, [""; 0]);
}

async fn hidden_sessions_are_listed_only_when_asked_for(store: &TestStore) {
    store.open("shown").await;
    store.create(a_session("hidden", |new| new.head.inactive = true)).await;
    let inactive = |inactive| SessionQuery { inactive, ..everything() };
    assert_eq!(listed(store, inactive(None)).await, ["shown"]);
    assert_eq!(listed(store, inactive(Some(true))).await, ["hidden"]);
    assert_eq!(listed(store, inactive(Some(false))).await, ["hidden", "shown"]);
    store.update("hidden", Update { inactive: Some(false), ..Update::default() }).await;
    store.update("shown", Update { inactive: Some(true), ..Update::default() }).await;
    assert_eq!(listed(store, inactive(None)).await, ["hidden"]);
}

async fn eyes_see_no_further_than_they_may(store: &TestStore) {
    store.create(a_session("held", |new| new.head.holder = Some(user("ann")))).await;
    store.create(a_session("shared", |new| new.participants = vec![user("ann"), user("bob")])).await;
    store
        .create(a_session("both", |new| {
            new.head.holder = Some(user("ann"));
            new.participants = vec![user("ann")];
        }))
        .await;
    for name in ["tg_:1", "tgx:1", "TG_:1", "tg_"] {
        store.open(name).await;
    }
    store.create(work("claimed")).await;
    store.claim_one("claimed", "key").await;
    let cases: Vec<(Visibility, &[&str])> = vec![
        (Visibility::Participant(user("ann")), &["both", "held", "shared"]),
        (Visibility::Participant(user("bob")), &["shared"]),
        (Visibility::Participant(user("eve")), &[]),
        (Visibility::Claims(credential("key")), &["claimed"]),
        (Visibility::Claims(credential("other")), &[]),
        (Visibility::Prefix("tg_:".into()), &["tg_:1"]),
        (Visibility::Prefix("tg_".into()), &["tg_", "tg_:1"]),
        (Visibility::Prefix("%".into()), &[]),
        (Visibility::Prefix("h".into()), &["held"]),
    ];
    for (eyes, expected) in cases {
        let query = SessionQuery { seen_by: Some(eyes.clone()), ..everything() };
        assert_eq!(listed(store, query).await, expected, "{eyes:?}");
    }
    store.update("claimed", Update { claim: Some(ClaimChange::Release), ..Update::default() }).await;
    store.update("shared", Update { participants: Some(vec![user("bob")]), ..Update::default() }).await;
    for (eyes, expected) in [
        (Visibility::Claims(credential("key")), &[][..]),
        (Visibility::Participant(user("ann")), &["both", "held"]),
        (Visibility::Participant(user("bob")), &["shared"]),
    ] {
        let query = SessionQuery { seen_by: Some(eyes.clone()), ..everything() };
        assert_eq!(listed(store, query).await, expected, "{eyes:?}");
    }
}

async fn the_newest_activity_comes_first(store: &TestStore) {
    for name in ["a", "b", "c"] {
        store.open(name).await;
        store.clock.advance(MINUTE);
    }
    assert_eq!(store.listed(everything()).await, ["c", "b", "a"]);
    store.append("a", messages(1)).await;
    assert_eq!(store.listed(everything()).await, ["a", "c", "b"]);
    store.clock.advance(MINUTE);
    store.append("b", messages(1)).await;
    assert_eq!(store.listed(everything()).await, ["b", "a", "c"]);
    assert_eq!(store.listed(SessionQuery { limit: 2, ..everything() }).await, ["b", "a"]);
}

async fn a_task_lists_its_sessions_in_one_order_wherever_they_stand(store: &TestStore) {
    for name in ["failed", "handed out", "given up", "put back", "done", "waits", "of another"] {
        let mut new = work(name);
        let task = if name == "of another" { "u" } else { "t" };
        new.details.task_id = Some(task.into());
        new.head.inactive = name == "waits";
        store.create(new).await;
        store.clock.advance(MINUTE);
    }
    let to = |status: Status| Update { status: Some(status), ..Update::default() };
    store.update("failed", to(Status::Failed)).await;
    store.claim_one("handed out", "key").await;
    store.claim_one("given up", "key").await;
    store.claim_one("put back", "key").await;
    store.clock.advance(MINUTE);
    store.update("put back", to(Status::Pending)).await;
    store.append("put back", messages(1)).await;
    store.clock.advance(MINUTE);
    store.update("given up", to(Status::Abandoned)).await;
    store.append("given up", messages(1)).await;
    store.update("done", to(Status::Running)).await;
    store.update("done", to(Status::Completed)).await;

    let of_task = || SessionQuery { task_id: Some("t".into()), inactive: Some(false), ..everything() };
    let status = |status: Status| SessionQuery { status: Some(status.into()), ..of_task() };
    let group = |group: StatusSet| SessionQuery { group: Some(group), ..of_task() };
    let agents = SessionQuery { types: TypeFilter::Only(SessionType::Agent), ..of_task() };
    let visible = SessionQuery { inactive: None, ..of_task() };
    let all = ["given up", "put back", "handed out", "waits", "done", "failed"];
    for (query, expected) in [
        (of_task(), &all[..]),
        (agents, &all),
        (visible, &["given up", "put back", "handed out", "done", "failed"]),
        (status(Status::Pending), &["put back", "waits"]),
        (status(Status::Running), &["handed out"]),
        (status(Status::Completed), &["done"]),
        (
            SessionQuery { status: Some(StatusSet::of(&[Status::Pending, Status::Completed])), ..of_task() },
            &["put back", "waits", "done"],
        ),
        (group(StatusSet::LIVE), &["put back", "handed out", "waits"]),
        (group(StatusSet::FAILING), &["given up", "failed"]),
    ] {
        for limit in [1, 2, 100] {
            let query = SessionQuery { limit, ..query.clone() };
            let seen = walk(store, query.clone(), async |_| {}).await;
            let seen: Vec<&str> = seen.iter().map(|session| session.id.as_str()).collect();
            assert_eq!(seen, expected, "{query:?}");
        }
    }
}

async fn listed_sessions_are_whole(store: &TestStore) {
    store
        .create(a_session("s", |new| {
            *new = work("s");
            new.head.holder = Some(user("ann"));
            new.details.title = Some("a title".into());
            new.details.metadata = json(r#"{"b":1.50,"a":2}"#);
            new.details.input = Some(json("[1]"));
            new.participants = vec![user("ann"), user("bob")];
        }))
        .await;
    store.claim_one("s", "key").await;
    store.append("s", messages(2)).await;
    let mut listed = store.sessions(&store.tenant, everything()).await.unwrap().items.remove(0);
    let mut read = store.get("s").await;
    listed.participants.sort();
    read.participants.sort();
    assert_eq!(listed, read);
}

/// Three hundred sessions over a few minutes, so that most of them tie.
async fn three_hundred(store: &TestStore) {
    for chunk in 0..3 {
        store
            .at_once(10, |store, task| async move {
                for n in 0..10 {
                    let name = format!("s{:03}", chunk * 100 + task * 10 + n);
                    store.create(a_session(&name, |new| new.head.inactive = n == 9)).await;
                }
            })
            .await;
        store.clock.advance(MINUTE);
    }
}

async fn walk(
    store: &TestStore,
    mut query: SessionQuery,
    mut between: impl AsyncFnMut(&[Session]),
) -> Vec<Session> {
    let mut seen: Vec<Session> = Vec::new();
    loop {
        let page = store.sessions(&store.tenant, query.clone()).await.unwrap();
        assert!(page.items.len() <= query.limit);
        seen.extend(page.items);
        let Some(next) = page.next else { return seen };
        assert!(seen.len() <= 3_000, "the pages do not end");
        query.after = Some(next);
        between(&seen).await;
    }
}

async fn three_hundred_sessions_are_paged_without_gap_or_repeat(store: &TestStore) {
    three_hundred(store).await;
    for (inactive, limit, expected) in [
        (Some(false), 7, 300),
        (Some(false), 100, 300),
        (None, 13, 270),
        (Some(true), 4, 30),
        (Some(false), 300, 300),
    ] {
        let query = SessionQuery { inactive, limit, ..everything() };
        let seen = walk(store, query, async |_| {}).await;
        let distinct: HashSet<_> = seen.iter().map(|session| session.id.clone()).collect();
        assert_eq!((seen.len(), distinct.len()), (expected, expected), "{inactive:?} by {limit}");
        let minutes: Vec<_> = seen.iter().map(|session| session.head.last_at.minute()).collect();
        assert!(minutes.windows(2).all(|pair| pair[0] >= pair[1]), "newest first");
    }
}

/// More sessions than a store may want to gather before it sorts them.
async fn wide_filters_are_paged_like_narrow_ones(store: &TestStore) {
    const MANY: usize = 2_100;
    for chunk in 0..6 {
        let parts = (0..MANY / 6).map(|n| {
            let n = chunk * (MANY / 6) + n;
            creating(a_session(&format!("wide:{n}"), |new| {
                new.details.metadata = json(&format!("{{\"wide\":true,\"third\":{}}}", n.is_multiple_of(3)));
                new.participants =
                    vec![user("everyone"), user(if n.is_multiple_of(7) { "seventh" } else { "other" })];
                new.details.task_id = Some("wide".into());
                new.head.status = if n.is_multiple_of(5) { Status::Running } else { Status::Pending };
            }))
        });
        let mut change = Change::new(store.tenant.clone());
        change.parts.extend(parts);
        assert_eq!(verdict(&store.commit(change).await), "ok");
        store.clock.advance(MINUTE);
    }
    store
        .create(a_session("wide", |new| {
            new.details.metadata = json("{\"wide\":false,\"third\":false}");
            new.participants = vec![user("stranger")];
            new.head.status = Status::Running;
        }))
        .await;
    let pair = |key: &str| (key.to_owned(), "true".to_owned());
    let participant = |name: &str| Some(Visibility::Participant(user(name)));
    let q = || SessionQuery { limit: 900, ..everything() };
    let running = || SessionQuery { status: Some(Status::Running.into()), ..q() };
    let cases: Vec<(SessionQuery, usize)> = vec![
        (SessionQuery { metadata: vec![pair("wide")], ..q() }, MANY),
        (SessionQuery { metadata: vec![pair("wide")], ..running() }, MANY / 5),
        (SessionQuery { seen_by: participant("everyone"), ..running() }, MANY / 5),
        (SessionQuery { seen_by: Some(Visibility::Prefix("wide:".into())), ..running() }, MANY / 5),
        (SessionQuery { metadata: vec![pair("wide")], seen_by: participant("seventh"), ..q() }, MANY / 7),
        (SessionQuery { metadata: vec![pair("third")], seen_by: participant("everyone"), ..q() }, MANY / 3),
        (SessionQuery { task_id: Some("wide".into()), ..q() }, MANY),
        (SessionQuery { task_id: Some("wide".into()), ..running() }, MANY / 5),
    ];
    for (query, expected) in cases {
        let seen = walk(store, query.clone(), async |_| {}).await;
        let distinct: HashSet<_> = seen.iter().map(|session| session.id.clone()).collect();
        assert_eq!((seen.len(), distinct.len()), (expected, expected), "{query:?}");
        let minutes: Vec<_> = seen.iter().map(|session| session.head.last_at.minute()).collect();
        assert!(minutes.windows(2).all(|pair| pair[0] >= pair[1]), "{query:?}");
    }
}

async fn activity_between_two_pages_repeats_nothing_and_hides_no_other_session(store: &TestStore) {
    three_hundred(store).await;
    let query = SessionQuery { inactive: Some(false), limit: 40, ..everything() };
    let mut pages = 0;
    let seen = walk(store, query, async |seen| {
        pages += 1;
        store.clock.advance(MINUTE);
        store.append(seen[0].id.as_str(), messages(1)).await;
        store.open(&format!("new {pages}")).await;
        store.delete(seen[seen.len() - 1].id.as_str()).await;
    })
    .await;
    assert!(pages >= 7);
    let distinct: HashSet<_> = seen.iter().map(|session| session.id.clone()).collect();
    assert_eq!((seen.len(), distinct.len()), (300, 300));
}
