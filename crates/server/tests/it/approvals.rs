//! /api/approvals, and what a decision does

use std::time::Duration;

use sederunt_core::access::Role;
use serde_json::{Value, json};

use crate::server::{Caller, StoreKind, TestServer, on_every_store};
use crate::tasks::{ENTITY, claim, complete, judged, stage, trigger};

on_every_store!(
    an_output_is_edited_approved_and_written_back,
    an_output_that_must_not_be_written_fails_its_run,
    a_tool_call_resumes_with_the_edited_arguments,
    a_denied_output_is_tried_again_and_the_third_fails,
    a_question_is_answered_by_its_assignee,
    several_pending_must_be_named_one_by_one,
    silence_never_approves,
    only_the_assignee_and_owners_see_what_waits,
    an_approval_is_read_with_what_its_decider_needs,
    the_context_of_an_approval_leaves_out_what_its_reader_may_not_see,
);

/// Starts the judged task and brings its output before its assignee.
async fn staged(owner: &Caller<'_>, worker: &Caller<'_>, result: Value) -> (String, Value) {
    let session = trigger(owner, "report").await;
    let claimed = claim(worker).await;
    let parked = complete(worker, &claimed, result).await.expect(200).body;
    assert_eq!(parked["status"], "waiting_human");
    (session.clone(), only_of(owner, &session).await)
}

/// The one pending approval of a session.
async fn only_of(owner: &Caller<'_>, session: &str) -> Value {
    let list =
        owner.get(&format!("/api/approvals?state=pending&session_id={session}")).await.expect(200).body;
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    list["items"][0].clone()
}

fn decide(approval: &Value) -> String {
    format!("/api/approvals/{}/decide", approval["id"].as_str().unwrap())
}

async fn an_output_is_edited_approved_and_written_back(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
    let ada = server.key(Role::Member, "ada").await;
    stage(&owner).await;
    let task = owner.post("/api/tasks", judged()).await.expect(201).id();
    let values = json!({"summary": "It rains.", "tone": "blunt"});
    let (session, _) = staged(&owner, &worker, values.clone()).await;

    let inbox = ada.get("/api/approvals?state=pending&mine=true").await.expect(200).body;
    let approval = inbox["items"][0].clone();
    assert_eq!((&approval["kind"], &approval["staged"]), (&json!("output"), &values));
    assert_eq!((&approval["score"], &approval["flags"]), (&json!(0.4), &json!(["tone:blunt"])));
    assert_eq!((&approval["session_id"], &approval["task_id"]), (&json!(session), &json!(task)));
    assert_eq!((&approval["assigned_to"], &approval["decision"]), (&json!("ada"), &json!(null)));
    let one = format!("/api/approvals/{}", approval["id"].as_str().unwrap());
    assert_eq!(ada.get(&one).await.expect(200).body, approval);

    let path = decide(&approval);
    let edit = |edit: Value| json!({"decision": "approve", "modifiedOutput": edit});
    for (body, field) in [
        (edit(json!({"mood": "fine"})), "modified_output.mood"),
        (edit(json!({"tone": "rude"})), "modified_output.tone"),
        (json!({"decision": "approve", "modified_args": {}}), "modified_args"),
        (json!({"decision": "perhaps"}), "decision"),
        (json!({"decision": "approve", "why": 1}), "why"),
    ] {
        let refused = ada.post(&path, body.clone()).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field, "{body}");
    }
    let blocked = ada.post(&path, edit(json!({"tone": "cruel"}))).await.refused(422, "hard_blocked");
    assert_eq!(blocked.body["error"]["details"], json!({"dimension": "tone", "option": "cruel"}));
    let stale = json!({"decision": "approve", "digest": "0".repeat(64)});
    ada.post(&path, stale).await.refused(409, "stale_base");
    assert_eq!(ada.get(&one).await.expect(200).body, approval, "nothing was decided yet");

    let wish = json!({"decision": "approve", "modified_output": {"tone": "kind"}, "reason": "softer",
        "digest": approval["digest"]});
    let decided = ada.post(&path, wish.clone()).await.expect(200).body;
    assert_eq!((&decided["state"], &decided["decided_by"]), (&json!("approved"), &json!("ada")));
    assert_eq!((&decided["decision"], &decided["reason"]), (&json!("approve"), &json!("softer")));
    assert_eq!(decided["edited"], json!({"summary": "It rains.", "tone": "kind"}));
    assert_eq!(decided["score"], 1.0);
    assert_ne!(decided["digest"], approval["digest"], "what was edited has a digest of its own");
    let ended = owner.get(&format!("/api/sessions/{session}")).await.expect(200).body;
    assert_eq!((&ended["status"], &ended["result"]), (&json!("completed"), &decided["edited"]));
    let entity = ada.get(&format!("/api/entities/{ENTITY}")).await.expect(200).body;
    assert_eq!(entity["fields"], json!({"people": 8490, "summary": "It rains.", "tone": "kind"}));

    assert_eq!(ada.post(&path, json!({"decision": "approve"})).await.expect(200).body, decided);
    let other = owner.post(&path, json!({"decision": "deny"})).await.refused(409, "already_decided");
    assert_eq!(other.body["error"]["details"], json!({"decision": "approve", "decided_by": "ada"}));
    let log =
        owner.get(&format!("/api/sessions/{session}/events?types=user.output_approval")).await.expect(200);
    assert_eq!(log.body["events"].as_array().unwrap().len(), 1);
    assert_eq!(log.body["events"][0]["metadata"]["edited"], true);
}

