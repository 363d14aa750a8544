//! What a store does when it is opened after its process died, and which memory it gives back.

use sederunt_core::ids::{CredentialId, ProcessWorker};
use sederunt_core::session::Status;
use sederunt_core::work::ClaimOrder;

use super::*;

const LEASE: Duration = Duration::from_secs(30);

fn order(credential: &CredentialId) -> ClaimOrder {
    ClaimOrder {
        tenant: tenant(),
        credential: credential.clone(),
        worker: "w".into(),
        session_types: vec![SessionType::Agent],
        agent_slugs: Vec::new(),
        limit: 1,
        lease: LEASE,
        key: None,
    }
}

fn pending(name: &str) -> ChangePart {
    let wish = OpenSession {
        session_type: Some(SessionType::Agent),
        status: Some(Status::Pending),
        ..OpenSession::default()
    };
    let new =
        decide::open(&Actor::local(SourceKind::Api), id(name), wish, &sederunt_core::ids::RandomIds).unwrap();
    ChangePart { on: PartTarget::New(Box::new(new)), guard: Guard::default(), writes: smallvec![] }
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_ends_the_claims_of_the_dead_process_and_no_others() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    let holders = [
        (CredentialId::of_process(ProcessWorker::Executor), true),
        (CredentialId::of_process(ProcessWorker::Talker), true),
        (CredentialId::stored("0190a5a0-0000-7000-8000-000000000000"), false),
        (CredentialId::stored("jwt:executor"), false),
        (CredentialId::stored("local"), false),
    ];
    let mut held = Vec::new();
    for (n, (credential, dies)) in holders.iter().enumerate() {
        store.commit(change([pending(&format!("s{n}"))])).await.unwrap();
        let claimed = store.claim(order(credential)).await.unwrap().pop().unwrap();
        held.push((claimed, credential, *dies));
    }
    store.close().await;
    drop(store);

    let store = in_directory(&directory).unwrap();
    let now = store.now().await.unwrap();
    let due: Vec<String> = store
        .due(Timestamp::default(), 10)
        .await
        .unwrap()
        .iter()
        .map(|due| due.session.to_string())
        .collect();
    for (claimed, credential, dies) in held {
        let name = &claimed.session.id;
        let head = store.session(&tenant(), name).await.unwrap().unwrap().head;
        assert_eq!(head.holds(credential, claimed.epoch, now), !dies, "{credential:?}");
        assert_eq!(due.contains(&name.to_string()), dies, "{credential:?}");
        if !dies {
            assert_eq!(
                head.claim.unwrap().lease_until,
                claimed.lease_until,
                "{credential:?} keeps its lease"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory_a_deleted_session_gives_its_pages_back() {
    let store = in_memory();
    let pages = async || {
        store
            .read_inline(|db| db.query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0)))
            .await
            .unwrap()
    };
    store.made("kept").await;
    let before = pages().await;
    store.made("large").await;
    let text = "x".repeat(200_000);
    for _ in 0..20 {
        store.commit(appending("large", &[&text])).await.unwrap();
    }
    let full = pages().await;
    assert!(full > before + 900, "{before} pages, then {full}");
    store.commit(change([on("large", Write::Delete)])).await.unwrap();
    let after = pages().await;
    assert!(after < before + 50, "{before} pages, {full} with it, {after} without it");
    store.commit(appending("kept", &["still here"])).await.unwrap();
    assert_eq!(store.texts("kept").await, ["still here"]);
}
