//! The records of a change: documents, approvals, keys, share links, users, identities. A record whose row has
//! changed since the judgement aborts the transaction.

use sederunt_core::access::Role;
use sederunt_core::ids::{SessionId, UserId};
use sederunt_core::people::{Identity, KnownBy, LinkCode, User};
use sederunt_core::store::Record;
use sederunt_core::time::Timestamp;

use super::commit::Abort;
use super::fault::{Fault, Result};
use super::tx::{Param, Tx};
use super::{
    approvals, browser_sessions, channels, crises, definitions, documents, feedback, lessons, memories,
    ratings, responses, talk,
};

/// Writes one record of a change, which was judged under the locks of `commit/basis.rs`.
pub(super) async fn write(tx: &Tx, tk: i32, record: &Record, now: Timestamp) -> Result<(), Abort> {
    let written = match record {
        Record::PutDoc { doc, expects } => definitions::put(tx, tk, doc, *expects, now).await?,
        Record::DropDoc { kind, id } => return Ok(definitions::remove(tx, tk, *kind, id).await?),
        Record::CloseApproval { id, state, decided_by, body } => {
            approvals::close(tx, tk, id, *state, decided_by.as_deref(), body.as_deref(), now).await?
        }
        Record::AddChannelUpdate { channel, update_key } => {
            channels::add_update(tx, tk, channel, update_key, now).await? > 0
        }
        Record::BindConversation { key, session, instead_of } => {
            channels::bind(tx, tk, key, session, instead_of.as_ref()).await? > 0
        }
        Record::AddDelivery(delivery) => return Ok(channels::add_delivery(tx, tk, delivery).await?),
        Record::NoteDelivery { id, note, .. } => {
            return Ok(channels::note_delivery(tx, tk, id, note, now).await?);
        }
        Record::PutChannel { channel, change } => channels::put(tx, tk, channel, change, now).await?,
        Record::AddFeedback(event) => return Ok(feedback::add(tx, tk, event).await?),
        Record::PutFeedbackSession { session, expects } => {
            feedback::put_session(tx, tk, session, *expects).await?
        }
        Record::PutLesson { lesson, expects } => lessons::put(tx, tk, lesson, *expects).await?,
        Record::CountLessons { ids, count } => return Ok(lessons::count(tx, tk, ids, *count, now).await?),
        Record::PutMemory(memory) => return Ok(memories::put(tx, tk, memory).await?),
        Record::DropMemory { id } => return Ok(memories::remove(tx, tk, id).await?),
        Record::DropMemories { owner } => return Ok(memories::remove_of(tx, tk, owner).await?),
        Record::MoveMemories { from, into } => return Ok(memories::hand_over(tx, tk, from, into).await?),
        Record::AddRating(rating) => return Ok(ratings::add(tx, tk, rating).await?),
        Record::AddCrisis(crisis) => return Ok(crises::add(tx, tk, crisis).await?),
        Record::HoldCrisis { id, until, reason } => crises::hold(tx, tk, id, *until, *reason).await? > 0,
        Record::AddResponse(row) => responses::add(tx, tk, row, now).await? > 0,
        Record::SetResponse { session, state } => {
            return Ok(responses::set(tx, tk, session, *state, now).await?);
        }
        Record::OpenDocument(document) => documents::open(tx, tk, document).await? > 0,
        Record::SnapshotDocument(document) => return Ok(documents::take_snapshot(tx, tk, document).await?),
        Record::SetDocumentOrigin { session, key, origin } => {
            return Ok(documents::set_origin(tx, tk, session, key, origin).await?);
        }
        Record::AddApproval(approval) => approvals::add(tx, tk, approval, now).await? > 0,
        Record::AddKey { key, hash } => {
            let sql = "INSERT INTO api_keys (tk, id, hash, user_id, role, prefix, act_as, created_at, expires_at, revoked_at,
                     who, threads)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
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
                    &key.rules.who.as_str(),
                    &key.rules.threads.as_str(),
                ],
            )
            .await?
                > 0
        }
        Record::RevokeKey { id } => {
            let sql = "UPDATE api_keys SET revoked_at = coalesce(revoked_at, $3) WHERE tk = $1 AND id = $2";
            tx.execute(sql, &[&tk, &id.as_str(), &now.as_micros()]).await? > 0
        }
        Record::AddBrowserSession { session, hash } => {
            browser_sessions::add(tx, tk, session, *hash).await? > 0
        }
        Record::TouchBrowserSession { id } => return Ok(browser_sessions::touch(tx, tk, id, now).await?),
        Record::DropBrowserSession { id } => return Ok(browser_sessions::remove(tx, tk, id).await?),
        Record::AddShare { share, hash } => {
            // Bound to this incarnation of the session: the link of a deleted session opens nothing.
            let sql = "INSERT INTO shares (tk, id, hash, sk, session_id, access, created_by, created_at, expires_at, revoked_at, view_id,
                     user_id)
                 SELECT $1, $2, $3, s.sk, s.id, $5, $6, $7, $8, $9, $10, $11
                 FROM (SELECT) one LEFT JOIN sessions s ON s.tk = $1 AND s.id = $4 WHERE s.sk IS NOT NULL OR $4 IS NULL";
            tx.execute(
                sql,
                &[
                    &tk,
                    &share.id,
                    &&hash.0[..],
                    &share.session.as_ref().map(SessionId::as_str),
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
                > 0
        }
        Record::RevokeShare { id, .. } => {
            let sql = "UPDATE shares SET revoked_at = coalesce(revoked_at, $3) WHERE tk = $1 AND id = $2";
            tx.execute(sql, &[&tk, id, &now.as_micros()]).await? > 0
        }
        Record::AddUser(user) => add_user(tx, tk, user).await?,
        Record::AddGuest(user) => add_user(tx, tk, user).await?,
        Record::KnowUser { id, known_by } => {
            let sql = "UPDATE users SET known_by = $3 WHERE tk = $1 AND id = $2";
            tx.execute(sql, &[&tk, &id.as_str(), &known_by.as_str()]).await? > 0
        }
        Record::NoteStrangerTold { id } => {
            let sql = "UPDATE users SET told_at = $3 WHERE tk = $1 AND id = $2";
            tx.execute(sql, &[&tk, &id.as_str(), &now.as_micros()]).await?;
            return Ok(());
        }
        Record::PutLinkCode { code, hash } => return Ok(put_link_code(tx, tk, code, hash, now).await?),
        Record::UseLinkCode { hash } => {
            tx.execute("DELETE FROM link_codes WHERE tk = $1 AND hash = $2", &[&tk, hash]).await? > 0
        }
        Record::UpdateUser { id, role, name, suspended } => {
            let sql = "UPDATE users SET role = coalesce($3, role), name = coalesce($4, name),
                 suspended = coalesce($5, suspended) WHERE tk = $1 AND id = $2";
            tx.execute(sql, &[&tk, &id.as_str(), &role.map(Role::as_str), name, suspended]).await? > 0
        }
        Record::AddIdentity { user, identity } => add_identity(tx, tk, user, identity).await?,
        Record::MergeUser { from, into } => return Ok(merge_user(tx, tk, from, into).await?),
    };
    written.then_some(()).ok_or_else(|| Fault::Overtaken.into())
}

