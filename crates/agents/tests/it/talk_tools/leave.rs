//! What needs leave: it is done with it and not without, once, with what was agreed to, on any node.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sederunt_agents::executor::kit::Means;
use sederunt_agents::model::Message;
use sederunt_agents::talk::TurnReply;
use sederunt_agents::talk::end::{EndWish, Ending};
use sederunt_core::approval::ApprovalState;
use sederunt_core::approval::decide::Decision;
use sederunt_core::feedback::{Modality, RatingSource};
use sederunt_core::limits;
use sederunt_core::session::{MemoryMode, SourceKind, Status};
use sederunt_core::store::{Change, ChangePart, Guard, PartTarget, Update, Write};
use sederunt_core::talk::turn::OnBusy;
use sederunt_core::work::run::Run;

use super::world::{CONFIRMED, SEND, World, asking, bodies, id, kind, said, tool};
use crate::ground::{elsewhere, gone, json, until};
use crate::wire::{Answer, SOON, Server, ok};

#[tokio::test]
async fn what_was_agreed_to_is_done_once_on_whichever_node_goes_on() {
    for (args, sent) in
        [(None, r#"{"to":"x","text":"hi"}"#), (Some(r#"{"to":"y"}"#), r#"{"to":"y","text":"hi"}"#)]
    {
        let server = Server::start(vec![ok(r#""sent""#)]).await;
        let (world, reply) = asking(&server).await;
        let approval = world.approval(&reply).await;
        assert!(approval.expires_at.unwrap() <= approval.created_at.plus(limits::CONFIRM_WITHIN));
        world.decide(&reply, Decision::Approve, args).await.unwrap();
        for node in [&world.node, &world.other] {
            node.go_on(&world.me.tenant, &id());
        }
        world.node.drain(SOON).await;
        world.other.drain(SOON).await;
        assert_eq!(bodies(&server), [sent]);
        assert!(server.asked()[0].head.contains("sederunt-confirmed: true"));
        assert_eq!(
            world.story().await,
            "Let me see. call(send) asks approve result(send) It is sent. /answered"
        );
        let opposite = world.decide(&reply, Decision::Deny, None).await.unwrap_err();
        assert_eq!(opposite.code(), "already_decided");
        assert_eq!(world.say("Thanks.").await.text, "You are welcome.");
        world.requests();
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn what_was_denied_is_not_done_and_the_model_goes_on_with_why() {
    let server = Server::start(vec![]).await;
    let steps = r#"[{"call":[{"name":"send"},{"name":"read"}]},{"say":"Very well."}]"#;
    let tools = [tool("send", &server.url("/send"), CONFIRMED), tool("read", "http://127.0.0.1:1/", "")];
    let world = World::new(steps, &tools).await;
    let reply = world.say("Send it.").await;
    world.decide(&reply, Decision::Deny, None).await.unwrap();
    world.go_on(&world.node).await;
    assert!(server.asked().is_empty());
    assert_eq!(
        world.story().await,
        "call(send) call(read) asks deny denied(send) tool_unreachable(read) Very well. /answered"
    );
    let messages = &world.requests()[1].messages;
    assert!(messages[2].text().contains("denied: nobody agreed to this call"), "{messages:?}");
    let told = messages.last().unwrap().text();
    assert!(told.contains("did not agree to your call of `send`") && told.contains("because"), "{told}");
}

#[tokio::test]
async fn a_tool_may_ask_for_leave_by_itself_and_another_call_of_the_same_turn_too() {
    let wants = || ok(r#"{"requires_confirmation":true,"summary":"Send 1000?"}"#);
    let server = Server::start(vec![wants(), ok(r#""paid""#), wants(), ok(r#""paid""#)]).await;
    let steps = r#"[{"call":[{"name":"pay","args":{"n":1}},{"name":"pay","args":{"n":2}}]},{"say":"Paid."}]"#;
    let world = World::new(steps, &[tool("pay", &server.url("/pay"), "")]).await;
    let first = world.say("Pay.").await;
    assert_eq!(first.text, "Send 1000?");
    world.decide(&first, Decision::Approve, None).await.unwrap();
    world.node.go_on(&world.me.tenant, &id());
    world.node.drain(SOON).await;
    let run = Run::of(&world.session().await);
    let second = TurnReply { approval_id: run.approval_id, ..first };
    world.decide(&second, Decision::Approve, None).await.unwrap();
    world.go_on(&world.other).await;
    let n = |n: u32| format!(r#"{{"n":{n}}}"#);
    assert_eq!(bodies(&server), [n(1), n(1), n(2), n(2)]);
    let asked = server.asked();
    let keys: Vec<_> = asked.iter().map(|asked| asked.header("idempotency-key").unwrap()).collect();
    assert!(keys[0] == keys[1] && keys[2] == keys[3], "each is the same call again: {keys:?}");
    assert_eq!(
        world.story().await,
        "call(pay) call(pay) asks approve result(pay) asks approve result(pay) Paid. /answered"
    );
}

#[tokio::test]
async fn what_nobody_decided_in_time_is_not_done_and_talk_goes_on() {
    let server = Server::start(vec![]).await;
    let (world, reply) = asking(&server).await;
    let waits = world.post("Hello?", OnBusy::Queue).await;
    world.clock.advance(limits::CONFIRM_WITHIN);
    let late = world.decide(&reply, Decision::Approve, None).await.unwrap_err();
    assert_eq!(late.code(), "already_decided", "even before anybody has noticed");
    assert_eq!(world.engine.sweep().await.unwrap().overdue, 1);
    assert_eq!(world.approval(&reply).await.state, ApprovalState::Expired);
    assert_eq!(world.session().await.head.status, Status::Idle);
    let late = world.decide(&reply, Decision::Approve, None).await.unwrap_err();
    assert_eq!(late.code(), "already_decided");
    assert_eq!(world.node.sweep().await.unwrap().resumed, 1);
    // The script expects another result of the call than this one.
    assert_eq!(world.reply(waits).await.unwrap_err().code(), "unavailable");
    assert!(world.story().await.starts_with("Let me see. call(send) asks timed_out(send) /timed_out"));
    assert!(server.asked().is_empty());
    world.requests();
}

#[tokio::test]
async fn a_message_waits_for_the_decision_or_does_without_it() {
    let server = Server::start(vec![ok(r#""sent""#)]).await;
    let (world, reply) = asking(&server).await;
    let waits = world.post("Thanks.", OnBusy::Queue).await;
    let refused = world.node.post(&world.me, &id(), said("No.", OnBusy::Reject), None).await.unwrap_err();
    assert_eq!(refused.code(), "session_busy");
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    // Either node may then take what waits.
    world.other.go_on(&world.me.tenant, &id());
    assert_eq!(world.reply(waits).await.unwrap().text, "You are welcome.");

    let steps = r#"[{"call":{"name":"send"}},{"expect":"Forget it","say":"As you like."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), CONFIRMED)]).await;
    let reply = world.say("Send it.").await;
    let interrupts = world.post("Forget it.", OnBusy::Interrupt).await;
    assert_eq!(world.reply(interrupts).await.unwrap().text, "As you like.");
    assert_eq!(world.approval(&reply).await.state, ApprovalState::Cancelled);
    assert_eq!(world.story().await, "call(send) asks cancelled(send) /stopped As you like. /answered");
    assert_eq!(server.asked().len(), 1);
    world.requests();
}

#[tokio::test]
async fn a_message_that_steers_a_waiting_turn_is_heard_when_it_goes_on() {
    let server = Server::start(vec![ok(r#""sent""#)]).await;
    let (world, reply) = asking(&server).await;
    world.post("And be quick.", OnBusy::Steer).await;
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    world.node.go_on(&world.me.tenant, &id());
    world.node.drain(SOON).await;
    let kinds: Vec<&str> = world.requests()[1].messages.iter().map(kind).collect();
    assert_eq!(kinds, ["user", "call", "result", "user"]);
    assert!(world.engine.standing(&world.me, &id()).await.unwrap().talk.queue.is_empty());
}

#[tokio::test]
async fn a_waiting_turn_is_stopped_and_ended_without_its_call() {
    let server = Server::start(vec![]).await;
    let (world, reply) = asking(&server).await;
    world.engine.stop(&world.me, &id(), None).await.unwrap();
    assert_eq!(world.session().await.head.status, Status::Idle);
    assert_eq!(world.approval(&reply).await.state, ApprovalState::Cancelled);
    let late = world.decide(&reply, Decision::Approve, None).await.unwrap_err();
    assert_eq!(late.code(), "already_decided");
    assert_eq!(world.story().await, "Let me see. call(send) asks cancelled(send) /stopped");

    let (world, reply) = asking(&server).await;
    let wish =
        EndWish { rating: None, source: RatingSource::ApiEnd, modality: Modality::Text, discard: true };
    assert!(matches!(world.node.end(&world.me, &id(), wish).await.unwrap(), Ending::Ended(_)));
    assert_eq!(world.approval(&reply).await.state, ApprovalState::Cancelled);
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_decision_that_nobody_acted_on_is_acted_on_by_whoever_keeps_the_store() {
    let server = Server::start(vec![ok(r#""sent""#)]).await;
    let (world, reply) = asking(&server).await;
    assert_eq!(world.other.sweep().await.unwrap().resumed, 0, "nothing is decided yet");
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    assert_eq!(world.other.sweep().await.unwrap().resumed, 1);
    world.other.drain(SOON).await;
    assert_eq!((world.session().await.head.status, server.asked().len()), (Status::Idle, 1));
}

#[tokio::test]
async fn a_node_that_dies_while_it_does_what_was_agreed_to_leaves_talk_that_works() {
    let mut server = Server::start(vec![Answer::Hang(Vec::new())]).await;
    let steps = r#"[{"call":{"name":"send"}},{"say":"I cannot tell."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), CONFIRMED)]).await;
    let reply = world.say("Send it.").await;
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    let (node, tenant) = (world.node.clone(), world.me.tenant.clone());
    let runtime = elsewhere(async move { node.go_on(&tenant, &id()) });
    until("the call", async || !server.asked().is_empty()).await;
    gone(runtime).await;
    server.client_is_gone().await;
    world.clock.advance(Duration::from_secs(31));
    assert_eq!(world.engine.sweep().await.unwrap().leases_lost, 1);
    assert_eq!(world.other.sweep().await.unwrap().resumed, 0, "it is not done again");
    assert_eq!(world.say("Did you?").await.text, "I cannot tell.");
    assert_eq!(
        world.story().await,
        "call(send) asks approve /interrupted outcome_unknown(send) I cannot tell. /answered"
    );
    assert_eq!(server.asked().len(), 1);
    world.requests();
}

#[tokio::test]
async fn a_call_that_differs_from_what_was_agreed_to_is_refused() {
    let server = Server::start(vec![ok(r#""sent""#)]).await;
    let steps = r#"[{"call":{"name":"send","args":{"n":1}}},{"expect":"refused","say":"So be it."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), CONFIRMED)]).await;
    let reply = world.say("Send it.").await;
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    // Somebody reaches into the store between the approval and the call.
    let session = world.session().await;
    let mut run = Run::of(&session);
    run.resume.as_mut().unwrap().args = Some(json(r#"{"n":1000}"#));
    let update = Update { run: Some(run.to_json().unwrap()), ..Update::default() };
    let part = ChangePart {
        on: PartTarget::Session(id()),
        guard: Guard::seen(&session),
        writes: [Write::Update(Box::new(update))].into_iter().collect(),
    };
    world.store.commit(Change::new(world.me.tenant.clone()).part(part)).await.unwrap();
    world.go_on(&world.node).await;
    assert!(server.asked().is_empty(), "nothing is done that nobody agreed to");
    assert_eq!(world.story().await, "call(send) asks approve refused(send) So be it. /answered");
}

#[tokio::test]
async fn a_decision_is_about_one_call_even_if_two_have_the_same_id() {
    let server = Server::start(vec![ok(r#""sent""#), ok(r#""sent""#)]).await;
    let steps = r#"[{"call":{"name":"send","args":{"n":1}}},{"say":"Done."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), CONFIRMED)]).await;
    // A model that gives two calls the same id.
    world.model.twins.store(true, Ordering::Relaxed);
    let reply = world.say("Send it.").await;
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    world.node.go_on(&world.me.tenant, &id());
    world.node.drain(SOON).await;
    assert_eq!(server.asked().len(), 1, "one was agreed to");
    assert_eq!(world.session().await.head.status, Status::AwaitingTool, "the other asks for itself");
    world.requests();
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_answer_is_no() {
    let server = Server::start(vec![]).await;
    let steps = r#"[{"call":{"name":"send"}},{"expect":"denied: this conversation","say":"Then not."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), CONFIRMED)]).await;
    world.afresh(SourceKind::Schedule, None).await;
    assert_eq!(world.say("Send it.").await.text, "Then not.");
    assert_eq!(world.story().await, "call(send) denied(send) Then not. /answered");
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_conversation_that_leaves_no_trace_asks_too() {
    let server = Server::start(vec![ok(r#""sent""#)]).await;
    let world = World::new(SEND, &[tool("send", &server.url("/send"), CONFIRMED)]).await;
    world.afresh(SourceKind::Api, Some(MemoryMode::Incognito)).await;
    let reply = world.say("Send it.").await;
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    world.go_on(&world.node).await;
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn tools_of_an_mcp_server_are_called_in_a_turn_and_ask_for_leave() {
    let fix = crate::mcp::server(crate::mcp::stdio(None));
    let means = Means { servers: BTreeMap::from([("fix".to_owned(), fix)]), ..Means::default() };
    let steps = r#"[{"call":[{"name":"fix__add","args":{"a":1,"b":2}},{"name":"fix__fail"},{"name":"fix__meta"}]},
        {"expect":"sederunt/confirmed=True","say":"Three."}]"#;
    let tools = [r#"{"type":"mcp","server":"fix","requires_confirmation":["meta"]}"#.to_owned()];
    let world = World::with(steps, &tools, "", means).await;
    let reply = world.node.post(&world.me, &id(), said("Add.", OnBusy::Queue), None).await.unwrap();
    // Python takes its time on a busy machine.
    let reply = world.node.reply_to(&world.me, reply).await.unwrap();
    assert_eq!(reply.kind, "confirmation");
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    world.go_on(&world.other).await;
    assert_eq!(
        world.story().await,
        "call(fix__add) call(fix__fail) call(fix__meta) result(fix__add) result(fix__fail) asks approve \
         result(fix__meta) Three. /answered"
    );
    let results: Vec<String> = world.requests()[1]
        .messages
        .iter()
        .filter(|message| matches!(message, Message::ToolResult { .. }))
        .map(|message| message.text().to_owned())
        .collect();
    assert!(results[0].contains('3') && results[1].contains("cannot be done"), "{results:?}");
}
