//! How a log grows: sequences, times, turns, counts, previews, and events that are sent twice.

use std::time::Duration;

use sederunt_core::event::{AppendOutcome, NewEvent};
use sederunt_core::limits;
use sederunt_core::session::row::Turn;
use sederunt_core::session::{DescriptionSource, SessionType, Status};
use sederunt_core::store::{Guard, Update};

use crate::builders::*;
use crate::stores::TestStore;

on_each_store! {
    appends_are_numbered_densely_from_one,
    appends_keep_the_version,
    a_full_batch_lands_whole_and_a_refused_one_not_at_all,
    times_follow_the_clock_and_never_go_back,
    events_belong_to_the_turn_that_they_answer,
    messages_are_counted_and_previewed,
    the_first_text_describes_a_session_without_description,
    a_written_description_is_kept,
    an_external_id_is_taken_once,
    a_batch_of_repeats_changes_nothing,
    an_external_id_belongs_to_its_session,
    an_external_id_leads_to_its_sequence,
    only_silence_moves_a_response_towards_its_deadline;
    durable: times_do_not_go_back_with_the_clock,
}

async fn appends_are_numbered_densely_from_one(store: &TestStore) {
    store.open("s").await;
    assert_eq!(appended(&store.append("s", messages(1)).await), [1]);
    assert_eq!(appended(&store.append("s", messages(3)).await), [2, 3, 4]);
    assert_eq!(appended(&store.append("s", messages(1)).await), [5]);
    assert_eq!(sequences(&store.log("s").await), [1, 2, 3, 4, 5]);
    assert_eq!(store.get("s").await.head.last_sequence, 5);
}

async fn appends_keep_the_version(store: &TestStore) {
    let version = store.open("s").await.head.version;
    store.append("s", messages(2)).await;
    assert_eq!(store.get("s").await.head.version, version);
}

async fn a_full_batch_lands_whole_and_a_refused_one_not_at_all(store: &TestStore) {
    store.open("s").await;
    store.append("s", messages(limits::BATCH_EVENTS_MAX)).await;
    let before = store.state("s").await;
    let guard = Guard { sequence: Some(1), ..Guard::default() };
    let refused = store.append_under("s", guard, messages(limits::BATCH_EVENTS_MAX)).await;
    assert_eq!(verdict(&refused), "sequence_mismatch");
    assert_eq!(store.state("s").await, before);
    assert_eq!(before.1.len(), limits::BATCH_EVENTS_MAX);
}

async fn times_follow_the_clock_and_never_go_back(store: &TestStore) {
    store.open("s").await;
    for _ in 0..3 {
        let before = store.now().await.unwrap();
        let done = store.commit(store.change(appending("s", messages(2)))).await.unwrap();
        let head = &done.parts[0].head;
        assert!(head.last_at >= before && head.last_at <= store.now().await.unwrap());
        assert_eq!(store.get("s").await.head.last_at, head.last_at);
        store.clock.advance(Duration::from_secs(90));
    }
    let log = store.log("s").await;
    assert!(log.windows(2).all(|pair| pair[0].at <= pair[1].at));
    assert!(log[5].at >= log[0].at.plus(Duration::from_secs(180)));
}

async fn times_do_not_go_back_with_the_clock(store: &TestStore) {
    store.open("s").await;
    store.clock.advance(DAY);
    let ahead = store.append("s", messages(1)).await.head.last_at;
    let back = store.reopened().await;
    assert!(back.now().await.unwrap() < ahead, "the clock was set back");
    let head = back.append("s", messages(1)).await.head;
    assert_eq!(head.last_at, ahead);
    assert_eq!(back.log("s").await[1].at, ahead);
    back.close().await;
}

async fn events_belong_to_the_turn_that_they_answer(store: &TestStore) {
    store.open("s").await;
    // type → its turn, completed turns after it
    let steps: &[(&str, Option<u64>, u64)] = &[
        ("external.event", None, 0),
        ("agent.message", None, 0),
        ("user.message", Some(3), 0),
        ("agent.thinking", Some(3), 0),
        ("agent.message", Some(3), 1),
        ("agent.message", Some(3), 1),
        ("user.message", Some(7), 1),
        ("user.message", Some(8), 1),
        ("external.event", Some(8), 1),
        ("agent.message", Some(8), 2),
    ];
    for (n, &(kind, turn, turns)) in steps.iter().enumerate() {
        let head = store.append("s", vec![saying(kind, "text")]).await.head;
        assert_eq!(head.turn_count, turns, "after {n}: {kind}");
        assert_eq!(store.log("s").await[n].turn, turn, "{n}: {kind}");
    }
    let alone = store.get("s").await.head;
    assert_eq!(alone.turn, Some(Turn { sequence: 8, answered: true }));

    store.open("batched").await;
    store.append("batched", steps.iter().map(|(kind, ..)| saying(kind, "text")).collect()).await;
    let turns = |log: Vec<sederunt_core::Event>| log.into_iter().map(|event| event.turn).collect::<Vec<_>>();
    assert_eq!(turns(store.log("batched").await), turns(store.log("s").await));
    let batched = store.get("batched").await.head;
    assert_eq!((batched.turn, batched.turn_count), (alone.turn, alone.turn_count));
}

