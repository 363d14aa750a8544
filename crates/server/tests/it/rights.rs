//! Every route, called as every role: the call is carried out or refused as the rights table says, and a refused call
//! changes nothing.

use http::Method;
use sederunt_core::access::{Right, Role, Verb, right};
use sederunt_core::engine::NewKey;
use sederunt_server::rights::{Need, ROUTES, RouteRight};
use serde_json::{Value, json};

use crate::server::{Answer, Caller, StoreKind, TestServer, on_every_store};

on_every_store!(every_route_does_for_every_role_what_the_rights_table_says);

/// Who calls, and how they stand to the session `room`, which alice holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Owner,
    MemberTakingPart,
    MemberStranger,
    GuestInvited,
    GuestStranger,
    Worker,
    Channel,
    ShareRead,
    ShareSubmit,
    Nobody,
}

impl Who {
    const ALL: [Self; 10] = [
        Self::Owner,
        Self::MemberTakingPart,
        Self::MemberStranger,
        Self::GuestInvited,
        Self::GuestStranger,
        Self::Worker,
        Self::Channel,
        Self::ShareRead,
        Self::ShareSubmit,
        Self::Nobody,
    ];

    fn role(self) -> Option<Role> {
        match self {
            Self::Owner => Some(Role::Owner),
            Self::MemberTakingPart | Self::MemberStranger => Some(Role::Member),
            Self::GuestInvited | Self::GuestStranger => Some(Role::Guest),
            Self::Worker => Some(Role::Worker),
            Self::Channel => Some(Role::Channel),
            Self::ShareRead | Self::ShareSubmit => Some(Role::Share),
            Self::Nobody => None,
        }
    }

    fn takes_part(self) -> bool {
        matches!(self, Self::MemberTakingPart | Self::GuestInvited)
    }

    /// Whether a cell of the rights table reaches the session `room`.
    fn reaches_room(self, right: Right) -> bool {
        match right {
            Right::All => true,
            Right::Participant | Right::OwnOrAssigned | Right::Assignee => self.takes_part(),
            Right::Shared => true,
            Right::SharedForSubmit => self == Self::ShareSubmit,
            // Alice holds it and opened its sitting, nobody has claimed it, and no channel has its name.
            Right::No | Right::Holder | Right::HolderOrOpener | Right::Claimed | Right::Prefix => false,
        }
    }

    fn may(self, row: &RouteRight) -> bool {
        if row.need == Need::Nothing {
            return true;
        }
        let Some(role) = self.role() else { return false };
        if role == Role::Share && !row.opens_to_shares {
            return false;
        }
        match row.need {
            Need::Nothing => true,
            Need::Operator => false,
            Need::Any(verb) => {
                !matches!(right(role, verb), Right::No | Right::Shared | Right::SharedForSubmit)
            }
            Need::On(verb) => {
                self.reaches_room(right(role, Verb::Read)) && self.reaches_room(right(role, verb))
            }
            // Everything else in the scene is the owner's.
            Need::Roles(roles) | Need::OwnOr(roles) => roles.contains(&role),
        }
    }
}

