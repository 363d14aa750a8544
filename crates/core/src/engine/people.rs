//! Commands on people: keys, users, share links, tenants.

use std::time::Duration;

use uuid::Uuid;

use super::sessions::{audit_name, check_limit};
use super::{Engine, PurgeCounts, step_part};
use crate::access::{self, ActingUser, Actor, Role, ShareAccess, Verb};
use crate::activity::bridge;
use crate::definitions::DefinitionKind;
use crate::document;
use crate::error::{Conflict, Error, Result};
use crate::ids::{CredentialId, SessionId, TenantId, UserId, check_name, check_text};
use crate::limits;
use crate::memory::{Memory, Owner, profile_id, reconcile};
use crate::people::channel::check_external_id;
use crate::people::{
    Audit, Identity, KEY_PREFIX, Key, KnownBy, RefusedCredentials, SecretHash, Share, ShareCursor,
    ShareListQuery, Tenant, User, check_platform,
};
use crate::session::SourceKind;
use crate::session::decide::SessionStep;
use crate::session::query::Page;
use crate::store::{AuditLine, Change, ChangePart, IdemKey, KeyNote, Record, Update};
use crate::talk::route::{ChannelRules, ThreadRule, Who};

/// A key to be made.
#[derive(Clone, Debug, Default)]
pub struct NewKey {
    pub role: Option<Role>,
    pub user: Option<String>,
    pub prefix: Option<String>,
    pub act_as: bool,
    pub expires_in: Option<Duration>,
    /// Who is answered in a channel; only for a channel's key.
    pub who: Option<Who>,
    pub threads: Option<ThreadRule>,
}

/// A key that was made. The secret is shown once: a repeat of the call has none.
#[derive(Clone, Debug)]
pub struct CreatedKey {
    pub key: Key,
    pub secret: Option<String>,
    /// Whether the user that the key names exists; `None` for a key that names no user.
    pub user_exists: Option<bool>,
}

/// The tenant that every installation has: local mode serves it, and its audit trail holds what belongs to no other
/// tenant.
pub(super) const INSTALLATION_TENANT: &str = "default";

/// Refuses a share link with a longer life than allowed.
pub(super) fn check_share_life(expires_in: Duration) -> Result<()> {
    if expires_in.is_zero() || expires_in > limits::SHARE_LIFE_MAX {
        return Err(Error::invalid(
            "expires_in",
            format!("must be 1 to {}", limits::SHARE_LIFE_MAX.as_secs()),
        ));
    }
    Ok(())
}

/// A share link that was made. The token is shown once.
#[derive(Clone, Debug)]
pub struct NewShare {
    pub share: Share,
    pub token: Option<String>,
}

/// A user to be made.
#[derive(Clone, Debug, Default)]
pub struct NewUser {
    pub id: Option<String>,
    pub name: Option<String>,
    pub role: Option<Role>,
}

/// A change of a user.
#[derive(Clone, Debug, Default)]
pub struct UserPatch {
    pub role: Option<Role>,
    pub name: Option<String>,
    pub suspended: Option<bool>,
}

