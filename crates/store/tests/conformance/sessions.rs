//! Sessions: created, read back, changed field by field, deleted, and created again under the same id.

use std::time::Duration;

use sederunt_core::event::EventQuery;
use sederunt_core::session::source::Company;
use sederunt_core::session::{DescriptionSource, MemoryMode, Session, SessionType, SourceKind, Status};
use sederunt_core::store::{ClaimChange, Guard, Update, Write};
use smallvec::smallvec;

use crate::builders::*;
use crate::stores::TestStore;

on_each_store! {
    a_session_reads_back_as_it_was_given,
    the_answer_of_a_commit_is_the_row_that_it_left,
    ids_are_compared_to_the_byte,
    a_taken_id_is_stale_and_keeps_its_session,
    a_missing_session_is_none_and_takes_no_write,
    an_update_writes_its_fields_and_no_others,
    a_new_session_has_the_deadline_of_its_status,
    a_session_can_be_made_filled_and_changed_in_one_change,
    a_renewed_lease_is_no_new_version,
    a_start_and_an_end_are_stamped_with_the_time_of_their_commit,
    a_deadline_counts_from_its_commit_and_can_be_cleared,
    participants_are_kept_once,
    a_deleted_session_is_gone,
    a_session_made_again_meets_nothing_of_its_past,
    a_decision_on_a_former_life_is_refused,
    the_store_is_ready_and_tells_how_it_is;
    durable: acknowledged_writes_are_there_after_reopening, a_deletion_leaves_no_row_behind,
}

/// Text that a careless column, collation or JSON type would change.
const AWKWARD: &str =
    r#"{"b":1.50,"a":[1e2,-0,18446744073709551615],"é'\"%_":"😀\n\\","nested":{"z":null,"y":true}}"#;

