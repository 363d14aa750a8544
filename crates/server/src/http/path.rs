//! Names in paths. An invalid name is answered like a name that does not exist.

use axum::RequestPartsExt;
use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use sederunt_core::document::DocumentKey;
use sederunt_core::ids::check_name;
use sederunt_core::work::queue::Bucket;
use sederunt_core::{CredentialId, Error, SessionId, TenantId, UserId};

use super::error::RequestError;

/// What a path names.
#[derive(Debug)]
pub struct PathName<T>(pub T);

/// Reads the names of a path in their order.
pub trait FromPath: Sized {
    fn read<'a>(names: impl Iterator<Item = &'a str>) -> Option<Self>;
}

macro_rules! named {
    ($($id:ident),+) => {$(
        impl FromPath for $id {
            fn read<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<Self> {
                $id::parse(names.next()?).ok()
            }
        }
    )+};
}
named!(SessionId, UserId, TenantId, CredentialId);

impl FromPath for (TenantId, CredentialId) {
    fn read<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<Self> {
        Some((TenantId::parse(names.next()?).ok()?, CredentialId::parse(names.next()?).ok()?))
    }
}

impl FromPath for (SessionId, DocumentKey) {
    fn read<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<Self> {
        let session = SessionId::parse(names.next()?).ok()?;
        Some((session, DocumentKey::parse(names.next()?, names.next()?).ok()?))
    }
}

impl FromPath for Bucket {
    fn read<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<Self> {
        Self::parse(names.next()?)
    }
}

/// Any other name; an invalid one does not exist.
impl FromPath for String {
    fn read<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<Self> {
        names.next().filter(|name| check_name("id", name).is_ok()).map(str::to_owned)
    }
}

impl<T: FromPath, S: Send + Sync> FromRequestParts<S> for PathName<T> {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RequestError> {
        let params = parts.extract::<RawPathParams>().await.map_err(|_| Error::NotFound)?;
        T::read(params.iter().map(|(_, value)| value)).map(Self).ok_or_else(|| Error::NotFound.into())
    }
}
