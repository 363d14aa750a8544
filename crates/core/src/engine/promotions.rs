//! Promotions of responses: what a submit stages, and asking again by hand. Deciding on one is in `approvals.rs`, its
//! expiry in `sweep.rs`.

use super::people::audit;
use super::{CommandOutcome, Decided, Engine, step_part};
use crate::access::{Actor, Role};
use crate::approval::promotion::{self, PromotionSources};
use crate::definitions::{DefinitionKind, StoredDefinition};
use crate::error::{Error, Result};
use crate::ids::{SessionId, TenantId, UserId};
use crate::response::{ResponseForm, StoredResponse};
use crate::session::decide::SessionStep;
use crate::store::{Change, IdemKey, Record, Update};

impl Engine {
    /// Asks whether the fields of a submitted response may be written to an entity: for the first time, or again after
    /// a denial or an expiry. For owners and the maker of the form.
    pub async fn promote(
        &self,
        actor: &Actor,
        id: &SessionId,
        assigned_to: Option<&str>,
        key: Option<IdemKey>,
    ) -> Result<StoredResponse> {
        let assigned_to = assigned_to.map(assignee).transpose()?;
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let response = self.response_to_promote(actor, id).await?;
                    let sources = self.promotion_sources(&actor.tenant, &response.row.form).await?;
                    let now = self.tenant.now().await?;
                    let asked =
                        promotion::ask_again(&response, assigned_to.as_ref(), &sources, now, &*self.ids)?;
                    // The row is changed too, so that the session is not deleted concurrently.
                    let step = SessionStep::of(Update::default());
                    let change = Change::new(actor.tenant.clone())
                        .part(step_part(&response.session, step))
                        .record(Record::AddApproval(Box::new(asked)))
                        .audited(audit(actor, "response.promote", id.as_str()));
                    Ok(Decided::<()>::change(change.keyed(key)))
                })
            })
            .await;
        match self.or_replayed(actor, key, done).await? {
            CommandOutcome::Nothing(()) => Err(Error::internal("a promotion asks somebody")),
            CommandOutcome::Done(..) => self.response_to_promote(actor, id).await,
        }
    }

    async fn response_to_promote(&self, actor: &Actor, id: &SessionId) -> Result<StoredResponse> {
        let (target, _) = self.readable(actor, id, None).await?;
        let made_it = actor.user.is_some() && target.view.created_by == actor.user;
        match actor.role {
            Role::Owner => Ok(target.response),
            Role::Member if made_it => Ok(target.response),
            _ => Err(Error::denied("only an owner or the maker of the form promotes its responses")),
        }
    }

    /// The definitions that a promotion of a response to this form rests on.
    pub(super) async fn promotion_sources(
        &self,
        tenant: &TenantId,
        form: &ResponseForm,
    ) -> Result<PromotionSources> {
        let entity = match &form.entity_id {
            Some(id) => self.tenant.doc(tenant, DefinitionKind::Entity, id).await?,
            None => None,
        };
        let criteria = match &form.response.criteria_set_id {
            Some(id) => self.tenant.doc(tenant, DefinitionKind::CriteriaSet, id).await?,
            None => None,
        };
        Ok(PromotionSources {
            entity: entity.as_ref().map(StoredDefinition::of).transpose()?,
            criteria: criteria.as_ref().map(StoredDefinition::of).transpose()?,
        })
    }
}

fn assignee(name: &str) -> Result<UserId> {
    UserId::parse(name).map_err(|error| match error {
        Error::Invalid { message, .. } => Error::invalid("assigned_to", message),
        other => other,
    })
}
