//! Runs a script on the engine and on the model side by side, and compares after every command.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::test_runner::TestCaseError;
use sederunt_core::access::Actor;
use sederunt_core::clock::SystemClock;
use sederunt_core::engine::{Append, DraftEvent, Engine, Settings};
use sederunt_core::event::EventQuery;
use sederunt_core::json::Json;
use sederunt_core::live::Hub;
use sederunt_core::people::Audit;
use sederunt_core::session::decide::{OpenSession, PatchSession, Transition};
use sederunt_core::session::{SessionType, SourceKind, Status};
use sederunt_core::store::Store;
use sederunt_core::work::{ClaimRequest, Pause, Settle};
use sederunt_core::{CredentialId, Error, Role, SessionId, TenantId, UserId};

use crate::reference::{Answer, Model, name};
use crate::script::{Command, IDS, SESSION_TYPES, TARGETS, TYPES, Who};

pub struct Drive {
    engine: Engine,
    store: Arc<dyn Store>,
    clock: Arc<SystemClock>,
    runs: AtomicU64,
    effects: AtomicU64,
}

type Outcome = Result<(), TestCaseError>;

impl Drive {
    pub fn new(store: Arc<dyn Store>, hub: Arc<Hub>, clock: Arc<SystemClock>) -> Self {
        let engine = Engine::new(store.clone(), hub, Settings::default());
        Self { engine, store, clock, runs: AtomicU64::new(0), effects: AtomicU64::new(0) }
    }

    /// Commands that succeeded, over all scripts.
    pub fn effects(&self) -> u64 {
        self.effects.load(Ordering::Relaxed)
    }

    pub async fn run(&self, script: &[Command]) -> Outcome {
        let tenant = TenantId::stored(format!("model-{}", self.runs.fetch_add(1, Ordering::Relaxed)));
        let audit = Audit { actor: "test".into(), action: "tenant.create", target: tenant.to_string() };
        self.store.create_tenant(&tenant, audit).await.unwrap();
        let mut model = Model::default();
        for (n, command) in script.iter().enumerate() {
            let at = |what: &str| format!("{what} of command {n}: {command:?}");
            let real = self.command(&tenant, command, &model).await;
            let expected = model.run(command);
            let code = real.as_ref().map_or_else(Error::code, |_| "ok");
            if code == "internal" {
                return Err(TestCaseError::fail(format!("{}: {real:?}", at("failure"))));
            }
            let real = Answer { code, detail: real.unwrap_or_default() };
            if real != expected {
                let rows = &model.rows;
                return Err(TestCaseError::fail(format!(
                    "{}\n  engine {real:?}\n  model  {expected:?}\n  model's rows {rows:#?}",
                    at("answer")
                )));
            }
            self.effects.fetch_add(u64::from(code == "ok"), Ordering::Relaxed);
            self.same_rows(&tenant, &model)
                .await
                .map_err(|why| TestCaseError::fail(format!("{why}, after {command:?}")))?;
        }
        self.store.delete_tenant(&tenant).await.unwrap();
        Ok(())
    }

    async fn same_rows(&self, tenant: &TenantId, model: &Model) -> Result<(), String> {
        let owner = actor(tenant, Who::Owner);
        for id in (0..IDS).map(name) {
            let real = self.engine.session(&owner, &SessionId::stored(id.as_str())).await.ok();
            match (real, model.rows.get(&id)) {
                (None, None) => {}
                (Some(real), Some(row)) => {
                    let head = &real.head;
                    let real = (
                        head.status.as_str(),
                        head.inactive,
                        head.last_sequence,
                        head.epoch,
                        head.attempts,
                        head.stop_requested,
                        head.claim.is_some(),
                        head.is_talk,
                    );
                    let want = (
                        row.status,
                        row.inactive,
                        row.log.len() as u64,
                        row.epoch,
                        row.attempts,
                        row.stop,
                        row.claim.is_some(),
                        row.talk,
                    );
                    if real != want {
                        return Err(format!("row {id}: engine {real:?}, model {want:?}"));
                    }
                }
                (real, row) => {
                    return Err(format!("row {id}: engine {}, model {}", real.is_some(), row.is_some()));
                }
            }
        }
        Ok(())
    }