async fn an_output_that_must_not_be_written_fails_its_run(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    stage(&owner).await;
    owner.post("/api/tasks", judged()).await.expect(201);
    trigger(&owner, "report").await;
    let claimed = claim(&owner).await;
    let ended = complete(&owner, &claimed, json!({"summary": "x", "tone": "cruel"})).await.expect(200).body;
    assert_eq!(ended["status"], "failed");
    assert_eq!(owner.get("/api/approvals").await.expect(200).body["items"], json!([]));
}

/// Starts the task and pauses its run for a tool call.
async fn paused_at_a_tool(owner: &Caller<'_>, task: &str) -> (String, Value) {
    let session = trigger(owner, task).await;
    let claimed = claim(owner).await;
    let call = json!({"id": "c1", "name": "send_mail", "args": {"to": "all", "text": "Hello"}});
    let body = json!({"epoch": claimed["epoch"], "kind": "tool", "tool_call": call});
    let parked = owner.post(&format!("/api/sessions/{session}/yield"), body).await.expect(200).body;
    assert_eq!(parked["status"], "awaiting_tool");
    (session.clone(), only_of(owner, &session).await)
}

async fn a_tool_call_resumes_with_the_edited_arguments(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    owner
        .post("/api/tasks", json!({"slug": "mail", "name": "Mail", "agent_slug": "eliza"}))
        .await
        .expect(201);
    let (session, approval) = paused_at_a_tool(&owner, "mail").await;
    assert_eq!((&approval["kind"], &approval["expires_at"]), (&json!("tool"), &json!(null)));
    let path = "/api/actions/mail/tool-approval";
    let wrong = json!({"decision": "approve", "modified_args": {"cc": "x"}});
    let refused = owner.post(path, wrong).await.refused(422, "invalid");
    assert_eq!(refused.body["error"]["field"], "modified_args.cc");
    let keyed = owner.clone().with("idempotency-key", "k-1");
    let wish = json!({"decision": "approve", "modifiedArgs": {"to": "ada"}});
    let decided = keyed.post(path, wish.clone()).await.expect(200).body;
    assert_eq!(decided["edited"], json!({"to": "ada", "text": "Hello"}));
    let claimed = claim(&owner).await;
    assert_eq!(claimed["session"]["id"], json!(session));
    let resume = &claimed["resume"];
    assert_eq!((&resume["approval_id"], &resume["decision"]), (&approval["id"], &json!("approve")));
    assert_eq!((&resume["args"], &resume["digest"]), (&decided["edited"], &decided["digest"]));
    assert_eq!(resume["tool_call"]["args"]["to"], "all", "the call as it was made");
    owner
        .post("/api/actions/mail/tool-approval", json!({"decision": "deny"}))
        .await
        .refused(404, "not_found");

    let epoch = &claimed["epoch"];
    let again =
        json!({"epoch": epoch, "kind": "tool", "tool_call": {"id": "c2", "name": "send_mail", "args": {}}});
    owner.post(&format!("/api/sessions/{session}/yield"), again).await.expect(200);
    let second = only_of(&owner, &session).await;
    assert_eq!(
        keyed.post(path, wish).await.expect(200).body,
        decided,
        "a repeat is not about what waits now"
    );
    assert_eq!(only_of(&owner, &session).await, second);
    let by_id = format!("/api/actions/{}/tool-approval", second["id"].as_str().unwrap());
    owner.post(&by_id, json!({"decision": "deny", "reason": "not now"})).await.expect(200);
    let resume = &claim(&owner).await["resume"];
    assert_eq!((&resume["decision"], &resume["reason"]), (&json!("deny"), &json!("not now")));
    assert_eq!(resume["args"], json!(null));
}

