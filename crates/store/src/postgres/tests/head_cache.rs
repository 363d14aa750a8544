//! The head cache: heads are used without a read, and never trusted.

use sederunt_core::document::{
    DocumentKey, DocumentPatch, DocumentSnapshot, PatchRange, SharedDocument, opening_event, patch_event,
};
use sederunt_core::store::{DocumentGuard, Fence};

use super::*;
use crate::postgres::append::head_cache::{CachedHead, HEADS_MIN, HeadCache, Xid};
use crate::postgres::append::{AppendJob, batch};

/// The cached head of a session.
fn known(scene: &Scene, name: &str) -> Option<CachedHead> {
    let at = (tenant("ours"), id(name));
    let known = scene.store.context.head_cache.take([&at]).remove(0);
    scene.store.context.head_cache.put(known.clone().map(|known| (at, known)));
    known
}

/// Puts an older head into the cache.
fn believe(scene: &Scene, name: &str, known: CachedHead) {
    scene.store.context.head_cache.put([((tenant("ours"), id(name)), known)]);
}

/// Sessions with a cached head.
async fn with_sessions(names: &[&str], test: impl AsyncFnOnce(&Scene)) {
    with_store(async |scene| {
        scene.tenant_named("ours").await;
        for name in names {
            scene.open("ours", name).await;
            scene.say("ours", name, "first").await;
        }
        test(scene).await;
    })
    .await;
}

fn worked_on(epoch: u64) -> Change {
    let mut change = append("ours", "s", vec![message("work")]);
    change.parts[0].guard.fence = Some(Fence { credential: CredentialId::stored("worker"), epoch });
    change
}

const CLAIMED: &str = "UPDATE session_heads SET claim_worker = 'w', claim_credential = 'worker', epoch = 1,
     lease_until = 9000000000000000";
const TAKEN_OVER: &str = "UPDATE session_heads SET epoch = 2";

#[tokio::test]
async fn what_was_appended_to_before_is_appended_to_without_a_look() {
    with_sessions(&["s"], async |scene| {
        scene.open("ours", "new").await;
        // A transaction that locks and loads reads this column.
        scene
            .admin()
            .await
            .batch_execute(&scene.with_roles("REVOKE SELECT (holder) ON session_heads FROM sederunt_append"))
            .await
            .unwrap();
        for text in ["second", "third"] {
            scene.say("ours", "s", text).await;
        }
        let silent = NewEvent { content: None, kind: EventType::known("external.event"), ..message("") };
        scene.commit(append("ours", "s", vec![silent])).await.unwrap();
        assert_eq!(verdict(&scene.commit(append("ours", "new", vec![message("x")])).await), "internal");
        let keyed = append("ours", "s", vec![message("x")]).keyed(Some(key(1)));
        assert_eq!(
            verdict(&scene.commit(keyed).await),
            "internal",
            "whether the key is known has to be looked at"
        );
        assert_eq!(scene.texts("ours", "s").await, ["first", "second", "third", ""]);
        let session = scene.session(&tenant("ours"), &id("s")).await.unwrap().unwrap();
        assert_eq!((session.head.last_sequence, session.head.message_count), (4, 3));
        assert_eq!(session.head.preview.as_deref(), Some("third"));
    })
    .await;
}

fn note(name: &str) -> DocumentKey {
    DocumentKey::parse("scratch", name).unwrap()
}

/// Opens a scratch document. Returns the sequence of the opening.
async fn open_document(scene: &Scene, name: &str) -> u64 {
    let value = Json::empty_object();
    let row = SharedDocument {
        session: id("s"),
        key: note(name),
        opened_sequence: 0,
        snapshot: DocumentSnapshot { sequence: 0, value: value.clone() },
        origin: None,
    };
    let event = opening_event(&note(name), &value, None).unwrap();
    let change = append("ours", "s", vec![event]).record(Record::OpenDocument(Box::new(row)));
    scene.commit(change).await.unwrap().parts[0].head.last_sequence
}

