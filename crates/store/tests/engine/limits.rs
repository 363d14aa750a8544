//! Limits that need a store: each is reached exactly, and then gone past by one.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::clock::SystemClock;
use sederunt_core::engine::{Append, Engine, LessonPatch, Settings, StreamItem};
use sederunt_core::feedback::capture::{Capture, FeedbackText, Signal};
use sederunt_core::feedback::{Label, Modality, RATING_SCHEMA_VERSION, Rating, RatingSource};
use sederunt_core::live::Hub;
use sederunt_core::live::budget::{StreamAccount, StreamBudget};
use sederunt_core::memory::promote;
use sederunt_core::memory::{Memory, MemoryBody, Owner};
use sederunt_core::quota::{Amount, QuotaLimits, QuotaSettings};
use sederunt_core::safety::opaque::OpaqueId;
use sederunt_core::safety::record::CrisisRecord;
use sederunt_core::safety::{ClassifierPath, Crisis, Level, ReasonCode};
use sederunt_core::session::decide::{OpenSession, PatchSession};
use sederunt_core::session::{MemoryMode, SessionType, Status};
use sederunt_core::store::{Change, FeedbackDue, Record, Store};
use sederunt_core::{Error, Result, Role, SessionId, Timestamp, UserId, limits};
use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};

use crate::harness::{World, key, says, wish};
use crate::on_both_stores;
use crate::tasks::{complete, define_task, take, trigger};

on_both_stores!(
    a_sweep_settles_one_more_than_it_reads_at_a_time,
    what_waits_expires_at_its_deadline_and_not_before,
    a_key_is_forgotten_after_its_time_and_not_before,
    an_output_may_be_repaired_as_often_as_the_bound_and_no_more,
    a_run_counts_with_all_its_steps,
    a_description_one_character_too_long_changes_nothing,
    live_events_are_charged_from_one_byte_past_the_free_size,
    a_turn_reads_the_newest_messages_and_steps_up_to_the_bound,
    a_search_returns_no_more_memories_of_a_kind_than_the_bound,
    a_lesson_is_drawn_from_no_more_messages_than_the_bound,
    one_pass_takes_no_more_silent_feedback_than_the_bound,
    statistics_name_no_more_tags_and_skills_than_the_bound,
    agents_and_readers_are_given_no_more_lessons_and_rules_than_the_bound,
    a_lesson_one_character_too_long_is_refused,
    ratings_and_crises_are_purged_after_their_retention,
);

/// Enough for the time that a test itself takes.
const MARGIN: Duration = Duration::from_secs(3600);

async fn a_sweep_settles_one_more_than_it_reads_at_a_time(world: &World) {
    for n in 0..=limits::SWEEP_ROWS_MAX {
        world.pending(&format!("s{n}")).await;
    }
    world.clock.advance(limits::WAITING_DEADLINE + MARGIN);
    let due = world.store.due(Timestamp::default(), limits::SWEEP_ROWS_MAX).await.unwrap();
    assert_eq!(due.len(), limits::SWEEP_ROWS_MAX, "a read is bounded");
    let swept = world.engine.sweep().await.unwrap();
    assert_eq!(swept.overdue, limits::SWEEP_ROWS_MAX + 1, "and a full one is followed by another");
}

async fn what_waits_expires_at_its_deadline_and_not_before(world: &World) {
    world.pending("s").await;
    world.clock.advance(limits::WAITING_DEADLINE - MARGIN);
    assert_eq!(world.engine.sweep().await.unwrap().overdue, 0);
    world.clock.advance(MARGIN);
    assert_eq!(world.engine.sweep().await.unwrap().overdue, 1);
    assert_eq!(world.session("s").await.head.status, Status::Expired);
}

async fn a_key_is_forgotten_after_its_time_and_not_before(world: &World) {
    let (owner, session) = (world.owner(), world.talk("s").await);
    let say = || world.engine.append(&owner, &session.id, says("user.message", "hi"), key("k", 1));
    let first = say().await.unwrap().last_sequence;
    world.clock.advance(limits::IDEMPOTENCY_KEPT - MARGIN);
    assert_eq!(world.engine.purge_idempotency_keys().await.unwrap(), 0);
    assert_eq!(say().await.unwrap().last_sequence, first, "the answer is repeated");
    world.clock.advance(MARGIN + Duration::from_secs(1));
    assert_eq!(world.engine.purge_idempotency_keys().await.unwrap(), 1);
    assert!(say().await.unwrap().last_sequence > first, "the key is free again");
}

