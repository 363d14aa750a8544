//! What is kept of talk: at once, at the end, for whom, and what is forgotten or never kept.

use sederunt_agents::talk::end::Ending;
use sederunt_core::engine::NewUser;
use sederunt_core::memory::MemoryKind;
use sederunt_core::memory::owner::MemoryAct;
use sederunt_core::session::MemoryMode;
use sederunt_core::talk::turn::OnBusy;
use sederunt_core::{SessionId, UserId};

use super::world::{World, post};

#[tokio::test]
async fn what_somebody_asks_to_be_remembered_follows_the_user_and_not_the_thread() {
    let world = World::new();
    world.say_as("s1", "Remember that my sister is called Mona", Some("alice")).await.unwrap();
    assert_eq!(world.remembered("s1", Some("alice"), MemoryKind::Fact).await.len(), 1);
    assert!(world.remembered("s1", None, MemoryKind::Fact).await.is_empty());
    let known = world.say_as("s2", "What do you know about me?", Some("alice")).await.unwrap();
    assert!(known.text.contains("Mona"), "{}", known.text);
    let nothing = world.say("s3", "What do you know about me?").await;
    assert!(!nothing.text.contains("Mona"), "{}", nothing.text);
}

#[tokio::test]
async fn forgetting_in_talk_takes_a_confirming_turn() {
    let world = World::new();
    world.say("t", "Remember that my sister is called Mona").await;
    let asked = world.say("t", "Forget that my sister is called Mona").await;
    assert_eq!((asked.kind.as_str(), asked.text.contains('?')), ("memory", true), "{}", asked.text);
    assert_eq!(world.remembered("t", None, MemoryKind::Fact).await.len(), 1);
    world.say("t", "Tell me something else").await;
    world.say("t", "yes").await;
    assert_eq!(
        world.remembered("t", None, MemoryKind::Fact).await.len(),
        1,
        "a yes to something else deleted it"
    );
    world.say("t", "Forget that my sister is called Mona").await;
    world.say("t", "yes").await;
    assert!(world.remembered("t", None, MemoryKind::Fact).await.is_empty());
}

#[tokio::test]
async fn everything_is_forgotten_after_a_second_word_and_nothing_of_anybody_else() {
    let world = World::new();
    for user in ["ada", "ben"] {
        let thread = format!("of-{user}");
        for text in
            ["Remember that my sister is called Mona", "Always answer briefly", "Always answer briefly"]
        {
            world.say_as(&thread, text, Some(user)).await.unwrap();
        }
        world.end(&thread, None).await;
        world.say_as(&thread, "I live in Graz", Some(user)).await.unwrap();
    }
    let kept = async |user: &str| {
        let scope = world.engine.memory_scope(&world.me, None, Some(user), MemoryAct::Read).await.unwrap();
        let status = world.engine.memory_status(&scope).await.unwrap();
        (status.facts, status.arcs, status.rules)
    };
    let say = async |text: &str| world.say_as("of-ada", text, Some("ada")).await.unwrap().text;
    assert_eq!(kept("ada").await, (1, 1, 1));
    let asked = say("Please forget everything").await;
    for part in ["1 fact", "1 earlier sitting", "1 rule", "1 thing of this sitting"] {
        assert!(asked.contains(part), "{asked}");
    }
    say("What a day").await;
    say("yes").await;
    assert_eq!(kept("ada").await, (1, 1, 1), "a yes to something else");
    say("Please forget everything").await;
    assert!(say("yes").await.contains("is deleted"));
    assert_eq!((kept("ada").await, kept("ben").await), ((0, 0, 0), (1, 1, 1)));
    let standing = world.engine.standing(&world.me, &SessionId::stored("of-ada")).await.unwrap();
    assert!(standing.talk.sitting.unwrap().buffer.candidates.is_empty());
    assert!(say("Forget everything").await.contains("nothing"), "there is nothing left");
    world.end("of-ada", None).await;
    assert_eq!(kept("ada").await, (0, 0, 0), "and its end brings nothing back");
}

#[tokio::test]
async fn what_was_said_often_enough_is_kept_at_the_end_with_where_it_was_said() {
    let world = World::new();
    let first = world.say("t", "I live in Graz").await;
    world.say("t", "It rains a lot. I live in Graz.").await;
    world.end("t", None).await;
    let id = SessionId::stored("t");
    let scope = world.engine.memory_scope(&world.me, Some(&id), None, MemoryAct::Read).await.unwrap();
    let facts = world.engine.memories(&scope, MemoryKind::Fact, None, 10).await.unwrap().items;
    assert_eq!(facts.len(), 1, "{facts:?}");
    let fact = facts[0].fact().unwrap();
    assert_eq!(fact.object, "Graz");
    let asked = world
        .log("t")
        .await
        .iter()
        .find(|event| event.sequence < first.sequence && event.kind.as_str() == "user.message")
        .unwrap()
        .sequence;
    assert!(fact.sources[0].sequences.contains(&asked), "{fact:?}");
    world.say("t", "What do you know about me?").await;
    world.say("t", "Is it raining in Graz?").await;
    let injected =
        world.log("t").await.into_iter().any(|event| event.kind.as_str() == "session.context_injected");
    assert!(injected, "what entered the prompt is not in the log");
}

