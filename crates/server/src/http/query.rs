//! The parameters of a route, as an extractor. `sederunt_api::query` reads them.

use axum::extract::FromRequestParts;
use http::request::Parts;
use sederunt_api::query::{Ask, read};

use super::error::Refused;

/// Reads the parameters of a route, and refuses all others.
#[derive(Debug)]
pub struct Asked<A>(pub A);

impl<A: Ask, S: Sync> FromRequestParts<S> for Asked<A> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        Ok(Self(read(parts.uri.query())?))
    }
}