impl Engine {
    pub async fn create_key(&self, actor: &Actor, wish: NewKey, key: Option<IdemKey>) -> Result<CreatedKey> {
        access::check_general(actor, Verb::Administer)?;
        let role = wish.role.ok_or_else(|| Error::invalid("role", "is required"))?;
        if role == Role::Share {
            return Err(Error::invalid("role", "must be owner, member, guest, worker or channel"));
        }
        let user = wish.user.as_deref().map(UserId::parse).transpose()?;
        if matches!(role, Role::Member | Role::Guest) && user.is_none() {
            return Err(Error::invalid("user", "a member's or guest's key names its user"));
        }
        if (role == Role::Channel) != wish.prefix.is_some() {
            return Err(Error::invalid("prefix", "a channel key, and only that, has a session-id prefix"));
        }
        if let Some(prefix) = &wish.prefix {
            check_name("prefix", prefix)?;
            if !prefix.ends_with(':') {
                return Err(Error::invalid(
                    "prefix",
                    "must end with `:`, as `telegram:` does; without it the key would open `telegramx:` as well",
                ));
            }
        }
        for (field, given) in [("who", wish.who.is_some()), ("threads", wish.threads.is_some())] {
            if given && role != Role::Channel {
                return Err(Error::invalid(field, "is for a channel's key alone"));
            }
        }
        if wish.act_as && !role.is_person() {
            return Err(Error::invalid("act_as", "only a person's key acts for others"));
        }
        let user_exists = match &user {
            Some(user) => Some(self.tenant.user(&actor.tenant, user).await?.is_some()),
            None => None,
        };
        let now = self.tenant.now().await?;
        let drawn = self.ids.ordered();
        let made = Key {
            id: CredentialId::stored(drawn.to_string()),
            tenant: actor.tenant.clone(),
            user,
            role,
            prefix: wish.prefix,
            rules: ChannelRules {
                who: wish.who.unwrap_or_default(),
                threads: wish.threads.unwrap_or_default(),
            },
            act_as: wish.act_as,
            created_at: now,
            expires_at: wish.expires_in.map(|life| now.plus(life)),
            revoked_at: None,
        };
        let secret = format!("{KEY_PREFIX}{}", self.ids.secret());
        let hash = SecretHash::of(&secret);
        let change = Change::new(actor.tenant.clone())
            .record(Record::AddKey { key: made.clone(), hash })
            .audited(audit(actor, "key.create", made.id.as_str()))
            .keyed(key.map(|key| IdemKey { note: Some(KeyNote(drawn)), ..key }));
        let done = self.commit(change).await?;
        match done.replay {
            None => Ok(CreatedKey { key: made, secret: Some(secret), user_exists }),
            Some(replay) => {
                let id = replay.note.map(|note| note.0.to_string()).unwrap_or_default();
                let keys = self.tenant.keys(&actor.tenant).await?;
                let first = keys.into_iter().find(|key| key.id.as_str() == id).ok_or(Error::NotFound)?;
                Ok(CreatedKey { key: first, secret: None, user_exists })
            }
        }
    }

    pub async fn keys(&self, actor: &Actor) -> Result<Vec<Key>> {
        access::check_general(actor, Verb::Administer)?;
        self.tenant.keys(&actor.tenant).await
    }

    /// Revokes a key; every node refuses it within five seconds.
    pub async fn revoke_key(&self, actor: &Actor, id: &CredentialId) -> Result<()> {
        access::check_general(actor, Verb::Administer)?;
        if !self.tenant.keys(&actor.tenant).await?.iter().any(|key| key.id == *id) {
            return Err(Error::NotFound);
        }
        let change = Change::new(actor.tenant.clone())
            .record(Record::RevokeKey { id: id.clone() })
            .audited(audit(actor, "key.revoke", id.as_str()));
        self.commit(change).await.map(drop)
    }

    pub async fn create_user(&self, actor: &Actor, wish: NewUser, key: Option<IdemKey>) -> Result<User> {
        access::check_general(actor, Verb::Administer)?;
        let drawn = self.ids.ordered();
        let id = match &wish.id {
            Some(text) => UserId::parse(text)?,
            None => UserId::stored(drawn.to_string()),
        };
        if let Some(name) = &wish.name {
            check_text("name", name, limits::NAME_CHARS_MAX)?;
        }
        let user = User {
            id,
            name: wish.name,
            role: person(wish.role.unwrap_or(Role::Member))?,
            suspended: false,
            merged_into: None,
            known_by: Some(KnownBy::Made),
            told_at: None,
            created_at: self.tenant.now().await?,
            identities: Vec::new(),
        };
        let change = Change::new(actor.tenant.clone())
            .record(Record::AddUser(user.clone()))
            .audited(audit(actor, "user.create", user.id.as_str()))
            .keyed(key.map(|key| IdemKey { note: Some(KeyNote(drawn)), ..key }));
        let done = self.commit(change).await?;
        match (done.replay, &wish.id) {
            (Some(replay), None) => {
                let first = replay.note.map(|note| note.0.to_string()).unwrap_or_default();
                self.found_user(actor, &UserId::stored(first)).await
            }
            _ => self.found_user(actor, &user.id).await,
        }
    }

    pub async fn users(&self, actor: &Actor, after: Option<&str>, limit: usize) -> Result<Vec<User>> {
        access::check_general(actor, Verb::Administer)?;
        check_limit(limit)?;
        self.tenant.users(&actor.tenant, after, limit).await
    }

    pub async fn user(&self, actor: &Actor, id: &UserId) -> Result<User> {
        access::check_general(actor, Verb::Administer)?;
        self.found_user(actor, id).await
    }

