//! The executor: a worker that runs tasks. It claims, works, and settles by the same calls that workers in other
//! languages make over HTTP, and nothing else; so it is fenced as they are.
//!
//! This room owns the loop around runs ([`Executor`]) and one run (`job`). A run keeps nothing that the log does not
//! hold: a worker that takes over after a crash reads the log (`steps::replay`) and goes on. The [`kit`] holds the
//! models and tools.

mod job;
pub mod kit;
mod slots;
mod tool_job;

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::access::Actor;
use sederunt_core::definitions::{Agent, StoredDefinition};
use sederunt_core::engine::{DefinitionFilters, Engine};
use sederunt_core::ids::{CredentialId, ProcessWorker, TenantId};
use sederunt_core::session::SessionType;
use sederunt_core::work::{ClaimRequest, ClaimedRun};
use sederunt_core::{Error, limits as core_limits};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use kit::Kit;

use self::slots::{Slot, Slots};
use crate::limits;
use crate::steps::worker;

/// How a worker works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name that claims show.
    pub worker: String,
    /// Runs at the same time.
    pub runs_max: usize,
    pub lease: Duration,
    /// The base address of the server, for links.
    pub base_url: String,
}

/// Runs pending sessions of all tenants.
#[derive(Clone, Debug)]
pub struct Executor {
    engine: Engine,
    kit: Arc<Kit>,
    settings: Settings,
    credential: CredentialId,
}

/// What a loop of the executor claims.
#[derive(Clone, Copy, Debug)]
enum WorkKind {
    /// Sessions that agents run.
    Agents,
    /// Invocations of tools.
    Tools,
}

/// A claimed session, with its agent as read just before the claim.
#[derive(Clone, Debug)]
pub struct ClaimedWork {
    pub claimed: ClaimedRun,
    agent: Option<StoredDefinition<Agent>>,
}

impl Executor {
    /// Every executor is a worker of its own, with a credential of its own.
    pub fn new(engine: Engine, kit: Arc<Kit>, settings: Settings) -> Self {
        let credential = CredentialId::of_process(ProcessWorker::Executor);
        Self { engine, kit, settings, credential }
    }

    /// Works until told to leave, then finishes the runs that it has begun, as long as its caller waits for it.
    pub async fn serve(&self, mut leaving: watch::Receiver<bool>) {
        let slots = Slots::new(self.settings.runs_max);
        // Agents wait for the tools that they call, so tools have slots of their own.
        let tool_slots = Slots::new(self.settings.runs_max);
        let mut tenants: JoinSet<()> = JoinSet::new();
        let mut known: Vec<TenantId> = Vec::new();
        loop {
            match self.engine.operator().tenants().await {
                Ok(all) => {
                    for tenant in all.into_iter().filter(|tenant| !tenant.suspended) {
                        if !known.contains(&tenant.id) {
                            known.push(tenant.id.clone());
                            for (slots, work) in [(&slots, WorkKind::Agents), (&tool_slots, WorkKind::Tools)]
                            {
                                let (this, slots, leaving) = (self.clone(), slots.clone(), leaving.clone());
                                let tenant = tenant.id.clone();
                                tenants.spawn(async move {
                                    this.serve_tenant(tenant, work, &slots, leaving).await;
                                });
                            }
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(target: "sederunt::work", %error, "the executor could not list tenants; it tries again")
                }
            }
            tokio::select! {
                _ = leaving.wait_for(|leave| *leave) => break,
                () = tokio::time::sleep(limits::TENANTS_LOOK_AGAIN) => {}
            }
        }
        while tenants.join_next().await.is_some() {}
    }

    async fn serve_tenant(
        &self,
        tenant: TenantId,
        work: WorkKind,
        slots: &Slots,
        mut leaving: watch::Receiver<bool>,
    ) {
        let actor = Arc::new(self.actor(tenant));
        let mut runs: JoinSet<()> = JoinSet::new();
        loop {
            let mut woken = self.engine.hub().work(&actor.tenant);
            woken.borrow_and_update();
            // The wake-up may be due to a new agent: read the agents again.
            let mut agents = None;
            let idle = loop {
                let mut reservation = slots.reserve().await;
                if reservation.count() == 0 || *leaving.borrow() {
                    break false;
                }
                let taken = match work {
                    WorkKind::Tools => self.take_tools(&actor, reservation.count()).await,
                    WorkKind::Agents => match self.agents_of_late(&actor, &mut agents).await {
                        Ok(agents) => self.take_for(&actor, agents, reservation.count()).await,
                        Err(error) => Err(error),
                    },
                };
                match taken {
                    Ok(claims) if claims.is_empty() => break true,
                    Ok(claims) => {
                        for taken in claims {
                            let slot = reservation.next().await;
                            let (this, actor) = (self.clone(), actor.clone());
                            runs.spawn(async move { this.run_at(slot, &actor, taken).await });
                        }
                    }
                    Err(error) => {
                        tracing::warn!(target: "sederunt::work", code = error.code(), "the executor could not ask for work; it tries again");
                        break true;
                    }
                }
                while runs.try_join_next().is_some() {}
            };
            if !idle {
                break;
            }
            tokio::select! {
                _ = leaving.wait_for(|leave| *leave) => break,
                _ = woken.changed() => {}
                () = tokio::time::sleep(limits::WORK_LOOK_AGAIN) => {}
            }
        }
        while runs.join_next().await.is_some() {}
    }

    /// Claims up to `most` sessions of agents that run here. Agents that run outside are left alone.
    pub async fn take(&self, actor: &Arc<Actor>, most: usize) -> Result<Vec<ClaimedWork>, Error> {
        let agents = self.agents(actor).await?;
        self.take_for(actor, &agents, most).await
    }

    /// The agents that run here, as read at most [`limits::AGENTS_KEPT`] ago.
    async fn agents_of_late<'a>(
        &self,
        actor: &Arc<Actor>,
        read: &'a mut Option<(Instant, Vec<StoredDefinition<Agent>>)>,
    ) -> Result<&'a [StoredDefinition<Agent>], Error> {
        let kept = read.take().filter(|(at, _)| at.elapsed() < limits::AGENTS_KEPT);
        let now = match kept {
            Some(kept) => kept,
            None => {
                let at = Instant::now();
                (at, self.agents(actor).await?)
            }
        };
        Ok(&read.insert(now).1)
    }

