//! Feedback that teaches: from a thumb with words to a lesson that agents are given, and what people make of it.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::access::Actor;
use sederunt_core::confidence::Confidence;
use sederunt_core::engine::{CaptureOutcome, Engine, FeedbackOpening, LessonPatch, LessonSearch};
use sederunt_core::feedback::capture::{Capture, FeedbackText, Signal, Speaker};
use sederunt_core::feedback::session::{AdditionOutcome, ClosingReason, FeedbackSession};
use sederunt_core::lesson::infer;
use sederunt_core::lesson::merge::MergeOutcome;
use sederunt_core::lesson::{Lesson, LessonState};
use sederunt_core::session::SessionType;
use sederunt_core::session::decide::OpenSession;
use sederunt_core::store::FeedbackDue;
use sederunt_core::{Error, Role, SessionId};

use crate::harness::{World, key, says, wish};

crate::on_both_stores! {
    a_thumb_with_words_becomes_a_lesson_that_is_found,
    each_message_puts_the_end_off_and_silence_is_the_end,
    a_message_that_comes_before_the_end_is_in_it,
    of_many_who_add_on_two_nodes_twenty_are_heard,
    two_nodes_that_close_a_session_at_once_teach_once,
    what_came_up_three_times_is_a_rule_until_it_fades,
    one_feedback_counts_once_however_often_it_is_added_to,
    the_same_key_gives_feedback_once,
    what_is_vague_is_kept_as_a_thumb_and_what_is_secret_not_at_all,
    feedback_names_only_what_the_caller_may_see,
    a_strangers_lesson_is_a_proposal_until_a_member_accepts_it,
    where_a_lesson_came_up_is_told_to_those_who_may_read_it,
    what_people_make_of_a_lesson_stays,
    a_lesson_that_was_given_is_judged_by_the_thumbs_that_follow,
    lessons_are_given_to_the_agent_that_they_are_about,
}

fn down(context: &str) -> Capture {
    let words = FeedbackText { context: Some(context.to_owned()), ..FeedbackText::default() };
    Capture { signal: Some(Signal::Down), words, ..Capture::default() }
}

fn change(wrong: &str, change: &str) -> Capture {
    let words = FeedbackText {
        what_went_wrong: Some(wrong.to_owned()),
        what_to_change: Some(change.to_owned()),
        ..FeedbackText::default()
    };
    Capture { signal: Some(Signal::Down), words, ..Capture::default() }
}

fn search(query: &str) -> LessonSearch {
    LessonSearch { query: Some(query.to_owned()), limit: 50, ..LessonSearch::default() }
}

impl World {
    pub async fn accepted(&self, actor: &Actor, wish: Capture) -> FeedbackSession {
        match self.engine.capture_feedback(actor, wish, None).await.unwrap() {
            CaptureOutcome::Accepted { session, .. } => *session,
            other => panic!("not accepted: {other:?}"),
        }
    }

    async fn add(&self, actor: &Actor, id: &str, message: &str) -> AdditionOutcome {
        self.engine.append_feedback(actor, id, Speaker::User, message, None).await.unwrap()
    }

    pub async fn concluded(&self, actor: &Actor, id: &str) -> Option<MergeOutcome> {
        conclude(&self.engine, actor, id, ClosingReason::Asked).await.expect("it was open")
    }

    /// Gives feedback and closes it.
    pub async fn taught(&self, actor: &Actor, wish: Capture) -> Lesson {
        let session = self.accepted(actor, wish).await;
        self.concluded(actor, &session.id).await.expect("there is a lesson").lesson().clone()
    }

    async fn found(&self, actor: &Actor, query: &str) -> Vec<Lesson> {
        self.engine.search_lessons(actor, search(query)).await.unwrap().items
    }
}