async fn a_denied_output_is_tried_again_and_the_third_fails(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    stage(&owner).await;
    owner.post("/api/tasks", judged()).await.expect(201);
    let session = trigger(&owner, "report").await;
    for round in 0..3 {
        let claimed = claim(&owner).await;
        assert_eq!(claimed["session"]["id"], json!(session));
        let denials = claimed["brief"]["denials"].as_array().unwrap();
        assert_eq!(denials.len(), round);
        assert!(denials.iter().all(|denial| denial["reason"] == "too short"));
        complete(&owner, &claimed, json!({"summary": "x", "tone": "kind"})).await.expect(200);
        let approval = only_of(&owner, &session).await;
        let no = json!({"decision": "deny", "reason": "too short"});
        assert_eq!(owner.post(&decide(&approval), no).await.expect(200).body["state"], "denied");
    }
    let ended = owner.get(&format!("/api/sessions/{session}")).await.expect(200).body;
    assert_eq!((&ended["status"], &ended["end_reason"]), (&json!("failed"), &json!("denied")));
    assert!(ended["error_message"].as_str().unwrap().contains("too short"));
    let entity = owner.get(&format!("/api/entities/{ENTITY}")).await.expect(200).body;
    assert_eq!(entity["fields"], json!({"people": 8490}), "nothing was written");
}

async fn a_question_is_answered_by_its_assignee(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
    let (ada, bob) = (server.key(Role::Member, "ada").await, server.key(Role::Member, "bob").await);
    let task = json!({"slug": "ask", "name": "Ask", "agent_slug": "eliza", "assigned_to": "ada"});
    owner.post("/api/tasks", task).await.expect(201);
    let session = trigger(&owner, "ask").await;
    let claimed = claim(&worker).await;
    let question = json!({"text": "How many?", "schema": {"type": "integer"}});
    let body = json!({"epoch": claimed["epoch"], "kind": "human", "question": question});
    worker.post(&format!("/api/sessions/{session}/yield"), body).await.expect(200);
    let approval = only_of(&owner, &session).await;
    assert_eq!((&approval["kind"], &approval["staged"]), (&json!("question"), &question));
    let path = format!("/api/sessions/{session}/elicitation-reply");
    bob.post(&path, json!({"reply": 3})).await.refused(404, "not_found");
    ada.post(&decide(&approval), json!({"decision": "approve"})).await.refused(422, "invalid");
    let wrong_action = json!({"action": "approve", "reply": 3});
    // Nothing is turned down that no called server asks.
    let (declined, both) = (json!({"action": "decline"}), json!({"action": "cancel", "reply": 3}));
    for wrong in
        [json!({"reply": "three"}), json!({}), json!({"reply": 3, "x": 1}), wrong_action, declined, both]
    {
        ada.post(&path, wrong).await.refused(422, "invalid");
    }
    ada.post(&format!("/api/sessions/{session}/human-complete"), json!({})).await.refused(422, "invalid");
    assert_eq!(ada.post(&path, json!({"reply": 3})).await.expect(200).body["status"], "pending");
    let resume = &claim(&worker).await["resume"];
    assert_eq!((&resume["decision"], &resume["reply"]), (&json!("answer"), &json!(3)));
    ada.post(&path, json!({"reply": 4})).await.expect(409);
}

