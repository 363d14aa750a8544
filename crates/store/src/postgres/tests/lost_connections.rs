//! A database that goes away: the store says so quickly, never guesses, and reconnects without a restart.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::*;

/// A proxy to the database that can be cut.
struct Bridge {
    url: String,
    port: u16,
    up: tokio::sync::watch::Sender<bool>,
}

impl Bridge {
    async fn build() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let config: tokio_postgres::Config = url().parse().unwrap();
        let there = config.get_ports()[0];
        let bridged = url().replace(&format!(":{there}/"), &format!(":{port}/"));
        assert_ne!(bridged, url(), "the test server's URL names its port");
        let (up, seen) = tokio::sync::watch::channel(true);
        tokio::spawn(carry(listener, there, seen));
        Self { url: bridged, port, up }
    }

    async fn cut(&self) {
        self.up.send_replace(false);
        until("the bridge to break", async || TcpStream::connect(("127.0.0.1", self.port)).await.is_err())
            .await;
    }

    fn mend(&self) {
        self.up.send_replace(true);
    }
}

async fn carry(listener: TcpListener, there: u16, mut up: tokio::sync::watch::Receiver<bool>) {
    let address = listener.local_addr().unwrap();
    let mut listener = Some(listener);
    loop {
        let Some(open) = &listener else {
            if up.wait_for(|up| *up).await.is_err() {
                return;
            }
            listener = TcpListener::bind(address).await.ok();
            continue;
        };
        let mut carried = JoinSet::new();
        loop {
            tokio::select! {
                accepted = open.accept() => {
                    let Ok((mut here, _)) = accepted else { continue };
                    carried.spawn(async move {
                        if let Ok(mut there) = TcpStream::connect(("127.0.0.1", there)).await {
                            let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
                        }
                    });
                }
                changed = up.wait_for(|up| !*up) => {
                    if changed.is_err() { return; }
                    break;
                }
            }
        }
        carried.abort_all();
        listener = None;
    }
}

/// What happens to the first connection that sends a certain word.
#[derive(Clone, Copy, PartialEq)]
enum Loss {
    /// It ends before the server has received the word.
    Unasked,
    /// Its answers are lost, and it ends when the server has committed.
    Unanswered,
}

/// A proxy to the database on which one connection is lost.
async fn losing(word: &'static str, loss: Loss) -> String {
    let config: tokio_postgres::Config = url().parse().unwrap();
    let there = config.get_ports()[0];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let said = Arc::new(AtomicBool::new(false));
    tokio::spawn(async move {
        while let Ok((here, _)) = listener.accept().await {
            let Ok(there) = TcpStream::connect(("127.0.0.1", there)).await else { continue };
            tokio::spawn(lose(here, there, word, loss, said.clone()));
        }
    });
    url().replace(&format!(":{there}/"), &format!(":{port}/"))
}

