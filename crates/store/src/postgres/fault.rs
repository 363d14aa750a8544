//! Translates errors of PostgreSQL into the product's errors: try again later, or an internal error.

use deadpool_postgres::PoolError;
use sederunt_core::Error;
use tokio_postgres::error::SqlState;

pub(super) type Result<T, E = Fault> = std::result::Result<T, E>;

/// An error, and what is certain about it.
#[derive(Debug)]
pub(super) enum Fault {
    Database(tokio_postgres::Error),
    /// There was no connection, so nothing was tried.
    Pool(PoolError),
    /// It is not known whether anything was written.
    TimedOut,
    /// A record's row changed after it was judged: where there was no row, there was none to lock.
    Overtaken,
    Core(Error),
}

impl Fault {
    /// Two transactions conflicted: nothing was written, and a retry may succeed.
    pub(super) fn is_contention(&self) -> bool {
        let Self::Database(error) = self else { return matches!(self, Self::Overtaken) };
        error.code().is_some_and(|state| {
            *state == SqlState::T_R_SERIALIZATION_FAILURE || *state == SqlState::T_R_DEADLOCK_DETECTED
        })
    }

    /// The connection was lost, or the server closed it.
    pub(super) fn is_lost(&self) -> bool {
        let Self::Database(error) = self else { return false };
        match error.code() {
            Some(state) => {
                *state == SqlState::ADMIN_SHUTDOWN
                    || *state == SqlState::CRASH_SHUTDOWN
                    || *state == SqlState::CANNOT_CONNECT_NOW
                    || state.code().starts_with("08")
            }
            None => !is_mistake(error),
        }
    }

    /// The server refused a statement, so its transaction is void.
    pub(super) fn is_verdict(&self) -> bool {
        matches!(self, Self::Database(error) if error.as_db_error().is_some() || is_mistake(error))
    }

    /// The unique index or foreign key that was violated.
    pub(super) fn violated(&self) -> Option<&str> {
        let Self::Database(error) = self else { return None };
        let error = error.as_db_error()?;
        let keyed =
            *error.code() == SqlState::UNIQUE_VIOLATION || *error.code() == SqlState::FOREIGN_KEY_VIOLATION;
        keyed.then(|| error.constraint().unwrap_or_default())
    }
}

/// Errors of the driver that only a wrong statement or row mapping can cause.
fn is_mistake(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    [
        "error serializing", "error deserializing", "invalid column", "expected ", "unexpected message",
        "query returned",
    ]
    .iter()
    .any(|start| text.starts_with(start))
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<PoolError> for Fault {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Core(error)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Core(error) => error,
            Fault::Pool(error) => Self::unavailable(error),
            Fault::Overtaken => Self::internal("other transactions changed a record in every attempt"),
            Fault::TimedOut => Self::unavailable("the database did not answer in time"),
            Fault::Database(error) => {
                let passing = error.code().map_or(!is_mistake(&error), |state| {
                    // Connections, conflicting transactions, resources, operators, the system; and a standby, which
                    // is read-only until it takes over.
                    ["08", "40", "53", "55", "57", "58"].iter().any(|class| state.code().starts_with(class))
                        || *state == SqlState::READ_ONLY_SQL_TRANSACTION
                });
                if passing { Self::unavailable(error) } else { Self::internal(error) }
            }
        }
    }
}
