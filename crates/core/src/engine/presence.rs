//! Commands on presence: renew one's own, end it, read who is there. None of them commits anything.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::Engine;
use crate::access::{self, Actor, Verb};
use crate::error::{Conflict, Error, Result};
use crate::ids::{Incarnation, SessionId, TenantId};
use crate::json::Json;
use crate::limits;
use crate::presence::decide::{self, AccessLoss, PresenceWish};
use crate::presence::{PresenceList, PresenceReader};
use crate::session::Session;
use crate::time::Timestamp;

impl Engine {
    /// Shows the caller as present in a session for [`limits::PRESENCE_LIFE`], or renews that; returns who is present.
    pub async fn attend(
        &self,
        actor: &Actor,
        id: &SessionId,
        state: Option<Json>,
    ) -> Result<Arc<PresenceList>> {
        let session = self.attended(actor, id).await?;
        let incarnation = session.head.incarnation;
        let wish = PresenceWish::of(actor, state)?;
        let now = self.tenant.now().await?;
        if let Some(change) = self.hub.presence().put(&actor.tenant, incarnation, wish, now)? {
            self.hub.presence_changed(&[incarnation]);
            self.sessions.spread_presence(change);
            // Access that was lost since the first look ended no presence yet.
            if let Err(error) = self.attended(actor, id).await {
                self.end_attendance(actor, incarnation).await?;
                return Err(error);
            }
        }
        Ok(self.hub.presence().list(incarnation, Some(now)))
    }

    /// Ends the caller's presence in a session.
    pub async fn absent(&self, actor: &Actor, id: &SessionId) -> Result<()> {
        let session = self.attended(actor, id).await?;
        self.end_attendance(actor, session.head.incarnation).await
    }

    /// Who is present in a session.
    pub async fn present(&self, actor: &Actor, id: &SessionId) -> Result<Arc<PresenceList>> {
        let session = self.load_log(actor, id).await?;
        Ok(self.hub.presence().list(session.head.incarnation, Some(self.tenant.now().await?)))
    }

    /// The session, if the caller may be present in it.
    async fn attended(&self, actor: &Actor, id: &SessionId) -> Result<Session> {
        let session = self.load(actor, Verb::Attend, id).await?;
        access::check_log(actor, &session, self.activity.owners_read)?;
        self.check_shows_no_rows(actor, &session).await?;
        let incognito = self.incognito.as_ref();
        if incognito.is_some_and(|incognito| incognito.is_of_private(&actor.tenant, id)) {
            return Err(Conflict::IncognitoPresence.into());
        }
        Ok(session)
    }

    async fn end_attendance(&self, actor: &Actor, incarnation: Incarnation) -> Result<()> {
        let (person, now) = (decide::person(actor)?, self.tenant.now().await?);
        if let Some(change) = self.hub.presence().leave(incarnation, &person, now) {
            self.hub.presence_changed(&[incarnation]);
            self.sessions.spread_presence(change);
        }
        Ok(())
    }

    /// Ends the presences of people whose access a commit has taken away.
    pub(super) fn end_presences(&self, tenant: &TenantId, losses: Vec<AccessLoss>, at: Timestamp) {
        for loss in losses {
            for change in self.hub.presence_lost(tenant, loss, at) {
                self.sessions.spread_presence(change);
            }
        }
    }

    /// A reader of who is present, for a stream. The first of this node starts the sweep for presences that have
    /// lapsed, which ends with the last reader.
    pub(super) async fn presence_reader(&self, incarnation: Incarnation) -> Result<PresenceReader> {
        let runtime = Handle::try_current().map_err(Error::internal)?;
        let now = self.tenant.now().await?;
        self.hub.presence_changed(&self.hub.presence().lapse(now));
        let (reader, starts_sweep) = PresenceReader::new(self.hub.clone(), incarnation);
        if starts_sweep {
            // Held weakly: a sweep must not keep a store open.
            let (hub, store) = (Arc::downgrade(&self.hub), Arc::downgrade(&self.tenant));
            runtime.spawn(async move {
                loop {
                    tokio::time::sleep(limits::PRESENCE_LOOK_AGAIN).await;
                    let (Some(hub), Some(store)) = (hub.upgrade(), store.upgrade()) else { return };
                    if hub.presence().ends_sweep() {
                        return;
                    }
                    if !hub.presence().is_empty()
                        && let Ok(now) = store.now().await
                    {
                        hub.presence_changed(&hub.presence().lapse(now));
                    }
                }
            });
        }
        Ok(reader)
    }
}
