//! Demo responses: a form, a response that was promoted to an entity, one whose promotion waits in the inbox, one that
//! must not be promoted, and a draft. The form has an id that begins with `demo-`, and every response is marked as the
//! demo's. Anyone with the link that a start prints answers the form.

use std::sync::Arc;
use std::time::Duration;

use sederunt::{Actor, Engine, Error, Json, Result, SessionId};
use sederunt_core::approval::decide::{Decision, DecisionRequest};
use sederunt_core::definitions::View;
use sederunt_core::session::decide::PatchSession;
use sederunt_core::view::respondent;
use serde_json::{Value, json};

const FORM: &str = "demo-picnic";
/// How long a link to the form works.
const LINK_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

pub async fn collect(engine: &Engine, me: &Arc<Actor>) -> Result<()> {
    let view: View = sederunt_core::strict::read(
        Json::of(&json!({
            "title": "What shall we bring to the picnic?",
            "publish_config": {"gate": "none"},
            "questions": [
                {"key": "place", "label": "Where shall we sit?", "required": true},
                {"key": "tone", "label": "How shall we invite people?", "type": "choice",
                    "options": [{"value": "kind"}, {"value": "curt"}, {"value": "cruel"}]},
                {"key": "guests", "label": "How many of you come?", "type": "scale", "min": 1, "max": 6},
            ],
            "response": {
                "entity_type": "place",
                "fields": {"place": "name", "tone": "tone"},
                "criteria_set_id": "demo-tone",
                "promote": "approval",
                "once": false,
            },
        }))?
        .as_str(),
    )?;
    engine.define(me, Some(FORM), view, None).await?;
    let promoted = submit(
        engine,
        me,
        "Picnic: by the harbour",
        json!({"place": "The harbour", "tone": "kind", "guests": 4}),
    )
    .await?;
    let approve = DecisionRequest {
        decision: Decision::Approve,
        modified_args: None,
        modified_output: None,
        reason: None,
        digest: None,
    };
    if let Some(approval) = engine.response(me, &promoted, None).await?.promotion {
        engine.decide(me, &approval.id, approve, None).await?;
    }
    submit(engine, me, "Picnic: on the hill", json!({"place": "The hill", "tone": "curt", "guests": 2}))
        .await?;
    submit(engine, me, "Picnic: at home", json!({"place": "At home", "tone": "cruel", "guests": 1})).await?;
    let draft = open(engine, me, "Picnic: not sure yet").await?;
    let values = Json::of(&json!({"guests": 3}))?;
    engine.save_response(me, &draft, None, &values, None).await.map(drop)
}

/// A new link by which anyone answers the form on a server at this address.
pub async fn link(engine: &Engine, me: &Actor, address: &str) -> Result<String> {
    let made = engine.share_view(me, FORM, None, LINK_LIFE, None).await?;
    let token = made.token.ok_or_else(|| Error::internal("a new link has no token"))?;
    Ok(respondent::link(&format!("{}/views/{FORM}", address.trim_end_matches('/')), &token))
}

async fn submit(engine: &Engine, me: &Arc<Actor>, title: &str, values: Value) -> Result<SessionId> {
    let id = open(engine, me, title).await?;
    engine.submit_response(me, &id, None, Some(&Json::of(&values)?), None).await?;
    Ok(id)
}

/// Opens a response, marked as the demo's.
async fn open(engine: &Engine, me: &Arc<Actor>, title: &str) -> Result<SessionId> {
    let id = engine.open_response(me, FORM, None, None, None).await?.response.row.session;
    let mark = PatchSession {
        title: Some(Some(title.to_owned())),
        metadata: Some(Json::of(&json!({ "demo": true }))?),
        ..PatchSession::default()
    };
    engine.patch(me, &id, mark, None).await?;
    Ok(id)
}
