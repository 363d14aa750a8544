//! Channels: what they were told is kept once, a conversation has one session, deliveries come in order, and only the
//! holder of a channel writes to them.

use std::time::Duration;

use sederunt_core::channel::{
    ChannelFigures, ChannelState, ChannelStateChange, ConversationKey, Delivery, DeliveryNote, DeliveryState,
    EpochRule, GiveUpReason, LeaseChange,
};
use sederunt_core::store::{Change, CommitResult, Record, Refusal};

use crate::builders::*;
use crate::stores::TestStore;

on_each_store! {
    an_update_is_taken_once_and_its_repeat_writes_nothing,
    a_conversation_is_held_in_one_session_at_a_time,
    a_session_made_by_the_same_change_can_be_bound,
    of_each_conversation_the_first_delivery_comes_first,
    a_delivery_is_filed_once,
    notes_of_a_delivery_read_back,
    an_older_holder_writes_nothing,
    two_nodes_cannot_take_a_channel_at_once,
    a_pause_and_a_lease_do_not_overwrite_each_other,
    a_deleted_session_takes_its_conversation_and_deliveries_with_it,
    what_is_old_is_forgotten,
    channels_of_one_tenant_are_nothing_in_another;
    durable: a_copy_carries_channels,
}

fn key(chat: &str) -> ConversationKey {
    ConversationKey { channel: "desk".into(), chat: chat.into(), thread: "".into() }
}

fn told(update_key: &str) -> Record {
    Record::AddChannelUpdate { channel: "desk".into(), update_key: update_key.into() }
}

fn bound(key: &ConversationKey, session: &str, instead_of: Option<&str>) -> Record {
    Record::BindConversation { key: key.clone(), session: id(session), instead_of: instead_of.map(id) }
}

fn filed(chat: &str, session: &str, about: &str) -> Record {
    Record::AddDelivery(Box::new(Delivery::sentence(&key(chat), &id(session), about, "Hello")))
}

fn noted(about: &str, epoch: u64, note: DeliveryNote) -> Record {
    Record::NoteDelivery { id: format!("desk:{about}").into(), channel: "desk".into(), epoch, note }
}

fn put(change: ChannelStateChange) -> Record {
    Record::PutChannel { channel: "desk".into(), change }
}

fn take(node: &str, seen: Option<u64>) -> Record {
    let lease = Some(LeaseChange::Take { node: node.into(), lease: LEASE });
    put(ChannelStateChange { epoch: EpochRule::Seen(seen), lease, ..ChannelStateChange::default() })
}

impl TestStore {
    async fn records(&self, records: Vec<Record>) -> Result<CommitResult, Refusal> {
        self.commit(Change { records, ..Change::new(self.tenant.clone()) }).await
    }

    async fn held_in(&self, chat: &str) -> Option<String> {
        let found = self.conversation_session(&self.tenant, &key(chat)).await.unwrap();
        found.map(|session| session.to_string())
    }

    async fn due(&self) -> Vec<String> {
        let now = self.now().await.unwrap();
        let due = self.due_deliveries(&self.tenant, "desk", now, 10).await.unwrap();
        due.iter().map(|one| one.id.trim_start_matches("desk:").to_owned()).collect()
    }

    async fn row(&self) -> ChannelState {
        self.channel(&self.tenant, "desk").await.unwrap().unwrap_or_default()
    }

    async fn figures(&self) -> ChannelFigures {
        self.channel_figures(&self.tenant, "desk").await.unwrap()
    }
}

