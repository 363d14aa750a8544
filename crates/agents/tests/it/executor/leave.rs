//! What a run does not do without leave, and how it goes on with what a person said.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::approval::decide::Decision;
use sederunt_core::definitions::View;
use sederunt_core::engine::DefinitionFilters;
use sederunt_core::engine::Submission;
use sederunt_core::session::Status;
use sederunt_core::store::{Change, ChangePart, Guard, PartTarget, Update, Write};
use sederunt_core::view::answer;
use sederunt_core::work::run::Run;

use super::world::{LEASE, World, tool};
use crate::ground::{self, json};
use crate::wire::{Server, ok};

#[tokio::test]
async fn a_tool_that_needs_leave_is_called_once_with_what_was_agreed() {
    let mut world = World::new();
    let server = Server::start(vec![ok(r#""sent""#)]).await;
    world.script(
        "sender",
        r#"[{"call":{"name":"send","args":{"to":"x","text":"hi"}}},
            {"expect":"changed the arguments of your call of `send`","say":"It is sent."}]"#,
    );
    let heard = world.listen_to_all("sender");
    let more =
        r#","requires_confirmation":true,"schema":{"type":"object","properties":{"to":{"type":"string"}}}"#;
    world.agent("sender", &tool("send", &server.url("/send"), more)).await;
    let id = world.trigger("sender", "").await;
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::AwaitingTool);
    assert!(server.asked().is_empty(), "nothing without leave");
    assert_eq!(world.invocations(&id).await, "", "and nothing is begun");
    let asked = world.asked().await;
    let bad = ground::decide(Decision::Approve, Some(r#"{"to":7}"#));
    let refused = world.engine.decide(&world.owner, &asked.id, bad, None).await.unwrap_err();
    assert_eq!(refused.code(), "invalid");
    assert!(refused.to_string().contains("/to"), "{refused}");
    assert_eq!(world.asked().await.id, asked.id, "it still waits");
    world.decide(Decision::Approve, Some(r#"{"to":"y"}"#)).await;
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::Completed);
    let asked = server.asked();
    assert_eq!((asked.len(), asked[0].body.as_str()), (1, r#"{"to":"y","text":"hi"}"#));
    let told = heard.lock().pop().unwrap();
    assert!(told.contains(r#"{"to":"y","text":"hi"}"#) && !told.contains(r#""to":"x""#), "{told}");
    assert_eq!(world.invocations(&id).await, "started completed");
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
    let part = ChangePart {
        on: PartTarget::Session(id.clone()),
        guard: Guard::seen(&session),
        writes: [Write::Update(Box::new(update))].into_iter().collect(),
    };
    world.store.commit(Change::new(world.owner.tenant.clone()).part(part)).await.unwrap();

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
    assert_eq!(world.invocations(&id).await, "started completed(needs_confirmation) started completed");
}

#[tokio::test]
async fn a_denied_call_is_not_made_and_the_model_learns_why() {
    let mut world = World::new();
    let server = Server::start(vec![]).await;
    world.script("sender", r#"[{"call":{"name":"send"}},{"expect":"did not agree to your call of `send` and gave this instruction, to be followed as far as your task and your tools allow: because","say":"Very well."}]"#);
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

const FORM: &str =
    r#""title":"Which colour?","questions":[{"key":"colour","label":"Colour","required":true}]"#;

fn submission(colour: &str) -> Submission {
    Submission { values: json(&format!(r#"{{"colour":"{colour}"}}"#)), lead: None }
}

#[tokio::test]
async fn a_run_that_asks_for_feedback_goes_on_with_the_answer() {
    let mut world = World::new();
    world.script(
        "asker",
        &format!(
            r#"[{{"call":{{"name":"request_feedback","args":{{{FORM},"gate":"none"}}}}}},{{"expect":"green","say":"Green it is."}}]"#
        ),
    );
    world.agent("asker", r#"[{"type":"builtin","name":"request_feedback"}]"#).await;
    let id = world.trigger("asker", "").await;
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::WaitingHuman);
    let staged = world.asked().await.body.staged.unwrap().value();
    assert_eq!(staged["text"], "Which colour?");
    let view = staged["view_id"].as_str().unwrap();
    let shown = staged["url"].as_str().unwrap();
    assert!(
        shown.starts_with(&format!("http://here/views/{view}?share=")),
        "whoever may decide sees it whole"
    );
    world.engine.submit(&world.owner, view, None, &submission("green"), None).await.unwrap();
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::Completed);
    assert_eq!(
        world.story(&id).await,
        "tool_call(request_feedback) tool_result(request_feedback) message(Green it is.)"
    );
}

#[tokio::test]
async fn a_run_that_dies_after_publishing_publishes_nothing_twice() {
    let mut world = World::new();
    world.script(
        "asker",
        &format!(
            r#"[{{"call":{{"name":"request_feedback","args":{{{FORM}}}}}}},{{"expect":"green","say":"Green it is."}}]"#
        ),
    );
    world.agent("asker", r#"[{"type":"builtin","name":"request_feedback"}]"#).await;
    let id = world.trigger("asker", "").await;
    world.work().await;
    let view = world.asked().await.view_id().unwrap();

    // As if the worker had died between the publication and the pause: the session runs, and the call is open.
    let session = world.session(&id).await;
    let run = Run { approval_id: None, ..Run::of(&session) };
    let update =
        Update { status: Some(Status::Pending), run: Some(run.to_json().unwrap()), ..Update::default() };
    let part = ChangePart {
        on: PartTarget::Session(id.clone()),
        guard: Guard::seen(&session),
        writes: [Write::Update(Box::new(update))].into_iter().collect(),
    };
    world.store.commit(Change::new(world.owner.tenant.clone()).part(part)).await.unwrap();
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::WaitingHuman);
    assert!(Run::of(&world.session(&id).await).approval_id.is_some());
    let views = world
        .engine
        .definitions::<View>(&world.owner, DefinitionFilters::default(), None, 10)
        .await
        .unwrap()
        .items;
    assert_eq!(
        views.iter().map(|view| &*view.id).collect::<Vec<_>>(),
        [&*view],
        "one view, under the same id"
    );
    world.engine.submit(&world.owner, &view, None, &submission("green"), None).await.unwrap();
    // Another worker goes on, and dies before it has told the model; a third one is told the same.
    let dies = world.executor(LEASE);
    let actor = Arc::new(dies.actor(world.owner.tenant.clone()));
    drop(dies.take(&actor, 1).await.unwrap().pop().expect("it is pending"));
    world.clock.advance(LEASE + Duration::from_secs(1));
    world.engine.sweep().await.unwrap();
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::Completed);
}

#[tokio::test]
async fn a_run_that_does_not_wait_is_given_the_link_and_later_the_answers() {
    let mut world = World::new();
    world.script(
        "asker",
        &format!(
            r#"[{{"call":{{"name":"request_feedback","args":{{{FORM},"blocking":false,"gate":"none"}}}}}},
                {{"expect":"http://here/views/","call":{{"name":"request_input","args":{{"text":"Shall I go on?"}}}}}},
                {{"expect":"yes","call":{{"name":"request_input","args":{{"text":"And now?"}}}}}},
                {{"expect":"yes","say":"Purple it is."}}]"#
        ),
    );
    let heard = world.listen("asker");
    let tools = r#"[{"type":"builtin","name":"request_feedback"},{"type":"builtin","name":"request_input"}]"#;
    world.agent("asker", tools).await;
    let id = world.trigger("asker", "").await;
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::WaitingHuman);
    let views = world
        .engine
        .definitions::<View>(&world.owner, DefinitionFilters::default(), None, 10)
        .await
        .unwrap()
        .items;
    world.engine.submit(&world.owner, &views[0].id, None, &submission("purple"), None).await.unwrap();
    assert_eq!(world.session(&id).await.head.status, Status::WaitingHuman, "it waits for something else");
    for _ in 0..2 {
        world.engine.reply(&world.owner, &id, json(r#""yes""#), None).await.unwrap();
        world.work().await;
    }
    let session = world.session(&id).await;
    assert_eq!(session.head.status, Status::Completed, "{:?}", session.details.error_message);
    let told = world.log(&id).await.iter().filter(|event| !answer::names_in(event).is_empty()).count();
    assert_eq!(told, 1, "it was told of the answer once, and remembers");
    let knew: Vec<bool> = heard.lock().iter().map(|request| request.contains("purple")).collect();
    assert_eq!(knew, [false, false, true, true], "and every run after it knows");
}

#[tokio::test]
async fn a_form_that_cannot_be_published_is_told_to_the_model() {
    let mut world = World::new();
    world.script(
        "asker",
        r#"[{"call":{"name":"request_feedback","args":{"title":"T","questions":[{"key":"a","label":"A","type":"choice"}]}}},
            {"expect":"questions[0].options","say":"I cannot ask that."}]"#,
    );
    world.agent("asker", r#"[{"type":"builtin","name":"request_feedback"}]"#).await;
    let id = world.trigger("asker", "").await;
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::Completed);
    assert_eq!(
        world.story(&id).await,
        "tool_call(request_feedback) tool_result(request_feedback: invalid_arguments) message(I cannot ask that.)"
    );
}
