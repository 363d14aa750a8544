//! The log: append and read. Appending is the hot path: one strict pass over the body, content and
//! metadata borrowed from it, and the answer written straight into one buffer.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{StatusCode, header};
use sederunt_api::wire::event::{Append, Appended, EventPage, EventsQuery};
use sederunt_core::SessionId;
use sederunt_core::access::{EventView, ReadExtent};

use crate::http::auth::Caller;
use crate::http::body::Text;
use crate::http::encode;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;
use crate::http::{App, JSON};
use sederunt_core::strict;

/// Append events
///
/// All events or none. An event whose `external_event_id` is already in the log is not written again: the answer has
/// the first one. A human session takes `human.*` events of its holder alone, at most 100 at once; their metadata is
/// closed.
#[utoipa::path(
    post, path = "/api/sessions/{id}/events", operation_id = "append_events", tag = "events",
    params(("id" = String, Path, description = "The session")), request_body = Append<'_>,
    responses((status = 201, description = "Appended", body = Appended))
)]
pub async fn append(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Text,
) -> Result<Response> {
    let wish = strict::read::<Append<'_>>(&input.text)?.into_core();
    let has_epoch = wish.epoch.is_some();
    let done = app.engine.append(&caller.actor, &id, wish, input.key).await?;
    let mut out = Vec::with_capacity(input.text.len() + 512 * done.events.len());
    out.extend_from_slice(b"{\"events\":");
    encode::events(&mut out, done.events.iter().map(|event| &**event), EventView::Full);
    out.extend_from_slice(b",\"last_sequence\":");
    encode::number(&mut out, done.last_sequence);
    if has_epoch {
        out.extend_from_slice(if done.stop_requested {
            b",\"stop_requested\":true"
        } else {
            b",\"stop_requested\":false"
        });
    }
    if let Some(dropped) = done.dropped {
        out.extend_from_slice(b",\"dropped\":");
        encode::number(&mut out, dropped as u64);
    }
    out.push(b'}');
    Ok(answer(StatusCode::CREATED, out))
}

/// Read events
///
/// A page ends at its limit, at 4 MiB, or after 10,000 rows were examined; `next_after` is where the next page
/// starts.
#[utoipa::path(
    get, path = "/api/sessions/{id}/events", operation_id = "read_events", tag = "events",
    params(("id" = String, Path, description = "The session"), EventsQuery),
    responses((status = 200, description = "A page", body = EventPage))
)]
pub async fn read(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(query): Params<EventsQuery>,
) -> Result<Response> {
    let view = ReadExtent::of(caller.actor.role).events;
    let page = app.engine.read(&caller.actor, &id, query.try_into()?).await?;
    let mut out = Vec::with_capacity(512 * (page.events.len() + 1));
    out.extend_from_slice(b"{\"events\":");
    encode::events(&mut out, page.events.iter().filter(|event| view.shows(event)), view);
    out.extend_from_slice(b",\"last_sequence\":");
    encode::number(&mut out, page.last_sequence);
    out.extend_from_slice(if page.has_more { b",\"has_more\":true" } else { b",\"has_more\":false" });
    out.extend_from_slice(b",\"next_after\":");
    encode::number(&mut out, page.next_after);
    out.push(b'}');
    Ok(answer(StatusCode::OK, out))
}

fn answer(status: StatusCode, json: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(json));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}