    async fn command(
        &self,
        tenant: &TenantId,
        command: &Command,
        model: &Model,
    ) -> Result<Vec<String>, Error> {
        let engine = &self.engine;
        let sid = |id: &usize| SessionId::stored(name(*id));
        match command {
            Command::Open { who, id, kind, pending, external, with_bob, priority } => {
                let wish = OpenSession {
                    id: Some(name(*id)),
                    session_type: Some(SessionType::parse(SESSION_TYPES[*kind]).unwrap()),
                    status: pending.then_some(Status::Pending),
                    agent_slug: external.then(|| "external".into()),
                    participants: if *with_bob { vec!["bob".into()] } else { Vec::new() },
                    priority: (*priority != 0).then_some(*priority),
                    ..OpenSession::default()
                };
                let opened = engine.open(&actor(tenant, *who), wish, None).await?;
                Ok(vec![if opened.created { "created" } else { "reopened" }.to_owned()])
            }
            Command::Append { who, id, types, epoch, expected, external } => {
                let last = model.rows.get(&name(*id)).map_or(0, |row| row.log.len() as i64);
                let wish = Append {
                    events: types
                        .iter()
                        .enumerate()
                        .map(|(n, kind)| draft(*kind, external.filter(|_| n == 0)))
                        .collect(),
                    expected_sequence: expected.map(|off| u64::try_from(last + off).unwrap_or(0)),
                    epoch: model.epoch_of(&name(*id), *epoch),
                };
                let done = engine.append(&Arc::new(actor(tenant, *who)), &sid(id), wish, None).await?;
                let mut detail: Vec<String> =
                    done.events.iter().map(|event| event.sequence.to_string()).collect();
                if done.stop_requested {
                    detail.push("stop".into());
                }
                Ok(detail)
            }
            Command::Read { who, id } => {
                let query = EventQuery { limit: 1000, ..EventQuery::default() };
                let page = engine.read(&actor(tenant, *who), &sid(id), query).await?;
                Ok(page.events.iter().map(|event| event.kind.as_str().to_owned()).collect())
            }
            Command::Patch { who, id, title } => {
                let wish =
                    PatchSession { title: Some(Some(format!("title {title}"))), ..PatchSession::default() };
                engine.patch(&actor(tenant, *who), &sid(id), wish, None).await.map(|_| Vec::new())
            }
            Command::Transition { who, id, to } => {
                let wish =
                    Transition { to: Status::parse(TARGETS[*to]).unwrap(), expected: None, reason: None };
                engine.transition(&actor(tenant, *who), &sid(id), wish, None).await.map(|_| Vec::new())
            }
            Command::Claim { who, limit } => {
                let request = ClaimRequest {
                    worker: format!("{who:?}"),
                    session_types: Vec::new(),
                    agent_slugs: Vec::new(),
                    limit: *limit,
                    lease: Duration::from_secs(600),
                    wait: Duration::ZERO,
                };
                let claims = engine.claim(&actor(tenant, *who), request, None).await?;
                let named = |claim: &sederunt_core::work::ClaimedRun| {
                    let id = claim.session.id.as_str();
                    format!(
                        "{} {}",
                        if claim.session.details.retry_of.is_some() { "retry" } else { id },
                        claim.epoch
                    )
                };
                Ok(claims.iter().map(named).collect())
            }
            Command::Heartbeat { who, id, epoch } => {
                let epoch = model.epoch_of(&name(*id), *epoch).unwrap_or_default();
                let lease = Some(Duration::from_secs(600));
                let beat = engine.heartbeat(&actor(tenant, *who), &sid(id), epoch, lease).await?;
                Ok(vec![beat.stop_requested.to_string()])
            }
            Command::Settle { who, id, epoch, how } => {
                let epoch = model.epoch_of(&name(*id), *epoch).unwrap_or_default();
                let how = match how {
                    0 => Settle::Complete { result: None, text: None, usage: None },
                    1 => Settle::Fail { error: "x".into(), retryable: true, reason: None, usage: None },
                    2 => Settle::Fail { error: "x".into(), retryable: false, reason: None, usage: None },
                    3 => Settle::Yield { pause: Pause::Tool { call: None }, usage: None },
                    4 => Settle::Yield { pause: Pause::Human { question: None }, usage: None },
                    _ => Settle::Yield { pause: Pause::Idle, usage: None },
                };
                let session = engine.settle(&actor(tenant, *who), &sid(id), epoch, how, None).await?;
                Ok(vec![session.head.status.to_string()])
            }
            Command::Stop { who, id } => {
                engine.stop(&actor(tenant, *who), &sid(id), None).await.map(|_| Vec::new())
            }
            Command::Retry { who, id } => {
                engine.retry(&actor(tenant, *who), &sid(id), None).await.map(|_| Vec::new())
            }
            Command::Delete { who, id } => {
                engine.delete(&actor(tenant, *who), &sid(id)).await.map(|()| Vec::new())
            }
            Command::Advance { seconds } => {
                self.clock.advance(Duration::from_secs(*seconds));
                Ok(Vec::new())
            }
            Command::Sweep => {
                // Twice: a session that the first round moved may be due for silence at the same time.
                engine.sweep().await?;
                engine.sweep().await.map(|_| Vec::new())
            }
        }
    }
}

fn draft(kind: usize, external: Option<u8>) -> DraftEvent {
    let kind = TYPES[kind];
    let json = |text: &str| Json::parse(text.as_bytes()).unwrap();
    DraftEvent {
        kind: kind.into(),
        content: (kind.ends_with(".message") || kind == "human.marker").then(|| json(r#""hello""#)),
        metadata: match kind {
            "tool.invocation_started" => Some(json(r#"{"invocation_id":"i"}"#)),
            "session.error" => Some(json(r#"{"code":"forged","message":"forged"}"#)),
            _ => None,
        },
        // The server alone names what a person records.
        external_event_id: external.filter(|_| kind != "human.marker").map(|n| format!("x{n}")),
        ..DraftEvent::default()
    }
}

fn actor(tenant: &TenantId, who: Who) -> Actor {
    let (role, user) = match who {
        Who::Owner => (Role::Owner, None),
        Who::Ann => (Role::Member, Some("ann")),
        Who::Bob => (Role::Member, Some("bob")),
        Who::Guest => (Role::Guest, Some("guest")),
        Who::WorkerOne | Who::WorkerTwo => (Role::Worker, None),
    };
    Actor {
        tenant: tenant.clone(),
        credential: CredentialId::stored(format!("{who:?}")),
        role,
        user: user.map(UserId::stored),
        prefix: None,
        shared: None,
        view: None,
        link: None,
        surface: SourceKind::Api,
        rules: sederunt_core::talk::route::ChannelRules::default(),
    }
}
