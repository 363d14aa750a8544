//! All definitions of the caller's tenant at once.

use axum::Json;
use axum::extract::State;
use sederunt_api::wire::definitions::{Bundle, Imported};
use sederunt_core::{definitions, json};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Text;
use crate::http::error::Result;
use crate::http::query::Params;
use crate::http::respondent::check_embedding;

/// Export all definitions
#[utoipa::path(
    get, path = "/api/bundle", operation_id = "export_bundle", tag = "library",
    responses((status = 200, description = "Every definition with every field", body = Bundle))
)]
pub async fn export(
    State(app): State<App>,
    caller: Caller,
    Params(()): Params<()>,
) -> Result<Json<definitions::Bundle>> {
    Ok(Json(app.engine.bundle(&caller.actor).await?))
}

/// Import definitions
///
/// All definitions of the bundle or none. A definition whose id exists replaces the stored one; definitions that are
/// not in the bundle stay.
#[utoipa::path(
    post, path = "/api/bundle", operation_id = "import_bundle", tag = "library", request_body = Bundle,
    responses((status = 200, description = "Imported", body = Imported))
)]
pub async fn import(State(app): State<App>, caller: Caller, text: Text) -> Result<Json<Imported>> {
    let bundle = definitions::Bundle::read(&text.json())?;
    for view in &bundle.views {
        check_embedding(&app, &json::Json::of(&view.value)?).map_err(|error| error.within("views"))?;
    }
    let imported = app.engine.import(&caller.actor, bundle.clone(), text.key).await?;
    let warnings = app.engine.bundle_warnings(&caller.actor, &bundle).await?;
    Ok(Json(Imported { imported, warnings }))
}