async fn several_pending_must_be_named_one_by_one(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    owner
        .post("/api/tasks", json!({"slug": "mail", "name": "Mail", "agent_slug": "eliza"}))
        .await
        .expect(201);
    let (_, first) = paused_at_a_tool(&owner, "mail").await;
    paused_at_a_tool(&owner, "mail").await;
    let yes = json!({"decision": "approve"});
    owner.post("/api/actions/mail/tool-approval", yes.clone()).await.refused(409, "several_pending");
    owner.post(&decide(&first), yes.clone()).await.expect(200);
    owner.post("/api/actions/mail/tool-approval", yes).await.expect(200);
    let pages = owner.get("/api/approvals?limit=1").await.expect(200).body;
    let next = format!("/api/approvals?limit=1&cursor={}", pages["next_cursor"].as_str().unwrap());
    assert_eq!(owner.get(&next).await.expect(200).body["items"][0]["id"], first["id"], "newest first");
}

async fn silence_never_approves(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    stage(&owner).await;
    let mut task = judged();
    task["approval"] = json!({"expires_in_s": 60});
    owner.post("/api/tasks", task).await.expect(201);
    let (session, approval) = staged(&owner, &owner, json!({"summary": "x", "tone": "kind"})).await;
    let mut log = owner.follow(&format!("/api/sessions/{session}/stream")).await;
    server.clock.advance(Duration::from_secs(61));
    log.event(|event| event["metadata"]["to"] == "expired").await;
    let path = format!("/api/approvals/{}", approval["id"].as_str().unwrap());
    assert_eq!(owner.get(&path).await.expect(200).body["state"], "expired");
    assert_eq!(owner.get(&format!("/api/sessions/{session}")).await.expect(200).body["status"], "expired");
    owner.post(&decide(&approval), json!({"decision": "approve"})).await.refused(409, "already_decided");
    let entity = owner.get(&format!("/api/entities/{ENTITY}")).await.expect(200).body;
    assert_eq!(entity["fields"], json!({"people": 8490}));
}

async fn only_the_assignee_and_owners_see_what_waits(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
    let (ada, bob) = (server.key(Role::Member, "ada").await, server.key(Role::Member, "bob").await);
    let guest = server.key(Role::Guest, "eve").await;
    stage(&owner).await;
    owner.post("/api/tasks", judged()).await.expect(201);
    let (_, approval) = staged(&owner, &worker, json!({"summary": "x", "tone": "kind"})).await;
    let one = format!("/api/approvals/{}", approval["id"].as_str().unwrap());
    let yes = json!({"decision": "approve"});
    for stranger in [&bob, &guest, &worker] {
        let hidden = stranger.get(&one).await.refused(404, "not_found").body;
        let missing = stranger.get("/api/approvals/nothing").await.refused(404, "not_found").body;
        let told = |body: &serde_json::Value, name: &str| {
            body["error"]["message"].as_str().unwrap().replace(name, "NAME")
        };
        assert_eq!(told(&hidden, approval["id"].as_str().unwrap()), told(&missing, "nothing"));
        stranger.post(&decide(&approval), yes.clone()).await.refused(404, "not_found");
    }
    assert_eq!(bob.get("/api/approvals").await.expect(200).body["items"], json!([]));
    guest.get("/api/approvals").await.refused(403, "denied");
    worker.get("/api/approvals").await.refused(403, "denied");
    for query in ["state=lost", "limit=0", "cursor=x", "session_id=a%2Fb", "nonsense=1"] {
        owner.get(&format!("/api/approvals?{query}")).await.refused(422, "invalid");
    }
    assert_eq!(ada.get("/api/approvals?mine=true").await.expect(200).body["items"][0]["id"], approval["id"]);
    ada.post(&decide(&approval), yes).await.expect(200);
}

