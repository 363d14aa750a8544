//! What a run does not do without leave, and how it goes on with what a person said.

use sederunt_core::approval::decide::Decision;
use sederunt_core::session::Status;
use sederunt_core::store::{Change, Guard, On, Part, Update, Write};
use sederunt_core::work::run::Run;

use super::world::{World, tool};
use crate::ground::json;
use crate::wire::{Server, ok};

#[tokio::test]
async fn a_tool_that_needs_leave_is_called_once_with_what_was_agreed() {
    let mut world = World::new();
    let server = Server::start(vec![ok(r#""sent""#)]).await;
    world.script(
        "sender",
        r#"[{"call":{"name":"send","args":{"to":"x","text":"hi"}}},{"expect":"sent","say":"It is sent."}]"#,
    );
    world.agent("sender", &tool("send", &server.url("/send"), r#","requires_confirmation":true"#)).await;
    let id = world.trigger("sender", "").await;
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::AwaitingTool);
    assert!(server.asked().is_empty(), "nothing without leave");
    world.decide(Decision::Approve, Some(r#"{"to":"y"}"#)).await;
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::Completed);
    let asked = server.asked();
    assert_eq!((asked.len(), asked[0].body.as_str()), (1, r#"{"to":"y","text":"hi"}"#));
    assert!(asked[0].head.to_lowercase().contains("sederunt-confirmed: true"));
}

#[tokio::test]
async fn a_call_that_differs_from_what_was_agreed_is_refused() {
    let mut world = World::new();
    let server = Server::start(vec![ok(r#""paid""#)]).await;
    world.script(
        "payer",
        r#"[{"call":{"name":"pay","args":{"n":1}}},{"expect":"refused","say":"So be it."}]"#,
    );
    world.agent("payer", &tool("pay", &server.url("/pay"), r#","requires_confirmation":true"#)).await;
    let id = world.trigger("payer", "").await;
    world.work().await;
    world.decide(Decision::Approve, None).await;

    // Somebody reaches into the store between the approval and the call.
    let session = world.session(&id).await;
    let mut run = Run::of(&session);
    run.resume.as_mut().unwrap().args = Some(json(r#"{"n":1000}"#));
    let update = Update { run: Some(run.to_json().unwrap()), ..Update::default() };
    let part = Part {
        on: On::Session(id.clone()),
        guard: Guard::seen(&session),
        writes: [Write::Update(Box::new(update))].into_iter().collect(),
    };
    world.engine.store().commit(Change::new(world.owner.tenant.clone()).part(part)).await.unwrap();

    world.work().await;
    assert!(server.asked().is_empty(), "nothing is done that nobody agreed to");
    assert_eq!(world.session(&id).await.head.status, Status::Completed);
    assert_eq!(world.story(&id).await, "tool_call(pay) tool_result(pay: refused) message(So be it.)");
}

#[tokio::test]
async fn a_tool_may_ask_for_leave_by_itself() {
    let mut world = World::new();
    let wants = ok(r#"{"requires_confirmation":true,"summary":"Send 1000?"}"#);
    let server = Server::start(vec![wants, ok(r#""paid""#)]).await;
    world.script("payer", r#"[{"call":{"name":"pay","args":{"n":1000}}},{"expect":"paid","say":"Paid."}]"#);
    world.agent("payer", &tool("pay", &server.url("/pay"), "")).await;
    let id = world.trigger("payer", "").await;
    world.work().await;
    let staged = world.asked().await.body.staged.unwrap();
    assert!(staged.as_str().contains("Send 1000?"), "{}", staged.as_str());
    world.decide(Decision::Approve, None).await;
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::Completed);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_denied_call_is_not_made_and_the_model_learns_why() {
    let mut world = World::new();
    let server = Server::start(vec![]).await;
    world.script("sender", r#"[{"call":{"name":"send"}},{"expect":"denied: because","say":"Very well."}]"#);
    world.agent("sender", &tool("send", &server.url("/send"), r#","requires_confirmation":true"#)).await;
    let id = world.trigger("sender", "").await;
    world.work().await;
    world.decide(Decision::Deny, None).await;
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::Completed);
    assert!(server.asked().is_empty());
    assert_eq!(world.story(&id).await, "tool_call(send) tool_result(send: denied) message(Very well.)");
}

#[tokio::test]
async fn calls_beside_a_paused_one_are_each_made_once() {
    let mut world = World::new();
    let server = Server::start(vec![ok("1"), ok("2"), ok("3")]).await;
    world.script(
        "many",
        r#"[{"call":[{"name":"read","args":{"n":1}},{"name":"send","args":{"n":2}},{"name":"read","args":{"n":3}}]},
            {"say":"All done."}]"#,
    );
    let tools = format!(
        r#"[{{"type":"http","name":"read","url":"{0}"}},{{"type":"http","name":"send","url":"{0}","requires_confirmation":true}}]"#,
        server.url("/x")
    );
    world.agent("many", &tools).await;
    let id = world.trigger("many", "").await;
    world.work().await;
    assert_eq!(server.asked().len(), 1);
    world.decide(Decision::Approve, None).await;
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::Completed);
    let bodies: Vec<String> = server.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(bodies, [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#]);
}

#[tokio::test]
async fn a_question_to_a_person_is_answered_where_it_was_asked() {
    let mut world = World::new();
    world.script(
        "asker",
        r#"[{"call":{"name":"request_input","args":{"text":"Which colour?"}}},{"expect":"green","say":"Green it is."}]"#,
    );
    world.agent("asker", r#"[{"type":"builtin","name":"request_input"}]"#).await;
    let id = world.trigger("asker", "").await;
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::WaitingHuman);
    assert!(world.asked().await.body.staged.unwrap().as_str().contains("Which colour?"));
    world.engine.reply(&world.owner, &id, json(r#""green""#), None).await.unwrap();
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::Completed);
}
