//! The one handle that every surface calls.
//!
//! Each command loads what it needs, decides purely, and commits once. When the row has changed between the two, the
//! command is decided again, a bounded number of times; the caller sees a conflict only if the decision itself
//! changes. The methods are in one file per noun.

mod activity;
mod activity_block;
mod approval_context;
mod approvals;
mod channel_delivery;
mod channel_people;
mod channels;
mod consequences;
mod credential;
mod crises;
mod definitions;
mod document_apply;
mod document_desk;
mod document_patches;
mod documents;
mod elicitation;
mod feedback;
mod figures;
mod lessons;
mod log;
mod memory;
mod pauses;
mod people;
mod presence;
mod promotions;
mod queue;
mod quotas;
mod ratings;
mod responses;
mod retries;
mod sessions;
mod sign_in;
mod sittings;
mod stream;
mod sweep;
mod talk;
mod talk_memory;
mod tasks;
mod tool_steps;
mod tools;
mod transcript;
mod views;
mod work;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;

pub use activity::StartedBridge;
pub use activity_block::RecentActivity;
pub use approval_context::{ApprovalContext, OutputAttempt};
pub use channels::{ChannelHold, ReceivedMessage};
pub use credential::{Credential, TokenClaims};
pub use crises::CrisisHold;
pub use definitions::{BUILT_IN_AGENTS, DefinitionFilters};
pub use document_apply::AppliedDocument;
pub use document_patches::{PatchRequest, PatchedDocument};
pub use documents::DocumentValue;
pub use elicitation::HeldAnswer;
pub use feedback::{CaptureOutcome, FeedbackEnding, FeedbackOpening};
pub use figures::{ApprovalFigures, FigureFeed, FigureNews};
pub use lessons::{LessonPatch, LessonSearch};
pub use log::{Append, AppendResult, DraftEvent};
pub use memory::{MemoryScope, MemoryStatus, PurgeCounts};
pub use people::{CreatedKey, NewKey, NewShare, NewUser, Operator, UserPatch};
pub use queue::WaitingItem;
pub use ratings::{SittingRating, SittingRatingResult};
pub use responses::{OpenedResponse, SubmittedResponse};
pub use sessions::OpenedSession;
pub use sign_in::SignedIn;
pub use sittings::LookbackResult;
pub use stream::{HintStream, LogStream, StreamItem};
pub use sweep::SweepCounts;
pub use talk::{FinishedTurn, NextTurn, Post, PostFate, PostResult, RecordedTurn, RunningTurn, SpokenTurn};
pub use tasks::{EntitySession, TaskStanding, duration_of};
pub use tools::{ToolHistory, ToolStart};
pub use transcript::TalkStanding;
pub use views::{Asker, OpenedView, PublishedView, Submission, SubmitResult, ViewDisplay};
pub use work::{Brief, InvokedTool};

use crate::access::{self, Actor, Verb};
use crate::activity::ActivitySettings;
use crate::definitions::ModelCheck;
use crate::definitions::agent::SecretHosts;
use crate::error::{Conflict, Error, Result};
use crate::ids::{IdSource, RandomIds, SessionId};
use crate::limits;
use crate::live::Hub;
use crate::presence::decide;
use crate::quota::QuotaSettings;
use crate::session::Session;
use crate::session::decide::SessionStep;
use crate::store::incognito::IncognitoRouter;
use crate::store::{
    Change, ChangePart, CommitResult, Guard, IdemKey, PartTarget, PrivateLimits, Refusal, SessionStore,
    Store, TenantStore, Vitals, Write,
};
use crate::time::Timestamp;

/// Times and counts that an operator may set.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub lease: Duration,
    pub attempts_max: u32,
    pub talk: crate::talk::Settings,
    /// Silence that closes a feedback session.
    pub feedback_silence: Duration,
    /// Names sessions by the hash of their id alone in records that must not lead back to them, as older exports have
    /// it.
    pub plain_opaque_ids: bool,
    /// How much memory incognito sessions may take.
    pub incognito: PrivateLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: limits::LEASE_DEFAULT,
            attempts_max: limits::ATTEMPTS_MAX,
            talk: crate::talk::Settings::default(),
            feedback_silence: limits::FEEDBACK_SILENCE,
            plain_opaque_ids: false,
            incognito: PrivateLimits::default(),
        }
    }
}

/// The product. Cheap to clone; all clones share one state.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Rows of one session, in the durable store or the incognito one.
    sessions: Arc<dyn SessionStore>,
    /// Rows of a tenant or of the installation.
    tenant: Arc<dyn TenantStore>,
    hub: Arc<Hub>,
    /// Where random ids and secrets come from; decisions are handed what they need.
    ids: Arc<dyn IdSource>,
    settings: Settings,
    activity: Arc<ActivitySettings>,
    /// The store of incognito sessions; without it, none may be opened.
    incognito: Option<Arc<IncognitoRouter>>,
    untaught: Arc<lessons::LessonlessTenants>,
    quotas: Arc<quotas::QuotaBook>,
    /// The documents that this node keeps parsed.
    documents: Arc<document_desk::DocumentDesk>,
    /// The hosts to which the operator's tool secrets may be sent.
    secret_hosts: Arc<OnceLock<SecretHosts>>,
    /// How much strangers send through channels.
    strangers: channel_people::Strangers,
    /// The figures that streams of people tell of.
    figures: Arc<figures::FigureDesk>,
    /// What the operator's configuration says of models.
    models: Arc<OnceLock<Arc<dyn ModelCheck>>>,
}

