//! Two stores on one schema, as two nodes: each learns what the other commits, even if its listening connection is
//! lost.

use sederunt_core::UserId;
use sederunt_core::live::hints::HintBatch;
use sederunt_core::live::{Delta, LogReader, ReaderStep};
use sederunt_core::presence::{PersonPresence, PresenceChange};
use sederunt_core::store::CommitStore as _;

use super::*;

/// Follows a log as a stream does, until it has seen this many events.
async fn follow(scene: &Scene, of: &str, name: &str, reader: &mut LogReader, upto: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while reader.cursor() < upto {
        match reader.look() {
            ReaderStep::Frames(frames) => seen.extend(frames.iter().map(|frame| frame.event.sequence)),
            ReaderStep::ReadStore => {
                let query = EventQuery { after: reader.cursor(), limit: 1000, ..EventQuery::default() };
                let page = scene.events(&tenant(of), &id(name), query).await.unwrap();
                seen.extend(page.events.iter().map(|event| event.sequence));
                reader.read_to(page.events.last().map_or(0, |event| event.sequence), !page.has_more);
            }
            ReaderStep::Wait | ReaderStep::Reply(_) => reader.wait().await,
            ReaderStep::Deleted => panic!("{name} was deleted"),
        }
    }
    seen
}

pub(super) async fn with_two_nodes(test: impl AsyncFnOnce(&Scene, &Scene)) {
    with_store(async |here| {
        let there = open_at(url(), &here.schema).await;
        let outcome = AssertUnwindSafe(test(here, &there)).catch_unwind().await;
        there.close().await;
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    })
    .await;
}

async fn listening(scene: &Scene, of: &str, name: &str) -> LogReader {
    let session = scene.session(&tenant(of), &id(name)).await.unwrap().unwrap();
    scene.hub.listen(session.head.incarnation, 0)
}

/// Ends the connections that listen for this schema; how many there were.
async fn deafen(scene: &Scene) -> i64 {
    let sql = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%LISTEN {}_wake%'
             AND pid <> pg_backend_pid()",
        scene.schema
    );
    count(&scene.admin().await, &sql).await
}

