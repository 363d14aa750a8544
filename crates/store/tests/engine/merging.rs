//! Two users become one while they talk.

use sederunt_core::access::Actor;
use sederunt_core::engine::{Begun, Fate, NewUser, Post};
use sederunt_core::memory::Owner;
use sederunt_core::memory::candidate::Buffer;
use sederunt_core::session::{Session, SessionType};
use sederunt_core::talk::sitting::EndReason;
use sederunt_core::talk::turn::{Outcome, OutcomeKind};
use sederunt_core::talk::{Fields, Talk};
use sederunt_core::{Role, SessionId, UserId};

use crate::on_both_stores;
use crate::world::{World, hold, wish};

on_both_stores!(an_open_sitting_of_a_merged_user_belongs_to_whom_they_became);

impl World {
    async fn says(&self, actor: &Actor, id: &str, user: Option<&str>) -> Begun {
        self.open(actor, wish(id, SessionType::Mixed)).await;
        let post = Post { user: user.map(str::to_owned), ..Post::text("I live in Graz.").unwrap() };
        let posted = self.engine.post(actor, &SessionId::stored(id), post, &hold("a"), None).await.unwrap();
        match posted.fate {
            Fate::Started(begun) => *begun,
            other => panic!("{other:?}"),
        }
    }

    async fn answer(&self, begun: &Begun) {
        let outcome = Outcome {
            kind: OutcomeKind::Answered,
            events: Vec::new(),
            change: Fields::default(),
            buffer: Buffer::default(),
            crisis: 0,
            records: Vec::new(),
            usage: None,
        };
        self.engine.finish_turn(begun, outcome).await.unwrap();
    }

    async fn talk_of(&self, id: &str) -> (Session, Talk) {
        let found = self.engine.store().talk(&self.owner().tenant, &SessionId::stored(id)).await;
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
    for user in ["ann", "bob"] {
        let new = NewUser { id: Some(user.to_owned()), ..NewUser::default() };
        world.engine.create_user(&owner, new, None).await.unwrap();
    }
    // Her own conversation, one that somebody leads for her, one whose turn still runs, and one of somebody else.
    let ann = world.actor(Role::Member, "ann");
    let nobody = Actor { user: None, ..(*owner).clone() };
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

    // Whoever made something of it for the user that is gone looks again.
    let close = async |(session, talk): &(Session, Talk)| {
        world.engine.close_sitting(session, talk, EndReason::Asked, None, Vec::new()).await.unwrap()
    };
    assert!(close(&before).await.is_none());
    assert!(close(&world.talk_of("for her").await).await.is_some());
}
