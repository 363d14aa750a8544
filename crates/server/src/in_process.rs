//! The routes over an engine in this process, for a client without a server that listens.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use http::Request;
use sederunt_agents::executor::Kit;
use sederunt_agents::talk::{self, Conversations};
use sederunt_api::client::{Client, LocalAnswer, LocalRoutes};
use sederunt_core::engine::Engine;
use sederunt_core::people::SecretHash;
use tokio::sync::watch;
use tower::ServiceExt;

use crate::config::{Auth, ConfigError, ServerConfig};
use crate::http::body::WholeBody;
use crate::http::error::Causes;
use crate::http::{App, Phase, router};

/// The operator, as a client of the routes over this engine in this process: no port is opened, and nothing runs
/// beside the requests. Links in answers start with `base_url`. Lessons are drawn where there is a kit for that.
pub fn client_in_process(
    engine: Engine,
    base_url: String,
    kit: Option<Arc<Kit>>,
) -> Result<Client, ConfigError> {
    let key = sederunt_core::ids::random_secret();
    let conversations = kit.map(|kit| Conversations::new(engine.clone(), kit, talk::Settings::default()));
    let config = ServerConfig {
        auth: Auth::Keys,
        operator_key_hash: Some(SecretHash::of(&key)),
        public_url: Some(base_url),
        conversations,
        ..ServerConfig::default()
    };
    let (phase, watched) = watch::channel(Phase::Serving);
    let app = App::new(engine, &config, String::new(), config.listen, watched, false)?;
    Ok(Client::in_process(Arc::new(InProcess { router: router(app), _phase: phase }), key))
}

/// Routes in this process, which serve until they are dropped.
#[derive(Debug)]
struct InProcess {
    router: Router,
    _phase: watch::Sender<Phase>,
}

impl LocalRoutes for InProcess {
    fn answer(&self, request: Request<Bytes>) -> BoxFuture<'_, LocalAnswer> {
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            parts.extensions.insert(WholeBody(body));
            let Ok(response) = self.router.clone().oneshot(Request::from_parts(parts, Body::empty())).await;
            let (parts, body) = response.into_parts();
            LocalAnswer {
                status: parts.status,
                causes: parts.extensions.get().map(|Causes(causes)| causes.clone()),
                body: body.into_data_stream().map(|chunk| chunk.map_err(broken_off)).boxed(),
            }
        })
    }
}

/// Why a body that is made in this process ended early.
fn broken_off(error: axum::Error) -> sederunt_core::Error {
    match error.into_inner().downcast::<sederunt_core::Error>() {
        Ok(error) => *error,
        Err(other) => sederunt_core::Error::internal(other),
    }
}

#[cfg(test)]
mod tests {
    use sederunt_core::engine::Settings;
    use sederunt_core::limits;
    use sederunt_core::live::Hub;
    use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};
    use serde_json::{Value, json};

    use super::*;
    use http::Method;
    use sederunt_api::client::Error;

    fn engine() -> Engine {
        let hub = Arc::new(Hub::default());
        let options = SqliteOptions { place: Place::Memory, clock: Arc::default(), hub: hub.clone() };
        Engine::new(SqliteStore::open(options).unwrap(), hub, Settings::default())
    }

    fn client(engine: &Engine) -> Client {
        client_in_process(engine.clone(), "http://127.0.0.1:7070".to_owned(), None).unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn in_process_the_operator_is_answered_as_by_a_server() {
        let engine = engine();
        let client = client(&engine);
        client.post::<Value>("/api/tenants", &json!({ "id": "acme" })).await.unwrap();
        let wish = json!({ "id": "s", "session_type": "mixed" });
        let made: Value = client.clone().in_tenant("acme").post("/api/sessions", &wish).await.unwrap();
        assert_eq!((&made["tenant_id"], &made["source"]["kind"]), (&json!("acme"), &json!("cli")));
        let refused = client.get::<Value>("/api/sessions/s").await.unwrap_err();
        assert_eq!(refused.to_string(), "there is no session `s`, or it is not yours to see");
        assert!(matches!(client.socket("/api/chat/stream").await, Err(Error::NoListener)));
        assert!(
            client.in_tenant("acme").request::<()>(Method::DELETE, "/api/sessions/s", None).await.is_ok()
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_stream_in_process_follows_the_log_as_it_grows() {
        let engine = engine();
        let client = client(&engine);
        client.post::<Value>("/api/sessions", &json!({ "id": "s", "session_type": "mixed" })).await.unwrap();
        let mut stream = client.stream("/api/sessions/s/stream?after=1", None).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap().event, "ready");
        let said = json!({ "events": [{ "type": "user.message", "content": "and now?" }] });
        client.post::<Value>("/api/sessions/s/events", &said).await.unwrap();
        let heard = stream.next().await.unwrap().unwrap();
        assert!(heard.id.as_deref() == Some("2") && heard.data.contains("and now?"), "{heard:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_body_in_process_may_be_longer_than_one_that_is_received() {
        let engine = engine();
        let bundle = format!("{{\"version\": 1{}}}", " ".repeat(limits::BODY_BYTES_MAX));
        let imported: Value =
            client(&engine).request(Method::POST, "/api/bundle", Some(bundle)).await.unwrap();
        assert_eq!(imported["imported"], 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_lies_under_a_refusal_is_told_in_process() {
        let engine = engine();
        let client = client(&engine);
        let path = "/api/feedback/sessions/f/finalize";
        let Error::Refused { status, refusal } = client.post::<Value>(path, &json!({})).await.unwrap_err()
        else {
            panic!("it was carried out")
        };
        assert_eq!((status.as_u16(), refusal.code.as_str()), (503, "unavailable"));
        assert!(refusal.message.ends_with(": this process holds no conversations"), "{}", refusal.message);
    }
}
