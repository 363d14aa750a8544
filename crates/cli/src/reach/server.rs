//! Answers from a server: one request each.

use std::time::Duration;

use reqwest::Url;
use sederunt::{Json, TenantId};
use sederunt_server::client::{Client, Error};
use serde_json::{Value, json};

use super::{Ask, SessionFilter, feedback};
use crate::exit::{Exit, Failure, Result};

/// The way to one server, as one caller in one tenant.
pub fn connect(url: &str, key: Option<String>, tenant: &TenantId) -> Result<Client> {
    let is_address = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    if !Url::parse(url).is_ok_and(|url| is_address(&url)) {
        return Err(Failure::usage(format!("`{url}` is no address of a server; write http://HOST:PORT")));
    }
    Ok(Client::new(url, key)?.in_tenant(tenant.as_str()))
}

pub async fn answer(client: &Client, ask: Ask) -> Result<Value> {
    Ok(match ask {
        Ask::Sessions(filter) => client.get(&path(&["sessions"], &pairs(filter))).await?,
        Ask::Session { id } => client.get(&path(&["sessions", &id], &[])).await?,
        Ask::Retry { id } => client.post(&path(&["sessions", &id, "retry"], &[]), &json!({})).await?,
        Ask::Stop { id } => client.post(&path(&["sessions", &id, "stop"], &[]), &json!({})).await?,
        Ask::Delete { id, force } => {
            let force = query([("force", force.then(|| "true".to_owned()))].into_iter());
            client.delete(&path(&["sessions", &id], &force)).await?;
            Value::Null
        }
        Ask::Claim { worker, session_types, agent_slugs, limit, lease, wait } => {
            let mut body = json!({
                "worker": worker,
                "session_types": session_types,
                "agent_slugs": agent_slugs,
                "limit": limit,
                "wait_ms": millis(wait),
            });
            if let Some(lease) = lease {
                body["lease_ms"] = millis(lease).into();
            }
            client.post(&path(&["claims"], &[]), &body).await?
        }
        Ask::Reply { id, reply } => {
            client
                .post(&path(&["sessions", &id, "elicitation-reply"], &[]), &object([("reply", Some(reply))]))
                .await?
        }
        Ask::HumanComplete { id, result, text } => {
            let body = object([("result", result), ("text", as_json(text)?)]);
            client.post(&path(&["sessions", &id, "human-complete"], &[]), &body).await?
        }
        Ask::Definitions { noun, filters, limit, cursor } => {
            let given = filters.into_iter().map(|(name, value)| (name, Some(value)));
            client.get(&path(&[noun.segment()], &query(given.chain(page(limit, cursor))))).await?
        }
        Ask::Definition { noun, name } => client.get(&path(&[noun.segment(), &name], &[])).await?,
        Ask::Define { noun, body } => client.post(&path(&[noun.segment()], &[]), &body).await?,
        Ask::Redefine { noun, name, patch } => {
            client.patch(&path(&[noun.segment(), &name], &[]), &patch).await?
        }
        Ask::Answers { view, limit, cursor } => {
            client.get(&path(&["views", &view, "answers"], &query(page(limit, cursor).into_iter()))).await?
        }
        Ask::Trigger { task, input } => {
            client.post(&path(&["tasks", &task, "trigger"], &[]), &object([("input", input)])).await?
        }
        Ask::TaskStatus { task } => client.get(&path(&["tasks", &task, "status"], &[])).await?,
        Ask::Audit { limit, cursor } => {
            client.get(&path(&["audit"], &query(page(limit, cursor).into_iter()))).await?
        }
        Ask::ExportBundle => client.get(&path(&["bundle"], &[])).await?,
        Ask::ImportBundle { bundle } => client.post(&path(&["bundle"], &[]), &bundle).await?,
        Ask::Approvals { state, limit, cursor } => {
            let state = [("state", state.map(str::to_owned))].into_iter();
            client.get(&path(&["approvals"], &query(state.chain(page(limit, cursor))))).await?
        }
        Ask::Approval { id } => client.get(&path(&["approvals", &id], &[])).await?,
        Ask::Decide { id, decision } => {
            let word = if decision.approve { "approve" } else { "deny" };
            let body = object([
                ("decision", as_json(Some(word))?),
                ("modified_args", decision.modified_args),
                ("modified_output", decision.modified_output),
                ("reason", as_json(decision.reason)?),
                ("digest", as_json(decision.digest)?),
            ]);
            client.post(&path(&["approvals", &id, "decide"], &[]), &body).await?
        }
        Ask::QueueCounts { zone } => {
            client.get(&path(&["today", "work-queue-counts"], &query([("tz", zone)].into_iter()))).await?
        }
        Ask::Queue { bucket, zone, limit, cursor } => {
            let zone = [("tz", zone)].into_iter();
            client.get(&path(&["today", &bucket], &query(zone.chain(page(limit, cursor))))).await?
        }
        Ask::Feedback(ask) => feedback::there(client, ask).await?,
        Ask::Lessons(ask) => feedback::lessons_there(client, ask).await?,
        Ask::Keys => client.get(&path(&["keys"], &[])).await?,
        Ask::CreateKey { user, role, prefix, act_as, expires_in } => {
            let body = json!({
                "user": user,
                "role": role,
                "prefix": prefix,
                "act_as": act_as,
                "expires_in": expires_in.map(|life| life.as_secs()),
            });
            client.post(&path(&["keys"], &[]), &body).await?
        }
        Ask::RevokeKey { id } => {
            client.delete(&path(&["keys", &id], &[])).await?;
            Value::Null
        }
        Ask::Users { after } => {
            let query: Vec<_> = after.map(|after| ("cursor".to_owned(), after)).into_iter().collect();
            client.get(&path(&["users"], &query)).await?
        }
        Ask::CreateUser { id, name, role } => {
            let body = json!({ "id": id, "name": name, "role": role });
            client.post(&path(&["users"], &[]), &body).await?
        }
        Ask::SetRole { id, role } => {
            client.patch(&path(&["users", &id], &[]), &json!({ "role": role })).await?
        }
        Ask::Link { id, platform, external_id } => {
            let body = json!({ "platform": platform, "external_id": external_id });
            client.post(&path(&["users", &id, "identities"], &[]), &body).await?
        }
        Ask::Merge { from, into } => {
            client.post(&path(&["users", &from, "merge"], &[]), &json!({ "into": into })).await?
        }
        Ask::Purge { ratings_days, crisis_days, preview } => {
            let body =
                json!({ "ratings_days": ratings_days, "crisis_days": crisis_days, "preview": preview });
            client.post(&path(&["purge"], &[]), &body).await?
        }
        Ask::HoldCrises { until, thread, reason } => {
            let body = json!({ "until": until, "thread_id": thread, "reason": reason });
            client.post(&path(&["crises", "hold"], &[]), &body).await?
        }
        Ask::Tenants => client.get(&path(&["tenants"], &[])).await?,
        Ask::CreateTenant { id } => client.post(&path(&["tenants"], &[]), &json!({ "id": id })).await?,
        Ask::SuspendTenant { id, suspended } => {
            client.patch(&path(&["tenants", &id], &[]), &json!({ "suspended": suspended })).await?
        }
        Ask::DeleteTenant { id } => {
            client.delete(&path(&["tenants", &id], &[])).await?;
            Value::Null
        }
    })
}

