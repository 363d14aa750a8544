//! Sessions as resources: `sederunt://sessions/{id}` with the newest events, as JSON, and
//! `sederunt://sessions/{id}/transcript`, as Markdown. Listed are the newest that the caller may see.

use reqwest::Url;
use rmcp::model::{ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use sederunt_core::access::Actor;
use sederunt_core::engine::Engine;
use sederunt_core::event::EventQuery;
use sederunt_core::session::Session as CoreSession;
use sederunt_core::session::export::{Format, Paper};
use sederunt_core::session::query::{ListCursor, SessionQuery, Types};
use sederunt_core::{Error, SessionId, limits};
use serde::Serialize;

use crate::http::query::unescaped;
use crate::http::wire::event::Event;
use crate::http::wire::session::Session;

const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown";

/// What a URI names.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    Session(SessionId),
    Transcript(SessionId),
}

impl Named {
    /// A URI that nothing can have is answered like one that nothing has.
    fn parse(uri: &str) -> Result<Self, Error> {
        let url = Url::parse(uri).map_err(|_| Error::NotFound)?;
        let plain = url.query().is_none() && url.fragment().is_none() && url.scheme() == "sederunt";
        let segments: Vec<_> = url.path_segments().map(Iterator::collect).unwrap_or_default();
        let id = |text: &str| SessionId::parse(&unescaped(text)?).ok();
        match (url.host_str(), segments.as_slice()) {
            (Some("sessions"), [name]) if plain => id(name).map(Self::Session),
            (Some("sessions"), [name, "transcript"]) if plain => id(name).map(Self::Transcript),
            _ => None,
        }
        .ok_or(Error::NotFound)
    }
}

fn uri_of(id: &SessionId) -> String {
    let Ok(mut url) = Url::parse("sederunt://sessions") else { return String::new() };
    if let Ok(mut path) = url.path_segments_mut() {
        path.push(id.as_str());
    }
    url.into()
}

pub fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("sederunt://sessions/{id}", "session")
            .with_title("A session")
            .with_description(
                "The session and its newest events, oldest first, as the HTTP interface shows them.",
            )
            .with_mime_type(JSON),
        ResourceTemplate::new("sederunt://sessions/{id}/transcript", "transcript")
            .with_title("A session on paper")
            .with_description("The session's title, status and newest events, to be read.")
            .with_mime_type(MARKDOWN),
    ]
}

/// A page of the sessions that the caller may see, newest activity first.
pub async fn list(
    engine: &Engine,
    actor: &Actor,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, Error> {
    let after = match cursor {
        None => None,
        Some(text) => {
            let after = ListCursor::parse(text);
            Some(after.ok_or_else(|| Error::invalid("cursor", "must be a `nextCursor` of this list"))?)
        }
    };
    let query = SessionQuery { after, ..SessionQuery::of(Types::All, limits::PAGE_ROWS_DEFAULT) };
    let page = engine.sessions(actor, query).await?;
    let mut listed = ListResourcesResult::with_all_items(page.items.into_iter().map(entry).collect());
    listed.next_cursor = page.next.map(|next| next.to_string());
    Ok(listed)
}

fn entry(session: CoreSession) -> Resource {
    let uri = uri_of(&session.id);
    let Session { id, title, description, .. } = session.into();
    let mut entry = Resource::new(uri, id).with_mime_type(JSON);
    entry.title = title;
    entry.description = description;
    entry
}

/// A session with its newest events.
#[derive(Serialize)]
struct Shown {
    session: Session,
    /// Oldest first.
    events: Vec<Event>,
}

pub async fn read(engine: &Engine, actor: &Actor, uri: String) -> Result<ReadResourceResult, Error> {
    let named = Named::parse(&uri)?;
    let (Named::Session(id) | Named::Transcript(id)) = &named;
    let session = engine.session(actor, id).await?;
    let newest = EventQuery { newest_first: true, ..EventQuery::default() };
    let mut events = engine.read(actor, id, newest).await?.events;
    events.reverse();
    let (text, media_type) = match named {
        Named::Session(_) => {
            let shown = Shown { session: session.into(), events: events.iter().map(Event::from).collect() };
            (serde_json::to_string(&shown).map_err(Error::internal)?, JSON)
        }
        Named::Transcript(_) => {
            let mut paper = Paper::new(Format::Markdown);
            let text = paper.begin(&session) + &paper.events(&events) + paper.end();
            (text, MARKDOWN)
        }
    };
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(media_type)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_session_has_a_uri_that_names_it() {
        for id in ["cli:main", "a b", "é%2F?#[]", "0198c5d2-0000-7000-8000-000000000001", "x+y", "100%"] {
            let id = SessionId::parse(id).unwrap();
            let uri = uri_of(&id);
            assert_eq!(Named::parse(&uri).unwrap(), Named::Session(id.clone()), "{uri}");
            assert_eq!(Named::parse(&format!("{uri}/transcript")).unwrap(), Named::Transcript(id));
        }
    }

    #[test]
    fn other_uris_name_nothing() {
        for uri in [
            "", "sessions/x", "sederunt:sessions/x", "sederunt://sessions", "sederunt://sessions/",
            "sederunt://sessions/x/events", "sederunt://sessions/x/transcript/", "sederunt://sessions/x?y=1",
            "sederunt://sessions/x#y", "sederunt://keys/x", "http://sessions/x", "sederunt://sessions/%00",
            "sederunt://sessions/%2F", "sederunt://sessions/%ff",
        ] {
            assert!(matches!(Named::parse(uri), Err(Error::NotFound)), "{uri}");
        }
    }
}