/// Everything that the requests name.
struct Scene<'a> {
    owner: Caller<'a>,
    callers: Vec<(Who, Caller<'a>)>,
    ids: Vec<(&'static str, String)>,
}

impl<'a> Scene<'a> {
    async fn set(server: &'a TestServer) -> Self {
        let owner = server.key(Role::Owner, "olga").await;
        for user in ["alice", "mia", "bob", "carl"] {
            owner.post("/api/users", json!({"id": user})).await.expect(201);
        }
        let alice = server.key(Role::Member, "alice").await;
        let room = json!({"id": "room", "session_type": "mixed", "participants": ["mia", "gus"]});
        alice.post("/api/sessions", room).await.expect(201);
        alice.post("/api/chat", json!({"message": "Hello.", "thread_id": "room"})).await.expect(200);
        alice.put("/api/sessions/room/documents/scratch/note", json!({})).await.expect(201);
        let share = async |access: &str| {
            let wish = json!({"access": access, "expires_in": 600});
            owner.post("/api/sessions/room/share", wish).await.expect(201).body
        };
        let (read, submit, spare) = (share("read").await, share("submit").await, share("read").await);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let channel =
            NewKey { role: Some(Role::Channel), prefix: Some("telegram:".into()), ..NewKey::default() };
        let callers = vec![
            (Who::Owner, owner.clone()),
            (Who::MemberTakingPart, server.key(Role::Member, "mia").await),
            (Who::MemberStranger, server.key(Role::Member, "max").await),
            (Who::GuestInvited, server.key(Role::Guest, "gus").await),
            (Who::GuestStranger, server.key(Role::Guest, "gil").await),
            (Who::Worker, server.key(Role::Worker, "").await),
            (Who::Channel, server.bearer(&server.new_key(channel).await.0)),
            (Who::ShareRead, server.anyone().with("x-share-token", &text(&read["token"]))),
            (Who::ShareSubmit, server.anyone().with("x-share-token", &text(&submit["token"]))),
            (Who::Nobody, server.anyone()),
        ];
        owner
            .post("/api/agents", json!({"slug": "helper", "name": "Helper", "model": "eliza"}))
            .await
            .expect(201);
        let entity = json!({"id": "price", "type_slug": "price", "fields": {"eur": 100}});
        owner.post("/api/entities", entity).await.expect(201);
        let criteria = json!({"id": "rules", "name": "Rules", "dimensions": [{"slug": "d", "options": [{"value": "a", "score": 1}]}]});
        owner.post("/api/criteria-sets", criteria).await.expect(201);
        let tool = json!({"slug": "dial", "name": "Dial", "input_schema": {"type": "object", "properties": {"a": {}}},
            "run": {"type": "http", "url": "https://example.org/"}});
        owner.post("/api/tools", tool).await.expect(201);
        let tool_session = owner.post("/api/tools/dial/sessions", json!({})).await.expect(201).id();
        let task = json!({"slug": "sweep", "name": "Sweep", "assigned_to": "alice"});
        owner.post("/api/tasks", task).await.expect(201);
        owner.post("/api/tasks/sweep/trigger", json!({})).await.expect(201);
        let inbox = owner.get("/api/approvals").await.expect(200).body;
        // A form that a run of another worker has published.
        let publisher = server.key(Role::Worker, "").await;
        let asking = owner.session(json!({"session_type": "agent", "status": "pending"})).await;
        let claim = json!({"worker": "w", "lease_ms": 600_000});
        let claim = publisher.post("/api/claims", claim).await.expect(200).body;
        let form = json!({"title": "Which?", "questions": [{"key": "a", "label": "A"}],
            "publish_config": {"gate": "none"}, "session_id": asking, "epoch": claim["claims"][0]["epoch"]});
        let view = publisher.post("/api/views", form).await.expect(201).id();
        let survey = json!({"title": "How?", "questions": [{"key": "a", "label": "A"}], "response": {}});
        let survey = owner.post("/api/views", survey).await.expect(201).id();
        let response =
            owner.post(&format!("/api/views/{survey}/responses"), json!({})).await.expect(201).id();
        let thumb = json!({"signal": "down", "context": "the total was wrong",
            "what_to_change": "Run the tests before you commit"});
        let given = owner.post("/api/feedback", thumb.clone()).await.expect(200).body;
        let first = text(&given["feedback_session"]["session_id"]);
        owner.post(&format!("/api/feedback/sessions/{first}/finalize"), json!({})).await.expect(200);
        let open = owner.post("/api/feedback", thumb).await.expect(200).body;
        let lessons = owner.get("/api/lessons").await.expect(200).body;
        let (_, spare_key) = server.new_key(NewKey { role: Some(Role::Worker), ..NewKey::default() }).await;
        let ids = vec![
            ("/api/sessions/", "room".into()),
            ("/api/threads/", "room".into()),
            ("/threads/", "room".into()),
            ("/api/shares/", text(&spare["id"])),
            ("/api/tasks/", "sweep".into()),
            ("/api/actions/", "sweep".into()),
            ("/api/agents/", "helper".into()),
            ("/api/entities/", "price".into()),
            ("/api/criteria-sets/", "rules".into()),
            ("/api/tools/", "dial".into()),
            ("/api/tool-sessions/", tool_session),
            ("/api/approvals/", text(&inbox["items"][0]["id"])),
            ("/api/views/", view.clone()),
            ("/views/", view),
            ("/api/responses/", response),
            ("/api/feedback/sessions/", text(&open["feedback_session"]["session_id"])),
            ("feedback event", text(&open["feedback_event_id"])),
            ("/api/lessons/", text(&lessons["items"][0]["id"])),
            ("/api/keys/", spare_key),
            ("/auth/sessions/", "nothing".into()),
            ("/api/users/", "carl".into()),
            ("/api/tenants/", "default".into()),
            ("/api/memory/", "nothing".into()),
            ("/api/today/", "running".into()),
        ];
        Self { owner, callers, ids }
    }

    fn id(&self, of: &str) -> &str {
        &self.ids.iter().find(|(prefix, _)| *prefix == of).unwrap().1
    }

    fn path(&self, row: &RouteRight) -> String {
        let named = self.ids.iter().filter(|(prefix, _)| row.path.starts_with(prefix));
        let id = named.max_by_key(|(prefix, _)| prefix.len()).map_or("nothing", |(_, id)| id);
        let path = row.path.replace("{id}", id).replace("{bucket}", "running").replace("{key_id}", "nothing");
        let path = path.replace("{kind}", "scratch").replace("{doc}", "note");
        match row.path {
            "/api/search" | "/api/lessons/recall" | "/api/lessons/retrieve" => format!("{path}?q=hello"),
            "/api/feedback/failures" => format!("{path}?session_id=room"),
            "/api/sessions/{id}/export" => format!("{path}?format=json"),
            _ => path,
        }
    }

    /// A body that is read without complaint, so that the answer is about the right to ask.
    fn body(&self, row: &RouteRight) -> Option<Value> {
        if !matches!(row.method, "POST" | "PATCH") {
            return None;
        }
        let event = json!({"type": "user.message", "content": "hi"});
        Some(match (row.method, row.path) {
            ("POST", "/api/sessions") => json!({"session_type": "mixed"}),
            ("PATCH", "/api/sessions/{id}") => json!({"title": "changed"}),
            (_, "/api/sessions/{id}/transition") => json!({"to": "running"}),
            (_, "/api/sessions/{id}/fork") => json!({"at_sequence": 1}),
            (_, "/api/views/{id}/share") => json!({"user_id": "carl"}),
            (_, "/api/sessions/{id}/share") => json!({"access": "read", "expires_in": 60}),
            (_, "/api/sessions/{id}/events") => json!({"events": [event]}),
            (_, "/api/sessions/{id}/documents/{kind}/{doc}/patch") => {
                json!({"base_sequence": 0, "ops": [{"op": "add", "path": "/a", "value": 1}]})
            }
            (_, "/api/sessions/{id}/documents/{kind}/{doc}/apply") => json!({"base_sequence": 0}),
            (_, "/api/claims") => json!({"worker": "w"}),
            (_, "/api/sessions/{id}/heartbeat" | "/api/sessions/{id}/complete") => json!({"epoch": 1}),
            (_, "/api/sessions/{id}/fail") => json!({"epoch": 1, "error": "x"}),
            (_, "/api/sessions/{id}/yield") => json!({"epoch": 1, "kind": "idle"}),
            (_, "/api/sessions/{id}/delta") => json!({"epoch": 1, "text": "x"}),
            ("POST", "/api/tasks") => json!({"slug": "another", "name": "Another"}),
            ("POST", "/api/actions") => json!({"slug": "third", "name": "Third"}),
            ("PATCH", "/api/tasks/{id}" | "/api/actions/{id}") => json!({"name": "Changed"}),
            (_, "/api/actions/{id}/tool-approval" | "/api/approvals/{id}/decide") => {
                json!({"decision": "deny"})
            }
            ("POST", "/api/agents") => json!({"slug": "other", "name": "Other", "model": "eliza"}),
            ("POST", "/api/entities") => json!({"id": "other", "type_slug": "price", "fields": {}}),
            ("PATCH", "/api/entities/{id}") => json!({"fields": {"eur": 1}}),
            ("POST", "/api/criteria-sets") => {
                json!({"id": "other", "name": "Other", "dimensions": [{"slug": "d", "options": [{"value": "a", "score": 1}]}]})
            }
            ("POST", "/api/tools") => {
                json!({"slug": "other", "name": "Other", "input_schema": {"type": "object"},
                "run": {"type": "http", "url": "https://example.org/"}})
            }
            ("PATCH", "/api/tool-sessions/{id}") => json!({"values": {"a": "x"}}),
            ("PATCH", "/api/agents/{id}" | "/api/criteria-sets/{id}" | "/api/tools/{id}") => {
                json!({"name": "Changed"})
            }
            ("POST", "/api/views") => json!({"title": "T", "questions": [{"key": "a", "label": "A"}]}),
            ("PATCH", "/api/views/{id}") => json!({"title": "Changed"}),
            (_, "/api/views/{id}/lead") => json!({"name": "Ann", "email": "ann@example.org"}),
            (_, "/api/views/{id}/submit-interaction") => json!({"values": {"a": "x"}}),
            ("PATCH", "/api/responses/{id}") => json!({"values": {"a": "x"}}),
            (_, "/api/sessions/{id}/human-complete") => json!({"result": {}}),
            (_, "/api/sessions/{id}/elicitation-reply") => json!({"reply": "x"}),
            (_, "/api/sessions/{id}/messages") => json!({"text": "hi", "append_only": true}),
            (_, "/api/sessions/{id}/checkpoint") => json!({"reason": "manual"}),
            (_, "/api/turn") => json!({"messages": [{"role": "user", "content": "Hello."}]}),
            (_, "/api/chat") => json!({"message": "Hello.", "thread_id": "room"}),
            (_, "/api/threads/{id}/feedback") => json!({"feedback": "positive"}),
            (_, "/api/voice/session" | "/api/voice/end") => json!({"thread_id": "room"}),
            (_, "/api/voice/turn") => {
                json!({"thread_id": "room", "user_text": "a", "assistant_text": "b", "external_id": "c"})
            }
            (_, "/api/voice/tools") => {
                json!({"thread_id": "room", "name": "recall", "arguments": {"query": "x"}})
            }
            ("PATCH", "/api/memory/recall") => json!({"enabled": true}),
            (_, "/api/crises/hold") => json!({"until": "2030-01-31"}),
            (_, "/api/feedback") => json!({"signal": "up", "context": "it did all that was asked, and well"}),
            ("POST", "/api/feedback/sessions") => {
                json!({"feedback_event_id": self.id("feedback event"), "signal": "down"})
            }
            (_, "/api/feedback/sessions/{id}/append") => json!({"message": "more"}),
            ("PATCH", "/api/lessons/{id}") => json!({"state": "retired"}),
            ("POST", "/api/keys" | "/api/tenants/{id}/keys") => json!({"role": "worker"}),
            ("POST", "/api/users") => json!({"id": "dora"}),
            ("PATCH", "/api/users/{id}") => json!({"name": "Changed"}),
            (_, "/api/users/{id}/identities") => json!({"platform": "slack", "external_id": "T1:U9"}),
            (_, "/api/users/{id}/merge") => json!({"into": "bob"}),
            (_, "/api/link-codes/look" | "/api/link-codes/use") => json!({"code": "AAAAAAAA"}),
            ("POST", "/api/tenants") => json!({"id": "globex"}),
            ("PATCH", "/api/tenants/{id}") => json!({"suspended": true}),
            _ => json!({}),
        })
    }

    async fn call(&self, who: Who, row: &RouteRight) -> Answer {
        let caller = &self.callers.iter().find(|(known, _)| *known == who).unwrap().1;
        let method = Method::from_bytes(row.method.as_bytes()).unwrap();
        let body = self.body(row).map(|body| body.to_string());
        if row.path.ends_with("/stream") {
            caller.status_of(method, &self.path(row)).await
        } else {
            caller.send(method, &self.path(row), body).await
        }
    }

    /// Everything that the owner can see, without what looking at it changes.
    async fn digest(&self) -> Vec<String> {
        let mut seen = Vec::new();
        for path in [
            "/api/sessions", "/api/sessions/room", "/api/sessions/room/events?limit=1000", "/api/tasks",
            "/api/agents", "/api/tools", "/api/tools/dial/sessions", "/api/entities", "/api/criteria-sets",
            "/api/views", "/api/approvals", "/api/users", "/api/keys", "/api/shares", "/api/lessons",
            "/api/feedback/sessions", "/api/feedback/stats", "/api/bundle",
            "/api/threads/room/session-status",
        ] {
            seen.push(format!("{path} {}", self.owner.get(path).await.text));
        }
        seen
    }
}

/// What is missing and what is not the caller's has nothing to show, to end or to add to; both are told alike.
fn tells_of_nothing(row: &RouteRight, answer: &Answer) -> bool {
    match row.path {
        "/api/threads/{id}/history" => answer.body["items"] == json!([]),
        "/api/threads/{id}/session-status" => answer.body["has_active_session"] == false,
        "/api/threads/{id}/end" | "/threads/{id}/end" | "/api/voice/end" => answer.body["finalized"] == false,
        "/api/feedback/sessions/{id}/append" | "/api/feedback/sessions/{id}/finalize" => {
            answer.body["status"] == "not_found"
        }
        _ => false,
    }
}

async fn every_route_does_for_every_role_what_the_rights_table_says(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::set(&server).await;
    // A socket is answered 426 before anybody is asked for rights: the request comes later, and is that of `/api/chat`.
    let rows: Vec<&RouteRight> = ROUTES.iter().filter(|row| row.path != "/api/chat/stream").collect();
    let mut wrong = Vec::new();
    let before = scene.digest().await;
    for row in &rows {
        for who in Who::ALL.into_iter().filter(|who| !who.may(row)) {
            let answer = scene.call(who, row).await;
            let refused = [401, 403, 404].contains(&answer.status.as_u16()) || tells_of_nothing(row, &answer);
            if !refused {
                wrong.push(format!(
                    "{} {} as {who:?}: {} {}",
                    row.method, row.path, answer.status, answer.text
                ));
            }
        }
        let after = scene.digest().await;
        for (was, is) in before.iter().zip(&after).filter(|(was, is)| was != is) {
            wrong.push(format!(
                "{} {} was refused and changed something:\n  {was}\n  {is}",
                row.method, row.path
            ));
        }
        assert!(wrong.len() < 20, "{}", wrong.join("\n"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // What removes things comes last.
    let mut rows = rows;
    rows.sort_by_key(|row| {
        (row.method == "DELETE", row.path.ends_with("/merge"), row.path == "/api/sessions/{id}")
    });
    for row in rows {
        for who in Who::ALL.into_iter().filter(|who| who.may(row)) {
            let answer = scene.call(who, row).await;
            if [401, 403, 404].contains(&answer.status.as_u16()) || answer.status.is_server_error() {
                wrong.push(format!(
                    "{} {} as {who:?}: {} {}",
                    row.method, row.path, answer.status, answer.text
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