async fn an_output_may_be_repaired_as_often_as_the_bound_and_no_more(world: &World) {
    let worker = world.worker("w");
    let contract = r#"{"slug":"t","name":"T","agent_slug":"eliza","output":{"type":"object"}}"#;
    define_task(world, contract).await;
    for (repairs, end) in
        [(limits::REPAIRS_MAX, Status::Completed), (limits::REPAIRS_MAX + 1, Status::Failed)]
    {
        trigger(world, "t").await;
        let claim = take(world, &worker).await;
        for n in 1..=repairs {
            let refused = complete(world, &worker, &claim, "[]").await;
            assert_eq!(refused.is_err(), n <= limits::REPAIRS_MAX, "{n} of {repairs}");
        }
        if end == Status::Completed {
            complete(world, &worker, &claim, "{}").await.unwrap();
        }
        assert_eq!(world.session(claim.session.id.as_str()).await.head.status, end);
    }
}

async fn a_run_counts_with_all_its_steps(world: &World) {
    define_task(
        world,
        r#"{"slug":"g","name":"G","steps":[
            {"key":"a","agent_slug":"eliza"},{"key":"b","agent_slug":"eliza"},{"key":"c","agent_slug":"eliza"}]}"#,
    )
    .await;
    let made = world.store.usage(&world.tenant).await.unwrap();
    assert_eq!(made, [], "nothing is there yet");
    let most = |sessions: u64, runs: u64| {
        let tenant = Amount { sessions, runs, bytes: u64::MAX };
        let standard = QuotaLimits { tenant, ..QuotaLimits::default() };
        world.engine.clone().with_quotas(QuotaSettings { standard, ..QuotaSettings::default() })
    };
    // The run itself, and its steps.
    let (all, runs) = (4, 4);
    for (engine, quota) in
        [(most(all - 1, runs), "quotas.tenant_sessions"), (most(all, runs - 1), "quotas.tenant_runs")]
    {
        match engine.trigger(&world.owner(), "g", None, None).await {
            Err(Error::QuotaExceeded { quota: named, .. }) => assert_eq!(named.name(), quota),
            other => panic!("{quota}: {other:?}"),
        }
        let made = world.store.usage(&world.tenant).await.unwrap();
        assert_eq!(made, [], "what is refused makes nothing");
    }
    most(all, runs).trigger(&world.owner(), "g", None, None).await.unwrap();
    let made = world.store.usage(&world.tenant).await.unwrap();
    assert_eq!(
        made.iter().map(|(_, amount)| (amount.sessions, amount.runs)).collect::<Vec<_>>(),
        [(all, runs)]
    );
}

async fn a_description_one_character_too_long_changes_nothing(world: &World) {
    let (owner, session) = (world.owner(), world.talk("s").await);
    let describe = |chars: usize| {
        let description = Some(Some("ä".repeat(chars)));
        world.engine.patch(&owner, &session.id, PatchSession { description, ..PatchSession::default() }, None)
    };
    let kept = describe(limits::DESCRIPTION_CHARS_MAX).await.unwrap();
    let refused = describe(limits::DESCRIPTION_CHARS_MAX + 1).await.unwrap_err();
    assert!(matches!(refused, Error::Invalid { ref field, .. } if field == "description"), "{refused}");
    assert_eq!(world.session("s").await, kept);
}

async fn live_events_are_charged_from_one_byte_past_the_free_size(world: &World) {
    let (owner, session) = (world.owner(), world.talk("s").await);
    let budget = Arc::new(StreamBudget::default());
    let lease = budget.open(vec![StreamAccount::InAll], &QuotaLimits::default()).unwrap();
    let stream = world.engine.stream(owner.clone(), &session.id, None).await.unwrap();
    let mut stream = stream.charged_to(lease);
    while !matches!(stream.next().await.unwrap(), StreamItem::Ready) {}
    // What an event takes beside its text is known from the first one.
    let (free, mut beside) = (limits::STREAM_BYTES_UNCHARGED, 0);
    for (bytes, charged) in [(1, 0), (free, 0), (free + 1, free + 1)] {
        let append = says("external.event", &"x".repeat(bytes - beside));
        world.engine.append(&owner, &session.id, append, None).await.unwrap();
        let StreamItem::Frames(frames) = stream.next().await.unwrap() else { panic!("no frames") };
        let held = frames.iter().map(|frame| frame.event.bytes()).sum::<usize>();
        if beside == 0 {
            beside = held - bytes;
        } else {
            assert_eq!(held, bytes);
        }
        assert_eq!(budget.used(&StreamAccount::InAll).bytes, charged);
    }
}

