//! Reads people: users with their identities, keys, share links, the audit trail.

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sederunt_core::access::{ActingUser, Role, ShareAccess};
use sederunt_core::clock::Clock as _;
use sederunt_core::event::{Event, EventPage, EventQuery};
use sederunt_core::ids::{CredentialId, SessionId, TenantId, UserId};
use sederunt_core::people::{
    FoundKey, Identity, Key, KnownBy, LinkCode, LinkReach, SecretHash, Share, ShareCursor, ShareListQuery,
    SharedSession, User,
};
use sederunt_core::session::query::Page;
use sederunt_core::store::{
    AuditLine, AuditStore, EventStore as _, KeyStore, ShareStore, StoreFuture, UserStore,
};
use sederunt_core::talk::route::{ChannelRules, ThreadRule, Who};
use sederunt_core::{Error, Timestamp};

use super::fault::unknown_word;
use super::heads::text;
use super::{SqliteStore, sessions};

const KEYS: &str = "SELECT k.id, t.id, k.user_id, k.role, k.prefix, k.act_as, k.created_at, k.expires_at, \
     k.revoked_at, t.suspended, coalesce(u.suspended OR u.merged_into IS NOT NULL, 0), u.role, k.who, k.threads FROM keys k JOIN tenants t ON t.tk = k.tk \
     LEFT JOIN users u ON u.tk = k.tk AND u.id = k.user_id";

impl ShareStore for SqliteStore {
    fn share_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<Share>> {
        self.read_inline(move |db| {
            db.prepare_cached(&format!("{SHARES} WHERE s.hash = ?1 AND t.id IS NOT NULL"))?
                .query_row([hash.0], read_share)
                .optional()
        })
        .boxed()
    }

    fn share<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
        _: &'a ActingUser,
    ) -> StoreFuture<'a, Option<Share>> {
        self.read_inline(move |db| {
            db.prepare_cached(&format!("{SHARES} WHERE t.id = ?1 AND s.id = ?2"))?
                .query_row([tenant.as_str(), id], read_share)
                .optional()
        })
        .boxed()
    }

    fn shared_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        hash: SecretHash,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<SharedSession>> {
        let now = self.clock.now();
        self.read_on_writer(move |db| {
            if !opens_session(db, tenant, hash, id, now)? {
                return Ok(None);
            }
            Ok(sessions::keyed_by_id(db, tenant, id)?.map(|(_, session)| SharedSession::of(session)))
        })
        .boxed()
    }

    fn shared_events<'a>(
        &'a self,
        tenant: &'a TenantId,
        hash: SecretHash,
        id: &'a SessionId,
        query: EventQuery,
    ) -> StoreFuture<'a, EventPage> {
        let now = self.clock.now();
        async move {
            let opens = self.read_on_writer(move |db| opens_session(db, tenant, hash, id, now)).await?;
            if !opens {
                return Err(Error::NotFound);
            }
            let mut page = self.events(tenant, id, query.of_messages()).await?;
            page.events.iter_mut().for_each(Event::keep_content_alone);
            Ok(page)
        }
        .boxed()
    }

    fn link_reach<'a>(
        &'a self,
        tenant: &'a TenantId,
        hash: SecretHash,
        view_id: &'a str,
        respondent_name: &'a str,
        response: Option<&'a SessionId>,
    ) -> StoreFuture<'a, LinkReach> {
        let now = self.clock.now().as_micros();
        self.read_on_writer(move |db| {
            let response = response.map(SessionId::as_str);
            let found = db
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM responses r JOIN session_heads h ON h.sk = r.sk \
                         WHERE r.tk = s.tk AND r.view_id = s.view_id AND h.id = ?5 AND r.is_anonymous AND r.respondent = ?6) \
                     FROM shares s JOIN tenants t ON t.tk = s.tk WHERE s.hash = ?1 AND s.sk IS NULL \
                     AND s.revoked_at IS NULL AND s.expires_at > ?2 AND t.id = ?3 AND s.view_id = ?4",
                )?
                .query_row(params![hash.0, now, tenant.as_str(), view_id, response, respondent_name], |row| {
                    row.get(0)
                })
                .optional()?;
            Ok(LinkReach::of(found))
        })
        .boxed()
    }

    fn shares<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ShareListQuery,
    ) -> StoreFuture<'a, Page<Share, ShareCursor>> {
        let tenant = tenant.clone();
        self.read_pooled(move |db| shares(db, &tenant, &query)).boxed()
    }
}

