//! The indexer follows words, and no other change of a session.

use sederunt_core::store::{SearchQuery, Update};
use sederunt_core::work::ClaimOrder;

use super::nodes::with_two_nodes;
use super::*;
use crate::postgres::indexer::BEHIND;

#[tokio::test]
async fn only_new_words_leave_the_search_index_behind() {
    with_store(async |scene| {
        scene.tenant_named("ours").await;
        let admin = scene.admin().await;
        // Without the tasks in the background, which would catch up by themselves.
        scene.store.closing.send_replace(true);
        let sql = format!("SELECT count(*) {BEHIND}");
        let behind = async || count(&admin, &sql).await;
        let mut new = session("s");
        new.head.status = Status::Pending;
        new.head.session_type = SessionType::Agent;
        let part =
            ChangePart { on: PartTarget::New(Box::new(new)), guard: Guard::default(), writes: smallvec![] };
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
        let renamed = ChangePart { on: PartTarget::Session(id("s")), guard: Guard::default(), writes };
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

#[tokio::test]
async fn what_this_node_has_said_is_not_read_back_for_the_index() {
    with_store(async |scene| {
        scene.tenant_named("ours").await;
        let admin = scene.admin().await;
        scene.store.closing.send_replace(true);
        for name in ["a", "b"] {
            scene.open("ours", name).await;
            scene.say("ours", name, "brave new words").await;
        }
        // An indexer that read it back would index another text.
        admin
            .execute(
                "UPDATE events e SET content = '[{\"type\":\"text\",\"text\":\"other\"}]' FROM sessions s
                 WHERE e.log = s.sk AND s.id = 'a'",
                &[],
            )
            .await
            .unwrap();
        scene.index_now().await.unwrap();
        assert_eq!(count(&admin, "SELECT count(*) FROM search_docs WHERE seq > 0").await, 2);
        assert_eq!(count(&admin, "SELECT count(DISTINCT tsv) FROM search_docs WHERE seq > 0").await, 1);
    })
    .await;
}

#[tokio::test]
async fn what_another_node_has_said_in_between_is_read_for_the_index() {
    with_two_nodes(async |here, there| {
        here.tenant_named("ours").await;
        here.open("ours", "s").await;
        for scene in [here, there] {
            scene.store.closing.send_replace(true);
        }
        for (node, text) in [(here, "alpha"), (there, "beta"), (here, "gamma"), (there, "delta")] {
            node.say("ours", "s", text).await;
        }
        here.index_now().await.unwrap();
        for word in ["alpha", "beta", "gamma", "delta"] {
            let query = SearchQuery { words: vec![word.into()], seen_by: None, after: None, limit: 10 };
            let found = here.search(&tenant("ours"), query).await.unwrap();
            assert_eq!(found.items.len(), 1, "{word}");
        }
    })
    .await;
}
