//! Publishing views: for the run that asks, with the link that opens one to strangers; links to a view; the views of a session
//! that is deleted.

use std::time::Duration;

use smallvec::smallvec;
use uuid::Uuid;

use super::super::people::{NewShare, audit, check_share_life};
use super::super::work::{fence, without_a_claim};
use super::super::{Decided, Engine};
use super::{PublishedView, new_doc};
use crate::access::{self, Actor, Role, ShareAccess, Verb};
use crate::definitions::{DefinitionKind, DocQuery, StoredDefinition, View};
use crate::error::{Conflict, Error, Result};
use crate::ids::{SessionId, UserId, check_name};
use crate::limits;
use crate::people::{SecretHash, Share};
use crate::session::{MemoryMode, Session};
use crate::store::{Change, ChangePart, Guard, IdemKey, PartTarget, Record, Write};
use crate::view::SESSION_FACET;
use crate::view::respondent;

impl Engine {
    /// Publishes a view for a session that the caller has claimed, with a link that opens it to strangers. A repeat
    /// changes nothing, and returns the same link.
    pub async fn publish(
        &self,
        actor: &Actor,
        session: &SessionId,
        epoch: u64,
        id: Option<&str>,
        wish: View,
        key: Option<IdemKey>,
    ) -> Result<PublishedView> {
        access::check_general(actor, Verb::Work)?;
        let id: Box<str> = match (id, key) {
            (Some(id), _) => {
                check_name("id", id)?;
                id.into()
            }
            // A repeat of the call is about the view that the first one made.
            (None, Some(key)) => Uuid::from_bytes(key.scope).to_string().into(),
            (None, None) => self.ids.ordered().to_string().into(),
        };
        let view = View { session_id: Some(session.to_string()), ..wish };
        let secret = self.tenant.installation_key().await?;
        self.decide_and_commit(|| {
            let (id, view) = (id.clone(), view.clone());
            Box::pin(async move {
                if key.is_none()
                    && let Some(doc) = self.tenant.doc(&actor.tenant, DefinitionKind::View, &id).await?
                {
                    let before: StoredDefinition<View> = StoredDefinition::of(&doc)?;
                    return if before.value == view {
                        Ok(Decided::Nothing(()))
                    } else {
                        Err(Conflict::AlreadyExists.into())
                    };
                }
                let found = self.sessions.session(&actor.tenant, session).await?;
                let session = found.ok_or_else(|| without_a_claim(actor, Error::NotFound))?;
                let change = self.publication(actor, &session, epoch, &id, view, &secret).await?;
                Ok(Decided::change(change.keyed(key)))
            })
        })
        .await?;
        let doc = self.tenant.doc(&actor.tenant, DefinitionKind::View, &id).await?.ok_or(Error::NotFound)?;
        let token = respondent::link_token(&secret, &actor.tenant, &id);
        Ok(PublishedView { view: StoredDefinition::of(&doc)?, token })
    }

    async fn publication(
        &self,
        actor: &Actor,
        session: &Session,
        epoch: u64,
        id: &str,
        view: View,
        secret: &[u8; 32],
    ) -> Result<Change> {
        let now = self.tenant.now().await?;
        if !session.head.holds(&actor.credential, epoch, now) {
            return Err(Conflict::Fenced.into());
        }
        if session.head.is_talk || session.details.memory_mode == MemoryMode::Incognito {
            return Err(Error::invalid(
                SESSION_FACET,
                "only work publishes views; talk asks in its own words",
            ));
        }
        let ends = match view.publish_config.expires_at {
            None => now.plus(limits::VIEW_LINK_LIFE),
            Some(end) if end > now && end <= now.plus(limits::SHARE_LIFE_MAX) => end,
            Some(_) => {
                return Err(Error::invalid("publish_config.expires_at", "must lie ahead, within a year"));
            }
        };
        let share = Share {
            id: respondent::link_id(secret, &actor.tenant, id),
            tenant: actor.tenant.clone(),
            session: Some(session.id.clone()),
            access: ShareAccess::Submit,
            view: Some(id.to_owned()),
            user: None,
            created_by: actor.user.clone(),
            created_at: now,
            expires_at: ends,
            revoked_at: None,
            tenant_suspended: false,
        };
        let hash = SecretHash::of(&respondent::link_token(secret, &actor.tenant, id));
        // The row is changed too, so that the session is not deleted concurrently without its views.
        let part = ChangePart {
            on: PartTarget::Session(session.id.clone()),
            guard: Guard { fence: Some(fence(actor, epoch)), ..Guard::default() },
            writes: smallvec![Write::Update(Box::default())],
        };
        let made_by = actor.user.clone().or_else(|| session.head.holder.clone());
        let doc = new_doc(id, view, made_by)?;
        Ok(Change::new(actor.tenant.clone())
            .part(part)
            .record(doc)
            .record(Record::AddShare { share, hash })
            .audited(audit(actor, "view.publish", id)))
    }

    /// Makes a link that opens one view in a browser without signing in. With a user it is personal: that user answers
    /// the view, and only owners make such a link. Without one it lets strangers respond to a view that takes responses,
    /// and owners and the view's maker make it.
    pub async fn share_view(
        &self,
        actor: &Actor,
        id: &str,
        user: Option<&UserId>,
        expires_in: Duration,
        key: Option<IdemKey>,
    ) -> Result<NewShare> {
        access::check_general(actor, if user.is_some() { Verb::Administer } else { Verb::Configure })?;
        check_share_life(expires_in)?;
        let view = self.found_view(actor, id).await?;
        match user {
            Some(user) => {
                if !view.value.takes_answers() {
                    return Err(Error::invalid(
                        "id",
                        "this view is not published: nobody could answer it through a link",
                    ));
                }
                let found = self.tenant.user(&actor.tenant, user).await?;
                if !found.is_some_and(|found| found.is_active() && found.role != Role::Guest) {
                    return Err(Error::invalid(
                        "user_id",
                        "must be an active owner or member of this tenant",
                    ));
                }
            }
            None => {
                if actor.role != Role::Owner && (view.created_by.is_none() || view.created_by != actor.user) {
                    return Err(Error::denied("only an owner, or who made it, shares this view"));
                }
                if view.value.response.is_none() {
                    return Err(Error::invalid(
                        "id",
                        "this view takes no responses; the run that publishes a view makes its link",
                    ));
                }
            }
        }
        let now = self.tenant.now().await?;
        let drawn = self.ids.ordered();
        let share = Share {
            id: drawn.to_string(),
            tenant: actor.tenant.clone(),
            session: view.value.session_id.as_deref().map(SessionId::stored),
            access: ShareAccess::Submit,
            view: Some(view.id.to_string()),
            user: user.cloned(),
            created_by: actor.user.clone(),
            created_at: now,
            expires_at: now.plus(expires_in),
            revoked_at: None,
            tenant_suspended: false,
        };
        self.keep_share(actor, share, None, "view.share", drawn, key).await
    }

    /// The records that delete a deleted session's views.
    pub(in super::super) async fn views_to_drop(&self, session: &Session) -> Result<Vec<Record>> {
        let query = DocQuery {
            kind: DefinitionKind::View,
            facets: vec![(SESSION_FACET, session.id.to_string())],
            text: None,
            of_user: None,
            after: None,
            limit: limits::PAGE_ROWS_MAX,
        };
        let views = self.tenant.docs(&session.tenant, query).await?.items;
        Ok(views
            .into_iter()
            .map(|view| Record::DropDoc { kind: DefinitionKind::View, id: view.id })
            .collect())
    }
}