    /// Changes a user. A suspended user's credentials are refused within five seconds.
    pub async fn update_user(&self, actor: &Actor, id: &UserId, wish: UserPatch) -> Result<User> {
        access::check_general(actor, Verb::Administer)?;
        let before = self.found_user(actor, id).await?;
        if let Some(name) = &wish.name {
            check_text("name", name, limits::NAME_CHARS_MAX)?;
        }
        let record = Record::UpdateUser {
            id: id.clone(),
            role: wish.role.map(person).transpose()?,
            name: wish.name,
            suspended: wish.suspended,
        };
        let mut change = Change::new(actor.tenant.clone()).record(record).audited(audit(
            actor,
            "user.update",
            id.as_str(),
        ));
        if wish.role.is_some() && before.known_by.is_none() {
            change = change.record(Record::KnowUser { id: id.clone(), known_by: KnownBy::Role });
        }
        self.commit(change).await?;
        self.found_user(actor, id).await
    }

    /// Links a platform account to a user. An identity belongs to one user.
    pub async fn link_identity(
        &self,
        actor: &Actor,
        id: &UserId,
        identity: Identity,
        key: Option<IdemKey>,
    ) -> Result<User> {
        access::check_general(actor, Verb::Administer)?;
        check_platform(&identity.platform)?;
        check_external_id("external_id", &identity)?;
        let user = self.found_user(actor, id).await?;
        if user.identities.contains(&identity) && user.known_by == Some(KnownBy::Linked) {
            return Ok(user);
        }
        let change = Change::new(actor.tenant.clone())
            .record(Record::AddIdentity { user: id.clone(), identity })
            .record(Record::KnowUser { id: id.clone(), known_by: KnownBy::Linked })
            .audited(audit(actor, "user.link", id.as_str()))
            .keyed(key);
        self.commit(change).await?;
        self.found_user(actor, id).await
    }

    /// Merges two users: identities, sessions and memories of the first become the second's.
    pub async fn merge_users(
        &self,
        actor: &Actor,
        from: &UserId,
        into: &UserId,
        key: Option<IdemKey>,
    ) -> Result<User> {
        access::check_general(actor, Verb::Administer)?;
        if from == into {
            return Err(Error::invalid("into", "must be another user"));
        }
        if self.found_user(actor, from).await?.merged_into.as_ref() == Some(into) {
            return self.found_user(actor, into).await;
        }
        let change = self.merge_change(actor, from, into).await?;
        let change = change.audited(audit(actor, "user.merge", from.as_str())).keyed(key);
        self.commit(change).await?;
        self.found_user(actor, into).await
    }

    /// The change that merges two users. Who has an account of the first is linked by an owner now.
    pub(super) async fn merge_change(&self, actor: &Actor, from: &UserId, into: &UserId) -> Result<Change> {
        let source = self.found_user(actor, from).await?;
        self.found_user(actor, into).await.map_err(|_| Error::invalid("into", "names no user"))?;
        let (theirs, mine) = (Owner::user(from), Owner::user(into));
        let given_up = self.sessions.memory(&actor.tenant, &profile_id(&theirs)).await?;
        // Both may have a running bridge, and one person has one.
        let mut change = match self.tenant.running_bridge(&actor.tenant, Some(from)).await? {
            Some(running) => self.change_for(&running, bridge::end_merged(&running)?).await?,
            None => Change::new(actor.tenant.clone()),
        };
        change = change
            .record(Record::MergeUser { from: from.clone(), into: into.clone() })
            .record(Record::MoveMemories { from: theirs, into: mine.clone() });
        if let Some(profile) = given_up.as_ref().and_then(Memory::profile) {
            let kept = self.sessions.memory(&actor.tenant, &profile_id(&mine)).await?;
            let now = self.tenant.now().await?;
            let merged = reconcile::with_profile(&mine, kept.as_ref(), profile, now);
            change.records.extend(merged.map(|memory| Record::PutMemory(Box::new(memory))));
        }
        if let Some(Memory { id, .. }) = given_up {
            change = change.record(Record::DropMemory { id: id.into() });
        }
        if !source.identities.is_empty() {
            change = change.record(Record::KnowUser { id: into.clone(), known_by: KnownBy::Linked });
        }
        Ok(change)
    }

    async fn found_user(&self, actor: &Actor, id: &UserId) -> Result<User> {
        self.tenant.user(&actor.tenant, id).await?.ok_or(Error::NotFound)
    }

