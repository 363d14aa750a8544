//! Batches of appends: whole, in order, independent of each other; and the answers when a commit is lost.

use sederunt_core::store::{AppendRule, Fence};
use tokio::sync::oneshot;

use super::*;
use crate::postgres::append::{AppendJob, CommitAnswer, batch};

/// Jobs for one batch, and where their answers arrive.
#[derive(Default)]
struct Batch {
    jobs: Vec<AppendJob>,
    /// For those that are put into append queues.
    answers: Vec<oneshot::Receiver<CommitAnswer>>,
}

impl Batch {
    fn add(&mut self, tk: i32, of: &str, name: &str, text: &str, guard: Guard, key: Option<IdemKey>) {
        let (done, answer) = oneshot::channel();
        let (tenant, session, events) = (tenant(of), id(name), vec![message(text)]);
        self.jobs.push(AppendJob { tk, tenant, session, guard, write: Write::Append(events), key, done });
        self.answers.push(answer);
    }

    async fn run(self, scene: &Scene) -> Vec<CommitAnswer> {
        batch::run(&scene.store.context, &self.jobs).await
    }
}

fn verdicts(answers: &[CommitAnswer]) -> Vec<&'static str> {
    answers.iter().map(verdict).collect()
}

#[tokio::test]
async fn a_swapped_tenant_in_a_batch_reaches_nothing() {
    with_store(async |scene| {
        let ours = scene.tenant_named("ours").await;
        let theirs = scene.tenant_named("theirs").await;
        for of in ["ours", "theirs"] {
            scene.open(of, "both").await;
        }
        scene.open("theirs", "private").await;
        let mut batch = Batch::default();
        batch.add(ours, "ours", "both", "ours", Guard::default(), None);
        batch.add(theirs, "theirs", "private", "theirs", Guard::default(), None);
        // The batch may write to both tenants; the number of ours with the name of theirs is no session.
        batch.add(ours, "ours", "private", "planted", Guard::default(), None);
        batch.add(theirs, "theirs", "both", "theirs", Guard::default(), None);
        assert_eq!(verdicts(&batch.run(scene).await), ["ok", "ok", "not_found", "ok"]);
        assert_eq!(scene.texts("ours", "both").await, ["ours"]);
        assert_eq!(scene.texts("theirs", "both").await, ["theirs"]);
        assert_eq!(scene.texts("theirs", "private").await, ["theirs"]);
        let admin = scene.admin().await;
        let astray = "SELECT count(*) FROM events e WHERE NOT EXISTS (SELECT 1 FROM session_heads h
             WHERE h.tk = e.tk AND h.sk = e.log)";
        assert_eq!(count(&admin, astray).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_refused_change_disturbs_no_neighbour_and_one_session_keeps_its_order() {
    with_store(async |scene| {
        let tk = scene.tenant_named("ours").await;
        scene.open("ours", "s").await;
        scene.open("ours", "t").await;
        let stale = || Guard { version: Some(99), ..Guard::default() };
        let fenced = || Guard {
            fence: Some(Fence { credential: CredentialId::stored("k"), epoch: 1 }),
            ..Guard::default()
        };
        let at = |sequence| Guard { sequence: Some(sequence), ..Guard::default() };
        let mut batch = Batch::default();
        batch.add(tk, "ours", "s", "1", at(0), Some(key(1)));
        batch.add(tk, "ours", "s", "refused", stale(), Some(key(2)));
        batch.add(tk, "ours", "t", "1", Guard::default(), None);
        batch.add(tk, "ours", "s", "2", at(1), None);
        batch.add(tk, "ours", "s", "refused", fenced(), None);
        batch.add(tk, "ours", "s", "refused", at(1), None);
        batch.add(tk, "ours", "s", "again", at(0), Some(key(1)));
        batch.add(tk, "ours", "s", "3", at(2), None);
        batch.add(tk, "ours", "missing", "refused", Guard::default(), None);
        let answers = batch.run(scene).await;
        assert_eq!(
            verdicts(&answers),
            ["ok", "stale", "ok", "ok", "fenced", "sequence_mismatch", "ok", "ok", "not_found"]
        );
        assert_eq!(answers[6].as_ref().unwrap().replay.as_ref().unwrap().sequences, [1]);
        assert_eq!(scene.texts("ours", "s").await, ["1", "2", "3"]);
        assert_eq!(scene.texts("ours", "t").await, ["1"]);
        let session = scene.session(&tenant("ours"), &id("s")).await.unwrap().unwrap();
        assert_eq!((session.head.last_sequence, session.head.message_count), (3, 3));
        assert_eq!(session.head.preview.as_deref(), Some("3"));
        assert_eq!(session.details.description.as_deref(), Some("1"));
        let admin = scene.admin().await;
        assert_eq!(count(&admin, "SELECT count(*) FROM idempotency").await, 1);
    })
    .await;
}

#[tokio::test]
async fn an_event_without_text_leaves_the_preview_that_the_batch_may_not_read() {
    with_store(async |scene| {
        scene.tenant_named("ours").await;
        scene.open("ours", "s").await;
        scene.say("ours", "s", "first").await;
        let silent = NewEvent { content: None, kind: EventType::known("external.event"), ..message("") };
        scene.commit(append("ours", "s", vec![silent])).await.unwrap();
        let session = scene.session(&tenant("ours"), &id("s")).await.unwrap().unwrap();
        assert_eq!((session.head.preview.as_deref(), session.head.last_sequence), (Some("first"), 2));
    })
    .await;
}

#[tokio::test]
async fn what_a_browser_records_and_what_a_share_link_sends_is_not_batched() {
    let plain = append("ours", "s", vec![message("hi")]);
    assert!(PostgresStore::is_batched(&plain));
    let marker = NewEvent { kind: EventType::known("human.marker"), ..message("here") };
    assert!(!PostgresStore::is_batched(&append("ours", "s", vec![message("hi"), marker])));
    let mut shared = plain;
    let actor = Arc::new(Actor { role: Role::Share, ..owner("ours") });
    shared.parts[0].guard.append =
        Some(AppendRule { actor, kinds: sederunt_core::event::Kinds::default(), epoch: None });
    assert!(!PostgresStore::is_batched(&shared));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_of_a_session_keep_their_order_while_the_queues_change() {
    const SESSIONS: usize = 20;
    const EACH: usize = 60;
    with_store(async |scene| {
        let tk = scene.tenant_named("ours").await;
        for n in 0..SESSIONS {
            scene.open("ours", &format!("s{n}")).await;
        }
        // From few to many: the first use one queue, the later ones all of them.
        let mut batch = Batch::default();
        for round in 0..EACH {
            for n in 0..SESSIONS {
                batch.add(tk, "ours", &format!("s{n}"), &round.to_string(), Guard::default(), None);
            }
        }
        let Batch { jobs, answers } = batch;
        for (n, job) in jobs.into_iter().enumerate() {
            scene.store.append_queues.put(job).unwrap();
            if n % 97 == 0 {
                tokio::task::yield_now().await;
            }
        }
        for answer in answers {
            assert_eq!(verdict(&in_time("an append", answer).await.unwrap()), "ok");
        }
        let expected: Vec<String> = (0..EACH).map(|round| round.to_string()).collect();
        for n in 0..SESSIONS {
            assert_eq!(scene.texts("ours", &format!("s{n}")).await, expected, "s{n}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_the_database_refuses_is_tried_change_by_change() {
    with_store(async |scene| {
        let tk = scene.tenant_named("ours").await;
        for name in ["a", "b", "c"] {
            scene.open("ours", name).await;
        }
        // Refuses one text for good, and everything once, as a deadlock does.
        scene
            .admin()
            .await
            .batch_execute(&scene.with_roles(
                "CREATE SEQUENCE seen; GRANT USAGE ON SEQUENCE seen TO sederunt_append;
                 CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     IF nextval('seen') = 1 THEN RAISE EXCEPTION 'once' USING ERRCODE = '40P01'; END IF;
                     IF NEW.content LIKE '%poison%' THEN RAISE EXCEPTION 'always'; END IF;
                     RETURN NEW; END $$;
                 CREATE TRIGGER refuse BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refuse()",
            ))
            .await
            .unwrap();
        let mut batch = Batch::default();
        batch.add(tk, "ours", "a", "1", Guard::default(), Some(key(1)));
        batch.add(tk, "ours", "b", "poison", Guard::default(), Some(key(2)));
        batch.add(tk, "ours", "c", "1", Guard::default(), None);
        batch.add(tk, "ours", "a", "2", Guard::default(), None);
        assert_eq!(verdicts(&batch.run(scene).await), ["ok", "internal", "ok", "ok"]);
        assert_eq!(scene.texts("ours", "a").await, ["1", "2"]);
        assert!(scene.log("ours", "b").await.is_empty());
        assert_eq!(scene.texts("ours", "c").await, ["1"]);
    })
    .await;
}
