//! Sessions and lessons as resources: `sederunt://sessions/{id}` with the newest events, as JSON,
//! `sederunt://sessions/{id}/transcript`, as Markdown, and `sederunt://lessons/{id}`. The list holds what the caller
//! may see: lessons, of which there are few, then sessions, the newest first.

use reqwest::Url;
use rmcp::model::{ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use sederunt_api::wire::event::Event;
use sederunt_api::wire::lesson::Lesson;
use sederunt_api::wire::session::Session;
use sederunt_core::access::Actor;
use sederunt_core::engine::{Engine, LessonSearch};
use sederunt_core::event::{Event as CoreEvent, EventQuery};
use sederunt_core::ids::check_name;
use sederunt_core::session::Session as CoreSession;
use sederunt_core::session::export::{ExportExtent, ExportFormat, ExportWriter};
use sederunt_core::session::query::{ListCursor, SessionQuery, TypeFilter};
use sederunt_core::{Error, SessionId, lesson, limits};
use serde::Serialize;

use sederunt_api::query::unescaped;

const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown";

/// What a URI names.
#[derive(Debug, PartialEq, Eq)]
enum ResourceName {
    Session(SessionId),
    Transcript(SessionId),
    Lesson(String),
}

impl ResourceName {
    /// An invalid URI is answered like one that names nothing.
    fn parse(uri: &str) -> Result<Self, Error> {
        let url = Url::parse(uri).map_err(|_| Error::NotFound)?;
        let plain = url.query().is_none() && url.fragment().is_none() && url.scheme() == "sederunt";
        let segments: Vec<_> = url.path_segments().map(Iterator::collect).unwrap_or_default();
        let id = |text: &str| SessionId::parse(&unescaped(text)?).ok();
        match (url.host_str(), segments.as_slice()) {
            (Some("sessions"), [name]) if plain => id(name).map(Self::Session),
            (Some("sessions"), [name, "transcript"]) if plain => id(name).map(Self::Transcript),
            (Some("lessons"), [name]) if plain => {
                unescaped(name).filter(|name| check_name("id", name).is_ok()).map(Self::Lesson)
            }
            _ => None,
        }
        .ok_or(Error::NotFound)
    }
}

fn uri_of(kind: &str, id: &str) -> String {
    let Ok(mut url) = Url::parse(&format!("sederunt://{kind}")) else { return String::new() };
    if let Ok(mut path) = url.path_segments_mut() {
        path.push(id);
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
        ResourceTemplate::new("sederunt://lessons/{id}", "lesson")
            .with_title("A lesson")
            .with_description("What feedback has taught, where it came up, and what it has done since.")
            .with_mime_type(JSON),
    ]
}

/// The position in a list: lessons come first, then sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Lessons(Option<i64>),
    Sessions(Option<ListCursor>),
}

/// Prefix of a cursor among lessons.
const AMONG_LESSONS: &str = "lessons.";
const FIRST_SESSION: &str = "sessions";

impl Place {
    fn parse(cursor: Option<&str>) -> Result<Self, Error> {
        let wrong = || Error::invalid("cursor", "must be a `nextCursor` of this list");
        match cursor {
            None => Ok(Self::Lessons(None)),
            Some(FIRST_SESSION) => Ok(Self::Sessions(None)),
            Some(text) => match text.strip_prefix(AMONG_LESSONS) {
                Some(after) => Ok(Self::Lessons(Some(after.parse().map_err(|_| wrong())?))),
                None => Ok(Self::Sessions(Some(ListCursor::parse(text).ok_or_else(wrong)?))),
            },
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lessons(after) => write!(f, "{AMONG_LESSONS}{}", after.unwrap_or_default()),
            Self::Sessions(Some(after)) => after.fmt(f),
            Self::Sessions(None) => f.write_str(FIRST_SESSION),
        }
    }
}

