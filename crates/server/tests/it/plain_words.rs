//! What a refused caller reads: plain sentences, and none of the words of the language that this
//! server is written in.

use http::Method;
use sederunt_core::access::Role;
use serde_json::{Value, json};

use crate::server::{StoreKind, TestServer, within};

/// Words of serde and of Rust that say nothing to a caller.
const FOREIGN_WORDS: [&str; 10] = [
    "variant", "untagged", "invalid type", "invalid value", "expected one of", "expected value", "struct ",
    "enum ", "deserialize", "did not match",
];

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(name) => &document["components"]["schemas"][name.rsplit('/').next().unwrap()],
        None => schema,
    }
}

/// A body with every field that a schema names, each of them this value.
fn filled(document: &Value, schema: &Value, value: &Value) -> Value {
    let mut body = serde_json::Map::new();
    let schema = resolved(document, schema);
    for part in schema["allOf"].as_array().into_iter().flatten().chain([schema]) {
        for name in resolved(document, part)["properties"].as_object().into_iter().flatten() {
            body.insert(name.0.clone(), value.clone());
        }
    }
    body.into()
}

/// Sends to every route of the document bodies that do not fit, one wrong field at a time.
#[tokio::test]
async fn no_route_answers_in_the_words_of_rust() {
    let server = TestServer::local(StoreKind::Memory).await;
    let client = reqwest::Client::new();
    let document: Value = serde_json::from_str(&sederunt_server::openapi()).unwrap();
    let wrong = [json!(5), json!("banana"), json!([7]), json!({"x": 1}), json!(true), json!(-1.5)];
    let mut refused = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let Ok(method) = Method::from_bytes(method.to_uppercase().as_bytes()) else { continue };
            if schema.is_null() {
                continue;
            }
            let path =
                path.replace("{id}", "nope").replace("{key_id}", "nope").replace("{bucket}", "running");
            let mut bodies = vec![json!([]), json!(5), json!("x"), json!({"surely_not_a_field": 1})];
            for value in &wrong {
                bodies.push(filled(&document, schema, value));
                let fields = filled(&document, schema, value);
                bodies.extend(fields.as_object().unwrap().keys().map(|name| json!({ name.as_str(): value })));
            }
            for body in bodies {
                let url = format!("http://{}{path}", server.address);
                let request = client.request(method.clone(), url).header("content-type", "application/json");
                let answer = within(request.body(body.to_string()).send()).await.unwrap();
                assert!(answer.status().as_u16() < 500, "{method} {path} {body}: {}", answer.status());
                let text = within(answer.text()).await.unwrap();
                let answer: Value = serde_json::from_str(&text).unwrap_or_default();
                let Some(said) = answer["error"]["message"].as_str() else { continue };
                refused += 1;
                for word in FOREIGN_WORDS {
                    assert!(!said.contains(word), "{method} {path} {body}: {said}");
                }
            }
        }
    }
    assert!(refused > 500, "only {refused} bodies were refused: the walk no longer finds the routes");
}

#[tokio::test]
async fn what_does_not_fit_is_said_in_a_plain_sentence() {
    let server = TestServer::local(StoreKind::Memory).await;
    let me = server.anyone();
    let talk = me.session(json!({"session_type": "mixed"})).await;
    let rating = format!("/api/threads/{talk}/feedback");
    let task = json!({"slug": "t", "name": "T", "output": {"type": "entity", "fields": 5}});
    let table = [
        (
            "/api/sessions",
            json!({"session_type": "banana"}),
            "`session_type` must be agent, response, tool or mixed, not `banana`",
        ),
        ("/api/sessions", json!([]), "the body must be an object, not a list"),
        (
            rating.as_str(),
            json!({"feedback": "great"}),
            "`feedback` must be positive, negative or skip, not `great`",
        ),
        (rating.as_str(), json!({"feedback": 5}), "`feedback` must be positive, negative or skip, not `5`"),
        ("/api/tasks", task, "`output.fields` must be a list of names, or an object of field: path"),
    ];
    for (path, body, said) in table {
        let answer = me.post(path, body).await.refused(422, "invalid");
        assert_eq!(answer.body["error"]["message"], said);
    }
}

#[tokio::test]
async fn a_missing_thing_is_named_and_told_like_a_foreign_one() {
    let server = TestServer::keyed(StoreKind::Memory).await;
    let (owner, member) = (server.key(Role::Owner, "ada").await, server.key(Role::Member, "bob").await);
    let foreign = owner.session(json!({"session_type": "mixed"})).await;
    let told = |mut answer: crate::server::Answer, name: &str| {
        answer.body["error"]["request_id"].take();
        answer.body.to_string().replace(name, "NAME")
    };
    for rest in ["", "/events", "/state", "/export"] {
        let missing = member.get(&format!("/api/sessions/nope{rest}")).await.refused(404, "not_found");
        assert_eq!(missing.body["error"]["message"], "there is no session `nope`, or it is not yours to see");
        let hidden = member.get(&format!("/api/sessions/{foreign}{rest}")).await.refused(404, "not_found");
        assert_eq!(told(missing, "nope"), told(hidden, &foreign));
    }
    let view = member.get("/api/views/nope").await.refused(404, "not_found");
    assert_eq!(view.body["error"]["message"], "there is no view `nope`, or it is not yours to see");
}

#[tokio::test]
async fn a_refused_move_says_what_is_wrong() {
    let server = TestServer::local(StoreKind::Memory).await;
    let me = server.anyone();
    let id = me.session(json!({"session_type": "agent"})).await;
    let wish = json!({"to": "pending", "expected": "running"});
    let said =
        me.post(&format!("/api/sessions/{id}/transition"), wish).await.refused(409, "invalid_transition");
    assert_eq!(said.body["error"]["message"], "the session is `draft`, not `running` as you expected");
    let said =
        me.post(&format!("/api/sessions/{id}/retry"), json!({})).await.refused(409, "invalid_transition");
    assert_eq!(
        said.body["error"]["message"],
        "only failed, expired or abandoned sessions are retried; this one is `draft`"
    );
    let event = json!({"events": [{"type": "session.error"}]});
    let said = me.post(&format!("/api/sessions/{id}/events"), event).await.refused(403, "denied");
    assert_eq!(said.body["error"]["message"], "`session.error` is written by Sederunt alone");
}