#[tokio::test]
async fn an_append_there_wakes_a_reader_here() {
    with_two_nodes(async |here, there| {
        here.tenant_named("ours").await;
        here.open("ours", "s").await;
        let mut reader = listening(here, "ours", "s").await;
        let mut hints = here.hub.hints(&tenant("ours"), None);
        for _ in 0..10 {
            there.say("ours", "s", "hi").await;
        }
        let seen = in_time("ten events", follow(here, "ours", "s", &mut reader, 10)).await;
        assert_eq!(seen, (1..=10).collect::<Vec<_>>());
        in_time("a hint", async {
            loop {
                match hints.take() {
                    Some(HintBatch::Hints(hints, _)) if hints[0].last_sequence == 10 => return,
                    Some(_) => {}
                    None => hints.wait().await,
                }
            }
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_listener_that_is_cut_off_comes_back_and_doubts_everything() {
    with_two_nodes(async |here, there| {
        here.tenant_named("ours").await;
        here.open("ours", "s").await;
        let mut reader = listening(here, "ours", "s").await;
        assert!(follow(here, "ours", "s", &mut reader, 0).await.is_empty());
        let mut upto = 0;
        for _ in 0..3 {
            assert_eq!(deafen(here).await, 2, "both nodes were listening");
            // Sent while the other node does not listen: its poll, or the wake-up after it reconnects, must find it.
            there.say("ours", "s", "hi").await;
            upto += 1;
            let seen = in_time("what was said meanwhile", follow(here, "ours", "s", &mut reader, upto)).await;
            assert_eq!(seen, [upto]);
            let sql = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%LISTEN {}_wake%' AND pid <> pg_backend_pid()",
                here.schema
            );
            let admin = here.admin().await;
            until("both to listen again", async || count(&admin, &sql).await == 2).await;
        }
        there.say("ours", "s", "hi").await;
        assert_eq!(in_time("a notification", follow(here, "ours", "s", &mut reader, upto + 1)).await, [upto + 1]);
    })
    .await;
}

#[tokio::test]
async fn the_poll_finds_what_no_notification_told() {
    with_store(async |scene| {
        let tk = scene.tenant_named("ours").await;
        scene.open("ours", "s").await;
        let mut reader = listening(scene, "ours", "s").await;
        scene.say("ours", "s", "hi").await;
        assert_eq!(follow(scene, "ours", "s", &mut reader, 1).await, [1]);
        let planted = format!(
            "INSERT INTO events (tk, log, seq, type, at) SELECT tk, sk, 2, 'a.b', 0 FROM session_heads WHERE tk = {tk};
             UPDATE session_heads SET last_sequence = 2 WHERE tk = {tk}"
        );
        scene.admin().await.batch_execute(&planted).await.unwrap();
        assert_eq!(in_time("the poll", follow(scene, "ours", "s", &mut reader, 2)).await, [2]);
        let gone = format!("DELETE FROM session_heads WHERE tk = {tk}");
        scene.admin().await.batch_execute(&gone).await.unwrap();
        in_time("the end", async {
            while !matches!(reader.look(), ReaderStep::Deleted) {
                reader.wait().await;
            }
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_reply_that_is_written_there_is_shown_here() {
    with_two_nodes(async |here, there| {
        here.tenant_named("ours").await;
        here.open("ours", "s").await;
        let incarnation = here.session(&tenant("ours"), &id("s")).await.unwrap().unwrap().head.incarnation;
        let mut reader = listening(here, "ours", "s").await;
        follow(here, "ours", "s", &mut reader, 0).await;
        let whole = "Grüße\t\n".repeat(3_000);
        let mut offset = 0;
        for piece in whole.split_inclusive('\n') {
            there.spread_delta(&tenant("ours"), Delta { incarnation, epoch: 1, offset, text: piece.into() });
            offset += piece.len();
        }
        assert_eq!(shown(&mut reader, whole.len()).await, whole);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_two_nodes_on_the_same_sessions_never_wait_in_a_circle() {
    const SESSIONS: usize = 30;
    with_two_nodes(async |here, there| {
        here.tenant_named("ours").await;
        for n in 0..SESSIONS {
            here.open("ours", &format!("s{n}")).await;
        }
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..200usize {
            let store = if task % 2 == 0 { here.store.clone() } else { there.store.clone() };
            tasks.spawn(async move {
                for round in 0..10usize {
                    let name = format!("s{}", (task * 7 + round * 13) % SESSIONS);
                    let outcome = store.commit(append("ours", &name, vec![message("hi")])).await;
                    assert_eq!(verdict(&outcome), "ok", "{outcome:?}");
                }
            });
        }
        while let Some(done) = in_time("the appends", tasks.join_next()).await {
            done.unwrap();
        }
        let admin = here.admin().await;
        let dense = "SELECT count(*) FROM session_heads h WHERE last_sequence <>
             (SELECT count(*) FROM events e WHERE e.tk = h.tk AND e.log = h.sk)";
        assert_eq!(count(&admin, dense).await, 0);
        assert_eq!(count(&admin, "SELECT count(*) FROM events").await, 2_000);
    })
    .await;
}

/// A login without any rights, and what it hears on the store's channel.
struct Stranger {
    client: Client,
    heard: tokio::sync::mpsc::UnboundedReceiver<String>,
    name: String,
}

impl Stranger {
    async fn listening_to(scene: &Scene) -> Self {
        let name = format!("eve_{}", uuid::Uuid::now_v7().simple());
        scene.admin().await.batch_execute(&format!("CREATE ROLE {name} LOGIN")).await.unwrap();
        let address = url();
        let (_, place) = address.split_once('@').expect("a URL with a login");
        let (client, mut connection) =
            tokio_postgres::connect(&format!("postgres://{name}@{place}"), NoTls).await.unwrap();
        let (said, heard) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let tokio_postgres::AsyncMessage::Notification(note) = message {
                    let _ = said.send(note.payload().to_owned());
                }
            }
        });
        client.batch_execute(&format!("LISTEN {}_wake", scene.schema)).await.unwrap();
        Self { client, heard, name }
    }

    async fn say(&self, scene: &Scene, payload: &str) {
        let channel = format!("{}_wake", scene.schema);
        self.client.execute("SELECT pg_notify($1, $2)", &[&channel, &payload]).await.unwrap();
    }

    async fn leave(self, scene: &Scene) {
        drop(self.client);
        scene.admin().await.batch_execute(&format!("DROP ROLE {}", self.name)).await.unwrap();
    }
}

async fn incarnation_of(scene: &Scene, of: &str, name: &str) -> Incarnation {
    scene.session(&tenant(of), &id(name)).await.unwrap().unwrap().head.incarnation
}

fn piece(incarnation: Incarnation, offset: usize, text: &str) -> Delta {
    Delta { incarnation, epoch: 1, offset, text: text.into() }
}

fn present(incarnation: Incarnation, name: &str) -> PresenceChange {
    let now = Timestamp::from_micros(1_800_000_000_000_000);
    let presence = PersonPresence {
        person: Some(UserId::stored(name)),
        credential: CredentialId::stored("key"),
        takes_part: true,
        state: Some(Json::stored(r#"{"typing":true}"#)),
        since: now,
        changed_at: now,
        renewed_at: now,
    };
    PresenceChange::Put { tenant: tenant("globex"), incarnation, presence }
}

/// What a reader is shown of an unfinished reply, until it has so many bytes.
async fn shown(reader: &mut LogReader, bytes: usize) -> String {
    let mut shown = String::new();
    in_time("the reply", async {
        while shown.len() < bytes {
            match reader.look() {
                ReaderStep::Reply(piece) => {
                    assert_eq!(piece.offset, shown.len());
                    shown.push_str(&piece.text);
                }
                ReaderStep::ReadStore => reader.read_to(0, true),
                _ => reader.wait().await,
            }
        }
    })
    .await;
    shown
}

#[tokio::test]
async fn a_login_without_rights_hears_no_word_of_a_reply_and_no_name() {
    with_two_nodes(async |here, there| {
        here.tenant_named("globex").await;
        here.open("globex", "merger-talks").await;
        let mut stranger = Stranger::listening_to(here).await;
        let incarnation = incarnation_of(here, "globex", "merger-talks").await;
        let mut reader = here.hub.listen(incarnation, 0);
        there.spread_delta(&tenant("globex"), piece(incarnation, 0, "TOP SECRET: it closes on Friday"));
        assert_eq!(shown(&mut reader, 31).await, "TOP SECRET: it closes on Friday");
        there.say("globex", "merger-talks", "a word of the log").await;
        in_time("the event", follow(here, "globex", "merger-talks", &mut reader, 1)).await;
        there.spread_presence(present(incarnation, "jessica"));
        until("the presence", async || !here.hub.presence().list(incarnation, None).people.is_empty()).await;
        // Notifications are heard in order: whatever the nodes have sent so far comes before this one.
        stranger.say(here, "the end").await;
        let mut heard = Vec::new();
        loop {
            match in_time("a notification", stranger.heard.recv()).await.unwrap() {
                payload if payload == "the end" => break,
                payload => heard.push(payload),
            }
        }
        assert!(heard.len() >= 3, "a reply, an event and a presence: {}", heard.len());
        for payload in &heard {
            let bytes =
                base64::Engine::decode(&base64::engine::general_purpose::STANDARD_NO_PAD, payload).unwrap();
            let plain = String::from_utf8_lossy(&bytes).into_owned();
            for text in [payload, &plain] {
                for word in [
                    "SECRET",
                    "Friday",
                    "globex",
                    "merger",
                    "idle",
                    "word",
                    "jessica",
                    "typing",
                    &incarnation.0.simple().to_string(),
                ] {
                    assert!(!text.contains(word), "{word} in {text}");
                }
            }
        }
        for table in ["reply_pieces", "installation", "events"] {
            let sql = format!("SELECT * FROM {}.{table}", here.schema);
            let refused = stranger.client.query(&sql, &[]).await.unwrap_err();
            assert_eq!(
                refused.code(),
                Some(&tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE),
                "{table}"
            );
        }
        stranger.leave(here).await;
    })
    .await;
}

#[tokio::test]
async fn a_forged_or_repeated_notification_changes_no_stream() {
    with_two_nodes(async |here, there| {
        here.tenant_named("ours").await;
        here.open("ours", "s").await;
        let incarnation = incarnation_of(here, "ours", "s").await;
        let mut reader = here.hub.listen(incarnation, 0);
        let mut stranger = Stranger::listening_to(here).await;
        there.spread_delta(&tenant("ours"), piece(incarnation, 0, "Hel"));
        assert_eq!(shown(&mut reader, 3).await, "Hel");
        let real = in_time("a notification", stranger.heard.recv()).await.unwrap();
        let simple = incarnation.0.simple();
        for forged in [
            format!("d\nevilnode\n{simple}\t1\t3\nPlease send your password to eve@evil.example"),
            format!("r\n{simple}\t1\t1\t0\t1\t1\t9"),
            format!("c\n{simple}\t99\t5\t3\tours\ts"),
            "w\nevilnode".to_owned(),
            "w".to_owned(),
            real,
        ] {
            stranger.say(here, &forged).await;
        }
        // What comes after them on the same channel is heard after them.
        there.spread_delta(&tenant("ours"), piece(incarnation, 3, "lo"));
        let mut rest = String::new();
        in_time("the end of the reply", async {
            while rest.is_empty() {
                match reader.look() {
                    ReaderStep::Reply(piece) => rest.push_str(&piece.text),
                    ReaderStep::ReadStore | ReaderStep::Deleted => {
                        panic!("a forged notification was believed")
                    }
                    _ => reader.wait().await,
                }
            }
        })
        .await;
        assert_eq!(rest, "lo");
        stranger.leave(here).await;
    })
    .await;
}

#[tokio::test]
async fn who_joins_late_on_another_node_is_given_the_reply_from_its_beginning() {
    with_two_nodes(async |here, there| {
        here.tenant_named("ours").await;
        let mut hints = there.hub.hints(&tenant("ours"), None);
        here.open("ours", "s").await;
        // News of a session that does not run end its reply: they must not arrive between the two pieces.
        in_time("the news of the session", async {
            while !matches!(hints.take(), Some(HintBatch::Hints(..))) {
                hints.wait().await;
            }
        })
        .await;
        let incarnation = incarnation_of(here, "ours", "s").await;
        there.spread_delta(&tenant("ours"), piece(incarnation, 0, "The quick "));
        let admin = here.admin().await;
        until("the first piece", async || count(&admin, "SELECT count(*) FROM reply_pieces").await == 1)
            .await;
        let mut reader = here.hub.listen(incarnation, 0);
        there.spread_delta(&tenant("ours"), piece(incarnation, 10, "fox"));
        assert_eq!(shown(&mut reader, 13).await, "The quick fox");
    })
    .await;
}

#[tokio::test]
async fn who_joins_while_a_reply_pauses_is_given_it_by_the_poll() {
    with_two_nodes(async |here, there| {
        let tk = here.tenant_named("ours").await;
        here.open("ours", "s").await;
        let incarnation = incarnation_of(here, "ours", "s").await;
        there.spread_delta(&tenant("ours"), piece(incarnation, 0, "The quick "));
        let admin = here.admin().await;
        until("the first piece", async || count(&admin, "SELECT count(*) FROM reply_pieces").await == 1)
            .await;
        let running = format!(
            "UPDATE session_heads SET status = 'running' WHERE tk = {tk};
             UPDATE reply_pieces SET at = at - interval '1 minute'"
        );
        admin.batch_execute(&running).await.unwrap();
        let mut reader = here.hub.listen(incarnation, 0);
        assert_eq!(shown(&mut reader, 10).await, "The quick ");
    })
    .await;
}

#[tokio::test]
async fn the_text_of_a_finished_reply_is_cleared_away() {
    with_two_nodes(async |here, there| {
        here.tenant_named("ours").await;
        here.open("ours", "s").await;
        let incarnation = incarnation_of(here, "ours", "s").await;
        there.spread_delta(&tenant("ours"), piece(incarnation, 0, "Hello"));
        let admin = here.admin().await;
        until("the piece", async || count(&admin, "SELECT count(*) FROM reply_pieces").await == 1).await;
        let abandoned = "INSERT INTO reply_pieces (tk, incarnation, node, n, epoch, start_at, text, at)
             SELECT tk, gen_random_uuid(), gen_random_uuid(), 1, 1, 0, 'left by a node that died',
                 clock_timestamp() - interval '16 minutes' FROM reply_pieces";
        admin.batch_execute(abandoned).await.unwrap();
        let mut answer = message("Hello");
        answer.kind = EventType::known("agent.message");
        there.commit(append("ours", "s", vec![answer])).await.unwrap();
        until("the finished reply to go", async || {
            count(
                &admin,
                &format!("SELECT count(*) FROM reply_pieces WHERE incarnation = '{}'", incarnation.0),
            )
            .await
                == 0
        })
        .await;
        crate::postgres::reply_pieces::remove_old(&here.store.context).await.unwrap();
        assert_eq!(count(&admin, "SELECT count(*) FROM reply_pieces").await, 0);
    })
    .await;
}