async fn add_user(tx: &Tx, tk: i32, user: &User) -> Result<bool> {
    let sql = "INSERT INTO users (tk, id, name, role, suspended, merged_into, created_at, known_by, told_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let (known_by, told_at) = (user.known_by.map(KnownBy::as_str), user.told_at.map(Timestamp::as_micros));
    let merged = user.merged_into.as_ref().map(UserId::as_str);
    let (id, role) = (user.id.as_str(), user.role.as_str());
    let created_at = user.created_at.as_micros();
    let values: [Param<'_>; 9] =
        [&tk, &id, &user.name, &role, &user.suspended, &merged, &created_at, &known_by, &told_at];
    tx.execute(sql, &values).await?;
    for identity in &user.identities {
        if !add_identity(tx, tk, &user.id, identity).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn put_link_code(tx: &Tx, tk: i32, code: &LinkCode, hash: &str, now: Timestamp) -> Result<()> {
    let expired = "DELETE FROM link_codes WHERE tk = $1 AND expires_at <= $2";
    tx.execute(expired, &[&tk, &now.as_micros()]).await?;
    let sql = "INSERT INTO link_codes (tk, platform, external_id, hash, name, expires_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (tk, platform, external_id)
             DO UPDATE SET hash = excluded.hash, name = excluded.name, expires_at = excluded.expires_at";
    let Identity { platform, external_id } = &code.identity;
    let expires_at = code.expires_at.as_micros();
    tx.execute(sql, &[&tk, platform, external_id, &hash, &code.name, &expires_at]).await?;
    Ok(())
}

/// Writes an identity, or keeps it if the user has it. Returns `false` if another user has it.
async fn add_identity(tx: &Tx, tk: i32, user: &UserId, identity: &Identity) -> Result<bool> {
    let sql = "INSERT INTO identities (tk, platform, external_id, user_id) VALUES ($1, $2, $3, $4)
         ON CONFLICT (tk, platform, external_id) DO UPDATE SET user_id = excluded.user_id
             WHERE identities.user_id = excluded.user_id";
    let added = tx.execute(sql, &[&tk, &identity.platform, &identity.external_id, &user.as_str()]).await?;
    Ok(added > 0)
}

async fn merge_user(tx: &Tx, tk: i32, giver: &UserId, taker: &UserId) -> Result<()> {
    let (from, into) = (giver.as_str(), taker.as_str());
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
    // Locked in the order in which all transactions lock heads.
    let sql = "UPDATE session_heads SET holder = CASE WHEN holder = $2 THEN $3 ELSE holder END, version = version + 1
         WHERE (tk, sk) IN (SELECT tk, sk FROM session_heads WHERE tk = $1 AND (holder = $2 OR sk = ANY ($4))
             ORDER BY tk, sk FOR NO KEY UPDATE)";
    tx.execute(sql, &[&tk, &from, &into, &talking]).await?;
    talk::merge(tx, tk, &talking, giver, taker).await?;
    tx.execute("DELETE FROM participants WHERE tk = $1 AND user_id = $2", &[&tk, &from]).await?;
    tx.execute("DELETE FROM departures WHERE tk = $1 AND user_id = $2", &[&tk, &from]).await?;
    definitions::merge(tx, tk, from, into).await?;
    approvals::merge(tx, tk, from, into).await?;
    feedback::merge(tx, tk, from, into).await?;
    lessons::merge(tx, tk, giver, taker).await?;
    tx.execute(
        "UPDATE users SET suspended = true, merged_into = $3 WHERE tk = $1 AND id = $2",
        &[&tk, &from, &into],
    )
    .await
    .map(drop)
}