/// Closes a session by the rules; `None`: it was not open, or has moved on.
async fn conclude(
    engine: &Engine,
    actor: &Actor,
    id: &str,
    reason: ClosingReason,
) -> Option<Option<MergeOutcome>> {
    let due = FeedbackDue { tenant: actor.tenant.clone(), id: id.to_owned() };
    let matter = engine.feedback_matter(&due).await.unwrap()?;
    let draft = infer::infer(&matter);
    engine.conclude_feedback(&actor.tenant, &matter, draft, reason).await.unwrap().map(|(_, merged)| merged)
}

async fn a_thumb_with_words_becomes_a_lesson_that_is_found(world: &World) {
    let owner = world.owner();
    world.talk("chat").await;
    for (kind, text) in [("user.message", "update the dependencies"), ("user.message", "thanks")] {
        world.engine.append(&owner, &SessionId::stored("chat"), says(kind, text), None).await.unwrap();
    }
    let about =
        Capture { session: Some(SessionId::stored("chat")), ..down("You edited the lock file by hand") };
    let session = world.accepted(&owner, about).await;
    assert!(session.id.starts_with("fbs_") && session.id.len() == 16 && session.event.starts_with("fb_"));
    let AdditionOutcome::Appended { session, truncated } =
        world.add(&owner, &session.id, "Don't touch the lock file").await
    else {
        panic!("not added")
    };
    assert_eq!((session.body.messages.len(), truncated), (1, false));
    let lesson = world.concluded(&owner, &session.id).await.unwrap().lesson().clone();
    assert_eq!(lesson.body.text, "Do not touch the lock file");
    let source = &lesson.body.sources[0];
    assert_eq!((source.event.as_str(), source.session.as_deref()), (session.event.as_str(), Some("chat")));
    let log = world.engine.session(&owner, &SessionId::stored("chat")).await.unwrap().head.last_sequence;
    assert_eq!(source.sequences, [log - 1, log]);
    let found = world.found(&owner, "files").await;
    assert!(found.is_empty(), "words are whole words");
    let found = world.found(&owner, "the lock").await;
    assert_eq!(found.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [lesson.id.as_str()]);
    let closed = world.engine.feedback_session(&owner, &session.id).await.unwrap();
    let over = closed.body.closed.as_ref().unwrap();
    assert_eq!(over.lesson.as_ref(), Some(&lesson.id));
    assert!(over.complaints.iter().any(|complaint| complaint.kind.as_str() == "constraint"));
    assert!(
        matches!(world.add(&owner, &session.id, "more").await, AdditionOutcome::Closed { at } if at == over.at)
    );
    let elsewhere = world.other_tenant().await;
    assert!(world.found(&elsewhere, "lock").await.is_empty());
}

async fn each_message_puts_the_end_off_and_silence_is_the_end(world: &World) {
    let owner = world.owner();
    let session = world.accepted(&owner, down("it edited the lock file")).await;
    let seconds = |n| Duration::from_secs(n);
    assert_eq!(session.expires_at, session.opened_at.plus(seconds(60)));
    let mut last = session.expires_at;
    for n in 0..3 {
        world.clock.advance(seconds(50));
        assert_eq!(world.engine.silent_feedback().await.unwrap(), [], "after {n} messages");
        let AdditionOutcome::Appended { session, .. } = world.add(&owner, &session.id, "and more").await
        else {
            panic!("closed too early")
        };
        assert!(session.expires_at >= last.plus(seconds(40)));
        last = session.expires_at;
        // A refused message does not postpone the end.
        assert!(matches!(world.add(&owner, &session.id, " ").await, AdditionOutcome::Invalid { .. }));
        assert_eq!(world.engine.feedback_session(&owner, &session.id).await.unwrap().expires_at, last);
    }
    // A caller that saw it as silent before the last message does not close it.
    assert!(conclude(&world.engine, &owner, &session.id, ClosingReason::Silence).await.is_none());
    assert!(world.engine.feedback_session(&owner, &session.id).await.unwrap().is_open());
    world.clock.advance(seconds(61));
    assert!(matches!(world.add(&owner, &session.id, "too late").await, AdditionOutcome::Closed { .. }));
    let node = world.other_node().await;
    let due = node.silent_feedback().await.unwrap();
    assert_eq!(due.iter().map(|due| due.id.as_str()).collect::<Vec<_>>(), [session.id.as_str()]);
    assert!(conclude(&node, &owner, &session.id, ClosingReason::Silence).await.is_some());
    assert_eq!(node.silent_feedback().await.unwrap(), []);
    assert!(conclude(&node, &owner, &session.id, ClosingReason::Asked).await.is_none());
    assert_eq!(world.found(&owner, "lock file").await.len(), 1);
}

