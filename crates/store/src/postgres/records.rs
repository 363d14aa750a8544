//! Rows beside sessions that a change brings: documents, approvals, keys, share links, users, identities. Whatever
//! is refused here takes the whole transaction with it.

use sederunt_core::access::Role;
use sederunt_core::error::{Conflict, Error};
use sederunt_core::ids::UserId;
use sederunt_core::people::{Identity, User};
use sederunt_core::store::{Record, Refusal};
use sederunt_core::time::Timestamp;

use super::commit::Stop;
use super::fault::{Fault, Result};
use super::tx::Tx;
use super::{approvals, crises, feedback, lessons, library, memories, ratings, talk};

const STALE: Stop = Stop::Refused(Refusal::Stale);

/// Applies one record of a change.
pub(super) async fn write(tx: &Tx, tk: i32, record: &Record, now: Timestamp) -> Result<(), Stop> {
    let touched = match record {
        Record::PutDoc { doc, expects } => {
            return library::put(tx, tk, doc, *expects, now).await?.then_some(()).ok_or(STALE);
        }
        Record::DropDoc { kind, id } => return Ok(library::remove(tx, tk, *kind, id).await?),
        Record::CloseApproval { id, state, decided_by, body } => {
            let closed =
                approvals::close(tx, tk, id, *state, decided_by.as_deref(), body.as_deref(), now).await?;
            return closed.then_some(()).ok_or(STALE);
        }
        Record::AddFeedback(event) => return Ok(feedback::add(tx, tk, event).await?),
        Record::PutFeedbackSession { session, expects } => {
            return feedback::put_session(tx, tk, session, *expects).await?.then_some(()).ok_or(STALE);
        }
        Record::PutLesson { lesson, expects } => {
            return lessons::put(tx, tk, lesson, *expects).await?.then_some(()).ok_or(STALE);
        }
        Record::CountLessons { ids, count } => return Ok(lessons::count(tx, tk, ids, *count, now).await?),
        Record::PutMemory(memory) => return Ok(memories::put(tx, tk, memory).await?),
        Record::DropMemory { id } => return Ok(memories::remove(tx, tk, id).await?),
        Record::DropMemories { owner } => return Ok(memories::remove_of(tx, tk, owner).await?),
        Record::MoveMemories { from, into } => return Ok(memories::hand_over(tx, tk, from, into).await?),
        Record::AddRating(rating) => return Ok(ratings::add(tx, tk, rating).await?),
        Record::AddCrisis(crisis) => return Ok(crises::add(tx, tk, crisis).await?),
        Record::HoldCrisis { id, until, reason } => crises::hold(tx, tk, id, *until, *reason).await?,
        Record::AddApproval(approval) => approvals::add(tx, tk, approval, now).await?,
        Record::AddKey { key, hash } => {
            let sql = "INSERT INTO api_keys (tk, id, hash, user_id, role, prefix, act_as, created_at, expires_at, revoked_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
            tx.execute(
                sql,
                &[
                    &tk,
                    &key.id.as_str(),
                    &&hash.0[..],
                    &key.user.as_ref().map(UserId::as_str),
                    &key.role.as_str(),
                    &key.prefix,
                    &key.act_as,
                    &key.created_at.as_micros(),
                    &key.expires_at.map(Timestamp::as_micros),
                    &key.revoked_at.map(Timestamp::as_micros),
                ],
            )
            .await?
        }
        Record::RevokeKey { id } => {
            let sql = "UPDATE api_keys SET revoked_at = coalesce(revoked_at, $3) WHERE tk = $1 AND id = $2";
            tx.execute(sql, &[&tk, &id.as_str(), &now.as_micros()]).await?
        }
        Record::AddShare { share, hash } => {
            // Bound to this life of the session: the link of a deleted one opens nothing.
            let sql = "INSERT INTO shares (tk, id, hash, sk, session_id, access, created_by, created_at, expires_at, revoked_at, view_id,
                     user_id)
                 SELECT $1, $2, $3, s.sk, s.id, $5, $6, $7, $8, $9, $10, $11 FROM sessions s WHERE s.tk = $1 AND s.id = $4";
            tx.execute(
                sql,
                &[
                    &tk,
                    &share.id,
                    &&hash.0[..],
                    &share.session.as_str(),
                    &share.access.as_str(),
                    &share.created_by.as_ref().map(UserId::as_str),
                    &share.created_at.as_micros(),
                    &share.expires_at.as_micros(),
                    &share.revoked_at.map(Timestamp::as_micros),
                    &share.view,
                    &share.user.as_ref().map(UserId::as_str),
                ],
            )
            .await?
        }
        Record::RevokeShare { id, .. } => {
            let sql = "UPDATE shares SET revoked_at = coalesce(revoked_at, $3) WHERE tk = $1 AND id = $2";
            tx.execute(sql, &[&tk, id, &now.as_micros()]).await?
        }
        Record::AddUser(user) => add_user(tx, tk, user).await?,
        Record::UpdateUser { id, role, name, suspended } => {
            let sql = "UPDATE users SET role = coalesce($3, role), name = coalesce($4, name),
                 suspended = coalesce($5, suspended) WHERE tk = $1 AND id = $2";
            tx.execute(sql, &[&tk, &id.as_str(), &role.map(Role::as_str), name, suspended]).await?
        }
        Record::AddIdentity { user, identity } => add_identity(tx, tk, user, identity).await?,
        Record::MergeUser { from, into } => merge_user(tx, tk, from, into).await?,
    };
    if touched == 0 {
        return Err(Fault::Core(Error::NotFound).into());
    }
    Ok(())
}

