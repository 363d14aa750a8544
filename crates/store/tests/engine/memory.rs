//! The memory of a person, as a turn and as a caller reach it through the engine.

use sederunt_core::engine::{Post, PostFate, RunningTurn};
use sederunt_core::memory::MemoryKind;
use sederunt_core::memory::candidate::Buffer;
use sederunt_core::memory::owner::MemoryAct;
use sederunt_core::session::SessionType;
use sederunt_core::talk::turn::{TurnOutcome, TurnOutcomeKind};
use sederunt_core::talk::{StateFields, TurnRecords};
use sederunt_core::{Role, SessionId};

use crate::harness::{World, hold, wish};
use crate::on_both_stores;

on_both_stores!(
    a_scope_allows_the_access_that_it_was_checked_for_and_no_other,
    a_command_in_a_turn_changes_the_memory_of_its_speaker_when_the_turn_ends,
);

impl World {
    /// Begins the turn of a message in a member's own conversation.
    async fn turn_of(&self, user: &str, text: &str) -> RunningTurn {
        let actor = self.actor(Role::Member, user);
        self.open(&actor, wish(user, SessionType::Mixed)).await;
        let (id, post) = (SessionId::stored(user), Post::text(text).unwrap());
        match self.engine.post(&actor, &id, post, &hold("a"), None).await.unwrap().fate {
            PostFate::Started(begun) => *begun,
            other => panic!("{other:?}"),
        }
    }

    async fn facts_of(&self, user: &str) -> Vec<String> {
        let actor = self.actor(Role::Member, user);
        let scope = self.engine.memory_scope(&actor, None, None, MemoryAct::Read).await.unwrap();
        let page = self.engine.memories(&scope, MemoryKind::Fact, None, 10).await.unwrap();
        page.items.iter().map(|memory| memory.id.clone()).collect()
    }

    /// Has a fact remembered, by a command in a turn that ends.
    async fn remember(&self, user: &str) {
        let text = "Remember that my sister is called Mona";
        let turn = self.turn_of(user, text).await;
        let mut buffer = Buffer::default();
        let reply = self.engine.control_memory(&turn, text, &mut buffer).await.unwrap().unwrap();
        assert!(self.facts_of(user).await.is_empty(), "nothing is written before the turn ends");
        self.engine.finish_turn(&turn, outcome(reply.records)).await.unwrap();
    }
}

fn outcome(records: TurnRecords) -> TurnOutcome {
    TurnOutcome {
        kind: TurnOutcomeKind::Answered,
        events: Vec::new(),
        change: StateFields::default(),
        buffer: Buffer::default(),
        crisis: 0,
        records,
        usage: None,
    }
}

async fn a_scope_allows_the_access_that_it_was_checked_for_and_no_other(world: &World) {
    world.remember("ada").await;
    let [fact] = &world.facts_of("ada").await[..] else { panic!("one fact is kept") };
    let ada = world.actor(Role::Member, "ada");
    let scope = async |act| world.engine.memory_scope(&ada, None, None, act).await.unwrap();
    let (read, forget) = (scope(MemoryAct::Read).await, scope(MemoryAct::Forget).await);
    let refused = world.engine.forget(&read, MemoryKind::Fact, fact).await.unwrap_err();
    assert_eq!(refused.code(), "internal");
    assert_eq!(world.engine.set_recall(&forget, true).await.unwrap_err().code(), "internal");
    assert_eq!(world.facts_of("ada").await.len(), 1);
    world.engine.forget(&forget, MemoryKind::Fact, fact).await.unwrap();
    assert!(world.facts_of("ada").await.is_empty());
}

async fn a_command_in_a_turn_changes_the_memory_of_its_speaker_when_the_turn_ends(world: &World) {
    world.remember("ada").await;
    assert_eq!(world.facts_of("ada").await.len(), 1);
    assert!(world.facts_of("ben").await.is_empty());
    let turn = world.turn_of("ben", "What do you know about me?").await;
    let told = world.engine.recall_for_turn(&turn, "my sister Mona", async { Ok(None) }).await.unwrap();
    assert!(told.lines().is_empty(), "another person's memory does not enter the prompt: {:?}", told.lines());
    // Ids of another person's memories, however they came, are not recalled either.
    let foreign = world.facts_of("ada").await;
    let told = world.engine.recall_for_turn(&turn, "sister", async { Ok(Some(foreign)) }).await.unwrap();
    assert!(told.lines().is_empty(), "{:?}", told.lines());
}
