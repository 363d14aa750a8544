//! Ratings of sittings.

use sederunt_core::error::Error;
use sederunt_core::feedback::{Label, Rating, RatingCounts};
use sederunt_core::ids::{TenantId, UserId};
use sederunt_core::store::{RatingStore, RecordsKept, RecordsOf, StoreFuture};
use sederunt_core::time::Timestamp;

use super::fault::Result;
use super::tx::{Context, Scope, Tx, count, int};
use super::{PostgresStore, read};
use crate::day;

pub(super) async fn add(tx: &Tx, tk: i32, rating: &Rating) -> Result<()> {
    let sql = "INSERT INTO session_feedback (tk, id, session_id_opaque, user_id_or_null, recorded_at, recorded_date, label,
             turn_count_at_end, source, schema_version, value)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (tk, id) DO NOTHING";
    tx.execute(
        sql,
        &[
            &tk,
            &rating.id.to_string(),
            &rating.session_id_opaque.as_str(),
            &rating.user_id_or_null.as_ref().map(UserId::as_str),
            &rating.recorded_at.to_string(),
            &day(rating.recorded_at),
            &rating.label.as_str(),
            &int(rating.turn_count_at_end),
            &rating.source.as_str(),
            &i32::try_from(rating.schema_version).unwrap_or(i32::MAX),
            &serde_json::to_string(rating).map_err(Error::internal)?,
        ],
    )
    .await
    .map(drop)
}

impl RatingStore for PostgresStore {
    fn records_kept<'a>(&'a self, tenant: &'a TenantId, of: RecordsOf) -> StoreFuture<'a, RecordsKept> {
        read(kept(&self.context, tenant, of))
    }

    fn rating_counts<'a>(&'a self, tenant: &'a TenantId, of: RecordsOf) -> StoreFuture<'a, RatingCounts> {
        read(counts(&self.context, tenant, of))
    }

    fn ratings<'a>(&'a self, tenant: &'a TenantId, opaque: &'a str) -> StoreFuture<'a, Vec<Rating>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Vec::new()) };
            let sql = "SELECT value FROM session_feedback WHERE tk = $1 AND session_id_opaque = $2 ORDER BY insertion_order";
            let rows = self.context.read(Scope::Tenant(tk), sql, &[&tk, &opaque]).await?;
            rows.iter()
                .map(|row| Ok(serde_json::from_str(row.try_get(0)?).map_err(Error::internal)?))
                .collect()
        })
    }
}

/// The number of ratings of each label.
pub(super) async fn counts(context: &Context, tenant: &TenantId, of: RecordsOf) -> Result<RatingCounts> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(RatingCounts::default()) };
    let sql = |narrowed: &str| {
        format!("SELECT label, count(*) FROM session_feedback WHERE tk = $1 {narrowed} GROUP BY label")
    };
    let rows = match &of {
        RecordsOf::Tenant => context.read(Scope::Tenant(tk), &sql(""), &[&tk]).await?,
        RecordsOf::Session(opaque) => {
            context
                .read(Scope::Tenant(tk), &sql("AND session_id_opaque = $2"), &[&tk, &opaque.as_str()])
                .await?
        }
        RecordsOf::User(user) => {
            context.read(Scope::Tenant(tk), &sql("AND user_id_or_null = $2"), &[&tk, &user.as_str()]).await?
        }
    };
    let mut counts = RatingCounts::default();
    for row in &rows {
        let label: &str = row.try_get(0)?;
        let label = Label::parse(label).ok_or_else(|| Error::internal("a rating has an unknown label"))?;
        counts.add(label, count(row.try_get(1)?));
    }
    Ok(counts)
}

/// Ratings and crises in one round trip.
pub(super) async fn kept(context: &Context, tenant: &TenantId, of: RecordsOf) -> Result<RecordsKept> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(RecordsKept::default()) };
    let rows = match of {
        RecordsOf::Session(opaque) => {
            let sql =
                "SELECT (SELECT count(*) FROM session_feedback WHERE tk = $1 AND session_id_opaque = $2),
                 (SELECT count(*) FROM crisis_log WHERE tk = $1 AND session_id_opaque = $2)";
            context.read(Scope::Tenant(tk), sql, &[&tk, &opaque.as_str()]).await?
        }
        RecordsOf::User(user) => {
            let sql = "SELECT (SELECT count(*) FROM session_feedback WHERE tk = $1 AND user_id_or_null = $2),
                 (SELECT count(*) FROM crisis_log WHERE tk = $1 AND value::json ->> 'user_id_or_null' = $2)";
            context.read(Scope::Tenant(tk), sql, &[&tk, &user.as_str()]).await?
        }
        RecordsOf::Tenant => {
            let sql = "SELECT (SELECT count(*) FROM session_feedback WHERE tk = $1),
                 (SELECT count(*) FROM crisis_log WHERE tk = $1)";
            context.read(Scope::Tenant(tk), sql, &[&tk]).await?
        }
    };
    let Some(row) = rows.first() else { return Ok(RecordsKept::default()) };
    Ok(RecordsKept { ratings: count(row.try_get(0)?), crises: count(row.try_get(1)?) })
}

/// How many rows a purge with the same bound would delete.
pub(super) async fn purgeable(context: &Context, before: Timestamp) -> Result<u64> {
    let sql = "SELECT count(tk) FROM session_feedback WHERE recorded_date < $1";
    let rows = context.read(Scope::All, sql, &[&day(before)]).await?;
    rows.first().map_or(Ok(0), |row| Ok(count(row.try_get(0)?)))
}

/// Deletes the ratings from before the day of `before`. VACUUM, and so the operator of the database, decides when
/// their bytes leave the files.
pub(super) async fn purge(context: &Context, before: Timestamp) -> Result<u64> {
    let before = day(before);
    let sql = "SELECT DISTINCT tk FROM session_feedback WHERE recorded_date < $1";
    let mut gone = 0;
    for row in context.read(Scope::All, sql, &[&before]).await? {
        let tk: i32 = row.try_get(0)?;
        let tx = context.begin(Scope::Tenant(tk)).await?;
        let sql = "DELETE FROM session_feedback WHERE tk = $1 AND recorded_date < $2";
        gone += tx.execute(sql, &[&tk, &before]).await?;
        tx.commit().await?;
    }
    Ok(gone)
}