impl KeyStore for SqliteStore {
    fn key_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<FoundKey>> {
        self.read_inline(move |db| {
            db.prepare_cached(&format!("{KEYS} WHERE k.hash = ?1 AND t.id IS NOT NULL"))?
                .query_row([hash.0], |row| {
                    Ok(FoundKey {
                        key: read_key(row)?,
                        tenant_suspended: row.get(9)?,
                        user_refused: row.get(10)?,
                        user_role: if text(row, 11)?.is_some() { Some(role(row, 11)?) } else { None },
                    })
                })
                .optional()
        })
        .boxed()
    }

    fn keys<'a>(&'a self, tenant: &'a TenantId) -> StoreFuture<'a, Vec<Key>> {
        let tenant = tenant.clone();
        self.read_pooled(move |db| {
            db.prepare_cached(&format!("{KEYS} WHERE t.id = ?1 ORDER BY k.kk"))?
                .query_map([tenant.as_str()], read_key)?
                .collect()
        })
        .boxed()
    }
}

impl UserStore for SqliteStore {
    fn user<'a>(&'a self, tenant: &'a TenantId, id: &'a UserId) -> StoreFuture<'a, Option<User>> {
        self.read_inline(move |db| {
            let found = db
                .prepare_cached(&format!("{USERS} WHERE t.id = ?1 AND u.id = ?2"))?
                .query_row([tenant.as_str(), id.as_str()], read_user)
                .optional()?;
            found.map(|found| with_identities(db, found)).transpose()
        })
        .boxed()
    }

    fn user_by_identity<'a>(
        &'a self,
        tenant: &'a TenantId,
        identity: &'a Identity,
    ) -> StoreFuture<'a, Option<User>> {
        self.read_inline(move |db| {
            let found = db
                .prepare_cached(&format!(
                    "{USERS} JOIN identities i ON i.tk = u.tk AND i.user_id = u.id \
                     WHERE t.id = ?1 AND i.platform = ?2 AND i.external_id = ?3"
                ))?
                .query_row(params![tenant.as_str(), identity.platform, identity.external_id], read_user)
                .optional()?;
            found.map(|found| with_identities(db, found)).transpose()
        })
        .boxed()
    }

    fn link_code<'a>(&'a self, tenant: &'a TenantId, hash: &'a str) -> StoreFuture<'a, Option<LinkCode>> {
        self.read_inline(move |db| {
            db.prepare_cached(
                "SELECT c.platform, c.external_id, c.name, c.expires_at FROM link_codes c \
                 JOIN tenants t ON t.tk = c.tk WHERE t.id = ?1 AND c.hash = ?2",
            )?
            .query_row([tenant.as_str(), hash], |row| {
                Ok(LinkCode {
                    identity: Identity { platform: row.get(0)?, external_id: row.get(1)? },
                    name: row.get(2)?,
                    expires_at: Timestamp::from_micros(row.get(3)?),
                })
            })
            .optional()
        })
        .boxed()
    }

    fn users<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<User>> {
        let (tenant, after) = (tenant.clone(), after.map(str::to_owned));
        self.read_pooled(move |db| users(db, &tenant, after.as_deref(), limit)).boxed()
    }
}

impl AuditStore for SqliteStore {
    fn audit<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<i64>,
        limit: usize,
    ) -> StoreFuture<'a, Page<AuditLine, i64>> {
        let tenant = tenant.clone();
        self.read_pooled(move |db| audit(db, &tenant, after, limit)).boxed()
    }
}