async fn a_session_reads_back_as_it_was_given(store: &TestStore) {
    let given = a_session("full", |new| {
        new.head.session_type = SessionType::Agent;
        new.head.is_talk = false;
        new.head.is_bridge = true;
        new.head.is_external = true;
        new.head.is_group = true;
        new.head.holder = Some(user("ann"));
        new.head.status = Status::Draft;
        new.head.inactive = true;
        new.head.version = 7;
        new.head.described = true;
        new.head.attempts = 2;
        new.head.epoch = 5;
        new.head.stop_requested = true;
        new.head.priority = -1000;
        let details = &mut new.details;
        details.source.kind = SourceKind::HumanSessionBridge;
        details.source.interactive = true;
        details.source.platform = Some("telegram".into());
        details.source.trigger_id = Some("trigger".into());
        details.source.company = Company::Group;
        details.metadata = json(AWKWARD);
        details.task_id = Some("task".into());
        details.agent_slug = Some("agent".into());
        details.entity_id = Some("entity".into());
        details.parent_id = Some(id("parent"));
        details.root_id = Some(id("root"));
        details.retry_of = Some(id("first try"));
        details.title = Some("A title, 'quoted' \"twice\" \\ and 😀".into());
        details.description = Some("described".into());
        details.description_source = Some(DescriptionSource::User);
        details.working_memory = Some(json(r#"{"memory":[1.0]}"#));
        details.input = Some(json("[1,2,{}]"));
        details.draft_values = Some(json(r#"{"draft":false}"#));
        details.run = Some(json(r#"{"task_slug":"weekly"}"#));
        details.result = Some(json("\"result\""));
        details.usage = Some(json(r#"{"tokens":9007199254740993}"#));
        details.error_message = Some("an error".into());
        details.end_reason = Some("a reason".into());
        details.memory_mode = MemoryMode::Incognito;
        details.is_anonymous = true;
        new.participants = vec![user("ann"), user("bob")];
    });
    let committed = store.commit(store.change(creating(given.clone()))).await.unwrap();
    let read = store.get("full").await;

    assert_eq!((&read.tenant, &read.id), (&store.tenant, &given.id));
    let mut expected = given;
    expected.stamp(committed.at);
    assert_eq!(read.head, expected.head);
    assert_eq!(read.details, expected.details);
    assert_eq!(sorted(&read), ["ann", "bob"]);
}

async fn the_answer_of_a_commit_is_the_row_that_it_left(store: &TestStore) {
    assert_eq!(store.open("s").await.head, store.get("s").await.head);
    assert_eq!(store.append("s", messages(3)).await.head, store.get("s").await.head);
    let update = Update { status: Some(Status::Running), stop_requested: Some(true), ..Update::default() };
    assert_eq!(store.update("s", update).await.head, store.get("s").await.head);
}

async fn ids_are_compared_to_the_byte(store: &TestStore) {
    let long = "é".repeat(200);
    let names =
        ["a", "A", "ä", "a\u{308}", "a b", "a%", "a_", "a'--", "a\"", "a\\", "телеграм:1", long.as_str()];
    for name in names {
        store.open(name).await;
        store.append(name, vec![message(name)]).await;
    }
    for name in names {
        assert_eq!(store.get(name).await.id.as_str(), name);
        assert_eq!(store.log(name).await[0].text().as_deref(), Some(name));
    }
    assert_eq!(store.listed(everything()).await.len(), names.len());
}

async fn a_taken_id_is_stale_and_keeps_its_session(store: &TestStore) {
    store.create(a_session("s", |new| new.details.title = Some("first".into()))).await;
    store.append("s", messages(2)).await;
    let before = store.state("s").await;
    let second = a_session("s", |new| new.details.title = Some("second".into()));
    assert_eq!(verdict(&store.commit(store.change(creating(second))).await), "stale");
    assert_eq!(store.state("s").await, before);
}

async fn a_missing_session_is_none_and_takes_no_write(store: &TestStore) {
    assert!(store.find("none").await.is_none());
    let page = store.events(&store.tenant, &id("none"), EventQuery::default()).await;
    assert_eq!(page.unwrap_err().code(), "not_found");
    for write in [Write::Append(messages(1)), Write::Update(Box::default()), Write::Delete] {
        let outcome = store.commit(store.change(on("none", Guard::default(), write.clone()))).await;
        assert_eq!(verdict(&outcome), "not_found", "{write:?}");
    }
    assert!(store.find("none").await.is_none());
}

async fn an_update_writes_its_fields_and_no_others(store: &TestStore) {
    type Case = (&'static str, Update, fn(&mut Session));
    let none = Update::default;
    let cases: Vec<Case> = vec![
        ("nothing", none(), |_| {}),
        ("status", Update { status: Some(Status::Running), ..none() }, |s| s.head.status = Status::Running),
        ("stop", Update { stop_requested: Some(true), ..none() }, |s| s.head.stop_requested = true),
        ("attempts", Update { attempts: Some(9), ..none() }, |s| s.head.attempts = 9),
        ("inactive", Update { inactive: Some(true), ..none() }, |s| s.head.inactive = true),
        ("title", Update { title: Some(Some("new".into())), ..none() }, |s| {
            s.details.title = Some("new".into())
        }),
        ("no title", Update { title: Some(None), ..none() }, |s| s.details.title = None),
        (
            "description",
            Update { description: Some((Some("by hand".into()), Some(DescriptionSource::User))), ..none() },
            |s| {
                s.details.description = Some("by hand".into());
                s.details.description_source = Some(DescriptionSource::User);
                s.head.described = true;
            },
        ),
        ("no description", Update { description: Some((None, None)), ..none() }, |s| {
            s.details.description = None;
            s.details.description_source = None;
            s.head.described = false;
        }),
        ("metadata", Update { metadata: Some(json(AWKWARD)), ..none() }, |s| {
            s.details.metadata = json(AWKWARD)
        }),
        ("participants", Update { participants: Some(vec![user("cy")]), ..none() }, |s| {
            s.participants = vec![user("cy")];
        }),
        ("one participant", Update { add_participant: Some(user("dee")), ..none() }, |s| {
            s.participants.push(user("dee"));
        }),
        ("holder", Update { holder: Some(user("eve")), ..none() }, |s| s.head.holder = Some(user("eve"))),
        ("run", Update { run: Some(json(AWKWARD)), ..none() }, |s| s.details.run = Some(json(AWKWARD))),
        ("result", Update { result: Some(json(AWKWARD)), ..none() }, |s| {
            s.details.result = Some(json(AWKWARD))
        }),
        ("usage", Update { usage: Some(json("{\"n\":1}")), ..none() }, |s| {
            s.details.usage = Some(json("{\"n\":1}"));
        }),
        ("error", Update { error_message: Some("bad".into()), ..none() }, |s| {
            s.details.error_message = Some("bad".into());
        }),
        ("end reason", Update { end_reason: Some("done".into()), ..none() }, |s| {
            s.details.end_reason = Some("done".into());
        }),
    ];
    for (name, update, change) in cases {
        store
            .create(a_session(name, |new| {
                new.head.holder = Some(user("ann"));
                new.head.described = true;
                new.details.title = Some("old".into());
                new.details.description = Some("old".into());
                new.details.description_source = Some(DescriptionSource::Introspection);
                new.details.metadata = json("{\"old\":1}");
                new.details.run = Some(json("{}"));
                new.details.result = Some(json("1"));
                new.participants = vec![user("ann"), user("bob")];
            }))
            .await;
        let mut expected = store.get(name).await;
        change(&mut expected);
        expected.head.version += 1;
        store.update(name, update).await;
        let mut read = store.get(name).await;
        expected.participants.sort();
        read.participants.sort();
        assert_eq!(read, expected, "{name}");
    }
}

async fn a_new_session_has_the_deadline_of_its_status(store: &TestStore) {
    for status in Status::ALL {
        for session_type in SessionType::ALL {
            let name = format!("{status} {}", session_type.as_str());
            let new = a_session(&name, |new| {
                new.head.status = status;
                new.head.session_type = session_type;
            });
            let lasts = new.head.deadline_in(status);
            let done = store.commit(store.change(creating(new))).await.unwrap();
            let deadline = store.get(&name).await.head.deadline_at;
            assert_eq!(deadline, lasts.map(|lasts| done.at.plus(lasts)), "{name}");
        }
    }
}

async fn a_session_can_be_made_filled_and_changed_in_one_change(store: &TestStore) {
    let mut part = creating(a_session("s", |_| {}));
    let update =
        Update { deadline: Some(Some(DAY)), title: Some(Some("titled".into())), ..Update::default() };
    part.writes =
        smallvec![Write::Append(vec![event("session.created"), message("hi")]), Write::Update(update.into())];
    let committed = store.commit(store.change(part)).await.unwrap();
    let (session, log) = store.state("s").await;
    assert_eq!(sequences(&log), [1, 2]);
    assert_eq!(appended(&committed.parts[0]), [1, 2]);
    assert_eq!(session.head, committed.parts[0].head);
    assert_eq!(session.details.title.as_deref(), Some("titled"));
    assert_eq!(session.head.deadline_at, Some(committed.at.plus(DAY)));
    assert_eq!(session.head.last_sequence, 2);
}

async fn a_renewed_lease_is_no_new_version(store: &TestStore) {
    store.create(work("s")).await;
    store.claim_one("s", "key").await;
    let before = store.get("s").await;
    let renewal = Update { claim: Some(ClaimChange::Renew(2 * LEASE)), ..Update::default() };
    let done = store.commit(store.change(updating("s", renewal))).await.unwrap();
    let mut expected = before;
    expected.head.claim.as_mut().unwrap().lease_until = done.at.plus(2 * LEASE);
    assert_eq!(store.get("s").await, expected);
}

async fn a_start_and_an_end_are_stamped_with_the_time_of_their_commit(store: &TestStore) {
    store.open("s").await;
    let start = store.change(updating("s", Update { started: true, ..Update::default() }));
    let started = store.commit(start).await.unwrap().at;
    let end = store.change(updating("s", Update { completed: true, ..Update::default() }));
    store.clock.advance(Duration::from_secs(5));
    let ended = store.commit(end).await.unwrap().at;
    store.clock.advance(Duration::from_secs(5));
    store.update("s", Update { started: true, ..Update::default() }).await;
    let details = store.get("s").await.details;
    assert_eq!((details.started_at, details.completed_at), (Some(started), Some(ended)));
    assert!(ended >= started.plus(Duration::from_secs(5)));
}

async fn a_deadline_counts_from_its_commit_and_can_be_cleared(store: &TestStore) {
    store.open("s").await;
    store.clock.advance(DAY);
    let set = store.change(updating("s", Update { deadline: Some(Some(LEASE)), ..Update::default() }));
    let at = store.commit(set).await.unwrap().at;
    assert_eq!(store.get("s").await.head.deadline_at, Some(at.plus(LEASE)));
    store.update("s", Update { title: Some(None), ..Update::default() }).await;
    assert_eq!(store.get("s").await.head.deadline_at, Some(at.plus(LEASE)));
    store.update("s", Update { deadline: Some(None), ..Update::default() }).await;
    assert_eq!(store.get("s").await.head.deadline_at, None);
}

async fn participants_are_kept_once(store: &TestStore) {
    store.create(a_session("s", |new| new.participants = vec![user("ann")])).await;
    for _ in 0..2 {
        store.update("s", Update { add_participant: Some(user("bob")), ..Update::default() }).await;
    }
    assert_eq!(sorted(&store.get("s").await), ["ann", "bob"]);
    store.update("s", Update { participants: Some(vec![]), ..Update::default() }).await;
    assert!(store.get("s").await.participants.is_empty());
}

async fn a_deleted_session_is_gone(store: &TestStore) {
    store.open("s").await;
    store.open("neighbour").await;
    store.append("s", messages(3)).await;
    store.append("neighbour", messages(3)).await;
    let neighbour = store.state("neighbour").await;
    store.delete("s").await;

    assert!(store.find("s").await.is_none());
    let page = store.events(&store.tenant, &id("s"), EventQuery::default()).await;
    assert_eq!(page.unwrap_err().code(), "not_found");
    assert_eq!(verdict(&store.append_under("s", Guard::default(), messages(1)).await), "not_found");
    assert_eq!(store.listed(everything()).await, ["neighbour"]);
    assert_eq!(store.state("neighbour").await, neighbour);
}

async fn a_deletion_leaves_no_row_behind(store: &TestStore) {
    store
        .create(a_session("s", |new| {
            new.details.metadata = json("{\"colour\":\"red\"}");
            new.participants = vec![user("ann")];
        }))
        .await;
    store.append("s", messages(3)).await;
    store.index_now().await.unwrap();
    let kept = store.rows_kept().await;
    assert_eq!((kept["events"], kept["participants"], kept["session_metadata"]), (3, 1, 1));
    store.delete("s").await;
    let kept = store.rows_kept().await;
    assert!(kept.values().all(|&rows| rows == 0), "{kept:?}");
}

async fn a_session_made_again_meets_nothing_of_its_past(store: &TestStore) {
    store
        .create(a_session("s", |new| {
            new.head.holder = Some(user("ann"));
            new.details.title = Some("aardvark".into());
            new.details.metadata = json("{\"colour\":\"red\"}");
            new.participants = vec![user("ann"), user("bob")];
        }))
        .await;
    let keyed = |text| {
        let mut said = message(text);
        said.external_event_id = Some("once".into());
        store.change(appending("s", vec![said])).keyed(Some(key(1, 1)))
    };
    store.commit(keyed("zebra")).await.unwrap();
    store.append("s", messages(4)).await;
    store.index_now().await.unwrap();
    store.delete("s").await;
    store.open("s").await;

    let fresh = store.get("s").await;
    assert!(fresh.participants.is_empty() && fresh.head.holder.is_none() && fresh.details.title.is_none());
    assert_eq!((fresh.head.last_sequence, fresh.head.message_count), (0, 0));
    assert!(store.log("s").await.is_empty());
    let red = vec![("colour".into(), "red".into())];
    assert!(
        store
            .listed(sederunt_core::session::query::SessionQuery { metadata: red, ..everything() })
            .await
            .is_empty()
    );
    for word in ["aardvark", "zebra", "message"] {
        assert!(store.found(words(&[word])).await.is_empty(), "{word}");
    }

    let again = store.commit(keyed("zebra")).await.unwrap();
    assert!(again.replay.is_none(), "the key belonged to the former life");
    assert!(matches!(again.parts[0].appended[0], sederunt_core::event::AppendOutcome::New(_)));
    assert_eq!(sequences(&store.log("s").await), [1]);
}

async fn a_decision_on_a_former_life_is_refused(store: &TestStore) {
    store.open("s").await;
    let former = store.get("s").await;
    store.delete("s").await;
    store.open("s").await;
    let before = store.state("s").await;
    for write in [Write::Append(messages(1)), Write::Update(Box::default()), Write::Delete] {
        let guard = Guard { incarnation: Some(former.head.incarnation), ..Guard::default() };
        assert_eq!(verdict(&store.commit(store.change(on("s", guard, write))).await), "stale");
    }
    assert_eq!(store.state("s").await, before);
}

async fn the_store_is_ready_and_tells_how_it_is(store: &TestStore) {
    store.ready().await.unwrap();
    store.open("s").await;
    store.append("s", messages(2)).await;
    let vitals = store.vitals().await.unwrap();
    assert!(!vitals.kind.is_empty() && !vitals.server_version.is_empty() && vitals.schema_version > 0);
    let before = store.now().await.unwrap();
    store.clock.advance(DAY);
    assert!(store.now().await.unwrap() >= before.plus(DAY));
}

async fn acknowledged_writes_are_there_after_reopening(store: &TestStore) {
    store.create(a_session("s", |new| new.participants = vec![user("ann")])).await;
    store.commit(store.change(appending("s", messages(3))).keyed(Some(key(1, 1)))).await.unwrap();
    let before = store.state("s").await;
    let again = store.reopened().await;
    assert_eq!(again.state("s").await, before);
    let replay =
        again.commit(again.change(appending("s", messages(3))).keyed(Some(key(1, 1)))).await.unwrap();
    assert_eq!(replay.replay.unwrap().sequences, [1, 2, 3]);
    assert_eq!(appended(&again.append("s", messages(1)).await), [4]);
    assert_eq!(again.found_said(words(&["message"])).await.len(), 4);
    again.close().await;
}

fn sorted(session: &Session) -> Vec<&str> {
    let mut names: Vec<&str> = session.participants.iter().map(|user| user.as_str()).collect();
    names.sort_unstable();
    names
}