async fn a_message_that_comes_before_the_end_is_in_it(world: &World) {
    let owner = world.owner();
    let session = world.accepted(&owner, down("it edited the lock file")).await;
    let due = FeedbackDue { tenant: owner.tenant.clone(), id: session.id.clone() };
    let matter = world.engine.feedback_matter(&due).await.unwrap().unwrap();
    assert!(matches!(
        world.add(&owner, &session.id, "You forgot the tests").await,
        AdditionOutcome::Appended { .. }
    ));
    let draft = infer::infer(&matter);
    let stale =
        world.engine.conclude_feedback(&owner.tenant, &matter, draft, ClosingReason::Asked).await.unwrap();
    assert!(stale.is_none(), "it was decided without the last message");
    assert!(world.found(&owner, "lock").await.is_empty(), "nothing of it was kept");
    let lesson = world.concluded(&owner, &session.id).await.unwrap().lesson().clone();
    assert_eq!(lesson.body.text, "Do not leave this out: the tests");
}

async fn of_many_who_add_on_two_nodes_twenty_are_heard(world: &World) {
    let owner = world.owner();
    let session = world.accepted(&owner, down("it edited the lock file")).await;
    let nodes = [world.engine.clone(), world.other_node().await];
    let mut adding = tokio::task::JoinSet::new();
    for n in 0..30 {
        let (node, owner, id) = (nodes[n % 2].clone(), owner.clone(), session.id.clone());
        adding.spawn(async move {
            node.append_feedback(&owner, &id, Speaker::User, &format!("message {n}"), None).await.unwrap()
        });
    }
    let done = adding.join_all().await;
    let heard = done.iter().filter(|added| matches!(added, AdditionOutcome::Appended { .. })).count();
    let full = done.iter().filter(|added| matches!(added, AdditionOutcome::Full)).count();
    assert_eq!((heard, full), (20, 10));
    let kept = world.engine.feedback_session(&owner, &session.id).await.unwrap();
    assert_eq!(kept.body.messages.len(), 20);
}

async fn two_nodes_that_close_a_session_at_once_teach_once(world: &World) {
    let owner = world.owner();
    let other = world.other_node().await;
    for round in 0..10 {
        let session = world.accepted(&owner, change("x", "Run the linter first")).await;
        let ends = tokio::join!(
            conclude(&world.engine, &owner, &session.id, ClosingReason::Asked),
            conclude(&other, &owner, &session.id, ClosingReason::Asked),
        );
        let closed = [ends.0, ends.1].into_iter().flatten().count();
        assert_eq!(closed, 1, "round {round}");
        let lessons = world.found(&owner, "linter").await;
        assert_eq!((lessons.len(), lessons[0].occurrences), (1, round + 1));
    }
}