async fn an_approval_is_read_with_what_its_decider_needs(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
    let ada = server.key(Role::Member, "ada").await;
    stage(&owner).await;
    let task = owner.post("/api/tasks", judged()).await.expect(201).id();
    let (session, approval) = staged(&owner, &worker, json!({"summary": "x", "tone": "blunt"})).await;
    owner.patch("/api/tasks/report", json!({"output": null, "name": "Renamed"})).await.expect(200);
    owner.patch("/api/criteria-sets/manners", json!({"name": "Changed", "dimensions": []})).await;
    let one = format!("/api/approvals/{}", approval["id"].as_str().unwrap());
    assert_eq!(ada.get(&one).await.expect(200).body, approval, "without being asked it is as before");
    ada.get(&format!("{one}?expand=everything")).await.refused(422, "invalid");
    let mut shown = ada.get(&format!("{one}?expand=context")).await.expect(200).body;
    let context = shown.as_object_mut().unwrap().remove("context").unwrap();
    assert_eq!(shown, approval);
    assert_eq!(
        context["session"],
        json!({"id": session, "title": "Report on a city", "session_type": "agent",
            "status": "waiting_human", "agent_slug": "scribe"})
    );
    assert_eq!(context["task"], json!({"id": task, "slug": "report", "name": "Renamed"}));
    assert_eq!(
        context["entity"],
        json!({"id": ENTITY, "type_slug": "city", "title": "Oban", "fields": {"people": 8490}, "version": 1})
    );
    assert_eq!(context["contract"]["type"], "entity", "the contract is the one of the start");
    assert_eq!(context["contract"]["schema"]["required"], json!(["summary"]));
    assert_eq!(context["criteria"][0]["options"].as_array().unwrap().len(), 3, "so are the criteria");
    assert_eq!(context["attempt"], json!({"number": 1, "limit": 3}));
    assert_eq!(context["tool"], Value::Null);

    ada.post(&decide(&approval), json!({"decision": "deny"})).await.expect(200);
    let claimed = claim(&worker).await;
    complete(&worker, &claimed, json!({"summary": "y", "tone": "kind"})).await.expect(200);
    let second = only_of(&owner, &session).await;
    let again = format!("/api/approvals/{}?expand=context", second["id"].as_str().unwrap());
    assert_eq!(ada.get(&again).await.expect(200).body["context"]["attempt"]["number"], 2);

    owner
        .post("/api/tasks", json!({"slug": "mail", "name": "Mail", "agent_slug": "eliza"}))
        .await
        .expect(201);
    let mail = trigger(&owner, "mail").await;
    let claimed = claim(&worker).await;
    let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}});
    let call = |description: Value| {
        json!({"epoch": claimed["epoch"], "kind": "tool", "tool_call": {"id": "c1", "name": "send_mail",
            "args": {"to": "all"}, "input_schema": schema, "tool_description": description}})
    };
    let path = format!("/api/sessions/{mail}/yield");
    for wrong in [json!(7), json!("x".repeat(2_001))] {
        worker.post(&path, call(wrong)).await.refused(422, "invalid");
    }
    worker.post(&path, call(json!("Sends a mail."))).await.expect(200);
    let asked = only_of(&owner, &mail).await;
    assert_eq!(asked["staged"], json!({"id": "c1", "name": "send_mail", "args": {"to": "all"}}));
    let path = format!("/api/approvals/{}?expand=context", asked["id"].as_str().unwrap());
    let context = owner.get(&path).await.expect(200).body["context"].clone();
    let tool = json!({"name": "send_mail", "description": "Sends a mail.", "input_schema": schema});
    assert_eq!((&context["tool"], &context["attempt"]), (&tool, &Value::Null));
    assert_eq!((&context["entity"], &context["contract"]), (&Value::Null, &Value::Null));
}

async fn the_context_of_an_approval_leaves_out_what_its_reader_may_not_see(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
    let (ada, guest) = (server.key(Role::Member, "ada").await, server.key(Role::Guest, "eve").await);
    stage(&owner).await;
    owner.post("/api/tasks", judged()).await.expect(201);
    let (session, approval) = staged(&owner, &worker, json!({"summary": "x", "tone": "kind"})).await;
    let one = format!("/api/approvals/{}?expand=context", approval["id"].as_str().unwrap());
    for stranger in [&guest, &worker] {
        stranger.get(&one).await.refused(404, "not_found");
    }
    owner.patch("/api/tasks/report", json!({"assigned_to": "bob"})).await.expect(200);
    owner.patch(&format!("/api/sessions/{session}"), json!({"participants": []})).await.expect(200);
    let context = ada.get(&one).await.expect(200).body["context"].clone();
    assert_eq!((&context["session"], &context["task"]), (&Value::Null, &Value::Null));
    assert_eq!(context["contract"]["type"], "entity", "what the decision is judged by stays");
    let context = owner.get(&one).await.expect(200).body["context"].clone();
    assert_eq!((&context["session"]["id"], &context["task"]["slug"]), (&json!(session), &json!("report")));
}
