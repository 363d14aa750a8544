//! Streams: one log live, and hints about all of a tenant's sessions.

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use sederunt_api::wire::event::StreamQuery;
use sederunt_api::wire::search::{HintsQuery, Topics};
use sederunt_core::{Error, SessionId};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::lease::Leased;
use crate::http::path::PathName;
use crate::http::query::Params;
use crate::http::sse;

/// Follow a log
///
/// Server-sent events: `id: <sequence>` with `data: <Event>` for every event after the cursor;
/// `event: ready` after the last event of the backlog; `event: delta` with `{text, offset}` of a reply that is
/// still being written; with `presence=true` `event: presence` with who is present; `event: gap` with `{first}` where rows were removed; comments as signs of life.
#[utoipa::path(
    get, path = "/api/sessions/{id}/stream", operation_id = "stream_session", tag = "events",
    params(
        ("id" = String, Path, description = "The session"), StreamQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The last sequence seen", pattern = "^[0-9]{1,18}$")
    ),
    responses((status = 200, description = "The stream, until either side closes it", body = String,
        content_type = "text/event-stream"))
)]
pub async fn session(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(asked): Params<StreamQuery>,
    Leased(lease): Leased,
    headers: HeaderMap,
) -> Result<Response> {
    let after = match last_event_id(&headers)? {
        None => asked.after,
        Some(text) => Some(sequence(text)?),
    };
    let mut log = app.engine.stream(caller.actor.clone(), &id, after).await?.charged_to(lease);
    if asked.presence {
        log = log.with_presence().await?;
    }
    Ok(sse::response(sse::log(app, caller, log)))
}

/// Follow changes of sessions
///
/// Hints that something about a session changed, so that lists and inboxes can be live: `event:
/// sessions` with the sessions' ids, status and last sequence; `event: counts` with the counts of the caller's work
/// queue; `event: approvals` with `{pending, added, removed}`, the number of approvals that wait for the caller and the ids
/// that came and went; both at the beginning and when they have changed, at most once a second; `event: reset` when
/// something was missed and lists should be read anew. The `id` of a hint is a cursor to resume from.
#[utoipa::path(
    get, path = "/api/stream", operation_id = "stream_hints", tag = "events",
    params(
        HintsQuery, ("Last-Event-ID" = Option<String>, Header, description = "The id of the last hint seen")
    ),
    responses((status = 200, description = "The stream, until either side closes it", body = String,
        content_type = "text/event-stream"))
)]
pub async fn hints(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<HintsQuery>,
    lease: Leased,
    headers: HeaderMap,
) -> Result<Response> {
    let topics = Topics::parse(&asked.topics)?;
    let cursor = last_event_id(&headers)?.map(str::to_owned).or(asked.cursor);
    let hints = app.engine.hints(&caller.actor, cursor.as_deref())?;
    let Topics { counts, approvals, .. } = topics;
    let figures = app.engine.figure_feed(&caller.actor, counts, approvals, asked.zone.as_deref())?;
    Ok(sse::response(sse::hints(app, caller, hints, figures, topics, lease)))
}

/// The cursor that a browser sends when it reconnects; an empty one counts as none.
fn last_event_id(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    match headers.get("last-event-id") {
        None => Ok(None),
        Some(value) => match value.to_str() {
            Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
            Err(_) => Err(Error::invalid("Last-Event-ID", "must be an id of this stream")),
        },
    }
}

fn sequence(text: &str) -> Result<u64, Error> {
    let digits = text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| text.parse().ok())
        .flatten()
        .ok_or_else(|| Error::invalid("Last-Event-ID", "must be the sequence of an event"))
}