#[tokio::test]
async fn what_somebody_said_before_two_users_became_one_is_kept_for_the_one() {
    let world = World::new();
    for user in ["ada", "ben"] {
        let new = NewUser { id: Some(user.to_owned()), ..NewUser::default() };
        world.engine.create_user(&world.me, new, None).await.unwrap();
    }
    for text in ["I live in Graz", "It rains a lot. I live in Graz."] {
        world.say_as("t", text, Some("ada")).await.unwrap();
    }
    let (ada, ben) = (UserId::stored("ada"), UserId::stored("ben"));
    world.engine.merge_users(&world.me, &ada, &ben, None).await.unwrap();
    world.end("t", None).await;
    for kind in [MemoryKind::Fact, MemoryKind::Arc] {
        assert_eq!(world.remembered("t", Some("ben"), kind).await.len(), 1, "{kind:?}");
        assert_eq!(world.remembered("t", Some("ada"), kind).await, [""; 0], "{kind:?}");
    }
}

#[tokio::test]
async fn nothing_is_kept_of_a_sitting_in_which_somebody_said_so() {
    let world = World::new();
    world.say("t", "I live in Graz").await;
    world.say("t", "Don't save this").await;
    world.say("t", "I live in Graz").await;
    world.end("t", None).await;
    for kind in [MemoryKind::Fact, MemoryKind::Arc] {
        assert_eq!(world.remembered("t", None, kind).await, [""; 0], "{kind:?}");
    }
}

#[tokio::test]
async fn an_incognito_conversation_works_and_is_in_no_list() {
    let world = World::new();
    let id = world.conversations.open(&world.me, "secret", Some(MemoryMode::Incognito)).await.unwrap();
    let taken = world
        .conversations
        .post(&world.me, &id, post("Remember that I live in Graz", OnBusy::Queue, Some("alice")), None)
        .await
        .unwrap();
    world.reply(taken).await.unwrap();
    assert_eq!(world.remembered("secret", None, MemoryKind::Fact).await.len(), 1);
    let alice = world.engine.memory_scope(&world.me, None, Some("alice"), MemoryAct::Read).await.unwrap();
    assert!(world.engine.memories(&alice, MemoryKind::Fact, None, 10).await.unwrap().items.is_empty());
    let query =
        sederunt_core::session::query::SessionQuery::of(sederunt_core::session::query::TypeFilter::All, 10);
    assert!(world.engine.sessions(&world.me, query).await.unwrap().items.is_empty());
    let other = world.conversations.open(&world.me, "secret", Some(MemoryMode::Local)).await.unwrap_err();
    assert_eq!(other.code(), "type_mismatch");
}

#[tokio::test]
async fn what_is_said_once_in_two_sittings_is_kept() {
    let world = World::new();
    for text in ["I have a dog called Rex", "The weather is fine", "Good evening"] {
        world.say_as("one", text, Some("ada")).await.unwrap();
    }
    world.end("one", None).await;
    assert_eq!(world.remembered("one", Some("ada"), MemoryKind::Fact).await, [""; 0]);
    for text in ["My dog is called Rex", "The weather is fine"] {
        world.say_as("two", text, Some("ada")).await.unwrap();
    }
    world.end("two", None).await;
    let kept = world.remembered("two", Some("ada"), MemoryKind::Fact).await;
    assert!(kept.iter().any(|fact| fact.contains("Rex")), "{kept:?}");
}

#[tokio::test]
async fn nothing_of_a_crisis_comes_back_as_small_talk() {
    let world = World::new();
    for text in
        ["Work is hard", "My friend wants to kill himself", "The work never ends", "I want to kill myself"]
    {
        world.say("t", text).await;
    }
    let Ending::Ended(farewell) = world.end("t", None).await else { panic!("it did not end") };
    let told = farewell.summary.unwrap();
    assert!(!told.summary.contains("kill") && !told.summary.contains("friend"), "{told:?}");
    assert_eq!(told.themes, ["work"]);
    let next = world.say("t", "Hello").await;
    assert!(!next.text.contains("Last time"), "{}", next.text);
}

#[tokio::test]
async fn looking_back_reads_the_oldest_first_and_goes_on_where_it_stopped() {
    let world = World::new();
    let id = world.open("t").await;
    let long = "tell ".repeat(300);
    for n in 0..20 {
        world.say("t", &format!("{n} {long}")).await;
    }
    let (mut read, mut to) = (0, 0);
    for _ in 0..20 {
        let done = world.conversations.checkpoint(&world.me, &id).await.unwrap();
        if !done.ran {
            break;
        }
        read += done.events_read;
        let now = world.engine.standing(&world.me, &id).await.unwrap().talk.looked_back_to;
        assert!(now > to, "the cursor moves");
        to = now;
    }
    assert_eq!(read, 40, "every message and every reply was read once");
}

#[tokio::test]
async fn an_offline_talker_answers_from_what_it_recalled() {
    let world = World::new();
    world.say("t", "Remember that my sister is called Mona").await;
    assert_eq!(
        world.say("t", "What is my sister called?").await.text,
        "You told me: my sister is called Mona."
    );
}

#[tokio::test]
async fn a_crisis_is_answered_in_the_language_of_its_words() {
    let world = World::new();
    assert!(world.say("de", "Ich will nicht mehr leben").await.text.contains("Danke, dass du mir das sagst"));
    assert!(world.say("fr", "je veux me tuer").await.text.contains("Merci de me le dire"));
    assert!(world.say("es", "quiero morir").await.text.contains("Gracias por decírmelo"));
}

#[tokio::test]
async fn an_incognito_conversation_remembers_until_one_leaves() {
    let world = World::new();
    world.conversations.open(&world.me, "secret", Some(MemoryMode::Incognito)).await.unwrap();
    let reply = world.say("secret", "Remember that I live in Graz").await;
    assert_eq!(reply.text, "I will remember that until you leave.");
}