async fn what_came_up_three_times_is_a_rule_until_it_fades(world: &World) {
    let owner = world.owner();
    let (ann, bob) = (world.actor(Role::Member, "ann"), world.actor(Role::Member, "bob"));
    for _ in 0..3 {
        world.taught(&ann, change("it was dark", "Turn on the light first")).await;
    }
    assert!(world.engine.prevention_rules(&owner, 3).await.unwrap().is_empty(), "one member makes no rule");
    for (n, by) in (1..=3u64).zip([&owner, &ann, &bob]) {
        world.taught(by, change("it was red", "Run the tests before you commit")).await;
        let rules = world.engine.prevention_rules(&owner, 3).await.unwrap();
        assert_eq!(rules.len(), usize::from(n == 3), "after {n}");
    }
    world.taught(&owner, change("it was red", "Name variables in English")).await;
    assert_eq!(world.engine.prevention_rules(&owner, 3).await.unwrap().len(), 1);
    assert_eq!(world.engine.prevention_rules(&owner, 1).await.unwrap().len(), 3);
    let given = async || {
        let about = "commit, and name the variables";
        world.engine.lessons_for(&owner.tenant, None, about).await.unwrap().len()
    };
    assert_eq!(given().await, 2);
    world.clock.advance(Duration::from_secs(80 * 24 * 3600));
    assert_eq!(world.engine.prevention_rules(&owner, 3).await.unwrap().len(), 0);
    assert_eq!(given().await, 1, "what came up once is forgotten sooner");
    world.taught(&owner, change("it was red", "Run the tests before you commit")).await;
    assert_eq!(world.engine.prevention_rules(&owner, 3).await.unwrap()[0].lesson.occurrences, 4);
}

async fn one_feedback_counts_once_however_often_it_is_added_to(world: &World) {
    let owner = world.owner();
    let session = world.accepted(&owner, change("it was red", "Run the tests before you commit")).await;
    world.concluded(&owner, &session.id).await;
    for _ in 0..3 {
        let opened =
            world.engine.open_feedback(&owner, &session.event, Signal::Down, None, None).await.unwrap();
        let FeedbackOpening::Open(again) = opened else { panic!("blocked") };
        assert!(matches!(world.concluded(&owner, &again.id).await, Some(MergeOutcome::Counted(_))));
    }
    let lessons = world.found(&owner, "tests commit").await;
    assert_eq!((lessons.len(), lessons[0].occurrences), (1, 1));
    let up = world.engine.open_feedback(&owner, &session.event, Signal::Up, None, None).await.unwrap_err();
    assert_eq!(up.code(), "invalid");
    let unknown = world.engine.open_feedback(&owner, "fb_000000000000", Signal::Down, None, None).await;
    assert!(matches!(unknown, Err(Error::NotFound)));
}

async fn the_same_key_gives_feedback_once(world: &World) {
    let owner = world.owner();
    let give = async || match world
        .engine
        .capture_feedback(&owner, down("it edited the lock file"), key("give", 1))
        .await
        .unwrap()
    {
        CaptureOutcome::Accepted { event, session, .. } => (event.id, session.id),
        other => panic!("{other:?}"),
    };
    let first = give().await;
    assert_eq!(give().await, first);
    let add = async || {
        let said = world
            .engine
            .append_feedback(&owner, &first.1, Speaker::User, "once", key("add", 2))
            .await
            .unwrap();
        matches!(said, AdditionOutcome::Appended { .. })
    };
    assert!(add().await && add().await);
    assert_eq!(world.engine.feedback_session(&owner, &first.1).await.unwrap().body.messages.len(), 1);
    world.concluded(&owner, &first.1).await;
    assert!(add().await, "the first answer stands");
    assert_eq!(world.engine.feedback_stats(&owner).await.unwrap().tally.lifetime.total(), 1);
}