/// A path under `/api` with every name in it escaped.
pub fn path(segments: &[&str], query: &[(String, String)]) -> String {
    // Any base will do: only what stands behind it is used.
    let Ok(mut url) = Url::parse("http://localhost/api") else { return String::new() };
    if let Ok(mut path) = url.path_segments_mut() {
        path.extend(segments);
    }
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

/// The parameters that are given.
pub(super) fn query(pairs: impl Iterator<Item = (&'static str, Option<String>)>) -> Vec<(String, String)> {
    pairs.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

pub(super) fn page(limit: u32, cursor: Option<String>) -> [(&'static str, Option<String>); 2] {
    [("limit", Some(limit.to_string())), ("cursor", cursor)]
}

/// A body of the fields that are given, each as it stands.
fn object<const N: usize>(fields: [(&str, Option<Json>); N]) -> Json {
    Json::object(fields.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?))))
}

fn as_json(text: Option<impl AsRef<str>>) -> Result<Option<Json>> {
    Ok(text.map(|text| Json::of(&text.as_ref())).transpose()?)
}

fn pairs(filter: SessionFilter) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = [
        ("session_type", filter.session_type),
        ("status", filter.status),
        ("group", filter.group),
        ("task_id", filter.task_id),
        ("agent_slug", filter.agent_slug),
        ("entity_id", filter.entity_id),
        ("user_id", filter.user_id),
        ("q", filter.text),
        ("inactive", filter.all.then(|| "false".to_owned())),
        ("parents_only", filter.parents_only.then(|| "true".to_owned())),
        ("limit", Some(filter.limit.to_string())),
        ("cursor", filter.cursor),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect();
    pairs.extend(filter.metadata.into_iter().map(|(key, value)| (format!("metadata.{key}"), value)));
    pairs
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused { status, refusal } => {
                let failure = Self::new(Exit::of_status(status.as_u16()), &refusal.code, refusal.message);
                match refusal.code.as_str() {
                    "unauthenticated" => failure.hint("name a file with a valid key by --key-file"),
                    _ => failure,
                }
            }
            Error::Strange(status) => Self::new(Exit::of_status(status.as_u16()), "http", error.to_string()),
            Error::SocketBroke(_) => Self::unavailable(error.to_string()),
            Error::Unreachable(ref cause) | Error::BrokenOff(ref cause) => {
                let mut deepest: &dyn std::error::Error = cause;
                while let Some(under) = deepest.source() {
                    deepest = under;
                }
                let where_to = cause
                    .url()
                    .map_or_else(String::new, |url| format!(" at {}", url.origin().ascii_serialization()));
                let refused = deepest
                    .downcast_ref::<std::io::Error>()
                    .is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused);
                if refused {
                    let sentence = format!("the server{where_to} does not answer (connection refused)");
                    return Self::unavailable(sentence).hint("is it running?");
                }
                Self::unavailable(format!("the server{where_to} does not answer: {deepest}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_address_of_a_server_is_taken() {
        let tenant = TenantId::stored("default");
        for bad in ["", "127.0.0.1:7070", "ftp://x", "file:///etc/passwd"] {
            assert!(connect(bad, None, &tenant).is_err(), "{bad}");
        }
        assert!(connect("http://127.0.0.1:7070", None, &tenant).is_ok());
    }

    #[test]
    fn names_and_values_are_escaped() {
        assert_eq!(path(&["sessions", "cli:main"], &[]), "/api/sessions/cli:main");
        assert_eq!(path(&["sessions", "a b?#%é", "retry"], &[]), "/api/sessions/a%20b%3F%23%25%C3%A9/retry");
        let query = [("metadata.k".to_owned(), "a&b=c d".to_owned())];
        assert_eq!(path(&["sessions"], &query), "/api/sessions?metadata.k=a%26b%3Dc+d");
    }
}
