//! The parameters of a route, as an extractor. `sederunt_api::query` reads them.

use axum::extract::FromRequestParts;
use http::request::Parts;
use sederunt_api::query::{FromQuery, read};

use super::error::RequestError;

/// Reads the parameters of a route, and refuses all others.
#[derive(Debug)]
pub struct Params<A>(pub A);

impl<A: FromQuery, S: Sync> FromRequestParts<S> for Params<A> {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RequestError> {
        Ok(Self(read(parts.uri.query())?))
    }
}