impl Engine {
    /// Builds the engine over a store. The hub must be the one that the store publishes into.
    pub fn new(store: Arc<dyn Store>, hub: Arc<Hub>, settings: Settings) -> Self {
        Self {
            sessions: store.clone(),
            tenant: store,
            hub,
            ids: Arc::new(RandomIds),
            settings,
            activity: Arc::default(),
            incognito: None,
            untaught: Arc::default(),
            quotas: Arc::default(),
            documents: Arc::default(),
            secret_hosts: Arc::default(),
            strangers: Arc::default(),
            figures: Arc::default(),
            models: Arc::default(),
        }
    }

    /// Keeps incognito sessions in a store of their own, which is opened with the first of them and must publish into
    /// the same hub.
    #[must_use]
    pub fn with_private(self, open: impl Fn() -> Result<Arc<dyn Store>> + Send + Sync + 'static) -> Self {
        let router = Arc::new(IncognitoRouter::new(self.sessions, Box::new(open), self.settings.incognito));
        Self { sessions: router.clone(), incognito: Some(router), ..self }
    }

    /// Draws ids from another source.
    #[must_use]
    pub fn with_ids(self, ids: Arc<dyn IdSource>) -> Self {
        Self { ids, ..self }
    }

    /// Sets what is recorded of people's own activity, and who reads it.
    #[must_use]
    pub fn with_activity(self, settings: ActivitySettings) -> Self {
        Self { activity: Arc::new(settings), ..self }
    }

    /// Sets the quotas of tenants and users.
    #[must_use]
    pub fn with_quotas(self, settings: QuotaSettings) -> Self {
        Self { quotas: Arc::new(quotas::QuotaBook::new(settings)), ..self }
    }

    /// Declares the hosts that each secret may be sent to; from now on, agents that would send one elsewhere are
    /// refused. Only the first declaration counts.
    pub fn declare_secrets(&self, hosts: SecretHosts) {
        self.secret_hosts.get_or_init(|| hosts);
    }

    /// Declares the models of this server: definitions that name another one get a warning from now on. Only the first
    /// declaration counts.
    pub fn declare_models(&self, models: Arc<dyn ModelCheck>) {
        self.models.get_or_init(|| models);
    }

    /// The time by the store's clock, which leases, deadlines and events go by.
    pub async fn now(&self) -> Result<Timestamp> {
        self.tenant.now().await
    }

    /// Answers when the store can read; `Unavailable` otherwise.
    pub async fn ready(&self) -> Result<()> {
        self.tenant.ready().await
    }

    /// The store's kind, version and figures.
    pub async fn vitals(&self) -> Result<Vitals> {
        self.tenant.vitals().await
    }

    /// Brings the search index up to everything that was acknowledged before this call.
    pub async fn index_now(&self) -> Result<()> {
        self.tenant.index_now().await
    }

    /// Finishes queued writes and releases files and connections.
    pub async fn close(&self) {
        if let Some(incognito) = &self.incognito {
            incognito.close().await;
        }
        self.tenant.close().await;
    }

    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The session, if the caller may do this with it.
    async fn load(&self, actor: &Actor, verb: Verb, id: &SessionId) -> Result<Session> {
        let found = match actor.link {
            Some(hash) => {
                let shared = self.sessions.shared_session(&actor.tenant, hash, id).await?;
                shared.map(|shared| shared.into_session(actor.tenant.clone()))
            }
            None => self.sessions.session(&actor.tenant, id).await?,
        };
        let session = found.ok_or(Error::NotFound)?;
        access::check(actor, verb, &session)?;
        Ok(session)
    }

    /// The session, if the caller may read its log.
    async fn load_log(&self, actor: &Actor, id: &SessionId) -> Result<Session> {
        let session = self.load(actor, Verb::Read, id).await?;
        access::check_log(actor, &session, self.activity.owners_read)?;
        self.check_shows_no_rows(actor, &session).await?;
        Ok(session)
    }