async fn lose(here: TcpStream, there: TcpStream, word: &'static str, loss: Loss, said: Arc<AtomicBool>) {
    let holds = |bytes: &[u8], word: &str| bytes.windows(word.len()).any(|some| some == word.as_bytes());
    let ((mut asks, mut hears), (mut answers, mut takes)) = (here.into_split(), there.into_split());
    let mute = AtomicBool::new(false);
    let ask = async {
        let mut bytes = vec![0; 65_536];
        while let Ok(read @ 1..) = asks.read(&mut bytes).await {
            if holds(&bytes[..read], word) && !said.swap(true, Ordering::SeqCst) {
                if loss == Loss::Unasked {
                    break;
                }
                mute.store(true, Ordering::SeqCst);
            }
            if takes.write_all(&bytes[..read]).await.is_err() {
                break;
            }
        }
    };
    let answer = async {
        let mut bytes = vec![0; 65_536];
        while let Ok(read @ 1..) = answers.read(&mut bytes).await {
            if mute.load(Ordering::SeqCst) {
                // A transaction has ended, or a statement that was one.
                if holds(&bytes[..read], "COMMIT") || holds(&bytes[..read], "SELECT 1\0Z") {
                    break;
                }
            } else if hears.write_all(&bytes[..read]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = ask => {}
        () = answer => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_never_asked_is_asked_again() {
    with_store_at(losing("unasked", Loss::Unasked).await, async |scene| {
        scene.tenant_named("ours").await;
        scene.open("ours", "s").await;
        for text in ["before", "unasked", "after"] {
            scene.say("ours", "s", text).await;
        }
        assert_eq!(scene.texts("ours", "s").await, ["before", "unasked", "after"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_committed_and_never_answered_is_not_written_again() {
    with_store_at(losing("unheard", Loss::Unanswered).await, async |scene| {
        scene.tenant_named("ours").await;
        scene.open("ours", "s").await;
        scene.say("ours", "s", "before").await;
        let outcome = scene.commit(append("ours", "s", vec![message("unheard")])).await;
        assert_eq!(verdict(&outcome), "unavailable");
        scene.say("ours", "s", "after").await;
        assert_eq!(scene.texts("ours", "s").await, ["before", "unheard", "after"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_database_is_said_quickly_and_found_again() {
    let bridge = Bridge::build().await;
    with_store_at(bridge.url.clone(), async |scene| {
        scene.tenant_named("ours").await;
        scene.open("ours", "s").await;
        scene.say("ours", "s", "before").await;
        bridge.cut().await;
        let asked = Instant::now();
        let outcome = scene.commit(append("ours", "s", vec![message("lost")])).await;
        assert_eq!(verdict(&outcome), "unavailable");
        let update = ChangePart {
            on: PartTarget::Session(id("s")),
            guard: Guard::default(),
            writes: smallvec![Write::Update(Box::default())],
        };
        let outcome = scene.commit(Change::new(tenant("ours")).part(update)).await;
        assert_eq!(verdict(&outcome), "unavailable");
        assert_eq!(scene.session(&tenant("ours"), &id("s")).await.unwrap_err().code(), "unavailable");
        assert_eq!(scene.ready().await.unwrap_err().code(), "unavailable");
        assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
        bridge.mend();
        until("the database to be found again", async || scene.ready().await.is_ok()).await;
        until("an append to pass", async || {
            verdict(&scene.commit(append("ours", "s", vec![message("after")])).await) == "ok"
        })
        .await;
        let texts = scene.texts("ours", "s").await;
        assert_eq!((texts[0].as_str(), texts[1].as_str(), texts.len()), ("before", "after", 2));
    })
    .await;
}

#[tokio::test]
async fn connections_that_died_in_the_pool_are_replaced_unseen() {
    with_store(async |scene| {
        scene.tenant_named("ours").await;
        scene.open("ours", "s").await;
        let admin = scene.admin().await;
        for round in 1..=5 {
            scene.say("ours", "s", "hi").await;
            assert_eq!(scene.log("ours", "s").await.len(), round);
            let ended = format!(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                 WHERE application_name = 'sederunt {}' AND query NOT LIKE '%LISTEN%'",
                scene.schema
            );
            assert!(count(&admin, &ended).await >= 2);
        }
    })
    .await;
}

#[tokio::test]
async fn a_commit_whose_outcome_is_unknown_is_not_tried_again() {
    with_store(async |scene| {
        scene.tenant_named("ours").await;
        scene.open("ours", "s").await;
        scene.say("ours", "s", "before").await;
        // The connection ends inside the commit itself, after every statement has succeeded.
        let admin = scene.admin().await;
        admin
            .batch_execute(&scene.with_roles(
                "CREATE SEQUENCE ends; GRANT USAGE ON SEQUENCE ends TO sederunt_append, sederunt_app;
                 CREATE FUNCTION end_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     PERFORM nextval('ends'); PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(5);
                     RETURN NULL; END $$;
                 ALTER FUNCTION end_it() SECURITY DEFINER;
                 CREATE CONSTRAINT TRIGGER end_it AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED
                     FOR EACH ROW EXECUTE FUNCTION end_it()",
            ))
            .await
            .unwrap();
        admin.batch_execute(&format!("ALTER FUNCTION end_it() SET search_path TO {}", scene.schema)).await.unwrap();
        let outcome = scene.commit(append("ours", "s", vec![message("unknown")])).await;
        assert_eq!(verdict(&outcome), "unavailable");
        let tried = count(&admin, "SELECT last_value FROM ends").await;
        assert_eq!(tried, 2, "it was tried again, on the condition that nothing was written");
        let both = ChangePart {
            on: PartTarget::Session(id("s")),
            guard: Guard::default(),
            writes: smallvec![Write::Append(vec![message("unknown")]), Write::Update(Box::default())],
        };
        let outcome = scene.commit(Change::new(tenant("ours")).part(both)).await;
        assert_eq!(verdict(&outcome), "unavailable");
        assert_eq!(count(&admin, "SELECT last_value FROM ends").await, tried + 1, "it was tried once");
        admin.batch_execute("DROP TRIGGER end_it ON events").await.unwrap();
        scene.say("ours", "s", "after").await;
        assert_eq!(scene.texts("ours", "s").await, ["before", "after"]);
    })
    .await;
}