fn read_key(row: &Row<'_>) -> rusqlite::Result<Key> {
    Ok(Key {
        id: CredentialId::stored(row.get_ref(0)?.as_str()?),
        tenant: TenantId::stored(row.get_ref(1)?.as_str()?),
        user: text(row, 2)?.map(UserId::stored),
        role: role(row, 3)?,
        prefix: row.get(4)?,
        rules: rules(row)?,
        act_as: row.get(5)?,
        created_at: Timestamp::from_micros(row.get(6)?),
        expires_at: instant(row, 7)?,
        revoked_at: instant(row, 8)?,
    })
}

const SHARES: &str = "SELECT s.id, t.id, h.id, s.access, s.created_by, s.created_at, s.expires_at, s.revoked_at, \
     t.suspended, s.view_id, s.user_id FROM shares s JOIN tenants t ON t.tk = s.tk LEFT JOIN session_heads h ON h.sk = s.sk";

/// Whether a valid link with this hash was made for this session, and not for one of its views.
fn opens_session(
    db: &Connection,
    tenant: &TenantId,
    hash: SecretHash,
    id: &SessionId,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM shares s JOIN tenants t ON t.tk = s.tk JOIN session_heads h ON h.sk = s.sk \
         WHERE s.hash = ?1 AND s.view_id IS NULL AND s.revoked_at IS NULL AND s.expires_at > ?2 AND t.id = ?3 AND h.id = ?4",
    )?
    .exists(params![hash.0, now.as_micros(), tenant.as_str(), id.as_str()])
}

/// Whether a user made a share link, holds its session, or made the view that it opens alone.
const SHARES_OF_USER: &str = "(s.created_by = ?6 OR h.holder = ?6 OR s.sk IS NULL AND EXISTS (SELECT 1 FROM docs d \
     WHERE d.tk = s.tk AND d.kind = 'view' AND d.id = s.view_id AND d.created_by = ?6))";

fn shares(
    db: &Connection,
    tenant: &TenantId,
    query: &ShareListQuery,
) -> rusqlite::Result<Page<Share, ShareCursor>> {
    let user = match &query.by {
        ActingUser::Nobody => return Ok(Page::default()),
        ActingUser::Owner => None,
        ActingUser::User(user) => Some(user.as_str()),
    };
    let mut sql = format!("{SHARES} WHERE t.id = ?1 AND (s.created_at, s.id) < (?2, ?3)");
    if query.session.is_some() {
        sql.push_str(" AND s.sk = (SELECT sk FROM session_heads WHERE tk = t.tk AND id = ?4)");
    }
    if query.view.is_some() {
        sql.push_str(" AND s.view_id = ?5");
    }
    if user.is_some() {
        sql.push_str(&format!(" AND {SHARES_OF_USER}"));
    }
    sql.push_str(" ORDER BY s.created_at DESC, s.id DESC LIMIT ?7");
    let (before, id) =
        query.after.as_ref().map_or((i64::MAX, ""), |after| (after.created_at.as_micros(), &after.id));
    let one_more = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    let session = query.session.as_ref().map(SessionId::as_str);
    let mut items: Vec<Share> = db
        .prepare_cached(&sql)?
        .query_map(params![tenant.as_str(), before, id, session, query.view, user, one_more], read_share)?
        .collect::<rusqlite::Result<_>>()?;
    let more = items.len() > query.limit;
    items.truncate(query.limit);
    let next = items.last().filter(|_| more).map(Share::cursor);
    Ok(Page { items, next })
}

fn read_share(row: &Row<'_>) -> rusqlite::Result<Share> {
    let access = row.get_ref(3)?.as_str()?;
    Ok(Share {
        id: row.get(0)?,
        tenant: TenantId::stored(row.get_ref(1)?.as_str()?),
        session: text(row, 2)?.map(SessionId::stored),
        access: ShareAccess::parse(access).map_err(|_| unknown_word(access))?,
        created_by: text(row, 4)?.map(UserId::stored),
        created_at: Timestamp::from_micros(row.get(5)?),
        expires_at: Timestamp::from_micros(row.get(6)?),
        revoked_at: instant(row, 7)?,
        tenant_suspended: row.get(8)?,
        view: row.get(9)?,
        user: text(row, 10)?.map(UserId::stored),
    })
}