    /// The agents that run here, read now.
    async fn agents(&self, actor: &Arc<Actor>) -> Result<Vec<StoredDefinition<Agent>>, Error> {
        let mut agents: Vec<StoredDefinition<Agent>> = Vec::new();
        let mut after = None;
        loop {
            let page = self
                .engine
                .definitions::<Agent>(actor, DefinitionFilters::default(), after, core_limits::PAGE_ROWS_MAX)
                .await?;
            agents.extend(page.items.into_iter().filter(|agent| self.kit.runs(agent.value.model.as_deref())));
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(agents),
            }
        }
    }

    async fn take_for(
        &self,
        actor: &Arc<Actor>,
        agents: &[StoredDefinition<Agent>],
        most: usize,
    ) -> Result<Vec<ClaimedWork>, Error> {
        let mut slugs = vec!["eliza".to_owned()];
        slugs.extend(agents.iter().map(|agent| agent.value.slug.clone()));
        slugs.dedup();
        for some in slugs.chunks(core_limits::CLAIM_BATCH_MAX) {
            let request = ClaimRequest {
                worker: self.settings.worker.clone(),
                session_types: vec![SessionType::Agent, SessionType::Mixed],
                agent_slugs: some.to_vec(),
                limit: most.min(core_limits::CLAIM_BATCH_MAX),
                lease: self.settings.lease,
                wait: Duration::ZERO,
            };
            let claims = self.engine.claim(actor, request, None).await?;
            if !claims.is_empty() {
                let taken = claims.into_iter().map(|claimed| {
                    let slug = claimed.session.details.agent_slug.as_deref();
                    let agent = agents.iter().find(|agent| Some(agent.value.slug.as_str()) == slug).cloned();
                    ClaimedWork { claimed, agent }
                });
                return Ok(taken.collect());
            }
        }
        Ok(Vec::new())
    }

    /// Claims up to `most` invocations of tools.
    pub async fn take_tools(&self, actor: &Arc<Actor>, most: usize) -> Result<Vec<ClaimedWork>, Error> {
        let request = ClaimRequest {
            worker: self.settings.worker.clone(),
            session_types: vec![SessionType::Tool],
            agent_slugs: Vec::new(),
            limit: most.min(core_limits::CLAIM_BATCH_MAX),
            lease: self.settings.lease,
            wait: Duration::ZERO,
        };
        let claims = self.engine.claim(actor, request, None).await?;
        Ok(claims.into_iter().map(|claimed| ClaimedWork { claimed, agent: None }).collect())
    }

    /// Runs a session to its end, or until another worker holds it.
    pub async fn run(&self, actor: &Arc<Actor>, taken: ClaimedWork) {
        self.run_at(None, actor, taken).await;
    }

    async fn run_at(&self, slot: Option<Slot>, actor: &Arc<Actor>, taken: ClaimedWork) {
        let session = taken.claimed.session.id.clone();
        let (engine, kit) = (self.engine.clone(), self.kit.clone());
        let done = if taken.claimed.session.head.session_type == SessionType::Tool {
            let (actor, claimed, lease) = (actor.clone(), taken.claimed, self.settings.lease);
            let job = tool_job::ToolJob { engine, kit, actor, claimed, lease };
            let done = job.run().await;
            drop(slot);
            done
        } else {
            job::Job::new(engine, kit, actor.clone(), taken, &self.settings, slot).run().await
        };
        match done {
            Ok(()) => {}
            Err(error) if error.code() == "fenced" => {
                tracing::info!(target: "sederunt::work", %session, "the executor lost its claim; another worker goes on with the run");
            }
            Err(error) => {
                tracing::warn!(target: "sederunt::work", %session, code = error.code(), "the executor could not write the end of a run; the run is queued again when its lease ends");
            }
        }
    }

    /// The actor of this worker in a tenant.
    pub fn actor(&self, tenant: TenantId) -> Actor {
        worker(tenant, self.credential.clone())
    }
}
