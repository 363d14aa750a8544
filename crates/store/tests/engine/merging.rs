//! Two users become one while they talk.

use sederunt_core::access::Actor;
use sederunt_core::engine::{FeedbackOpening, LessonSearch, NewUser, Operator, Post, PostFate, RunningTurn};
use sederunt_core::feedback::capture::{Capture, FeedbackText, Signal};
use sederunt_core::feedback::session::ClosingReason;
use sederunt_core::lesson::infer;
use sederunt_core::memory::Owner;
use sederunt_core::memory::candidate::Buffer;
use sederunt_core::session::{Session, SessionType, SourceKind};
use sederunt_core::store::FeedbackDue;
use sederunt_core::talk::sitting::EndReason;
use sederunt_core::talk::turn::{TurnOutcome, TurnOutcomeKind};
use sederunt_core::talk::{StateFields, Talk, TurnRecords};
use sederunt_core::{Role, SessionId, UserId};

use crate::harness::{World, hold, wish};
use crate::on_both_stores;

on_both_stores!(
    an_open_sitting_of_a_merged_user_belongs_to_whom_they_became,
    what_a_merged_user_taught_is_seen_by_whom_they_became,
);

impl World {
    async fn with_users(&self, users: [&str; 2]) {
        for user in users {
            let new = NewUser { id: Some(user.to_owned()), ..NewUser::default() };
            self.engine.create_user(&self.owner(), new, None).await.unwrap();
        }
    }

    async fn says(&self, actor: &Actor, id: &str, user: Option<&str>) -> RunningTurn {
        self.open(actor, wish(id, SessionType::Mixed)).await;
        let post = Post { user: user.map(str::to_owned), ..Post::text("I live in Graz.").unwrap() };
        let actor = std::sync::Arc::new(actor.clone());
        let posted = self.engine.post(&actor, &SessionId::stored(id), post, &hold("a"), None).await.unwrap();
        match posted.fate {
            PostFate::Started(begun) => *begun,
            other => panic!("{other:?}"),
        }
    }

    async fn answer(&self, begun: &RunningTurn) {
        let outcome = TurnOutcome {
            kind: TurnOutcomeKind::Answered,
            events: Vec::new(),
            change: StateFields::default(),
            buffer: Buffer::default(),
            crisis: 0,
            records: TurnRecords::default(),
            usage: None,
        };
        self.engine.finish_turn(begun, outcome).await.unwrap();
    }

    async fn talk_of(&self, id: &str) -> (Session, Talk) {
        let found = self.store.talk(&self.owner().tenant, &SessionId::stored(id)).await;
        found.unwrap().expect("it is there")
    }

    /// Whose memory the open sitting feeds, and whom ratings of it name.
    async fn sits(&self, id: &str) -> (Owner, Option<String>) {
        let open = self.talk_of(id).await.1.sitting.expect("a sitting is open");
        (open.owner, open.user)
    }
}

async fn an_open_sitting_of_a_merged_user_belongs_to_whom_they_became(world: &World) {
    let owner = world.owner();
    world.with_users(["ann", "bob"]).await;
    // Her own conversation, one that another user holds for her, one whose turn still runs, and one of another user.
    let ann = world.actor(Role::Member, "ann");
    let nobody = Operator::owner_of(world.tenant.clone(), SourceKind::Api);
    let begun = world.says(&ann, "hers", None).await;
    world.answer(&begun).await;
    let begun = world.says(&nobody, "for her", Some("ann")).await;
    world.answer(&begun).await;
    let runs = world.says(&ann, "runs", None).await;
    let begun = world.says(&owner, "other", None).await;
    world.answer(&begun).await;
    let before = world.talk_of("for her").await;

    let (ann, bob) = (UserId::stored("ann"), UserId::stored("bob"));
    world.engine.merge_users(&owner, &ann, &bob, None).await.unwrap();
    world.answer(&runs).await;
    for id in ["hers", "for her", "runs"] {
        assert_eq!(world.sits(id).await, (Owner::user(&bob), Some("bob".to_owned())), "{id}");
    }
    assert_eq!(world.sits("other").await.1.as_deref(), Some("owner"));

    // A caller that decided something for the merged user decides again.
    let close = async |(session, talk): &(Session, Talk)| {
        world.engine.close_sitting(session, talk, EndReason::Asked, None).await.unwrap()
    };
    assert!(close(&before).await.is_none());
    assert!(close(&world.talk_of("for her").await).await.is_some());
}

async fn what_a_merged_user_taught_is_seen_by_whom_they_became(world: &World) {
    let owner = world.owner();
    world.with_users(["ann", "bob"]).await;
    let (ann, bob) = (world.actor(Role::Member, "ann"), world.actor(Role::Member, "bob"));
    let wish = |change: &str| Capture {
        signal: Some(Signal::Down),
        words: FeedbackText { what_to_change: Some(change.to_owned()), ..FeedbackText::default() },
        ..Capture::default()
    };
    let lesson = world.taught(&ann, wish("Greet people by name")).await;
    // One that is still being added to, by her and by an owner.
    let hers = world.accepted(&ann, wish("Run the tests before you commit")).await;
    let opened = world.engine.open_feedback(&owner, &hers.event, Signal::Down, None, None).await.unwrap();
    let FeedbackOpening::Open(owners) = opened else { panic!("blocked") };
    let mut looked_at = Vec::new();
    for id in [&hers.id, &owners.id] {
        let due = FeedbackDue { tenant: owner.tenant.clone(), id: id.clone() };
        looked_at.push(world.engine.feedback_matter(&due).await.unwrap().unwrap());
    }
    let sees = async |actor: &Actor| {
        let search = LessonSearch { limit: 10, ..LessonSearch::default() };
        world.engine.search_lessons(actor, search).await.unwrap().items.len()
    };
    assert_eq!((sees(&ann).await, sees(&bob).await), (1, 0));

    world.engine.merge_users(&owner, &UserId::stored("ann"), &UserId::stored("bob"), None).await.unwrap();
    assert_eq!((sees(&ann).await, sees(&bob).await), (0, 1));
    let seen = world.engine.lesson(&bob, &lesson.id).await.unwrap();
    assert_eq!(seen.body.sources[0].author.as_deref(), Some("bob"));
    assert_eq!(
        world.engine.feedback_session(&bob, &hers.id).await.unwrap().author,
        Some(UserId::stored("bob"))
    );
    // What was being drawn when they were merged is drawn again, from what is his now.
    for matter in looked_at {
        let draft = infer::infer(&matter);
        let stale = world
            .engine
            .conclude_feedback(&owner.tenant, &matter, draft, ClosingReason::Asked)
            .await
            .unwrap();
        assert!(stale.is_none(), "a lesson was kept of a user that is gone");
    }
    world.concluded(&bob, &hers.id).await;
    assert_eq!(sees(&bob).await, 2);
}