/// A page of what the caller may see.
pub async fn list(
    engine: &Engine,
    actor: &Actor,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, Error> {
    let mut place = Some(Place::parse(cursor)?);
    let mut listed = Vec::new();
    if let Some(Place::Lessons(after)) = place {
        let next;
        (listed, next) = lessons(engine, actor, after).await?;
        place = Some(next.map_or(Place::Sessions(None), |after| Place::Lessons(Some(after))));
    }
    let room = limits::PAGE_ROWS_DEFAULT.saturating_sub(listed.len());
    if let Some(Place::Sessions(after)) = place
        && room > 0
    {
        let query = SessionQuery { after, ..SessionQuery::of(TypeFilter::All, room) };
        let page = engine.sessions(actor, query).await?;
        listed.extend(page.items.into_iter().map(session_entry));
        place = page.next.map(|after| Place::Sessions(Some(after)));
    }
    let mut page = ListResourcesResult::with_all_items(listed);
    page.next_cursor = place.map(|place| place.to_string());
    Ok(page)
}

/// Active lessons, and the cursor of the next page. A caller without the right to learn gets none.
async fn lessons(
    engine: &Engine,
    actor: &Actor,
    after: Option<i64>,
) -> Result<(Vec<Resource>, Option<i64>), Error> {
    let search = LessonSearch {
        states: vec![lesson::LessonState::Active],
        after,
        limit: limits::PAGE_ROWS_DEFAULT,
        ..LessonSearch::default()
    };
    match engine.search_lessons(actor, search).await {
        Ok(page) => Ok((page.items.into_iter().map(lesson_entry).collect(), page.next)),
        Err(Error::Denied(_)) => Ok((Vec::new(), None)),
        Err(error) => Err(error),
    }
}

fn session_entry(session: CoreSession) -> Resource {
    let Session { id, title, description, .. } = session.into();
    let mut entry = Resource::new(uri_of("sessions", &id), id).with_mime_type(JSON);
    entry.title = title;
    entry.description = description;
    entry
}

fn lesson_entry(lesson: lesson::Lesson) -> Resource {
    Resource::new(uri_of("lessons", &lesson.id), lesson.id)
        .with_description(lesson.body.text)
        .with_mime_type(JSON)
}

/// A session with its newest events.
#[derive(Serialize)]
struct Shown {
    session: Session,
    /// Oldest first.
    events: Vec<Event>,
}

pub async fn read(engine: &Engine, actor: &Actor, uri: String) -> Result<ReadResourceResult, Error> {
    let (text, media_type) = match ResourceName::parse(&uri)? {
        ResourceName::Session(id) => {
            let (session, events) = newest(engine, actor, &id).await?;
            let shown = Shown { session: session.into(), events: events.iter().map(Event::from).collect() };
            (serde_json::to_string(&shown).map_err(Error::internal)?, JSON)
        }
        ResourceName::Transcript(id) => {
            let (session, events) = newest(engine, actor, &id).await?;
            let mut paper = ExportWriter::new(ExportFormat::Markdown, ExportExtent::Messages);
            (paper.begin(&session) + &paper.events(&events) + paper.end(), MARKDOWN)
        }
        ResourceName::Lesson(id) => {
            let lesson = Lesson::from(engine.lesson(actor, &id).await?);
            (serde_json::to_string(&lesson).map_err(Error::internal)?, JSON)
        }
    };
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(media_type)]))
}

/// A session and the end of its log, oldest first.
async fn newest(
    engine: &Engine,
    actor: &Actor,
    id: &SessionId,
) -> Result<(CoreSession, Vec<CoreEvent>), Error> {
    let session = engine.session(actor, id).await?;
    let newest = EventQuery { newest_first: true, ..EventQuery::default() };
    let mut events = engine.read(actor, id, newest).await?.events;
    events.reverse();
    Ok((session, events))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_session_has_a_uri_that_names_it() {
        for id in ["cli:main", "a b", "é%2F?#[]", "0198c5d2-0000-7000-8000-000000000001", "x+y", "100%"] {
            let id = SessionId::parse(id).unwrap();
            let uri = uri_of("sessions", id.as_str());
            assert_eq!(ResourceName::parse(&uri).unwrap(), ResourceName::Session(id.clone()), "{uri}");
            assert_eq!(
                ResourceName::parse(&format!("{uri}/transcript")).unwrap(),
                ResourceName::Transcript(id)
            );
        }
    }

    #[test]
    fn lessons_have_uris_and_lists_places_that_are_found_again() {
        let uri = uri_of("lessons", "lesson_0123456789ab");
        assert_eq!(
            ResourceName::parse(&uri).unwrap(),
            ResourceName::Lesson("lesson_0123456789ab".to_owned())
        );
        for place in [
            Place::Lessons(Some(-7)),
            Place::Sessions(None),
            Place::Sessions(Some(ListCursor { minute: 5, tie: 9 })),
        ] {
            assert_eq!(Place::parse(Some(&place.to_string())).unwrap(), place);
        }
        assert_eq!(Place::parse(None).unwrap(), Place::Lessons(None));
        for wrong in ["", "lessons.", "lessons.x", "yesterday", "5"] {
            assert!(Place::parse(Some(wrong)).is_err(), "{wrong}");
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
            assert!(matches!(ResourceName::parse(uri), Err(Error::NotFound)), "{uri}");
        }
    }
}
