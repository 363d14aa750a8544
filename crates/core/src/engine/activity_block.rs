//! The recent-activity block: for its reader, for a turn and for a run.

use futures_util::future::try_join;
use smallvec::smallvec;

use super::work::fence;
use super::{Engine, RunningTurn};
use crate::access::{self, Actor, Verb};
use crate::activity::block::{self, HumanStep};
use crate::activity::bridge;
use crate::activity::injection::{self, BridgePerson};
use crate::definitions::{Agent, DefinitionKind};
use crate::error::{Error, Result};
use crate::event::EventQuery;
use crate::ids::{SessionId, TenantId, UserId};
use crate::limits;
use crate::store::{BridgeStore, Change, ChangePart, DocStore, EventStore, Guard, PartTarget, Write};
use crate::time::Timestamp;
use crate::work::ClaimedRun;

/// What a person works on and did last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentActivity {
    /// The running bridge that it comes from.
    pub bridge: SessionId,
    /// The text, with its own border.
    pub block: String,
}

impl Engine {
    /// The recent-activity block of the caller. `None`: the caller works on nothing.
    pub async fn activity_block(&self, actor: &Actor, limit: usize) -> Result<Option<RecentActivity>> {
        let person = bridge::person(actor, &self.activity)?;
        if !(1..=limits::ACTIVITY_LINES_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("must be 1 to {}", limits::ACTIVITY_LINES_MAX)));
        }
        self.recent_activity_block(person.as_ref(), &actor.tenant, limit).await
    }

    /// The activity that a turn is given: that of its speaker, in direct talk without other participants.
    pub async fn activity_for_turn(&self, begun: &RunningTurn) -> Result<Option<RecentActivity>> {
        let person = injection::person_of_turn(&begun.session, &begun.speaker);
        self.injected_activity(person, begun.tenant()).await
    }

    /// The activity that a run is given: that of the person who triggered it, where its agent asks for it.
    pub async fn activity_for_run(
        &self,
        claimed: &ClaimedRun,
        agent: Option<&Agent>,
    ) -> Result<Option<RecentActivity>> {
        let person = injection::person_of_run(&claimed.session, agent);
        self.injected_activity(person, &claimed.session.tenant).await
    }

    /// Records in the log of a claimed session that a person's activity enters its prompts.
    pub async fn show_activity(
        &self,
        actor: &Actor,
        id: &SessionId,
        epoch: u64,
        activity: &RecentActivity,
    ) -> Result<()> {
        access::check_general(actor, Verb::Work)?;
        let part = ChangePart {
            on: PartTarget::Session(id.clone()),
            guard: Guard { fence: Some(fence(actor, epoch)), ..Guard::default() },
            writes: smallvec![Write::Append(vec![injection::injected(&activity.bridge)?])],
        };
        self.commit(Change::new(actor.tenant.clone()).part(part)).await.map(drop)
    }

    async fn injected_activity(
        &self,
        person: Option<BridgePerson>,
        tenant: &TenantId,
    ) -> Result<Option<RecentActivity>> {
        let Some(person) = person else { return Ok(None) };
        self.recent_activity_block(person.holder(), tenant, limits::ACTIVITY_LINES_DEFAULT).await
    }

    /// The recent-activity block of a user; `None` is the one person of an installation without authentication.
    async fn recent_activity_block(
        &self,
        user: Option<&UserId>,
        tenant: &TenantId,
        limit: usize,
    ) -> Result<Option<RecentActivity>> {
        let now = self.tenant.now();
        read_block(&*self.tenant, &*self.sessions, now, user, tenant, limit).await
    }
}

/// Reads a block with at most three reads of the store, whatever the limit and however long the log: the running bridge,
/// its newest events, and the titles of all that they name.
async fn read_block<T, S>(
    rows: &T,
    logs: &S,
    now: impl Future<Output = Result<Timestamp>>,
    user: Option<&UserId>,
    tenant: &TenantId,
    limit: usize,
) -> Result<Option<RecentActivity>>
where
    T: BridgeStore + DocStore + Sync + ?Sized,
    S: EventStore + Sync + ?Sized,
{
    let (running, now) = try_join(rows.running_bridge(tenant, user), now).await?;
    let Some(running) = running.filter(|session| !bridge::is_overdue(&session.head, now)) else {
        return Ok(None);
    };
    // A bridge that runs has events of Sederunt's own at its beginning alone, so nothing is filtered.
    let newest =
        EventQuery { newest_first: true, limit: block::steps_to_read(limit), ..EventQuery::default() };
    let page = match logs.events(tenant, &running.id, newest).await {
        // It was deleted in between.
        Err(Error::NotFound) => return Ok(None),
        page => page?,
    };
    let steps = block::shown_steps(page.events.iter().filter_map(HumanStep::of), limit);
    let mut names: Vec<(DefinitionKind, Box<str>)> =
        steps.iter().filter_map(HumanStep::names).map(|(kind, id)| (kind, id.into())).collect();
    names.sort_unstable();
    names.dedup();
    let titles = if names.is_empty() { Vec::new() } else { rows.doc_titles(tenant, &names).await? };
    let task = running.details.title.as_deref().unwrap_or_default();
    let started_at = running.details.started_at.unwrap_or(running.details.created_at);
    let block = block::render(task, started_at, &steps, &titles);
    Ok(Some(RecentActivity { bridge: running.id, block }))
}

#[cfg(test)]
mod tests;
