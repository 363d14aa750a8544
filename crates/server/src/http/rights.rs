//! The rights table of the surfaces: which right every route and every MCP tool needs.
//!
//! The engine checks rights where it carries a command out; what each role may do is listed in
//! [`sederunt_core::access`]. This table says which of those rights a method and a path need, so that the middleware knows
//! which routes need no credential and which a share link reaches, and so that a test can call every route as every
//! role. A route or a tool without a row here fails the tests.

use http::Method;
use sederunt_core::access::{Role, Verb};

/// What a caller needs for a request to be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: the answer reveals nothing about any tenant.
    Nothing,
    /// To be the operator of the installation.
    Operator,
    /// A right that concerns no session in particular: to open, to list, to search, to administer.
    Any(Verb),
    /// A right on the session that the request names.
    On(Verb),
    /// One of these roles.
    Roles(&'static [Role]),
    /// One of these roles, or to be the member who made the thing or is assigned to it.
    OwnOr(&'static [Role]),
}

/// One row: a method, the template of a path, and what it needs.
#[derive(Clone, Copy, Debug)]
pub struct RouteRight {
    pub method: &'static str,
    pub path: &'static str,
    pub need: Need,
    /// Whether a share link reaches it. The engine decides what the link may see there.
    pub opens_to_shares: bool,
}

const fn get(path: &'static str, need: Need) -> RouteRight {
    RouteRight { method: "GET", path, need, opens_to_shares: false }
}

const fn post(path: &'static str, need: Need) -> RouteRight {
    RouteRight { method: "POST", path, need, opens_to_shares: false }
}

const fn patch(path: &'static str, need: Need) -> RouteRight {
    RouteRight { method: "PATCH", path, need, opens_to_shares: false }
}

const fn put(path: &'static str, need: Need) -> RouteRight {
    RouteRight { method: "PUT", path, need, opens_to_shares: false }
}

const fn delete(path: &'static str, need: Need) -> RouteRight {
    RouteRight { method: "DELETE", path, need, opens_to_shares: false }
}

impl RouteRight {
    const fn shared(self) -> Self {
        Self { opens_to_shares: true, ..self }
    }
}

const PEOPLE: &[Role] = &[Role::Owner, Role::Member, Role::Guest];
/// Roles of credentials other than share links.
const EVERY_CREDENTIAL: &[Role] = &[Role::Owner, Role::Member, Role::Guest, Role::Worker, Role::Channel];
const MEMBERS: &[Role] = &[Role::Owner, Role::Member];
const OWNERS: &[Role] = &[Role::Owner];
/// Roles that read agents, tools, entities and criteria sets.
const LIBRARY: &[Role] = &[Role::Owner, Role::Member, Role::Worker];
/// Roles that read tasks and views of others.
const WORK: &[Role] = &[Role::Owner, Role::Worker];

/// Every route.
pub const ROUTES: &[RouteRight] = {
    use Need::{Any, Nothing, On, Operator, OwnOr, Roles};
    &[
        get("/", Nothing),
        get("/healthz", Nothing),
        get("/readyz", Nothing),
        get("/openapi.json", Nothing),
        get("/assets/view-form.js", Nothing),
        get("/assets/view-form.css", Nothing),
        get("/metrics", Operator),
        // Signing in. Signing out needs the cookie alone.
        get("/auth/config", Nothing),
        post("/auth/session", Nothing),
        delete("/auth/session", Nothing),
        get("/auth/sessions", Roles(PEOPLE)),
        delete("/auth/sessions/{id}", Roles(PEOPLE)),
        get("/api/me", Roles(EVERY_CREDENTIAL)),
        // Sessions and their logs.
        post("/api/sessions", Any(Verb::Open)),
        get("/api/sessions", Any(Verb::Read)),
        get("/api/sessions/{id}", On(Verb::Read)).shared(),
        patch("/api/sessions/{id}", On(Verb::Edit)),
        delete("/api/sessions/{id}", On(Verb::Delete)),
        get("/api/sessions/{id}/state", On(Verb::Read)).shared(),
        post("/api/sessions/{id}/transition", On(Verb::Edit)),
        post("/api/sessions/{id}/retry", On(Verb::Steer)),
        post("/api/sessions/{id}/stop", On(Verb::Steer)),
        post("/api/sessions/{id}/fork", On(Verb::Share)),
        get("/api/sessions/{id}/children", On(Verb::Read)),
        get("/api/sessions/{id}/export", On(Verb::Read)),
        post("/api/sessions/{id}/share", On(Verb::Share)),
        get("/api/shares", Any(Verb::Share)),
        delete("/api/shares/{id}", On(Verb::Share)),
        put("/api/sessions/{id}/presence", On(Verb::Attend)),
        get("/api/sessions/{id}/presence", On(Verb::Read)).shared(),
        delete("/api/sessions/{id}/presence", On(Verb::Attend)),
        post("/api/sessions/{id}/participants/me", On(Verb::Leave)),
        delete("/api/sessions/{id}/participants/me", On(Verb::Leave)),
        post("/api/sessions/{id}/events", On(Verb::Talk)),
        get("/api/sessions/{id}/events", On(Verb::Read)).shared(),
        get("/api/sessions/{id}/stream", On(Verb::Read)).shared(),
        get("/api/sessions/{id}/documents", On(Verb::Read)),
        get("/api/sessions/{id}/documents/{kind}/{doc}", On(Verb::Read)),
        put("/api/sessions/{id}/documents/{kind}/{doc}", On(Verb::Edit)),
        post("/api/sessions/{id}/documents/{kind}/{doc}/patch", On(Verb::Talk)),
        post("/api/sessions/{id}/documents/{kind}/{doc}/apply", On(Verb::Edit)),
        get("/api/stream", Any(Verb::Read)),
        get("/api/search", Any(Verb::Read)),
        // What a person works on.
        post("/api/sessions/human/start", Any(Verb::WorkOn)),
        get("/api/sessions/human/active", Any(Verb::WorkOn)),
        post("/api/sessions/human/stop", Any(Verb::WorkOn)),
        delete("/api/sessions/human", Any(Verb::WorkOn)),
        get("/api/activity-block", Any(Verb::WorkOn)),
        // Work.
        post("/api/claims", Any(Verb::Work)),
        post("/api/sessions/{id}/heartbeat", Any(Verb::Work)),
        post("/api/sessions/{id}/complete", Any(Verb::Work)),
        post("/api/sessions/{id}/fail", Any(Verb::Work)),
        post("/api/sessions/{id}/yield", Any(Verb::Work)),
        post("/api/sessions/{id}/delta", Any(Verb::Work)),
        post("/api/tasks", Any(Verb::Configure)),
        get("/api/tasks", Roles(LIBRARY)),
        get("/api/tasks/{id}", OwnOr(WORK)),
        patch("/api/tasks/{id}", OwnOr(OWNERS)),
        post("/api/tasks/{id}/trigger", OwnOr(OWNERS)),
        get("/api/tasks/{id}/status", OwnOr(WORK)),
        post("/api/actions", Any(Verb::Configure)),
        get("/api/actions", Roles(LIBRARY)),
        get("/api/actions/{id}", OwnOr(WORK)),
        patch("/api/actions/{id}", OwnOr(OWNERS)),
        post("/api/actions/{id}/trigger", OwnOr(OWNERS)),
        get("/api/actions/{id}/status", OwnOr(WORK)),
        post("/api/actions/{id}/tool-approval", OwnOr(OWNERS)),
        post("/api/agents", Roles(OWNERS)),
        get("/api/agents", Roles(LIBRARY)),
        get("/api/agents/{id}", Roles(LIBRARY)),
        patch("/api/agents/{id}", Roles(OWNERS)),
        post("/api/entities", Roles(OWNERS)),
        get("/api/entities", Roles(LIBRARY)),
        get("/api/entities/{id}", Roles(LIBRARY)),
        patch("/api/entities/{id}", Roles(OWNERS)),
        get("/api/entities/{id}/sessions", Roles(LIBRARY)),
        get("/api/entities/{id}/status-map", Roles(LIBRARY)),
        post("/api/tools", Roles(OWNERS)),
        get("/api/tools", Roles(LIBRARY)),
        get("/api/tools/{id}", Roles(LIBRARY)),
        patch("/api/tools/{id}", Roles(OWNERS)),
        post("/api/tools/{id}/sessions", Roles(MEMBERS)),
        get("/api/tools/{id}/sessions", Roles(MEMBERS)),
        get("/api/tool-sessions/{id}", OwnOr(OWNERS)),
        patch("/api/tool-sessions/{id}", OwnOr(OWNERS)),
        post("/api/tool-sessions/{id}/invoke", OwnOr(OWNERS)),
        post("/api/tool-sessions/{id}/cancel", OwnOr(OWNERS)),
        post("/api/criteria-sets", Roles(OWNERS)),
        get("/api/criteria-sets", Roles(LIBRARY)),
        get("/api/criteria-sets/{id}", Roles(LIBRARY)),
        patch("/api/criteria-sets/{id}", Roles(OWNERS)),
        get("/api/audit", Any(Verb::Administer)),
        get("/api/bundle", Any(Verb::Administer)),
        post("/api/bundle", Any(Verb::Administer)),
        get("/api/approvals", Roles(MEMBERS)),
        get("/api/approvals/{id}", OwnOr(OWNERS)),
        post("/api/approvals/{id}/decide", OwnOr(OWNERS)),
        post("/api/sessions/{id}/human-complete", On(Verb::Answer)),
        post("/api/sessions/{id}/elicitation-reply", On(Verb::Answer)),
        get("/api/today/work-queue-counts", Roles(MEMBERS)),
        get("/api/today/{bucket}", Roles(MEMBERS)),
        // Forms.
        post("/api/views", Roles(OWNERS)),
        get("/api/views", Roles(LIBRARY)),
        get("/api/views/{id}", OwnOr(LIBRARY)).shared(),
        patch("/api/views/{id}", OwnOr(OWNERS)),
        get("/api/views/{id}/answers", OwnOr(OWNERS)),
        post("/api/views/{id}/share", OwnOr(OWNERS)),
        post("/api/views/{id}/lead", Roles(MEMBERS)).shared(),
        post("/api/views/{id}/submit-interaction", Roles(MEMBERS)).shared(),
        get("/views/{id}", OwnOr(LIBRARY)).shared(),
        post("/views/{id}", Roles(MEMBERS)).shared(),
        post("/api/views/{id}/responses", Roles(MEMBERS)).shared(),
        get("/api/views/{id}/responses", OwnOr(OWNERS)),
        get("/api/responses/{id}", OwnOr(OWNERS)).shared(),
        patch("/api/responses/{id}", OwnOr(OWNERS)).shared(),
        post("/api/responses/{id}/submit", OwnOr(OWNERS)).shared(),
        post("/api/responses/{id}/abandon", OwnOr(OWNERS)).shared(),
        post("/api/responses/{id}/promote", OwnOr(OWNERS)),
        // Talk.
        post("/api/sessions/{id}/messages", On(Verb::Talk)),
        post("/api/sessions/{id}/checkpoint", On(Verb::Sit)),
        get("/api/sessions/{id}/replay", On(Verb::Read)),
        post("/api/turn", Any(Verb::Turn)),
        post("/api/chat", On(Verb::Talk)),
        get("/api/chat/stream", On(Verb::Talk)),
        get("/api/threads", Any(Verb::Read)),
        get("/api/threads/{id}/history", On(Verb::Read)),
        get("/api/threads/{id}/state", On(Verb::Read)),
        get("/api/threads/{id}/session-status", On(Verb::Read)),
        get("/api/threads/{id}/ratings", On(Verb::Read)),
        post("/api/threads/{id}/end", On(Verb::Sit)),
        post("/threads/{id}/end", On(Verb::Sit)),
        post("/api/threads/{id}/feedback", On(Verb::Sit)),
        post("/api/voice/session", On(Verb::Talk)),
        post("/api/voice/turn", On(Verb::Talk)),
        // Its tools read the memory of the conversation.
        post("/api/voice/tools", On(Verb::Sit)),
        post("/api/voice/end", On(Verb::Sit)),
        // Memory is a person's own.
        get("/api/memory/status", Roles(PEOPLE)),
        get("/api/memory/facts", Roles(PEOPLE)),
        delete("/api/memory/facts/{id}", OwnOr(&[])),
        get("/api/memory/arcs", Roles(PEOPLE)),
        delete("/api/memory/arcs/{id}", OwnOr(&[])),
        get("/api/memory/rules", Roles(PEOPLE)),
        delete("/api/memory/rules/{id}", OwnOr(&[])),
        patch("/api/memory/recall", Roles(PEOPLE)),
        post("/api/crises/hold", Any(Verb::Administer)),
        // Feedback and what it teaches.
        post("/api/feedback", Any(Verb::Feedback)),
        get("/api/feedback/stats", Any(Verb::Feedback)),
        get("/api/feedback/summary", Any(Verb::Feedback)),
        // On the session that the request names; without one, for owners.
        get("/api/feedback/failures", On(Verb::Read)),
        post("/api/feedback/sessions", OwnOr(OWNERS)),
        get("/api/feedback/sessions", Any(Verb::Feedback)),
        get("/api/feedback/sessions/{id}", OwnOr(OWNERS)),
        post("/api/feedback/sessions/{id}/append", OwnOr(OWNERS)),
        post("/api/feedback/sessions/{id}/finalize", OwnOr(OWNERS)),
        get("/api/lessons", Any(Verb::Learn)),
        get("/api/lessons/retrieve", Any(Verb::Learn)),
        get("/api/lessons/recall", Any(Verb::Learn)),
        get("/api/lessons/rules", Any(Verb::Learn)),
        get("/api/lessons/{id}", OwnOr(WORK)),
        patch("/api/lessons/{id}", OwnOr(OWNERS)),
        // People.
        post("/api/keys", Any(Verb::Administer)),
        get("/api/keys", Any(Verb::Administer)),
        delete("/api/keys/{id}", Any(Verb::Administer)),
        post("/api/users", Any(Verb::Administer)),
        get("/api/users", Any(Verb::Administer)),
        get("/api/users/{id}", Any(Verb::Administer)),
        patch("/api/users/{id}", Any(Verb::Administer)),
        post("/api/users/{id}/identities", Any(Verb::Administer)),
        post("/api/users/{id}/merge", Any(Verb::Administer)),
        post("/api/link-codes/look", Any(Verb::Administer)),
        post("/api/link-codes/use", Any(Verb::Administer)),
        get("/api/tenants", Operator),
        post("/api/tenants", Operator),
        patch("/api/tenants/{id}", Operator),
        delete("/api/tenants/{id}", Operator),
        post("/api/tenants/{id}/keys", Operator),
        get("/api/tenants/{id}/keys", Operator),
        delete("/api/tenants/{id}/keys/{key_id}", Operator),
        post("/api/purge", Operator),
        post("/api/audit/backup", Operator),
        // Tools have rows of their own.
        post("/mcp", Roles(&[Role::Owner, Role::Member, Role::Guest, Role::Worker, Role::Channel])),
    ]
};

/// Every tool of MCP, by the name that is listed.
pub const TOOLS: &[(&str, Need)] = &[
    ("getTaskStatus", Need::OwnOr(WORK)),
    ("retrySession", Need::On(Verb::Steer)),
    ("capture_feedback", Need::Any(Verb::Feedback)),
    ("open_feedback_session", Need::OwnOr(OWNERS)),
    ("append_feedback_context", Need::OwnOr(OWNERS)),
    ("finalize_feedback_session", Need::OwnOr(OWNERS)),
    ("feedback_summary", Need::Any(Verb::Feedback)),
    ("feedback_stats", Need::Any(Verb::Feedback)),
    ("recall", Need::Any(Verb::Learn)),
    ("search_lessons", Need::Any(Verb::Learn)),
    ("retrieve_lessons", Need::Any(Verb::Learn)),
    ("prevention_rules", Need::Any(Verb::Learn)),
];

/// The row of a route. `HEAD` needs what `GET` needs.
fn of(method: &Method, path: &str) -> Option<&'static RouteRight> {
    let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
    ROUTES.iter().find(|row| row.path == path && row.method == method)
}

