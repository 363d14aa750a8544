//! Ratings of sittings.

use futures_util::FutureExt as _;
use rusqlite::{Connection, params};
use sederunt_core::Timestamp;
use sederunt_core::feedback::{Label, Rating, RatingCounts};
use sederunt_core::ids::{TenantId, UserId};
use sederunt_core::store::{RatingStore, RecordsKept, RecordsOf, StoreFuture};

use super::fault::{unknown_word, unreadable, unwritable};
use super::{SqliteStore, crises};
use crate::day;

pub(super) fn add(db: &Connection, tk: i64, rating: &Rating) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO session_feedback (tk, id, session_id_opaque, user_id_or_null, recorded_at, recorded_date, label, \
         turn_count_at_end, source, schema_version, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
         ON CONFLICT (tk, id) DO NOTHING",
    )?
    .execute(params![
        tk,
        rating.id.to_string(),
        rating.session_id_opaque.as_str(),
        rating.user_id_or_null.as_ref().map(UserId::as_str),
        rating.recorded_at.to_string(),
        day(rating.recorded_at),
        rating.label.as_str(),
        rating.turn_count_at_end.cast_signed(),
        rating.source.as_str(),
        rating.schema_version,
        serde_json::to_string(rating).map_err(unwritable)?,
    ])
    .map(drop)
}

pub(super) const OF_SESSION: &str =
    "SELECT value FROM session_feedback WHERE tk = ?1 AND session_id_opaque = ?2 ORDER BY insertion_order";

impl RatingStore for SqliteStore {
    fn records_kept<'a>(&'a self, tenant: &'a TenantId, of: RecordsOf) -> StoreFuture<'a, RecordsKept> {
        self.read_side_file(tenant, move |db, tk| {
            Ok(RecordsKept { ratings: count(db, tk, &of)?, crises: crises::count(db, tk, &of)? })
        })
        .boxed()
    }

    fn rating_counts<'a>(&'a self, tenant: &'a TenantId, of: RecordsOf) -> StoreFuture<'a, RatingCounts> {
        self.read_side_file(tenant, move |db, tk| counts(db, tk, &of)).boxed()
    }

    fn ratings<'a>(&'a self, tenant: &'a TenantId, opaque: &'a str) -> StoreFuture<'a, Vec<Rating>> {
        let opaque = opaque.to_owned();
        self.read_side_file(tenant, move |db, tk| ratings(db, tk, &opaque)).boxed()
    }
}

pub(super) fn ratings(db: &Connection, tk: i64, opaque: &str) -> rusqlite::Result<Vec<Rating>> {
    db.prepare_cached(OF_SESSION)?
        .query_map(params![tk, opaque], |row| {
            serde_json::from_str(row.get_ref(0)?.as_str()?).map_err(unreadable)
        })?
        .collect()
}

fn count(db: &Connection, tk: i64, of: &RecordsOf) -> rusqlite::Result<u64> {
    let (sql, asked) = match of {
        RecordsOf::Tenant => ("SELECT count(*) FROM session_feedback WHERE tk = ?1 AND ?2 IS NULL", None),
        RecordsOf::Session(opaque) => (
            "SELECT count(*) FROM session_feedback WHERE tk = ?1 AND session_id_opaque = ?2",
            Some(opaque.as_str()),
        ),
        RecordsOf::User(user) => (
            "SELECT count(*) FROM session_feedback WHERE tk = ?1 AND user_id_or_null = ?2",
            Some(user.as_str()),
        ),
    };
    db.prepare_cached(sql)?.query_row(params![tk, asked], |row| row.get(0).map(i64::cast_unsigned))
}

/// The number of ratings of each label.
pub(super) fn counts(db: &Connection, tk: i64, of: &RecordsOf) -> rusqlite::Result<RatingCounts> {
    let (narrowed, asked) = match of {
        RecordsOf::Tenant => ("?2 IS NULL", None),
        RecordsOf::Session(opaque) => ("session_id_opaque = ?2", Some(opaque.as_str())),
        RecordsOf::User(user) => ("user_id_or_null = ?2", Some(user.as_str())),
    };
    let sql =
        format!("SELECT label, count(*) FROM session_feedback WHERE tk = ?1 AND {narrowed} GROUP BY label");
    let mut counts = RatingCounts::default();
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query(params![tk, asked])?;
    while let Some(row) = rows.next()? {
        let word = row.get_ref(0)?.as_str()?;
        let label = Label::parse(word).ok_or_else(|| unknown_word(word))?;
        counts.add(label, row.get::<_, i64>(1)?.cast_unsigned());
    }
    Ok(counts)
}

/// How many rows a purge with the same bound would delete.
pub(super) fn purgeable(db: &Connection, before: Timestamp) -> rusqlite::Result<u64> {
    let sql = "SELECT count(*) FROM session_feedback WHERE recorded_date < ?1";
    db.query_row(sql, [day(before)], |row| row.get(0).map(i64::cast_unsigned))
}

/// Deletes the ratings from before the day of `before`.
pub(super) fn purge(db: &Connection, before: Timestamp) -> rusqlite::Result<usize> {
    db.execute("DELETE FROM session_feedback WHERE recorded_date < ?1", [day(before)])
}

pub(super) fn remove_all(db: &Connection, tk: i64) -> rusqlite::Result<()> {
    db.execute("DELETE FROM session_feedback WHERE tk = ?1", [tk]).map(drop)
}
