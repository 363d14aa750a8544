//! Translates errors of SQLite into the product's errors.

use rusqlite::ErrorCode;
use sederunt_core::Error;

/// Why work was not committed: it refused before it wrote, or the database failed.
#[derive(Debug)]
pub(super) enum WorkError<E> {
    Refused(E),
    Failed(rusqlite::Error),
}

impl<E> From<rusqlite::Error> for WorkError<E> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

/// Refuses before anything was written.
pub(super) fn refuse<T, E>(error: impl Into<E>) -> Result<T, WorkError<E>> {
    Err(WorkError::Refused(error.into()))
}

/// A full or failing disk and a lock may pass: the caller is told to try again.
pub(super) fn report(error: rusqlite::Error) -> Error {
    if passes(&error) { Error::unavailable(error) } else { Error::internal(error) }
}

fn passes(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::CannotOpen
        )
    )
}

/// A stored word that this version does not know.
pub(super) fn unknown_word(word: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(
        0,
        rusqlite::types::Type::Text,
        format!("`{word}` is not a word that this version stores").into(),
    )
}

/// A value that cannot be written as JSON.
pub(super) fn unwritable(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(error.into())
}

/// Stored JSON that this version cannot read.
pub(super) fn unreadable(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
}
