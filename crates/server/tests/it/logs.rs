//! What is logged of a request

use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};

use sederunt_core::access::Role;
use sederunt_core::engine::NewKey;
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(a_line_names_the_route_and_never_what_was_said);

/// Everything that this process logs.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Paper {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

static PAPER: LazyLock<Paper> = LazyLock::new(|| {
    let paper = Paper::default();
    let filter = "sederunt=trace,sederunt_core=trace,sederunt_server=trace,sederunt_store=trace";
    let subscriber =
        tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(paper.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    paper
});

async fn a_line_names_the_route_and_never_what_was_said(store_kind: StoreKind) {
    let paper = PAPER.clone();
    let server = TestServer::keyed(store_kind).await;
    let (secret, _) = server.new_key(NewKey { role: Some(Role::Owner), ..NewKey::default() }).await;
    let owner = server.bearer(&secret).with("x-request-id", &format!("logged-{store_kind:?}"));
    let id =
        owner.session(json!({"id": "private-name", "session_type": "mixed", "title": "private-title"})).await;
    owner.say(&id, "private-words").await.expect(201);
    owner.get("/api/search?q=private-query").await.expect(200);
    let wish = json!({"access": "read", "expires_in": 60});
    let share = owner.post(&format!("/api/sessions/{id}/share"), wish).await.expect(201).body;
    let token = share["token"].as_str().unwrap();
    server.anyone().get(&format!("/api/sessions/{id}?share={token}")).await.expect(200);
    server.bearer("sdr_private-guess").get("/api/sessions").await.refused(401, "unauthenticated");
    owner.post("/api/sessions", json!({"private-field": 1})).await.refused(422, "invalid");

    let log = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
    let line = log
        .lines()
        .find(|line| line.contains(&format!("logged-{store_kind:?}")) && line.contains("/events"))
        .unwrap_or_else(|| panic!("no line of the request in:\n{log}"));
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    let fields = &line["fields"];
    assert_eq!(line["level"], "DEBUG");
    assert_eq!((&fields["method"], &fields["status"]), (&json!("POST"), &json!(201)));
    assert_eq!(
        (&fields["route"], &fields["tenant"]),
        (&json!("/api/sessions/{id}/events"), &json!("default"))
    );
    assert!(fields["ms"].is_number());
    for hidden in [secret.as_str(), token, "private-"] {
        assert!(!log.contains(hidden), "{hidden} stands in the log");
    }
}