async fn a_turn_reads_the_newest_messages_and_steps_up_to_the_bound(world: &World) {
    let (owner, session) = (world.owner(), world.talk("s").await);
    let most = limits::TURN_HISTORY_MAX.max(limits::TURN_STEPS_READ_MAX);
    let events = (0..=most).map(|n| says("user.message", &n.to_string()).events.remove(0)).collect();
    let append = Append { events, ..Append::default() };
    let last = world.engine.append(&owner, &session.id, append, None).await.unwrap().last_sequence;
    let said = world.engine.said_before(&session, last + 1, limits::TURN_HISTORY_MAX).await.unwrap();
    assert_eq!(said.len(), limits::TURN_HISTORY_MAX);
    let done = world.engine.done_before(&session, None, limits::TURN_STEPS_READ_MAX).await.unwrap();
    assert_eq!(done.len(), limits::TURN_STEPS_READ_MAX);
    assert_eq!([said.last().unwrap().sequence, done.last().unwrap().sequence], [last, last]);
}

async fn a_search_returns_no_more_memories_of_a_kind_than_the_bound(world: &World) {
    let ann = world.actor(Role::Member, "ann");
    let owner = Owner::user(&UserId::stored("ann"));
    let mut change = Change::new(world.tenant.clone());
    for n in 0..=limits::FOUND_MEMORIES_MAX {
        let fact = promote::remember(&format!("I love green tea number {n}"), &owner, "s", 1).facts.remove(0);
        change = change.record(Record::PutMemory(Box::new(Memory {
            id: format!("m{n}"),
            owner: owner.clone(),
            body: MemoryBody::Fact(fact),
            created_at: Timestamp::default(),
            last_referenced_at: Timestamp::default(),
            dormant_at: None,
        })));
    }
    world.store.commit(change).await.unwrap();
    let found = world.engine.search_memories(&ann, "green tea").await.unwrap();
    assert_eq!(found.len(), limits::FOUND_MEMORIES_MAX);
}

fn thumb(words: &str) -> Capture {
    let words = FeedbackText { what_to_change: Some(words.to_owned()), ..FeedbackText::default() };
    Capture { signal: Some(Signal::Down), words, ..Capture::default() }
}

/// Words that no two lessons share.
fn lesson(n: usize) -> String {
    format!("Handle topic{n} by method{n} with tool{n}")
}

async fn a_lesson_is_drawn_from_no_more_messages_than_the_bound(world: &World) {
    let (owner, session) = (world.owner(), world.talk("s").await);
    for n in 1..=limits::FEEDBACK_PRIOR_MAX + 1 {
        world.engine.append(&owner, &session.id, says("user.message", &n.to_string()), None).await.unwrap();
        let given =
            world.accepted(&owner, Capture { session: Some(session.id.clone()), ..thumb(&lesson(n)) }).await;
        let due = FeedbackDue { tenant: owner.tenant.clone(), id: given.id };
        let matter = world.engine.feedback_matter(&due).await.unwrap().unwrap();
        assert_eq!(matter.prior.len(), n.min(limits::FEEDBACK_PRIOR_MAX));
        assert_eq!(matter.prior.last().unwrap().text, n.to_string(), "the newest");
    }
}

async fn one_pass_takes_no_more_silent_feedback_than_the_bound(world: &World) {
    let owner = world.owner();
    for n in 0..=limits::FEEDBACK_ROWS_MAX {
        world.accepted(&owner, thumb(&lesson(n))).await;
    }
    world.clock.advance(limits::FEEDBACK_SILENCE + MARGIN);
    assert_eq!(world.engine.silent_feedback().await.unwrap().len(), limits::FEEDBACK_ROWS_MAX);
}

async fn statistics_name_no_more_tags_and_skills_than_the_bound(world: &World) {
    let owner = world.owner();
    for n in 0..=limits::TALLY_NAMES_MAX {
        let named =
            Capture { tags: vec![format!("tag{n}")], skill: Some(format!("skill{n}")), ..thumb(&lesson(n)) };
        world.accepted(&owner, named).await;
        let tally = world.engine.feedback_stats(&owner).await.unwrap().tally;
        let most = (n + 1).min(limits::TALLY_NAMES_MAX);
        assert_eq!((tally.tags.len(), tally.skills.len()), (most, most));
    }
}