async fn an_update_is_taken_once_and_its_repeat_writes_nothing(store: &TestStore) {
    store.open("a").await;
    let change = |text: &str| store.change(appending("a", vec![message(text)])).record(told("17"));
    assert_eq!(verdict(&store.commit(change("once")).await), "ok");
    assert_eq!(verdict(&store.commit(change("twice")).await), "already_exists");
    assert_eq!(store.get("a").await.head.last_sequence, 1);
    assert!(store.has_channel_update(&store.tenant, "desk", "17").await.unwrap());
    assert!(!store.has_channel_update(&store.tenant, "desk", "18").await.unwrap());
    assert!(!store.has_channel_update(&store.tenant, "other", "17").await.unwrap());
    assert!(store.figures().await.heard_at.is_some());
    let (left, right) = tokio::join!(store.records(vec![told("19")]), store.records(vec![told("19")]));
    let mut verdicts = [verdict(&left), verdict(&right)];
    verdicts.sort_unstable();
    assert!(verdicts[1] == "ok" && verdicts[0] != "ok" || verdicts == ["ok", "stale"], "{verdicts:?}");
}

async fn a_conversation_is_held_in_one_session_at_a_time(store: &TestStore) {
    for name in ["a", "b", "c"] {
        store.open(name).await;
    }
    assert_eq!(store.held_in("7").await, None);
    assert_eq!(verdict(&store.records(vec![bound(&key("7"), "a", None)]).await), "ok");
    assert_eq!(store.held_in("7").await.as_deref(), Some("a"));
    assert_eq!(verdict(&store.records(vec![bound(&key("7"), "b", None)]).await), "stale");
    assert_eq!(verdict(&store.records(vec![bound(&key("7"), "b", Some("a"))]).await), "ok");
    assert_eq!(verdict(&store.records(vec![bound(&key("7"), "c", Some("a"))]).await), "stale");
    assert_eq!(store.held_in("7").await.as_deref(), Some("b"));
    let topic = ConversationKey { thread: "9".into(), ..key("7") };
    assert_eq!(verdict(&store.records(vec![bound(&topic, "c", None)]).await), "ok", "a thread is its own");
    assert_eq!(store.held_in("7").await.as_deref(), Some("b"));
    assert_eq!(verdict(&store.records(vec![bound(&key("8"), "nobody", None)]).await), "not_found");
}

async fn a_session_made_by_the_same_change_can_be_bound(store: &TestStore) {
    let change = store.change(creating(a_session("new", |_| {}))).record(told("1"));
    let change = change.record(bound(&key("7"), "new", None)).record(filed("7", "new", "x"));
    assert_eq!(verdict(&store.commit(change).await), "ok");
    assert_eq!(store.held_in("7").await.as_deref(), Some("new"));
    assert_eq!(store.due().await, ["x"]);
}

async fn of_each_conversation_the_first_delivery_comes_first(store: &TestStore) {
    store.open("a").await;
    for (chat, about) in [("1", "first"), ("1", "second"), ("2", "other"), ("1", "third")] {
        store.record(filed(chat, "a", about)).await;
    }
    assert_eq!(store.due().await, ["first", "other"]);
    store.record(take("n", None)).await;
    let later = DeliveryNote::Later { after: Duration::from_secs(60), reason: "429".into() };
    store.record(noted("first", 1, later)).await;
    assert_eq!(store.due().await, ["other"], "nothing overtakes what waits");
    store.record(noted("other", 1, DeliveryNote::Sent)).await;
    assert_eq!(store.due().await, Vec::<String>::new());
    store.clock.advance(Duration::from_secs(61));
    assert_eq!(store.due().await, ["first"]);
    store.record(noted("first", 1, DeliveryNote::GivenUp { reason: GiveUpReason::Blocked })).await;
    assert_eq!(store.due().await, ["second"]);
    let figures = store.figures().await;
    assert_eq!((figures.waiting, figures.given_up), (2, 1));
    let given_up = store.deliveries(&store.tenant, "desk", DeliveryState::GivenUp, 10).await.unwrap();
    assert_eq!(given_up.iter().map(|one| one.reason.as_deref()).collect::<Vec<_>>(), [Some("blocked")]);
}