    /// Makes a link that opens one session to anyone who has it, until it expires or is revoked.
    pub async fn share(
        &self,
        actor: &Actor,
        id: &SessionId,
        access: ShareAccess,
        expires_in: Duration,
        key: Option<IdemKey>,
    ) -> Result<NewShare> {
        let session = self.load(actor, Verb::Share, id).await?;
        bridge::check_none(&session, "shared")?;
        if self.has_row_document(&actor.tenant, id).await? {
            return Err(Conflict::HasRowDocuments.into());
        }
        check_share_life(expires_in)?;
        let now = self.tenant.now().await?;
        let drawn = self.ids.ordered();
        let share = Share {
            id: drawn.to_string(),
            tenant: actor.tenant.clone(),
            session: Some(session.id.clone()),
            access,
            view: None,
            user: None,
            created_by: actor.user.clone(),
            created_at: now,
            expires_at: now.plus(expires_in),
            revoked_at: None,
            tenant_suspended: false,
        };
        // The row's version keeps out a document of an entity or a view that is opened at the same time.
        let may_have_documents = document::check_session(&session).is_ok();
        let part = may_have_documents.then(|| step_part(&session, SessionStep::of(Update::default())));
        self.keep_share(actor, share, part, "share.create", drawn, key).await
    }

    /// Stores a new share link with its audit line. A repeat with the same key gets the first link, without its
    /// token.
    pub(super) async fn keep_share(
        &self,
        actor: &Actor,
        share: Share,
        part: Option<ChangePart>,
        action: &'static str,
        drawn: Uuid,
        key: Option<IdemKey>,
    ) -> Result<NewShare> {
        let token = self.ids.secret();
        let hash = SecretHash::of(&token);
        let mut change = Change::new(actor.tenant.clone())
            .record(Record::AddShare { share: share.clone(), hash })
            .audited(audit(actor, action, &share.id))
            .keyed(key.map(|key| IdemKey { note: Some(KeyNote(drawn)), ..key }));
        change.parts.extend(part);
        let done = self.commit(change).await?;
        match done.replay {
            None => Ok(NewShare { share, token: Some(token) }),
            Some(replay) => {
                let first = replay.note.map(|note| note.0.to_string()).unwrap_or_default();
                let share = self
                    .sessions
                    .share(&actor.tenant, &first, &ActingUser::of(actor))
                    .await?
                    .ok_or(Error::NotFound)?;
                Ok(NewShare { share, token: None })
            }
        }
    }

    /// The share links that the caller may see, newest first. None of them shows its token.
    pub async fn shares(
        &self,
        actor: &Actor,
        session: Option<SessionId>,
        view: Option<String>,
        after: Option<ShareCursor>,
        limit: usize,
    ) -> Result<Page<Share, ShareCursor>> {
        access::check_general(actor, Verb::Share)?;
        check_limit(limit)?;
        let query = ShareListQuery { session, view, by: ActingUser::of(actor), after, limit };
        self.sessions.shares(&actor.tenant, query).await
    }

    /// Revokes a share link; open streams through it end within five seconds.
    pub async fn revoke_share(&self, actor: &Actor, id: &str) -> Result<()> {
        let by = ActingUser::of(actor);
        let share = self.sessions.share(&actor.tenant, id, &by).await?.ok_or(Error::NotFound)?;
        self.check_share(actor, &share).await?;
        let change = Change::new(actor.tenant.clone())
            .record(Record::RevokeShare { id: id.to_owned(), by })
            .audited(audit(actor, "share.revoke", id));
        self.commit(change).await.map(drop)
    }

    /// Checks that the caller may revoke a share link: the holder of its session may, and an owner. A link to a view
    /// alone is revoked by the user who made it, the user who made its view, and an owner.
    async fn check_share(&self, actor: &Actor, share: &Share) -> Result<()> {
        if let Some(session) = &share.session {
            return self.load(actor, Verb::Share, session).await.map(drop);
        }
        if actor.role == Role::Owner {
            return Ok(());
        }
        let is_theirs = |user: &Option<UserId>| actor.user.is_some() && *user == actor.user;
        if actor.role == Role::Member
            && (is_theirs(&share.created_by) || is_theirs(&self.maker_of_view(share).await?))
        {
            return Ok(());
        }
        Err(Error::NotFound)
    }

    /// The user who made the view that a share link opens.
    async fn maker_of_view(&self, share: &Share) -> Result<Option<UserId>> {
        let Some(view) = &share.view else { return Ok(None) };
        let doc = self.tenant.doc(&share.tenant, DefinitionKind::View, view).await?;
        Ok(doc.and_then(|doc| doc.created_by))
    }

