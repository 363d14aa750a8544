//! Search over what the caller may see.

use axum::Json;
use axum::extract::State;
use sederunt_api::wire::search::{Hits, SearchQuery};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::query::Params;

/// Search
///
/// Messages, titles and descriptions that contain all the words, newest first. The first page also has matches in the
/// caller's own memory.
#[utoipa::path(
    get, path = "/api/search", operation_id = "search", tag = "sessions", params(SearchQuery),
    responses((status = 200, description = "A page of hits", body = Hits))
)]
pub async fn search(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<SearchQuery>,
) -> Result<Json<Hits>> {
    let mut hits: Hits = app.engine.search(&caller.actor, &asked.q, asked.after, asked.limit).await?.into();
    if asked.after.is_none() {
        let found = app.engine.search_memories(&caller.actor, &asked.q).await?;
        hits.memories = found.into_iter().map(Into::into).collect();
    }
    Ok(Json(hits))
}
