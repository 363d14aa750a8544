//! An approval with what a person needs to decide on it: the session that asks, its task and entity, and what was frozen
//! with the question.

use super::Engine;
use crate::access::{Actor, Verb, check};
use crate::approval::{Approval, ApprovalKind};
use crate::definitions::criteria::Dimension;
use crate::definitions::{Definition, DefinitionKind, Entity, StoredDefinition, Task, reader, shows};
use crate::document::DocumentKind;
use crate::error::Result;
use crate::limits;
use crate::session::Session;
use crate::work::output::OutputContract;
use crate::work::run::Run;

/// What stands around an approval, as far as the caller may see it.
#[derive(Clone, Debug)]
pub struct ApprovalContext {
    /// `None` for a caller who decides without taking part in the session.
    pub session: Option<Session>,
    pub task: Option<StoredDefinition<Task>>,
    /// The entity that is written to or, if nothing is written, that the session is about, as it is now.
    pub entity: Option<StoredDefinition<Entity>>,
    /// The output contract that was frozen when the run was started.
    pub contract: Option<OutputContract>,
    /// The dimensions that judge what is staged, and an edit of it.
    pub criteria: Vec<Dimension>,
    pub attempt: Option<OutputAttempt>,
}

/// The how-manieth output of a run waits; after the last denial the run fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputAttempt {
    pub number: usize,
    pub limit: usize,
}

impl Engine {
    /// An approval that the caller may decide, with its context: the approval, its session, and then its task and entity
    /// are read, whatever their size.
    pub async fn approval_in_context(&self, actor: &Actor, id: &str) -> Result<(Approval, ApprovalContext)> {
        let approval = self.approval(actor, id).await?;
        let session = self.sessions.session(&actor.tenant, &approval.session).await?;
        let run = session.as_ref().map(Run::of).unwrap_or_default();
        let promotion = approval.body.promotion.as_ref();
        let is_view = promotion
            .and_then(|target| target.document.as_ref())
            .is_some_and(|document| document.kind == DocumentKind::View.as_str());
        let entity = match promotion {
            Some(target) => Some(target.entity_id.as_str()).filter(|_| !is_view),
            None => session.as_ref().and_then(|session| session.details.entity_id.as_deref()),
        };
        let (task, entity) = futures_util::try_join!(
            self.shown_definition::<Task>(actor, approval.task_id.as_deref()),
            self.shown_definition::<Entity>(actor, entity),
        )?;
        let context = ApprovalContext {
            task,
            entity,
            criteria: promotion.map_or(run.criteria, |target| target.criteria.clone()),
            attempt: (approval.kind == ApprovalKind::Output)
                .then_some(OutputAttempt { number: run.denials.len() + 1, limit: limits::DENIALS_MAX }),
            contract: run.output,
            session: session.filter(|session| check(actor, Verb::Read, session).is_ok()),
        };
        Ok((approval, context))
    }

    /// A definition by its id; `None` where there is none, or none that the caller may read.
    pub(super) async fn shown_definition<T: Definition>(
        &self,
        actor: &Actor,
        id: Option<&str>,
    ) -> Result<Option<StoredDefinition<T>>> {
        let kind: DefinitionKind = T::KIND;
        let (Some(id), Ok(reader)) = (id, reader(actor, kind)) else { return Ok(None) };
        let doc = self.tenant.doc(&actor.tenant, kind, id).await?;
        doc.filter(|doc| shows(doc, reader.as_ref())).as_ref().map(StoredDefinition::of).transpose()
    }
}
