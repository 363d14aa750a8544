//! What the search index follows: words, and nothing else that happens to a session.

use sederunt_core::store::Update;
use sederunt_core::work::ClaimOrder;

use super::*;
use crate::postgres::index::BEHIND;

#[tokio::test]
async fn only_new_words_leave_the_search_index_behind() {
    with_store(async |scene| {
        scene.tenant_named("ours").await;
        let admin = scene.admin().await;
        // Without the tasks in the background, which would catch up by themselves.
        scene.closing.send_replace(true);
        let sql = format!("SELECT count(*) {BEHIND}");
        let behind = async || count(&admin, &sql).await;
        let mut new = session("s");
        new.head.status = Status::Pending;
        new.head.session_type = SessionType::Agent;
        let part = Part { on: On::New(Box::new(new)), guard: Guard::default(), writes: smallvec![] };
        scene.commit(Change::new(tenant("ours")).part(part)).await.unwrap();
        assert_eq!(behind().await, 1, "a new session");
        scene.index_now().await.unwrap();
        let order = ClaimOrder {
            tenant: tenant("ours"),
            credential: CredentialId::stored("k"),
            worker: "w".into(),
            session_types: vec![SessionType::Agent],
            agent_slugs: Vec::new(),
            limit: 1,
            lease: Duration::from_secs(30),
            key: None,
        };
        assert_eq!(scene.claim(order).await.unwrap().len(), 1);
        assert_eq!(behind().await, 0, "a claim says nothing");
        let title = Update { title: Some(Some("t".into())), ..Update::default() };
        let writes = smallvec![Write::Update(Box::new(title))];
        let renamed = Part { on: On::Session(id("s")), guard: Guard::default(), writes };
        for (change, what) in [
            (Change::new(tenant("ours")).part(renamed), "a title"),
            (append("ours", "s", vec![message("hi")]), "a message"),
        ] {
            scene.commit(change).await.unwrap();
            assert_eq!(behind().await, 1, "{what}");
            scene.index_now().await.unwrap();
            assert_eq!(behind().await, 0, "{what}");
        }
    })
    .await;
}