async fn what_is_vague_is_kept_as_a_thumb_and_what_is_secret_not_at_all(world: &World) {
    let owner = world.owner();
    let vague = world.engine.capture_feedback(&owner, down("wrong"), None).await.unwrap();
    let CaptureOutcome::ClarificationRequired { event, asked } = vague else { panic!("taken as it was") };
    assert_eq!(asked.missing_fields, ["what_went_wrong", "what_to_change"]);
    assert_eq!(world.engine.feedback_sessions(&owner, None, None, 10).await.unwrap().items.len(), 0);
    let secret = "it printed password: hunter2hunter2";
    let blocked = world.engine.capture_feedback(&owner, down(secret), None).await.unwrap();
    assert!(matches!(blocked, CaptureOutcome::Blocked(_)));
    assert_eq!(world.engine.feedback_stats(&owner).await.unwrap().tally.lifetime.total(), 1);
    // The answer to what was asked back goes to the same thumb.
    let opened =
        world.engine.open_feedback(&owner, &event, Signal::Down, Some("You forgot the tests".into()), None);
    let FeedbackOpening::Open(session) = opened.await.unwrap() else { panic!("blocked") };
    assert!(matches!(world.add(&owner, &session.id, secret).await, AdditionOutcome::Blocked(_)));
    let lesson = world.concluded(&owner, &session.id).await.unwrap().lesson().clone();
    assert_eq!(lesson.body.text, "Do not leave this out: the tests");
    let vague = world.engine.capture_feedback(&owner, down("bad"), None).await.unwrap();
    let CaptureOutcome::ClarificationRequired { event: other, .. } = vague else { panic!("taken as it was") };
    let opened = world.engine.open_feedback(&owner, &other, Signal::Down, None, None).await.unwrap();
    let FeedbackOpening::Open(session) = opened else { panic!("blocked") };
    world.add(&owner, &session.id, "answers too long").await;
    let answered = world.concluded(&owner, &session.id).await.unwrap().lesson().clone();
    assert_eq!(answered.body.text, "Avoid this: answers too long", "the answer, without the vague word");
    let opened = world.engine.open_feedback(&owner, &event, Signal::Down, Some(secret.into()), None).await;
    assert!(matches!(opened.unwrap(), FeedbackOpening::Blocked(_)));
    let patch = LessonPatch { text: Some(secret.to_owned()), ..LessonPatch::default() };
    assert_eq!(world.engine.change_lesson(&owner, &lesson.id, patch).await.unwrap_err().code(), "invalid");
}

async fn feedback_names_only_what_the_caller_may_see(world: &World) {
    let (ann, ben) = (world.actor(Role::Member, "ann"), world.actor(Role::Member, "ben"));
    world.open(&ann, wish("hers", SessionType::Mixed)).await;
    let about = |sequences: Vec<u64>| Capture {
        session: Some(SessionId::stored("hers")),
        sequences,
        ..down("it edited the lock file")
    };
    let refused = async |actor: &Arc<Actor>, wish| {
        world.engine.capture_feedback(actor, wish, None).await.unwrap_err().code()
    };
    assert_eq!(refused(&ben, about(Vec::new())).await, "invalid");
    assert_eq!(refused(&ann, about(vec![99])).await, "invalid");
    let elsewhere = Capture { related: Some("fb_000000000000".into()), ..about(Vec::new()) };
    assert_eq!(refused(&ann, elsewhere).await, "invalid");
    let hers = world.accepted(&ann, about(vec![1])).await;
    assert!(matches!(world.add(&ben, &hers.id, "me too").await, AdditionOutcome::NotFound));
    assert!(matches!(world.engine.feedback_session(&ben, &hers.id).await, Err(Error::NotFound)));
    let opened = world.engine.open_feedback(&ben, &hers.event, Signal::Down, None, None).await;
    assert!(matches!(opened, Err(Error::NotFound)));
    assert_eq!(world.engine.feedback_sessions(&ben, None, None, 10).await.unwrap().items.len(), 0);
    assert_eq!(world.engine.feedback_stats(&ben).await.unwrap().tally.lifetime.total(), 0);
    assert_eq!(world.engine.feedback_stats(&ann).await.unwrap().tally.lifetime.total(), 1);
    assert_eq!(world.engine.feedback_stats(&world.owner()).await.unwrap().tally.lifetime.total(), 1);
    for role in [Role::Channel, Role::Share] {
        let actor = world.actor(role, "c");
        assert_eq!(refused(&actor, down("it edited the lock file")).await, "denied");
        assert_eq!(world.engine.search_lessons(&actor, search("x")).await.unwrap_err().code(), "denied");
    }
}