async fn a_delivery_is_filed_once(store: &TestStore) {
    store.open("a").await;
    store.record(filed("1", "a", "x")).await;
    store.record(filed("1", "a", "x")).await;
    assert_eq!(store.figures().await.waiting, 1);
    assert_eq!(verdict(&store.records(vec![filed("1", "nobody", "y")]).await), "not_found");
}

async fn notes_of_a_delivery_read_back(store: &TestStore) {
    store.open("a").await;
    store.record(filed("1", "a", "x")).await;
    store.record(take("n", None)).await;
    let one = async || {
        let waiting = store.deliveries(&store.tenant, "desk", DeliveryState::Waiting, 10).await.unwrap();
        waiting.into_iter().next().unwrap()
    };
    let fresh = one().await;
    assert_eq!((fresh.key.clone(), fresh.session.clone()), (key("1"), id("a")));
    assert_eq!((fresh.text.as_deref(), fresh.turn, fresh.parts_sent), (Some("Hello"), 0, 0));
    assert_eq!(fresh.due_at, fresh.filed_at);
    let later = || DeliveryNote::Later { after: Duration::from_secs(4), reason: "it is away".into() };
    store.record(noted("x", 1, later())).await;
    store.record(noted("x", 1, later())).await;
    let waits = one().await;
    assert_eq!((waits.attempts, waits.reason.as_deref()), (2, Some("it is away")));
    assert!(waits.due_at >= fresh.due_at.plus(Duration::from_secs(4)));
    let ids: Vec<Box<str>> = vec!["501".into(), "a \"b\"".into()];
    store.record(noted("x", 1, DeliveryNote::Shown { parts_sent: 1, message_ids: ids.clone() })).await;
    let shown = one().await;
    assert_eq!((shown.parts_sent, shown.message_ids, shown.attempts, shown.reason), (1, ids, 0, None));
    store.record(noted("gone", 1, DeliveryNote::Sent)).await;
}

async fn an_older_holder_writes_nothing(store: &TestStore) {
    store.open("a").await;
    store.record(filed("1", "a", "x")).await;
    let sent = |epoch| vec![noted("x", epoch, DeliveryNote::Sent)];
    assert_eq!(verdict(&store.records(sent(1)).await), "stale", "nobody holds the channel");
    store.record(take("old", None)).await;
    store.clock.advance(LEASE + Duration::from_secs(1));
    store.record(take("new", Some(1))).await;
    assert_eq!(verdict(&store.records(sent(1)).await), "stale");
    let cursor = |epoch| {
        let change = ChannelStateChange {
            epoch: EpochRule::Seen(Some(epoch)),
            cursor: Some("99".into()),
            lease: Some(LeaseChange::Renew(LEASE)),
            ..ChannelStateChange::default()
        };
        vec![put(change)]
    };
    assert_eq!(verdict(&store.records(cursor(1)).await), "stale");
    assert_eq!(store.row().await.cursor, None);
    assert_eq!(verdict(&store.records(cursor(2)).await), "ok");
    assert_eq!(verdict(&store.records(sent(2)).await), "ok");
    let row = store.row().await;
    assert_eq!((row.cursor.as_deref(), row.epoch), (Some("99"), 2));
    assert_eq!(row.lease.map(|lease| lease.node), Some("new".into()));
}

async fn two_nodes_cannot_take_a_channel_at_once(store: &TestStore) {
    for seen in [None, Some(1)] {
        let (left, right) =
            tokio::join!(store.records(vec![take("a", seen)]), store.records(vec![take("b", seen)]));
        let mut verdicts = [verdict(&left), verdict(&right)];
        verdicts.sort_unstable();
        assert_eq!(verdicts, ["ok", "stale"], "{seen:?}");
    }
    assert_eq!(store.row().await.epoch, 2);
}

