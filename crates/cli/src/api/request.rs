//! One request of the API: its method, the names in its path, its parameters and its body.

use reqwest::{Method, Url};
use sederunt::{CredentialId, Error, Json, SessionId, TenantId, UserId};
use serde_json::Value;

/// What a command asks.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    names: Vec<String>,
    query: Vec<(String, String)>,
    pub body: Option<String>,
}

/// What a server does beside its requests, where an answer depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundWorker {
    /// Reads messages into the search index.
    Indexer,
    /// Draws the lessons of feedback that fell silent.
    LessonWriter,
    /// Runs agents: it knows which models there are and what they cost, and a definition is warned about the others.
    Executor,
}

impl Request {
    fn new(method: Method, names: &[&str], body: Option<String>) -> Self {
        Self { method, names: names.iter().map(ToString::to_string).collect(), query: Vec::new(), body }
    }

    pub fn get(names: &[&str]) -> Self {
        Self::new(Method::GET, names, None)
    }

    pub fn delete(names: &[&str]) -> Self {
        Self::new(Method::DELETE, names, None)
    }

    pub fn post(names: &[&str], body: impl Body) -> Self {
        Self::new(Method::POST, names, Some(body.into_text()))
    }

    pub fn put(names: &[&str], body: impl Body) -> Self {
        Self::new(Method::PUT, names, Some(body.into_text()))
    }

    pub fn patch(names: &[&str], body: impl Body) -> Self {
        Self::new(Method::PATCH, names, Some(body.into_text()))
    }

    /// A parameter, where it is given.
    pub fn with(mut self, name: impl Into<String>, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name.into(), value.to_string())));
        self
    }

    pub fn page(self, limit: u32, cursor: Option<String>) -> Self {
        self.with("limit", Some(limit)).with("cursor", cursor)
    }

    pub fn path(&self) -> String {
        path(&self.names(), &self.query)
    }

    fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// Refuses what cannot be the id of anything, in the words of the rule that it breaks.
    pub fn check_ids(&self) -> Result<(), Error> {
        match self.names()[..] {
            ["sessions" | "threads", id, ..] => SessionId::parse(id).map(drop),
            ["users", id, ..] => UserId::parse(id).map(drop),
            ["keys", id, ..] => CredentialId::parse(id).map(drop),
            ["tenants", id, ..] => TenantId::parse(id).map(drop),
            _ => Ok(()),
        }
    }

    /// The id in this request that may be the beginning of one, and the list in which the whole one would stand.
    pub fn short_id(&self) -> Option<(Self, &str)> {
        match self.names()[..] {
            ["sessions", id, ..] => Some((Self::get(&["sessions"]).with("inactive", Some(false)), id)),
            ["approvals", id, ..] => Some((Self::get(&["approvals"]), id)),
            _ => None,
        }
    }

    /// The same request about another session or approval.
    pub fn about(&self, id: &str) -> Self {
        let mut request = self.clone();
        id.clone_into(&mut request.names[1]);
        request
    }

    /// Whose work the answer depends on.
    pub fn waits_for(&self) -> Option<BackgroundWorker> {
        let reads = self.method == Method::GET;
        match self.names()[..] {
            ["sessions"] if self.query.iter().any(|(name, _)| name == "q") => Some(BackgroundWorker::Indexer),
            ["lessons", ..] | ["feedback", "sessions", _, "finalize"] => Some(BackgroundWorker::LessonWriter),
            ["feedback", "sessions", ..] if reads => Some(BackgroundWorker::LessonWriter),
            ["agents" | "tasks"] | ["agents" | "tasks", _] | ["bundle"] if !reads => {
                Some(BackgroundWorker::Executor)
            }
            _ => None,
        }
    }
}

/// JSON as it stands, or a value.
pub trait Body {
    fn into_text(self) -> String;
}

impl Body for Value {
    fn into_text(self) -> String {
        self.to_string()
    }
}

impl Body for &Json {
    fn into_text(self) -> String {
        self.as_str().to_owned()
    }
}

/// A path under `/api` with every name in it escaped.
pub fn path(names: &[&str], query: &[(String, String)]) -> String {
    let mut path = "/api".to_owned();
    for name in names {
        path.push('/');
        path.push_str(&escaped(name));
    }
    // Any base will do: only what stands behind it is used.
    if !query.is_empty()
        && let Ok(mut url) = Url::parse("http://localhost")
    {
        url.query_pairs_mut().extend_pairs(query);
        path.push('?');
        path.push_str(url.query().unwrap_or_default());
    }
    path
}

fn escaped(name: &str) -> String {
    // These would be taken for steps in the path.
    if matches!(name, "." | "..") {
        return name.replace('.', "%2E");
    }
    let Ok(mut url) = Url::parse("http://localhost") else { return String::new() };
    if let Ok(mut path) = url.path_segments_mut() {
        path.push(name);
    }
    url.path().trim_start_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_escaped() {
        assert_eq!(path(&["sessions", "cli:main"], &[]), "/api/sessions/cli:main");
        assert_eq!(
            path(&["sessions", "a b?#%é/", "retry"], &[]),
            "/api/sessions/a%20b%3F%23%25%C3%A9%2F/retry"
        );
        assert_eq!(path(&["agents", ".."], &[]), "/api/agents/%2E%2E");
        let request = Request::get(&["sessions"]).with("metadata.k", Some("a&b=c d"));
        assert_eq!(request.path(), "/api/sessions?metadata.k=a%26b%3Dc+d");
    }

    #[test]
    fn only_answers_that_a_worker_prepares_wait_for_it() {
        let get = |names: &[&str]| Request::get(names);
        for (request, worker) in [
            (get(&["sessions"]), None),
            (get(&["sessions"]).with("q", Some("x")), Some(BackgroundWorker::Indexer)),
            (get(&["lessons", "rules"]), Some(BackgroundWorker::LessonWriter)),
            (get(&["feedback", "sessions"]), Some(BackgroundWorker::LessonWriter)),
            (get(&["feedback", "sessions", "f"]), Some(BackgroundWorker::LessonWriter)),
            (get(&["feedback", "stats"]), None),
            (Request::post(&["feedback", "sessions"], Value::Null), None),
            (Request::post(&["feedback", "sessions", "f", "append"], Value::Null), None),
            (
                Request::post(&["feedback", "sessions", "f", "finalize"], Value::Null),
                Some(BackgroundWorker::LessonWriter),
            ),
        ] {
            assert_eq!(request.waits_for(), worker, "{}", request.path());
        }
    }
}