    /// Commits what `decide` makes of the newest rows; decides again while they keep changing.
    ///
    /// The rounds are boxed: the compiler cannot yet prove of an asynchronous closure's future that it may move
    /// between threads.
    async fn decide_and_commit<'a, N, T>(
        &self,
        decide: impl FnMut() -> BoxFuture<'a, Result<Decided<N, T>>>,
    ) -> Result<CommandOutcome<N, T>> {
        self.decide_within(limits::DECIDE_ROUNDS_MAX, decide).await
    }

    /// [`Self::decide_and_commit`] for rows that more callers change at once than the usual number of rounds allows.
    async fn decide_within<'a, N, T>(
        &self,
        rounds: usize,
        mut decide: impl FnMut() -> BoxFuture<'a, Result<Decided<N, T>>>,
    ) -> Result<CommandOutcome<N, T>> {
        let mut refused: Error = Conflict::SessionBusy.into();
        for _ in 0..rounds {
            let (change, value) = match decide().await? {
                Decided::Nothing(kept) => return Ok(CommandOutcome::Nothing(kept)),
                Decided::Change(change, value) => (change, value),
            };
            let is_joint = change.parts.len() > 1;
            match self.try_commit(*change).await {
                Ok(committed) => return Ok(CommandOutcome::Done(Box::new(committed), value)),
                Err(Refusal::Stale) => refused = Conflict::SessionBusy.into(),
                // The missing session may be a related one that was deleted meanwhile: decide again.
                Err(Refusal::Rejected(Error::NotFound)) if is_joint => refused = Error::NotFound,
                Err(Refusal::Rejected(error)) => return Err(error),
            }
        }
        Err(refused)
    }

    /// If a command now fails, its idempotency key is looked up: a repeat gets the first answer.
    async fn or_replayed<N, T: Default>(
        &self,
        actor: &Actor,
        key: Option<IdemKey>,
        done: Result<CommandOutcome<N, T>>,
    ) -> Result<CommandOutcome<N, T>> {
        match (done, key) {
            (Err(error @ (Error::Conflict(_) | Error::Denied(_))), Some(key)) => {
                match self.sessions.recall(&actor.tenant, key).await? {
                    Some(replay) => {
                        let (at, parts) = (self.tenant.now().await?, smallvec::SmallVec::new());
                        let first = CommitResult { at, parts, replay: Some(replay) };
                        Ok(CommandOutcome::Done(Box::new(first), T::default()))
                    }
                    None => Err(error),
                }
            }
            (done, _) => done,
        }
    }

    /// The session that a command made or changed, as it is now. Every answer to a repeated request that holds a
    /// session comes through here: what the first request did is shown only to a caller who may read it now.
    async fn session_after(&self, actor: &Actor, id: &SessionId, done: &CommitResult) -> Result<Session> {
        let session = self.sessions.session(&actor.tenant, id).await?.ok_or(Error::NotFound)?;
        if done.replay.is_some() {
            access::check_replay(actor, &session)?;
        }
        Ok(session)
    }

    /// Commits a change, then counts what it uses and sends its milestones. A repeat does neither: the first commit did.
    /// Every commit of the engine goes through here.
    async fn try_commit(&self, mut change: Change) -> Result<CommitResult, Refusal> {
        let milestones = std::mem::take(&mut change.milestones);
        let (made, freed) = quotas::foreseen(&change);
        if !made.is_empty() {
            self.check_session_quota(&change.tenant, &made).await?;
        }
        self.check_strangers(&change).await?;
        let tenant = change.tenant.clone();
        let losses = decide::losses(&change);
        let done = self.sessions.commit(change).await?;
        if done.replay.is_none() {
            self.end_presences(&tenant, losses, done.at);
            self.count_use(&tenant, &made, freed, &done);
            for milestone in &milestones {
                if let Some(code) = milestone.failure() {
                    tracing::warn!(
                        target: "sederunt::work", tenant = %milestone.tenant, task = %milestone.task_id,
                        session = %milestone.session, code, "a run of a task failed; its log says why"
                    );
                }
                self.hub.tell(milestone, done.at);
            }
        }
        Ok(done)
    }

    /// Commits a change that was decided on nothing that could change.
    async fn commit(&self, change: Change) -> Result<CommitResult> {
        match self.try_commit(change).await {
            Ok(committed) => Ok(committed),
            Err(Refusal::Stale) => Err(Conflict::SessionBusy.into()),
            Err(Refusal::Rejected(error)) => Err(error),
        }
    }
}

/// What a command decided: to write nothing, or a change, with a value that is handed on after its commit.
enum Decided<N, T = ()> {
    Nothing(N),
    Change(Box<Change>, T),
}

impl<N> Decided<N> {
    fn change(change: Change) -> Self {
        Self::Change(Box::new(change), ())
    }
}

/// What became of a command. `T` belongs to the change that was committed.
enum CommandOutcome<N, T = ()> {
    Nothing(N),
    Done(Box<CommitResult>, T),
}

/// The part that carries out a step on the row that it was decided on.
fn step_part(session: &Session, step: SessionStep) -> ChangePart {
    let mut writes = smallvec::SmallVec::new();
    if !step.events.is_empty() {
        writes.push(Write::Append(step.events));
    }
    writes.push(Write::Update(Box::new(step.update)));
    ChangePart { on: PartTarget::Session(session.id.clone()), guard: Guard::seen(session), writes }
}