async fn agents_and_readers_are_given_no_more_lessons_and_rules_than_the_bound(world: &World) {
    let owner = world.owner();
    let about = (0..=limits::RULES_LISTED_MAX).map(lesson).collect::<Vec<_>>().join(" ");
    for n in 0..=limits::RULES_LISTED_MAX {
        world.taught(&owner, thumb(&lesson(n))).await;
        if n <= limits::LESSONS_SHOWN_MAX {
            let shown = world.engine.lessons_for(&world.tenant, None, &about).await.unwrap();
            assert_eq!(shown.len(), (n + 1).min(limits::LESSONS_SHOWN_MAX));
        }
    }
    let listed = world.engine.prevention_rules(&owner, 1).await.unwrap();
    assert_eq!(listed.len(), limits::RULES_LISTED_MAX);
}

async fn a_lesson_one_character_too_long_is_refused(world: &World) {
    let owner = world.owner();
    let taught = world.taught(&owner, thumb(&lesson(1))).await;
    let reword = |chars: usize| {
        let patch = LessonPatch { text: Some("x".repeat(chars)), ..LessonPatch::default() };
        world.engine.change_lesson(&owner, &taught.id, patch)
    };
    let kept = reword(limits::LESSON_CHARS_MAX).await.unwrap();
    let refused = reword(limits::LESSON_CHARS_MAX + 1).await.unwrap_err();
    assert!(matches!(refused, Error::Invalid { ref field, .. } if field == "text"), "{refused}");
    assert_eq!(world.engine.lesson(&owner, &taught.id).await.unwrap(), kept);
}

async fn ratings_and_crises_are_purged_after_their_retention(world: &World) {
    let now = world.store.now().await.unwrap();
    let rating = Rating {
        id: uuid::Uuid::from_u128(1),
        session_id_opaque: OpaqueId::stored("o"),
        user_id_or_null: None,
        recorded_at: now,
        label: Label::Positive,
        turn_count_at_end: 3,
        source: RatingSource::ApiEnd,
        modality: Modality::Voice,
        schema_version: RATING_SCHEMA_VERSION,
    };
    let found = Crisis {
        level: Level::Acute,
        confidence: 0.9,
        reason_code: ReasonCode::ActiveIdeation,
        flags: Vec::new(),
        override_kind: None,
        classifier_path: ClassifierPath::LexiconAfterFailure,
    };
    let crisis = CrisisRecord::begin(uuid::Uuid::from_u128(2), OpaqueId::stored("o"), None, now, &found);
    let change = Change::new(world.tenant.clone())
        .record(Record::AddRating(Box::new(rating)))
        .record(Record::AddCrisis(Box::new(crisis)));
    world.store.commit(change).await.unwrap();
    let purgeable = async || {
        let found = world.engine.purgeable_records(None, None).await.unwrap();
        (found.ratings, found.crises)
    };
    // A purge takes whole days, and leaves the day itself.
    let day = Duration::from_secs(24 * 3600);
    world.clock.advance(limits::CRISIS_KEPT - day);
    assert_eq!(purgeable().await, (0, 0));
    world.clock.advance(2 * day);
    assert_eq!(purgeable().await, (0, 1));
    world.clock.advance(limits::RATINGS_KEPT - limits::CRISIS_KEPT - 2 * day);
    assert_eq!(purgeable().await, (0, 1));
    world.clock.advance(2 * day);
    assert_eq!(purgeable().await, (1, 1));
    let purged = world.engine.purge_records(None, None).await.unwrap();
    assert_eq!((purged.ratings, purged.crises), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_incognito_session_is_deleted_after_its_silence_and_not_before() {
    let (clock, hub) = (Arc::new(SystemClock::default()), Arc::new(Hub::default()));
    let (time, heard) = (clock.clone(), hub.clone());
    let open = move || -> Result<Arc<dyn Store>> {
        let options = SqliteOptions { place: Place::Memory, clock: time.clone(), hub: heard.clone() };
        Ok(SqliteStore::open(options)?)
    };
    let store = open().unwrap();
    let engine = Engine::new(store.clone(), hub, Settings::default()).with_private(open);
    let world = World::over(engine, store, clock, None).await;
    let incognito = OpenSession { memory_mode: Some(MemoryMode::Incognito), ..wish("s", SessionType::Mixed) };
    world.open(&world.owner(), incognito).await;
    world.clock.advance(limits::INCOGNITO_IDLE_AFTER - Duration::from_secs(600));
    assert_eq!(world.engine.sweep().await.unwrap().expired, 0);
    world.clock.advance(Duration::from_secs(601));
    assert_eq!(world.engine.sweep().await.unwrap().expired, 1);
    let gone = world.engine.session(&world.owner(), &SessionId::stored("s")).await;
    assert!(matches!(gone, Err(Error::NotFound)), "{gone:?}");
}
