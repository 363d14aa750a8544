//! Memories that are found by what they mean, with a stand-in for a model of meaning to which a dog is a hound; and
//! one that hangs, breaks or babbles, which changes nothing but the way in which they are found.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sederunt_agents::model;
use sederunt_agents::model::embed::Embedder;
use sederunt_agents::talk::embeddings::MemoryEmbeddings;
use sederunt_agents::talk::{Settings, TurnReply};
use sederunt_core::memory::{MemoryKind, Owner};
use sederunt_core::session::MemoryMode;
use sederunt_core::store::{Store, VectorQuery};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::ground::until;
use crate::talk::World;
use crate::wire::read_request;

/// Words that mean the same have a place together.
const MEANINGS: [&[&str]; 4] =
    [&["dog", "hound", "puppy"], &["tea", "brew"], &["sister", "sibling"], &["work", "job"]];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mood {
    Sane,
    Hangs,
    Breaks,
    Babbles,
    /// Takes no text that speaks of tea.
    Picky,
}

/// Turns texts into vectors, and remembers which.
#[derive(Clone)]
struct StandIn {
    url: String,
    mood: Arc<Mutex<Mood>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl StandIn {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let this = Self {
            url: format!("http://{}/v1", listener.local_addr().unwrap()),
            mood: Arc::new(Mutex::new(Mood::Sane)),
            asked: Arc::default(),
        };
        let served = this.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let served = served.clone();
                tokio::spawn(async move { served.serve(stream).await });
            }
        });
        this
    }

    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let asked = read_request(&mut stream).await?;
        let asked: Value = serde_json::from_str(&asked.body).unwrap();
        let texts: Vec<String> = serde_json::from_value(asked["input"].clone()).unwrap();
        let picked = texts.iter().any(|text| text.contains("tea"));
        self.asked.lock().unwrap().extend(texts.iter().cloned());
        let mood = *self.mood.lock().unwrap();
        let (status, body) = match mood {
            Mood::Hangs => return std::future::pending().await,
            Mood::Breaks => (500, json!({"error": {"message": "private"}})),
            Mood::Picky if picked => (400, json!({"error": {"type": "invalid_request_error"}})),
            Mood::Babbles => (200, json!({"data": [{"index": 7, "embedding": ["x"]}]})),
            Mood::Sane | Mood::Picky => (200, json!({"data": rows(&texts, asked["model"] == "wide")})),
        };
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await.ok()
    }

    fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn settings(&self, model: &str) -> Settings {
        let embedder = Embedder::new(&model::Settings::new(&self.url, None, model)).unwrap();
        Settings { embeddings: Some(Arc::new(MemoryEmbeddings::new(embedder, None))), ..Settings::default() }
    }

    fn world(&self) -> World {
        World::set(BTreeMap::new(), "eliza", self.settings("toy"))
    }
}

fn rows(texts: &[String], wide: bool) -> Vec<Value> {
    let row = |(index, text): (usize, &String)| {
        let text = text.to_lowercase();
        let speaks_of = |words: &&[&str]| u8::from(words.iter().any(|word| text.contains(*word)));
        let mut numbers: Vec<f32> = MEANINGS.iter().map(|words| speaks_of(words).into()).collect();
        numbers.push(0.1);
        numbers.extend(wide.then_some(0.1));
        json!({"index": index, "embedding": numbers})
    };
    texts.iter().enumerate().map(row).collect()
}

fn retrieval(reply: &TurnReply) -> (u64, Option<&str>) {
    (reply.diagnostics["recalled"].as_u64().unwrap(), reply.diagnostics["retrieval"].as_str())
}

const TELL: &str = "Remember that my dog is called Rex";
/// Shares no word with it.
const ASK: &str = "Which hound runs fast?";

#[tokio::test]
async fn a_question_with_no_common_word_finds_the_fact() {
    let stand_in = StandIn::start().await;
    let world = stand_in.world();
    world.say("t", TELL).await;
    world.say("t", "Remember that I like tea").await;
    embedded(&world).await;
    let reply = world.say("t", ASK).await;
    assert_eq!(retrieval(&reply), (1, Some("hybrid")), "{:?}", reply.diagnostics);
    let reply = world.say("t", "Nothing like it at all").await;
    assert_eq!(retrieval(&reply), (0, None), "what is unlike stays out");
    let lexical = World::set(BTreeMap::new(), "eliza", Settings::default());
    lexical.say("t", TELL).await;
    assert_eq!(retrieval(&lexical.say("t", ASK).await).0, 0, "by words alone it is not found");
}