const USERS: &str = "SELECT u.id, u.name, u.role, u.suspended, u.merged_into, u.created_at, u.tk, u.known_by, u.told_at \
     FROM users u JOIN tenants t ON t.tk = u.tk";

fn users(
    db: &Connection,
    tenant: &TenantId,
    after: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<User>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found: Vec<(User, i64)> = db
        .prepare_cached(&format!("{USERS} WHERE t.id = ?1 AND u.id > ?2 ORDER BY u.id LIMIT ?3"))?
        .query_map(params![tenant.as_str(), after.unwrap_or(""), limit], read_user)?
        .collect::<rusqlite::Result<_>>()?;
    found.into_iter().map(|found| with_identities(db, found)).collect()
}

fn read_user(row: &Row<'_>) -> rusqlite::Result<(User, i64)> {
    let user = User {
        id: UserId::stored(row.get_ref(0)?.as_str()?),
        name: row.get(1)?,
        role: role(row, 2)?,
        suspended: row.get(3)?,
        merged_into: text(row, 4)?.map(UserId::stored),
        known_by: known_by(row)?,
        told_at: instant(row, 8)?,
        created_at: Timestamp::from_micros(row.get(5)?),
        identities: Vec::new(),
    };
    Ok((user, row.get(6)?))
}

fn known_by(row: &Row<'_>) -> rusqlite::Result<Option<KnownBy>> {
    let word = text(row, 7)?;
    word.map(|word| KnownBy::parse(word).ok_or_else(|| unknown_word(word))).transpose()
}

/// The rules of a key; one without any has the ordinary ones.
fn rules(row: &Row<'_>) -> rusqlite::Result<ChannelRules> {
    let (who, threads) = (text(row, 12)?, text(row, 13)?);
    Ok(ChannelRules {
        who: who
            .map(|word| Who::parse(word).map_err(|_| unknown_word(word)))
            .transpose()?
            .unwrap_or_default(),
        threads: threads
            .map(|word| ThreadRule::parse(word).map_err(|_| unknown_word(word)))
            .transpose()?
            .unwrap_or_default(),
    })
}

fn with_identities(db: &Connection, (mut user, tk): (User, i64)) -> rusqlite::Result<User> {
    user.identities = db
        .prepare_cached(
            "SELECT platform, external_id FROM identities WHERE tk = ?1 AND user_id = ?2 \
             ORDER BY platform, external_id",
        )?
        .query_map(params![tk, user.id.as_str()], |row| {
            Ok(Identity { platform: row.get(0)?, external_id: row.get(1)? })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(user)
}

fn audit(
    db: &Connection,
    tenant: &TenantId,
    after: Option<i64>,
    limit: usize,
) -> rusqlite::Result<Page<AuditLine, i64>> {
    let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut lines: Vec<(i64, AuditLine)> = db
        .prepare_cached(
            "SELECT a.ak, a.at, a.actor, a.action, a.target FROM tenants t JOIN audit a ON a.tk = t.tk \
             WHERE t.id = ?1 AND a.ak < ?2 ORDER BY a.ak DESC LIMIT ?3",
        )?
        .query_map(params![tenant.as_str(), after.unwrap_or(i64::MAX), one_more], |row| {
            let line = AuditLine {
                at: Timestamp::from_micros(row.get(1)?),
                actor: row.get(2)?,
                action: row.get(3)?,
                target: row.get(4)?,
            };
            Ok((row.get(0)?, line))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let more = lines.len() > limit;
    lines.truncate(limit);
    let next = lines.last().filter(|_| more).map(|(ak, _)| *ak);
    Ok(Page { items: lines.into_iter().map(|(_, line)| line).collect(), next })
}

pub(super) fn role(row: &Row<'_>, at: usize) -> rusqlite::Result<Role> {
    let word = row.get_ref(at)?.as_str()?;
    Role::parse(word).map_err(|_| unknown_word(word))
}

pub(super) fn instant(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Timestamp>> {
    row.get::<_, Option<i64>>(at).map(|micros| micros.map(Timestamp::from_micros))
}