async fn messages_are_counted_and_previewed(store: &TestStore) {
    store.open("s").await;
    let long = "wörd ".repeat(100);
    let steps: &[(NewEvent, u64, Option<&str>)] = &[
        (event("external.event"), 0, None),
        (message("  one\n line "), 1, Some("one line")),
        (saying("agent.message", "an answer"), 2, Some("an answer")),
        (saying("agent.thinking", "not said"), 2, Some("an answer")),
        (
            NewEvent { content: Some(json(r#"[{"type":"file"}]"#)), ..event("user.message") },
            3,
            Some("an answer"),
        ),
        (
            message(&long),
            4,
            Some(long[..long.char_indices().nth(limits::PREVIEW_CHARS).unwrap().0].trim_end()),
        ),
    ];
    for (event, count, preview) in steps {
        store.append("s", vec![event.clone()]).await;
        let head = store.get("s").await.head;
        assert_eq!((head.message_count, head.preview.as_deref()), (*count, *preview), "{event:?}");
    }
}

async fn the_first_text_describes_a_session_without_description(store: &TestStore) {
    store.open("s").await;
    store.append("s", vec![event("external.event")]).await;
    assert_eq!(store.get("s").await.details.description, None);
    store.append("s", vec![message(&"é".repeat(200)), message("second")]).await;
    store.append("s", vec![message("third")]).await;
    let session = store.get("s").await;
    assert_eq!(session.details.description, Some("é".repeat(limits::FALLBACK_DESCRIPTION_CHARS).into()));
    assert_eq!(session.details.description_source, Some(DescriptionSource::Fallback));
    assert!(session.head.described);

    let cleared = Update { description: Some((None, None)), ..Update::default() };
    store.update("s", cleared).await;
    store.append("s", vec![message("fourth")]).await;
    assert_eq!(store.get("s").await.details.description.as_deref(), Some("fourth"));
}

async fn a_written_description_is_kept(store: &TestStore) {
    store
        .create(a_session("s", |new| {
            new.head.described = true;
            new.details.description = Some("mine".into());
            new.details.description_source = Some(DescriptionSource::User);
        }))
        .await;
    store.append("s", messages(2)).await;
    let details = store.get("s").await.details;
    assert_eq!(details.description.as_deref(), Some("mine"));
    assert_eq!(details.description_source, Some(DescriptionSource::User));
}

async fn an_external_id_is_taken_once(store: &TestStore) {
    store.open("s").await;
    // a batch of external ids → what each became, the last sequence after it
    type Case<'a> = (&'a [&'a str], &'a [Slot], u64);
    #[derive(Debug, PartialEq)]
    enum Slot {
        New(u64),
        Repeat(u64),
    }
    use Slot::{New, Repeat};
    let cases: &[Case] = &[
        (&["a"], &[New(1)], 1),
        (&["a"], &[Repeat(1)], 1),
        (&["b", "b", "b"], &[New(2), Repeat(2), Repeat(2)], 2),
        (&["c", "a", "d", "b", "c"], &[New(3), Repeat(1), New(4), Repeat(2), Repeat(3)], 4),
        (&["A", "a ", "é"], &[New(5), New(6), New(7)], 7),
        (&["é", "A"], &[Repeat(7), Repeat(5)], 7),
    ];
    for (ids, expected, last) in cases {
        let done = store.append("s", ids.iter().map(|&text| external(text)).collect()).await;
        let became: Vec<Slot> = done
            .appended
            .iter()
            .map(|slot| match slot {
                AppendOutcome::New(event) => New(event.sequence),
                AppendOutcome::Repeat(first) => Repeat(*first),
            })
            .collect();
        assert_eq!(&became, expected, "{ids:?}");
        assert_eq!(store.get("s").await.head.last_sequence, *last, "{ids:?}");
    }
    assert_eq!(sequences(&store.log("s").await), [1, 2, 3, 4, 5, 6, 7]);
}

async fn a_batch_of_repeats_changes_nothing(store: &TestStore) {
    store.open("s").await;
    let mut said = message("hello");
    said.external_event_id = Some("x".into());
    store.append("s", vec![said.clone(), external("y")]).await;
    let before = store.state("s").await;
    store.clock.advance(DAY);
    let done = store.append("s", vec![external("y"), said]).await;
    assert_eq!(appended(&done), [2, 1]);
    assert_eq!(store.state("s").await, before);
}

async fn an_external_id_belongs_to_its_session(store: &TestStore) {
    for name in ["one", "two"] {
        store.open(name).await;
        assert!(matches!(store.append(name, vec![external("x")]).await.appended[0], AppendOutcome::New(_)));
    }
}

async fn only_silence_moves_a_response_towards_its_deadline(store: &TestStore) {
    store
        .create(a_session("response", |new| {
            new.head.session_type = SessionType::Response;
            new.head.is_talk = false;
            new.head.status = Status::Running;
        }))
        .await;
    store.clock.advance(DAY);
    let done = store.commit(store.change(appending("response", vec![external("x")]))).await.unwrap();
    let pushed = Some(done.at.plus(limits::RESPONSE_DEADLINE));
    assert_eq!(done.parts[0].head.deadline_at, pushed);
    assert_eq!(store.get("response").await.head.deadline_at, pushed);

    store.open("talk").await;
    let fixed = store.update("talk", Update { deadline: Some(Some(DAY)), ..Update::default() }).await.head;
    store.clock.advance(LEASE);
    store.append("talk", messages(1)).await;
    assert_eq!(store.get("talk").await.head.deadline_at, fixed.deadline_at);
}

async fn an_external_id_leads_to_its_sequence(store: &TestStore) {
    store.open("s").await;
    store.append("s", vec![external("a"), message("between"), external("b 'é'")]).await;
    let find =
        async |session: &str, name: &str| store.sequence_of(&store.tenant, &id(session), name).await.unwrap();
    let first = find("s", "a").await.unwrap();
    assert_eq!(find("s", "b 'é'").await, Some(first + 2));
    assert_eq!((find("s", "c").await, find("other", "a").await), (None, None));
    let elsewhere = sederunt_core::TenantId::stored("nowhere");
    assert_eq!(store.sequence_of(&elsewhere, &id("s"), "a").await.unwrap(), None);
}