#[tokio::test]
async fn a_model_of_meaning_that_fails_changes_nothing_but_the_path() {
    let stand_in = StandIn::start().await;
    let world = stand_in.world();
    world.say("t", TELL).await;
    embedded(&world).await;
    for mood in [Mood::Hangs, Mood::Breaks, Mood::Babbles] {
        stand_in.is(mood);
        assert_eq!(retrieval(&world.say("t", ASK).await).0, 0, "{mood:?}");
        let reply = world.say("t", "My dog is fast").await;
        assert_eq!(retrieval(&reply), (1, Some("lexical")), "{mood:?}");
    }
    stand_in.is(Mood::Sane);
    assert_eq!(retrieval(&world.say("t", ASK).await), (1, Some("hybrid")));
}

#[tokio::test]
async fn a_missing_vector_is_made_later_and_one_text_that_is_refused_holds_up_no_other() {
    let stand_in = StandIn::start().await;
    let world = stand_in.world();
    stand_in.is(Mood::Breaks);
    world.say("t", "Remember that I like tea").await;
    world.say("t", TELL).await;
    assert_eq!(world.conversations.make_vectors().await.unwrap(), 0);
    assert!(unembedded(&world, "toy").await);
    stand_in.is(Mood::Picky);
    embedded(&world).await;
    assert_eq!(retrieval(&world.say("t", ASK).await), (1, Some("hybrid")));
    let asked = stand_in.asked();
    assert_eq!(world.conversations.make_vectors().await.unwrap(), 0);
    assert_eq!(stand_in.asked(), asked, "nothing is left to be made");
    assert!(unembedded(&world, "wide").await, "another model has looked at nothing yet");
}

/// Waits until every memory has been looked at, by this call or by whoever was at it already.
async fn embedded(world: &World) {
    let made = async || {
        world.conversations.make_vectors().await.unwrap();
        !unembedded(world, "toy").await
    };
    until("every memory has its vector", made).await;
}

async fn unembedded(world: &World, model: &str) -> bool {
    !world.engine.unembedded(model, 10).await.unwrap().is_empty()
}

#[tokio::test]
async fn what_is_forgotten_is_not_found_by_its_meaning_either() {
    let stand_in = StandIn::start().await;
    let world = stand_in.world();
    world.say("t", TELL).await;
    embedded(&world).await;
    assert_eq!(retrieval(&world.say("t", ASK).await).0, 1);
    world.say("t", "forget number 1").await;
    world.say("t", "yes").await;
    assert_eq!(world.remembered("t", None, MemoryKind::Fact).await, [""; 0]);
    assert_eq!(retrieval(&world.say("t", ASK).await).0, 0);
}

#[tokio::test]
async fn what_a_sitting_leaves_gets_its_vectors_by_itself() {
    let stand_in = StandIn::start().await;
    let world = stand_in.world();
    for _ in 0..2 {
        world.say("t", "I live in Graz with my dog.").await;
    }
    world.end("t", None).await;
    until("vectors that nobody asked for", async || !unembedded(&world, "toy").await).await;
    assert!(!world.remembered("t", None, MemoryKind::Arc).await.is_empty());
    assert_eq!(retrieval(&world.say("t", ASK).await).1, Some("hybrid"));
}

#[tokio::test]
async fn an_incognito_conversation_has_its_vectors_in_its_own_store() {
    let stand_in = StandIn::start().await;
    let world = stand_in.world();
    let id = world.conversations.open(&world.me, "t", Some(MemoryMode::Incognito)).await.unwrap();
    world.say("t", TELL).await;
    embedded(&world).await;
    assert_eq!(retrieval(&world.say("t", ASK).await), (1, Some("hybrid")));
    let kept = async |store: &Arc<dyn Store>| {
        let query = VectorQuery { owner: Owner::session(&id), model: "toy".into(), after: 0, limit: 10 };
        store.vectors(&world.me.tenant, query).await.unwrap().kept
    };
    assert_eq!(kept(world.private.get().unwrap()).await, 1);
    assert_eq!(kept(&world.store).await, 0, "the durable store has none");
}
