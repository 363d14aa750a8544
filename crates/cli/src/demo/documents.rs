//! A demo document: the list of a picnic, which the demo's person and its agent have edited together.

use std::sync::Arc;

use sederunt::{Actor, Engine, Json, Result};
use sederunt_core::document::DocumentKey;
use sederunt_core::engine::PatchRequest;
use sederunt_core::session::SessionType;
use sederunt_core::session::decide::OpenSession;
use serde_json::json;

const SESSION: &str = "demo:picnic";

pub async fn edit(engine: &Engine, me: &Arc<Actor>) -> Result<()> {
    let wish = OpenSession {
        id: Some(SESSION.to_owned()),
        session_type: Some(SessionType::Mixed),
        title: Some("Plan the picnic together".to_owned()),
        metadata: Some(Json::of(&json!({ "demo": true }))?),
        ..OpenSession::default()
    };
    let session = engine.open(me, wish, None).await?.session.id;
    let list = DocumentKey::parse("scratch", "list")?;
    let start = Json::of(&json!({"place": "The harbour", "bring": ["bread"], "guests": 3}))?;
    let mut base = engine.open_document(me, &session, &list, Some(&start), None).await?.sequence;
    for ops in [
        json!([{"op": "add", "path": "/bring/-", "value": "cheese"}]),
        json!([{"op": "replace", "path": "/guests", "value": 4}, {"op": "add", "path": "/bring/-", "value": "plums"}]),
        json!([{"op": "test", "path": "/place", "value": "The harbour"}, {"op": "add", "path": "/starts", "value": "17:00"}]),
    ] {
        let request =
            PatchRequest { base_sequence: base, ops: Json::of(&ops)?, epoch: None, wants_inverse: false };
        base = engine.patch_document(me, &session, &list, request, None).await?.sequence;
    }
    Ok(())
}