async fn a_strangers_lesson_is_a_proposal_until_a_member_accepts_it(world: &World) {
    let (guest, ann) = (world.actor(Role::Guest, "guest"), world.actor(Role::Member, "ann"));
    let shared = OpenSession { participants: vec!["guest".into()], ..wish("shared", SessionType::Mixed) };
    world.open(&ann, shared).await;
    let about =
        Capture { session: Some(SessionId::stored("shared")), ..change("rude", "Greet people by name") };
    let lesson = world.taught(&guest, about).await;
    assert_eq!(lesson.state, LessonState::Proposed);
    let given = async || world.engine.lessons_for(&ann.tenant, None, "greet people").await.unwrap().len();
    assert_eq!(given().await, 0);
    let accept = || LessonPatch { state: Some(LessonState::Active), ..LessonPatch::default() };
    assert_eq!(world.found(&guest, "greet").await.len(), 1);
    assert_eq!(world.engine.change_lesson(&guest, &lesson.id, accept()).await.unwrap_err().code(), "denied");
    let stranger = world.actor(Role::Member, "stranger");
    assert!(matches!(
        world.engine.change_lesson(&stranger, &lesson.id, accept()).await,
        Err(Error::NotFound)
    ));
    let worker = world.worker("w");
    assert_eq!(world.found(&worker, "greet").await.len(), 1);
    assert_eq!(world.engine.change_lesson(&worker, &lesson.id, accept()).await.unwrap_err().code(), "denied");
    let accepted = world.engine.change_lesson(&ann, &lesson.id, accept()).await.unwrap();
    assert_eq!((accepted.state, accepted.confidence()), (LessonState::Active, Confidence::SURE));
    assert_eq!(accepted.body.accepted.unwrap().by.as_deref(), Some("ann"));
    assert_eq!(given().await, 1);
    let from_a_worker = world.taught(&worker, change("slow", "Cache the answers of the registry")).await;
    assert_eq!(from_a_worker.state, LessonState::Proposed, "a model may have said it");
}