/// A patch that was judged on this one.
fn patching(name: &str, newest: u64) -> Change {
    let ops = Json::stored(r#"[{"op":"add","path":"/n","value":1}]"#);
    let event = patch_event(&note(name), &DocumentPatch::read(newest, &ops).unwrap(), None).unwrap();
    let mut change = append("ours", "s", vec![event]);
    change.parts[0].guard.documents = smallvec![DocumentGuard { key: note(name), newest }];
    change
}

async fn patches(scene: &Scene, name: &str) -> Vec<u64> {
    let all = PatchRange { after: 0, to: 1_000, limit: 100 };
    let found = scene.document_patches(&tenant("ours"), &id("s"), &note(name), all).await.unwrap();
    found.iter().map(|patch| patch.sequence).collect()
}

#[tokio::test]
async fn a_document_that_was_patched_before_is_patched_without_a_look() {
    with_sessions(&["s"], async |scene| {
        let (a, b) = (open_document(scene, "a").await, open_document(scene, "b").await);
        let first = scene.commit(patching("a", a)).await.unwrap().parts[0].head.last_sequence;
        // Another document is asked for under the lock; what is known of the first stays known.
        let other = scene.commit(patching("b", b)).await.unwrap().parts[0].head.last_sequence;
        let revoked = scene.with_roles("REVOKE SELECT (holder) ON session_heads FROM sederunt_append");
        scene.admin().await.batch_execute(&revoked).await.unwrap();
        scene.say("ours", "s", "in between").await;
        let second = scene.commit(patching("a", first)).await.unwrap().parts[0].head.last_sequence;
        let third = scene.commit(patching("b", other)).await.unwrap().parts[0].head.last_sequence;
        let last = scene.commit(patching("a", second)).await.unwrap().parts[0].head.last_sequence;
        assert_eq!(patches(scene, "a").await, [a, first, second, last]);
        assert_eq!(patches(scene, "b").await, [b, other, third]);
        assert_eq!(verdict(&scene.commit(patching("c", 1)).await), "internal", "never patched here");
    })
    .await;
}

#[tokio::test]
async fn what_is_known_of_a_document_is_never_trusted() {
    with_sessions(&["s"], async |scene| {
        let opened = open_document(scene, "a").await;
        let first = scene.commit(patching("a", opened)).await.unwrap().parts[0].head.last_sequence;
        let old = known(scene, "s").unwrap();
        assert!(old.knows(&note("a")));
        let second = scene.commit(patching("a", first)).await.unwrap().parts[0].head.last_sequence;
        // As on a node that has not heard of the second patch.
        believe(scene, "s", old.clone());
        assert_eq!(verdict(&scene.commit(patching("a", first)).await), "stale");
        assert_eq!(patches(scene, "a").await, [opened, first, second]);
        // Nor does a lock that was taken for another document make it right.
        let other = open_document(scene, "b").await;
        believe(scene, "s", old);
        scene.commit(patching("b", other)).await.unwrap();
        assert_eq!(verdict(&scene.commit(patching("a", first)).await), "stale");
        scene.commit(patching("a", second)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn tenants_whose_sessions_are_known_share_a_statement_and_nothing_else() {
    with_sessions(&["s"], async |scene| {
        let theirs = scene.tenant_named("theirs").await;
        scene.open("theirs", "s").await;
        scene.say("theirs", "s", "first").await;
        let ours = scene.store.context.tk(&tenant("ours")).await.unwrap().unwrap();
        let revoked = scene.with_roles("REVOKE SELECT (holder) ON session_heads FROM sederunt_append");
        scene.admin().await.batch_execute(&revoked).await.unwrap();
        let silent = NewEvent { content: None, kind: EventType::known("external.event"), ..message("") };
        let said = [("ours", ours, message("ours")), ("theirs", theirs, silent)];
        let jobs = said.map(|(of, tk, event)| {
            let (tenant, session, (done, _)) = (tenant(of), id("s"), tokio::sync::oneshot::channel());
            AppendJob {
                tk,
                tenant,
                session,
                guard: Guard::default(),
                write: Write::Append(vec![event]),
                key: None,
                done,
            }
        });
        let answers = batch::run(&scene.store.context, &jobs).await;
        assert_eq!(answers.iter().map(verdict).collect::<Vec<_>>(), ["ok", "ok"]);
        assert_eq!(scene.texts("ours", "s").await, ["first", "ours"]);
        assert_eq!(scene.texts("theirs", "s").await, ["first", ""]);
    })
    .await;
}

#[tokio::test]
async fn a_row_that_others_have_written_is_looked_at_and_disturbs_no_neighbour() {
    with_sessions(&["s", "t"], async |scene| {
        let other = open_at(url(), &scene.schema).await;
        let before = known(scene, "s").unwrap();
        other.say("ours", "s", "theirs").await;
        believe(scene, "s", before);
        let (at_s, at_t) =
            (append("ours", "s", vec![message("ours")]), append("ours", "t", vec![message("ours")]));
        let (at_s, at_t) = tokio::join!(scene.commit(at_s), scene.commit(at_t));
        assert_eq!((verdict(&at_s), verdict(&at_t)), ("ok", "ok"));
        assert_eq!(scene.texts("ours", "s").await, ["first", "theirs", "ours"]);
        assert_eq!(scene.texts("ours", "t").await, ["first", "ours"]);
        let sequences: Vec<u64> = scene.log("ours", "s").await.iter().map(|event| event.sequence).collect();
        assert_eq!(sequences, [1, 2, 3]);
        other.close().await;
    })
    .await;
}

#[tokio::test]
async fn no_caller_is_let_in_or_kept_out_by_a_stale_head() {
    with_sessions(&["s"], async |scene| {
        let admin = scene.admin().await;
        let unclaimed = known(scene, "s").unwrap();
        admin.batch_execute(CLAIMED).await.unwrap();
        believe(scene, "s", unclaimed);
        assert_eq!(verdict(&scene.commit(worked_on(1)).await), "ok", "the claim is newer than what is known");
        let claimed = known(scene, "s").unwrap();
        admin.batch_execute(TAKEN_OVER).await.unwrap();
        believe(scene, "s", claimed.clone());
        assert_eq!(verdict(&scene.commit(worked_on(1)).await), "fenced", "the claim was known, and is over");
        assert_eq!(count(&admin, "SELECT count(*) FROM events").await, 2, "and nothing of it is left");
        admin.batch_execute("DELETE FROM session_heads").await.unwrap();
        believe(scene, "s", claimed);
        assert_eq!(verdict(&scene.commit(append("ours", "s", vec![message("x")])).await), "not_found");
    })
    .await;
}

#[tokio::test]
async fn a_refusal_beside_what_is_written_stands_only_where_the_row_was_the_known_one() {
    with_sessions(&["s"], async |scene| {
        let unclaimed = known(scene, "s").unwrap();
        scene.admin().await.batch_execute(CLAIMED).await.unwrap();
        believe(scene, "s", unclaimed);
        let tk = scene.store.context.tk(&tenant("ours")).await.unwrap().unwrap();
        let job = |change: Change| {
            let ChangePart { guard, mut writes, .. } = change.parts.into_iter().next().unwrap();
            let Some(Write::Append(events)) = writes.pop() else { panic!() };
            let (tenant, session, (done, _)) = (tenant("ours"), id("s"), tokio::sync::oneshot::channel());
            AppendJob { tk, tenant, session, guard, write: Write::Append(events), key: None, done }
        };
        let jobs = [job(append("ours", "s", vec![message("talk")])), job(worked_on(1))];
        let answers = batch::run(&scene.store.context, &jobs).await;
        assert_eq!(answers.iter().map(verdict).collect::<Vec<_>>(), ["ok", "ok"]);
        assert_eq!(scene.texts("ours", "s").await, ["first", "talk", "work"]);
    })
    .await;
}

#[tokio::test]
async fn what_others_are_known_to_have_changed_is_forgotten() {
    with_sessions(&["s", "t"], async |scene| {
        let other = open_at(url(), &scene.schema).await;
        other.say("ours", "s", "theirs").await;
        until("word of the other node", async || known(scene, "s").is_none()).await;
        assert!(known(scene, "t").is_some());
        let part = ChangePart {
            on: PartTarget::Session(id("t")),
            guard: Guard::default(),
            writes: smallvec![Write::Delete],
        };
        scene.commit(Change::new(tenant("ours")).part(part)).await.unwrap();
        assert!(known(scene, "t").is_none());
        other.close().await;
    })
    .await;
}

fn named(n: usize) -> (TenantId, SessionId) {
    (tenant("ours"), id(&format!("s{n}")))
}

fn some_head() -> CachedHead {
    CachedHead::new(1, 1, session("s").head, Xid(7), Vec::new())
}

fn is_there(heads: &HeadCache, n: usize) -> bool {
    heads.take([&named(n)]).remove(0).is_some()
}

#[test]
fn a_head_is_taken_once_and_forgotten_on_demand() {
    let heads = HeadCache::default();
    heads.put([(named(1), some_head()), (named(2), some_head())]);
    heads.forget([named(2)]);
    assert_eq!([is_there(&heads, 1), is_there(&heads, 1), is_there(&heads, 2)], [true, false, false]);
}

#[test]
fn unused_heads_are_dropped_when_there_are_many() {
    let heads = HeadCache::default();
    heads.put((0..=HEADS_MIN).map(|n| (named(n), some_head())));
    let asked = heads.take([&named(0)]).remove(0).unwrap();
    heads.put([(named(0), asked)]);
    heads.put((HEADS_MIN..=2 * HEADS_MIN).map(|n| (named(n), some_head())));
    assert_eq!([is_there(&heads, 0), is_there(&heads, 1), is_there(&heads, HEADS_MIN)], [true, false, true]);
    let kept: usize = heads.0.lock().iter().map(std::collections::HashMap::len).sum();
    assert!(kept <= 2 * HEADS_MIN, "{kept}");
}