    /// A page of the audit trail, newest first.
    pub async fn audit(
        &self,
        actor: &Actor,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Page<AuditLine, i64>> {
        access::check_general(actor, Verb::Administer)?;
        check_limit(limit)?;
        self.tenant.audit(&actor.tenant, after, limit).await
    }

    /// Writes an audit line about an action that changed nothing itself.
    pub(super) async fn note(&self, actor: &Actor, action: &'static str, target: &str) -> Result<()> {
        self.commit(Change::new(actor.tenant.clone()).audited(audit(actor, action, target))).await.map(drop)
    }

    /// Records that calls from an address were refused because of an invalid credential. Such calls belong to no
    /// tenant that can be trusted, so they are recorded in the trail of the installation's own tenant.
    pub async fn note_refused_credentials(&self, address: &str, refused: RefusedCredentials) -> Result<()> {
        let own = TenantId::stored(INSTALLATION_TENANT);
        if self.tenant.tenant(&own).await?.is_none() {
            return Ok(());
        }
        let audit =
            Audit { actor: address.to_owned(), action: "credential.refused", target: refused.to_string() };
        self.commit(Change::new(own).audited(audit)).await.map(drop)
    }
}

/// What the operator of an installation does above all tenants. Surfaces make this handle only for a caller that
/// proved to be the operator.
#[derive(Clone, Debug)]
pub struct Operator<'a>(&'a Engine);

impl Engine {
    /// The handle above tenants. The surface must prove that the caller is the operator.
    pub fn operator(&self) -> Operator<'_> {
        Operator(self)
    }
}

impl Operator<'_> {
    /// The operator as the owner of one tenant.
    pub fn owner_of(tenant: TenantId, surface: SourceKind) -> Actor {
        Actor { tenant, credential: CredentialId::stored(access::OPERATOR), ..Actor::local(surface) }
    }

    pub async fn tenants(&self) -> Result<Vec<Tenant>> {
        self.0.tenant.tenants().await
    }

    /// One tenant, if there is one of this name.
    pub async fn tenant(&self, id: &TenantId) -> Result<Tenant> {
        self.0.tenant.tenant(id).await?.ok_or(Error::NotFound)
    }

    pub async fn create_tenant(&self, id: &TenantId) -> Result<Tenant> {
        self.0.tenant.create_tenant(id, operator_audit("tenant.create", id.as_str())).await
    }

    /// Suspends or resumes a tenant; its credentials follow within five seconds.
    pub async fn suspend_tenant(&self, id: &TenantId, suspended: bool) -> Result<Tenant> {
        let action = if suspended { "tenant.suspend" } else { "tenant.resume" };
        self.0.tenant.suspend_tenant(id, suspended, operator_audit(action, id.as_str())).await
    }

    /// Removes a tenant with everything in it.
    pub async fn delete_tenant(&self, id: &TenantId) -> Result<()> {
        if id.as_str() == INSTALLATION_TENANT {
            return Err(Error::denied("the default tenant stays: local mode serves it"));
        }
        self.tenant(id).await?;
        if let Some(incognito) = &self.0.incognito {
            incognito.forget_tenant(id).await?;
        }
        self.0.tenant.delete_tenant(id).await?;
        // The tenant's own trail is deleted with it.
        self.note("tenant.delete", id.as_str()).await
    }

    /// Deletes old ratings and crisis records of all tenants, as the server does once a day by [`Engine::purge_records`]. An
    /// audit line comes first.
    pub async fn purge_records(
        &self,
        ratings: Option<Duration>,
        crises: Option<Duration>,
    ) -> Result<PurgeCounts> {
        let cut = self.0.purge_cutoffs(ratings, crises).await?;
        let target = format!("ratings before {}, crises before {}", cut.ratings.day(), cut.crises.day());
        self.note("records.purge", &target).await?;
        self.0.purge_before(cut).await
    }

    /// Writes down that the operator made a backup of the store, which is a copy of everything in it. `name` is that of
    /// the backup's directory.
    pub async fn note_backup(&self, name: &str) -> Result<()> {
        check_text("name", name, limits::NAME_CHARS_MAX)?;
        self.note("store.backup", name).await
    }

    /// Writes a line into the trail of the installation about what concerns all tenants, or none that is left.
    async fn note(&self, action: &'static str, target: &str) -> Result<()> {
        let own = TenantId::stored(INSTALLATION_TENANT);
        if self.0.tenant.tenant(&own).await?.is_none() {
            return Ok(());
        }
        self.0.commit(Change::new(own).audited(operator_audit(action, target))).await.map(drop)
    }
}

fn operator_audit(action: &'static str, target: &str) -> Audit {
    Audit { actor: "operator".into(), action, target: target.to_owned() }
}

pub(super) fn audit(actor: &Actor, action: &'static str, target: &str) -> Audit {
    Audit { actor: audit_name(actor), action, target: target.to_owned() }
}

fn person(role: Role) -> Result<Role> {
    Role::parse_person(role.as_str())
}