async fn where_a_lesson_came_up_is_told_to_those_who_may_read_it(world: &World) {
    let (ann, ben) = (world.actor(Role::Member, "ann"), world.actor(Role::Member, "ben"));
    world.open(&ann, wish("hers", SessionType::Mixed)).await;
    let about = |session: Option<&str>| Capture {
        session: session.map(SessionId::stored),
        ..change("rude", "Greet people by name")
    };
    world.taught(&ann, about(Some("hers"))).await;
    assert!(world.found(&ben, "greet").await.is_empty(), "not his, and not of a session of his");
    world.taught(&ben, about(None)).await;
    let sources = async |actor: &Arc<Actor>| {
        let found = world.found(actor, "greet").await;
        assert_eq!((found.len(), found[0].occurrences), (1, 2));
        found[0].body.sources.iter().map(|source| source.author.clone().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(sources(&ann).await, ["ann"]);
    assert_eq!(sources(&ben).await, ["ben"]);
    assert_eq!(sources(&world.owner()).await, ["ann", "ben"]);
    assert_eq!(sources(&world.worker("w")).await, [""; 0]);
}

async fn what_people_make_of_a_lesson_stays(world: &World) {
    let owner = world.owner();
    let lesson = world.taught(&owner, change("rude", "Greet people by name")).await;
    let reworded = LessonPatch {
        text: Some(" Begin with a greeting ".to_owned()),
        tags: Some(vec!["Tone".to_owned()]),
        ..LessonPatch::default()
    };
    let edited = world.engine.change_lesson(&owner, &lesson.id, reworded).await.unwrap();
    assert_eq!(
        (edited.body.text.as_str(), &edited.body.tags[..]),
        ("Begin with a greeting", &["tone".to_owned()][..])
    );
    assert!(edited.body.edited.is_some() && edited.body.accepted.is_none());
    assert!(world.found(&owner, "name").await.is_empty());
    let again = world.taught(&owner, change("rude", "Greet people by name")).await;
    assert_eq!((again.id.as_str(), again.body.text.as_str()), (lesson.id.as_str(), "Begin with a greeting"));
    let retire = LessonPatch { state: Some(LessonState::Retired), ..LessonPatch::default() };
    world.engine.change_lesson(&owner, &lesson.id, retire).await.unwrap();
    assert_eq!(world.engine.lessons_for(&owner.tenant, None, "greeting").await.unwrap(), []);
    let still = world.taught(&owner, change("rude", "Greet people by name")).await;
    assert_eq!((still.state, still.occurrences), (LessonState::Retired, 3));
    for bad in [
        LessonPatch { state: Some(LessonState::Proposed), ..LessonPatch::default() },
        LessonPatch { text: Some("  ".to_owned()), ..LessonPatch::default() },
        LessonPatch { text: Some("x y".repeat(200)), ..LessonPatch::default() },
    ] {
        assert_eq!(world.engine.change_lesson(&owner, &lesson.id, bad).await.unwrap_err().code(), "invalid");
    }
}

async fn a_lesson_that_was_given_is_judged_by_the_thumbs_that_follow(world: &World) {
    let (owner, worker) = (world.owner(), world.worker("w"));
    let lesson = world.taught(&owner, change("red", "Run the tests before you commit")).await;
    let effect = async || world.engine.lesson(&owner, &lesson.id).await.unwrap().effect;
    assert_eq!((effect().await.shown, effect().await.negative_since), (0, 0));
    let claimed = world.claimed("run", &worker).await;
    let given = world.engine.lessons_for(&owner.tenant, None, "commit this").await.unwrap();
    assert_eq!(given.len(), 1);
    let id = SessionId::stored("run");
    world.engine.show_lessons(&worker, &id, claimed.epoch, &given).await.unwrap();
    let fenced = world.engine.show_lessons(&worker, &id, claimed.epoch + 1, &given).await.unwrap_err();
    assert_eq!((fenced.code(), effect().await.shown), ("fenced", 1));
    let about = |wish: Capture| Capture { session: Some(id.clone()), ..wish };
    world.taught(&owner, about(change("late", "Answer within the hour"))).await;
    assert_eq!((effect().await.negative_since, effect().await.positive_since), (1, 0));
    let praise = Capture { signal: Some(Signal::Up), ..about(down("it was quick and kind")) };
    world.taught(&owner, praise).await;
    assert_eq!((effect().await.negative_since, effect().await.positive_since), (1, 1));
    world.taught(&owner, change("red", "Run the tests before you commit")).await;
    assert_eq!(effect().await.negative_since, 2, "it came up again");
    let told = world.engine.retrieve_lessons(&owner, "commit with tests", 5).await.unwrap();
    assert_eq!((told.len(), effect().await.shown), (1, 2));
}

async fn lessons_are_given_to_the_agent_that_they_are_about(world: &World) {
    let owner = world.owner();
    let given = async |agent: Option<&str>| {
        let found = world.engine.lessons_for(&owner.tenant, agent, "write the report").await.unwrap();
        found.into_iter().map(|lesson| lesson.body.text).collect::<Vec<_>>()
    };
    assert!(given(None).await.is_empty());
    world.taught(&owner, change("long", "Keep answers short")).await;
    assert!(given(None).await.is_empty(), "nothing of it is about a report");
    let fits = world.engine.lessons_for(&owner.tenant, None, "keep the answers short").await.unwrap();
    assert_eq!(fits.len(), 1, "known at once");
    assert!(given(Some("writer")).await.is_empty(), "it has nothing to do with its task");
    let of_writer = OpenSession { agent_slug: Some("eliza".into()), ..wish("written", SessionType::Agent) };
    world.open(&owner, of_writer).await;
    let about =
        Capture { session: Some(SessionId::stored("written")), ..change("long", "Use fewer adjectives") };
    let lesson = world.taught(&owner, about).await;
    assert_eq!(lesson.body.agent.as_deref(), Some("eliza"));
    assert_eq!(given(Some("eliza")).await, ["Use fewer adjectives (before: long)"]);
    assert!(given(None).await.is_empty());
}
