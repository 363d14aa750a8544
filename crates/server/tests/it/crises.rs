//! /api/crises

use serde_json::json;

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(crises_that_are_held_outlive_a_purge);

async fn crises_that_are_held_outlive_a_purge(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    for thread in ["a", "b", "b"] {
        let wish = json!({"thread_id": thread, "message": "I want to kill myself"});
        me.post("/api/chat", wish).await.expect(200);
    }
    let hold = async |body: serde_json::Value| me.post("/api/crises/hold", body).await;
    let held = hold(json!({"until": "2030-01-31", "thread_id": "b", "reason": "complaint"})).await;
    assert_eq!(held.expect(200).body, json!({"held": 2}));
    for bad in [
        json!({"until": "2001-01-31"}),
        json!({"until": "soon"}),
        json!({}),
        json!({"until": "2030-01-31", "reason": "because"}),
        json!({"until": "2030-01-31", "thread_id": "a/b"}),
    ] {
        hold(bad).await.refused(422, "invalid");
    }
    let nobody = hold(json!({"until": "2030-01-31", "thread_id": "none"})).await;
    assert_eq!(nobody.expect(200).body, json!({"held": 0}));
    server.clock.advance(std::time::Duration::from_secs(200 * 86_400));
    assert_eq!(server.engine.purge_records(None, None).await.unwrap().crises, 1);
    let held = hold(json!({"until": "2030-01-31"})).await;
    assert_eq!(held.expect(200).body, json!({"held": 2}), "what is left");
}