async fn add_user(tx: &Tx, tk: i32, user: &User) -> Result<u64> {
    let sql = "INSERT INTO users (tk, id, name, role, suspended, merged_into, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let merged = user.merged_into.as_ref().map(UserId::as_str);
    let (id, role) = (user.id.as_str(), user.role.as_str());
    let added = tx
        .execute(sql, &[&tk, &id, &user.name, &role, &user.suspended, &merged, &user.created_at.as_micros()])
        .await?;
    for identity in &user.identities {
        add_identity(tx, tk, &user.id, identity).await?;
    }
    Ok(added)
}

async fn add_identity(tx: &Tx, tk: i32, user: &UserId, identity: &Identity) -> Result<u64> {
    let known = tx
        .query("SELECT 1 FROM users WHERE tk = $1 AND id = $2 FOR KEY SHARE", &[&tk, &user.as_str()])
        .await?;
    if known.is_empty() {
        return Ok(0);
    }
    let sql = "INSERT INTO identities (tk, platform, external_id, user_id) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
    let params = (&identity.platform, &identity.external_id, user.as_str());
    let added = tx.execute(sql, &[&tk, params.0, params.1, &params.2]).await?;
    if added == 0 {
        let sql =
            "SELECT 1 FROM identities WHERE tk = $1 AND platform = $2 AND external_id = $3 AND user_id = $4";
        if tx.query(sql, &[&tk, params.0, params.1, &params.2]).await?.is_empty() {
            return Err(Fault::Core(Conflict::AlreadyExists.into()));
        }
    }
    Ok(1)
}

async fn merge_user(tx: &Tx, tk: i32, giver: &UserId, taker: &UserId) -> Result<u64> {
    let (from, into) = (giver.as_str(), taker.as_str());
    let sql = "SELECT id FROM users WHERE tk = $1 AND id = ANY ($2) ORDER BY id FOR NO KEY UPDATE";
    if tx.query(sql, &[&tk, &vec![from, into]]).await?.len() < 2 {
        return Ok(0);
    }
    for sql in [
        "UPDATE identities SET user_id = $3 WHERE tk = $1 AND user_id = $2",
        "INSERT INTO participants (tk, sk, user_id) SELECT tk, sk, $3 FROM participants WHERE tk = $1 AND user_id = $2
         ON CONFLICT DO NOTHING",
        "INSERT INTO departures (tk, sk, user_id) SELECT tk, sk, $3 FROM departures d WHERE tk = $1 AND user_id = $2
             AND NOT EXISTS (SELECT 1 FROM participants p WHERE p.tk = $1 AND p.sk = d.sk AND p.user_id = $3)
         ON CONFLICT DO NOTHING",
    ] {
        tx.execute(sql, &[&tk, &from, &into]).await?;
    }
    let talking = talk::open_of(tx, tk, giver).await?;
    // Locked in the order in which everyone locks heads.
    let sql = "UPDATE session_heads SET holder = CASE WHEN holder = $2 THEN $3 ELSE holder END, version = version + 1
         WHERE (tk, sk) IN (SELECT tk, sk FROM session_heads WHERE tk = $1 AND (holder = $2 OR sk = ANY ($4))
             ORDER BY tk, sk FOR NO KEY UPDATE)";
    tx.execute(sql, &[&tk, &from, &into, &talking]).await?;
    talk::merge(tx, tk, &talking, giver, taker).await?;
    tx.execute("DELETE FROM participants WHERE tk = $1 AND user_id = $2", &[&tk, &from]).await?;
    tx.execute("DELETE FROM departures WHERE tk = $1 AND user_id = $2", &[&tk, &from]).await?;
    library::merge(tx, tk, from, into).await?;
    approvals::merge(tx, tk, from, into).await?;
    feedback::merge(tx, tk, from, into).await?;
    lessons::merge(tx, tk, giver, taker).await?;
    tx.execute(
        "UPDATE users SET suspended = true, merged_into = $3 WHERE tk = $1 AND id = $2",
        &[&tk, &from, &into],
    )
    .await
}