async fn a_pause_and_a_lease_do_not_overwrite_each_other(store: &TestStore) {
    store.record(put(ChannelStateChange { paused: Some(true), ..ChannelStateChange::default() })).await;
    assert_eq!((store.row().await.paused, store.row().await.epoch), (true, 0));
    store.record(take("n", Some(0))).await;
    let error = ChannelStateChange { error: Some(Some("away".into())), ..ChannelStateChange::default() };
    store.record(put(error)).await;
    let row = store.row().await;
    assert!(row.paused && row.lease.is_some());
    assert_eq!(row.error.map(|(text, _)| text), Some("away".into()));
    let calm = ChannelStateChange {
        paused: Some(false),
        error: Some(None),
        lease: Some(LeaseChange::Release),
        ..ChannelStateChange::default()
    };
    store.record(put(calm)).await;
    assert_eq!(store.row().await, ChannelState { epoch: 1, ..ChannelState::default() });
}

async fn a_deleted_session_takes_its_conversation_and_deliveries_with_it(store: &TestStore) {
    store.open("a").await;
    store.open("b").await;
    store.record(bound(&key("7"), "a", None)).await;
    store.record(filed("7", "a", "x")).await;
    store.delete("a").await;
    assert_eq!(store.held_in("7").await, None);
    assert_eq!(store.due().await, Vec::<String>::new());
    assert_eq!(verdict(&store.records(vec![bound(&key("7"), "b", None)]).await), "ok");
}

async fn what_is_old_is_forgotten(store: &TestStore) {
    store.open("a").await;
    store.record(told("1")).await;
    store.record(filed("1", "a", "x")).await;
    store.record(filed("1", "a", "y")).await;
    store.record(take("n", None)).await;
    store.record(noted("x", 1, DeliveryNote::GivenUp { reason: GiveUpReason::Removed })).await;
    store.clock.advance(DAY);
    store.record(told("2")).await;
    let before = store.now().await.unwrap().minus(DAY / 2);
    let forget = || store.forget_channel_updates(&store.tenant, "desk", before, 10);
    assert_eq!(forget().await.unwrap(), 2);
    assert_eq!(forget().await.unwrap(), 0);
    assert!(!store.has_channel_update(&store.tenant, "desk", "1").await.unwrap());
    assert!(store.has_channel_update(&store.tenant, "desk", "2").await.unwrap());
    assert_eq!((store.figures().await.waiting, store.figures().await.given_up), (1, 0), "what waits stays");
}

async fn channels_of_one_tenant_are_nothing_in_another(store: &TestStore) {
    store.open("a").await;
    store.record(told("1")).await;
    store.record(bound(&key("7"), "a", None)).await;
    store.record(filed("7", "a", "x")).await;
    store.record(take("n", None)).await;
    let other = store.tenant_named("other").await;
    assert!(!other.has_channel_update(&other.tenant, "desk", "1").await.unwrap());
    assert_eq!((other.held_in("7").await, other.due().await), (None, Vec::new()));
    assert_eq!(other.channel(&other.tenant, "desk").await.unwrap(), None);
    assert_eq!(other.figures().await, ChannelFigures::default());
    assert_eq!(verdict(&other.records(vec![noted("x", 1, DeliveryNote::Sent)]).await), "stale");
    assert_eq!(store.due().await, ["x"]);
}

async fn a_copy_carries_channels(store: &TestStore) {
    store.open("a").await;
    store.record(told("1")).await;
    store.record(bound(&key("7"), "a", None)).await;
    store.record(filed("7", "a", "x")).await;
    store.record(take("n", None)).await;
    let Some(copy) = store.copied().await else { return };
    assert_eq!(copy.held_in("7").await.as_deref(), Some("a"));
    assert_eq!(copy.due().await, ["x"]);
    assert_eq!(copy.row().await, store.row().await);
    assert!(copy.has_channel_update(&copy.tenant, "desk", "1").await.unwrap());
    copy.record(filed("7", "a", "y")).await;
    assert_eq!(copy.figures().await.waiting, 2, "numbers go on behind those of the files");
    copy.remove().await;
}