/// Whether a path answers without a credential, by any method.
pub fn needs_nothing(path: &str) -> bool {
    ROUTES.iter().any(|row| row.path == path && row.need == Need::Nothing)
}

/// Whether a share link reaches a route.
pub fn opens_to_shares(method: &Method, path: &str) -> bool {
    of(method, path).is_some_and(|row| row.opens_to_shares)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::http::spec::openapi;
    use crate::mcp;

    #[test]
    fn every_route_has_one_row_in_the_rights_table() {
        let document: serde_json::Value = serde_json::from_str(&openapi()).unwrap();
        let mut served: BTreeSet<(String, String)> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().unwrap().keys();
                methods.map(|method| (path.clone(), method.to_uppercase())).collect::<Vec<_>>()
            })
            .collect();
        // Served but not in the document: MCP describes itself, and the other is an older name.
        served.extend([("/mcp", "POST"), ("/threads/{id}/end", "POST")].map(|(p, m)| (p.into(), m.into())));
        let declared: Vec<(String, String)> =
            ROUTES.iter().map(|row| (row.path.to_owned(), row.method.to_owned())).collect();
        let once: BTreeSet<_> = declared.iter().cloned().collect();
        assert_eq!(declared.len(), once.len(), "a route is declared once");
        let undeclared: Vec<_> = served.difference(&once).collect();
        let unserved: Vec<_> = once.difference(&served).collect();
        assert!(undeclared.is_empty(), "no row in the rights table: {undeclared:?}");
        assert!(unserved.is_empty(), "a row for a route that is not served: {unserved:?}");
    }

    #[test]
    fn every_tool_has_one_row_in_the_rights_table() {
        let served: BTreeSet<String> = mcp::tool_names().into_iter().collect();
        let declared: BTreeSet<String> = TOOLS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(declared.len(), TOOLS.len(), "a tool is declared once");
        assert_eq!(served, declared);
    }

    #[test]
    fn a_share_link_reaches_no_route_that_changes_another_session_or_its_row() {
        let reached = ROUTES.iter().filter(|row| row.opens_to_shares && row.method != "GET");
        let paths: Vec<_> = reached.map(|row| row.path).collect();
        assert_eq!(
            paths,
            [
                "/api/views/{id}/lead", "/api/views/{id}/submit-interaction", "/views/{id}",
                "/api/views/{id}/responses", "/api/responses/{id}", "/api/responses/{id}/submit",
                "/api/responses/{id}/abandon",
            ]
        );
        assert!(opens_to_shares(&Method::HEAD, "/api/sessions/{id}"));
        assert!(!opens_to_shares(&Method::PATCH, "/api/sessions/{id}"));
    }
}
