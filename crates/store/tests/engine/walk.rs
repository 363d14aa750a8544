//! A random walk: members, a guest, a worker and holders of share links, who have few rights, make any calls in any
//! order, and after every call an owner checks the tenant. The oracles share no code with the rules that they check.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Write as _};
use std::sync::Arc;

use sederunt_core::access::{Actor, ShareAccess};
use sederunt_core::approval::decide::{Decision, DecisionRequest};
use sederunt_core::approval::{ApprovalQuery, ApprovalState};
use sederunt_core::definitions::{Entity, Task};
use sederunt_core::engine::DefinitionFilters;
use sederunt_core::error::{Error, Result};
use sederunt_core::event::EventQuery;
use sederunt_core::json::Json;
use sederunt_core::memory::owner::MemoryAct;
use sederunt_core::memory::{Category, Fact, Memory, MemoryBody, MemoryKind, Owner};
use sederunt_core::session::decide::{OpenSession, PatchSession, Transition};
use sederunt_core::session::query::{SessionQuery, TypeFilter};
use sederunt_core::session::{Session, SessionType, Status};
use sederunt_core::store::{Change, Record};
use sederunt_core::work::{ClaimRequest, ClaimedRun, Settle};
use sederunt_core::{Role, SessionId, Timestamp, UserId, strict};

use crate::harness::{World, request, says, wish};

/// Walks, and calls of each: a few seconds on a slow machine.
const WALKS: u64 = 6;
const CALLS: usize = 250;

/// Sessions that exist from the beginning, each with a word that only its readers may see.
const ROOMS: [(&str, &str, &[&str]); 4] = [
    ("room-ada", "ada", &[]),
    ("room-mallory", "mallory", &[]),
    ("room-shared", "mallory", &["ada", "gus"]),
    ("room-owner", "owner", &[]),
];

/// How many calls there are to choose from, and two of them.
const WAYS: usize = 26;
const CLAIM: usize = 19;
const SETTLE: usize = 20;

/// A word in a memory of ada.
const REMEMBERED: &str = "keeps bees";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_walk_of_small_callers_goes_beyond_their_rights() {
    let chosen = std::env::var("SEDERUNT_WALK_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let first = chosen.unwrap_or_else(|| u64::try_from(now.as_micros()).unwrap());
    for seed in first..first + if chosen.is_some() { 1 } else { WALKS } {
        let walk = tokio::spawn(async move { Walk::new(seed).await.go().await });
        if let Err(panic) = walk.await {
            panic!("the walk with SEDERUNT_WALK_SEED={seed} went too far: {panic}");
        }
    }
}

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % sides as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.roll(of.len())]
    }
}

struct Walk {
    world: World,
    dice: Dice,
    callers: Vec<Arc<Actor>>,
    claims: Vec<ClaimedRun>,
    /// Those of them that were not settled yet, as far as the walk knows.
    unsettled: Vec<ClaimedRun>,
    /// Sessions whose log holds a room's word.
    carriers: BTreeMap<&'static str, BTreeSet<SessionId>>,
    /// What each run may write, as an owner had granted it when the run was started: ids, and the type `made`.
    granted: BTreeMap<SessionId, BTreeSet<String>>,
    /// What owners grant each task now.
    grants: BTreeMap<String, BTreeSet<String>>,
    /// The task that was defined last.
    defined_last: Option<String>,
    story: String,
}

/// A call, and what has to be explained if it changes something.
struct Told {
    call: String,
    answer: String,
    /// The session that the call was about.
    on: Option<SessionId>,
    /// The task that it started, and whether the input named `price`.
    started: Option<(String, bool)>,
    made: Option<SessionId>,
}

/// What is in the store that a walk may not change by itself.
struct Seen {
    pending: BTreeSet<SessionId>,
    entities: BTreeMap<String, u64>,
}

impl Walk {
    async fn new(seed: u64) -> Self {
        let world = World::sqlite().await;
        let owner = world.owner();
        let mut carriers: BTreeMap<&'static str, BTreeSet<SessionId>> = BTreeMap::new();
        for (room, holder, participants) in ROOMS {
            let opener = if holder == "owner" { owner.clone() } else { world.actor(Role::Member, holder) };
            let participants = participants.iter().map(|name| (*name).to_owned()).collect();
            let session_type = if room == "room-owner" { SessionType::Agent } else { SessionType::Mixed };
            let opened = OpenSession {
                participants,
                title: Some(format!("word-of-{room}")),
                ..wish(room, session_type)
            };
            let session = world.open(&opener, opened).await;
            let said = says("user.message", &format!("word-of-{room} was said"));
            world.engine.append(&opener, &session.id, said, None).await.unwrap();
            carriers.entry(room).or_default().insert(session.id);
        }
        for id in ["price", "given"] {
            let entity = Entity { type_slug: "note".into(), title: None, fields: Json::empty_object() };
            world.engine.define(&owner, Some(id), entity, None).await.unwrap();
        }
        let mut grants = BTreeMap::new();
        for (text, granted) in [
            (r#"{"slug":"plain","name":"T","agent_slug":"eliza","assigned_to":"mallory"}"#, &[][..]),
            (
                r#"{"slug":"writes","name":"T","assigned_to":"mallory","entity_id":"given","output":{"type":"entity"}}"#,
                &["given"],
            ),
            (
                r#"{"slug":"lists","name":"T","agent_slug":"eliza","assigned_to":"mallory",
                    "output":{"type":"entities","entity_type":"made"},"writes":{"types":["made"],"ids":["given"]}}"#,
                &["given", "made"],
            ),
            (
                r#"{"slug":"owners","name":"T","agent_slug":"eliza","entity_id":"price","output":{"type":"entity"}}"#,
                &["price"],
            ),
        ] {
            let task: Task = strict::read(Json::parse(text.as_bytes()).unwrap().as_str()).unwrap();
            let made = world.engine.define(&owner, None, task, None).await.unwrap();
            grants.insert(made.id.to_string(), granted.iter().map(|name| (*name).to_owned()).collect());
        }
        remember(&world, "ada", REMEMBERED).await;
        let share = |access| {
            let shared = Some((SessionId::stored("room-shared"), access));
            Arc::new(Actor { shared, ..(*world.actor(Role::Share, "link")).clone() })
        };
        let callers = vec![
            world.actor(Role::Member, "mallory"),
            world.actor(Role::Member, "mallory"),
            world.actor(Role::Member, "eve"),
            world.actor(Role::Guest, "gus"),
            world.worker("w"),
            share(ShareAccess::Read),
            share(ShareAccess::Submit),
        ];
        Self {
            world,
            dice: Dice(seed),
            callers,
            claims: Vec::new(),
            unsettled: Vec::new(),
            carriers,
            granted: BTreeMap::new(),
            grants,
            defined_last: None,
            story: String::new(),
        }
    }

    async fn go(mut self) {
        let mut before = self.look().await;
        for _ in 0..CALLS {
            let (actor, which) = self.who_and_what(&before);
            let told = self.call(&actor, which).await;
            let _ = writeln!(self.story, "{:?} {} -> {:.60}", actor.role, told.call, told.answer);
            self.note(&actor, &told).await;
            let after = self.look().await;
            self.check_pending(&actor, &told, &before, &after).await;
            self.check_entities(&actor, &told, &before, &after);
            self.check_words(&actor, &told).await;
            self.check_memory(&actor, &told).await;
            before = after;
        }
    }

    async fn sessions(&self) -> Vec<Session> {
        let query = SessionQuery { inactive: None, ..SessionQuery::of(TypeFilter::All, 1000) };
        self.world.engine.sessions(&self.world.owner(), query).await.unwrap().items
    }

    async fn look(&self) -> Seen {
        let pending = self.sessions().await.into_iter().filter(|one| one.head.status == Status::Pending);
        let page = self
            .world
            .engine
            .definitions::<Entity>(&self.world.owner(), DefinitionFilters::default(), None, 1000)
            .await;
        Seen {
            pending: pending.map(|session| session.id).collect(),
            entities: page.unwrap().items.into_iter().map(|one| (one.id.to_string(), one.version)).collect(),
        }
    }

    /// Who calls next, and which of the calls. Work that was started is done more often than chance would have it:
    /// what a run writes is written at its end.
    fn who_and_what(&mut self, seen: &Seen) -> (Arc<Actor>, usize) {
        if !self.unsettled.is_empty() && self.dice.roll(3) == 0 {
            return (self.world.worker("w"), SETTLE);
        }
        if !seen.pending.is_empty() && self.dice.roll(4) == 0 {
            return (self.world.worker("w"), CLAIM);
        }
        let actor =
            if self.dice.roll(12) == 0 { self.world.owner() } else { self.dice.pick(&self.callers).clone() };
        (actor, self.dice.roll(WAYS))
    }

    /// Any session, and every other time one of those in which something has just happened.
    async fn any_session(&mut self) -> SessionId {
        let all = self.sessions().await;
        let newest = &all[..all.len().min(4)];
        let among = if self.dice.roll(2) == 0 { newest } else { &all[..] };
        self.dice.pick(among).id.clone()
    }

    /// One of the tasks that owners have defined, the one that was defined last, or any.
    async fn any_task(&mut self) -> String {
        let page = self
            .world
            .engine
            .definitions::<Task>(&self.world.owner(), DefinitionFilters::default(), None, 1000)
            .await;
        let tasks: Vec<String> = page.unwrap().items.into_iter().map(|one| one.id.to_string()).collect();
        let owned: Vec<String> = self.grants.keys().cloned().collect();
        match (self.dice.roll(3), &self.defined_last) {
            (0, Some(last)) => last.clone(),
            (1, _) => self.dice.pick(&owned).clone(),
            _ => self.dice.pick(&tasks).clone(),
        }
    }

    async fn call(&mut self, actor: &Arc<Actor>, which: usize) -> Told {
        let id = self.any_session().await;
        let engine = self.world.engine.clone();
        let on = Some(id.clone());
        let n = self.dice.roll(1_000_000);
        match which {
            0 => {
                let opened = OpenSession {
                    status: [None, Some(Status::Pending)][self.dice.roll(2)],
                    task_id: [None, Some(self.any_task().await)][self.dice.roll(2)].clone(),
                    participants: [vec![], vec!["ada".to_owned()]][self.dice.roll(2)].clone(),
                    ..wish(&format!("walk-{n}"), *self.dice.pick(&[SessionType::Agent, SessionType::Mixed]))
                };
                let answer = engine.open(actor, opened, None).await.map(|opened| opened.session);
                told("open", None, made(answer))
            }
            1 => told(
                "reopen",
                on,
                made(
                    engine
                        .open(actor, wish(id.as_str(), SessionType::Agent), None)
                        .await
                        .map(|opened| opened.session),
                ),
            ),
            2..=3 => {
                let to = *self.dice.pick(&[
                    Status::Pending,
                    Status::Abandoned,
                    Status::Abandoned,
                    Status::Expired,
                    Status::Running,
                ]);
                let moved = Transition { to, expected: None, reason: None };
                told("transition", on, text(engine.transition(actor, &id, moved, None).await))
            }
            4..=5 => told("retry", on, made(engine.retry(actor, &id, None).await)),
            6 => told("stop", on, text(engine.stop(actor, &id, None).await)),
            7 => {
                let participants = Some(vec!["mallory".to_owned()]);
                let patch = PatchSession { participants, ..PatchSession::default() };
                told("patch", on, text(engine.patch(actor, &id, patch, None).await))
            }
            8 => {
                told("append", on, text(engine.append(actor, &id, says("user.message", "hello"), None).await))
            }
            9 => told("session", on, text(engine.session(actor, &id).await)),
            10 => told(
                "events",
                on,
                text(engine.read(actor, &id, EventQuery { limit: 100, ..EventQuery::default() }).await),
            ),
            11 => told(
                "sessions",
                None,
                text(engine.sessions(actor, SessionQuery::of(TypeFilter::All, 1000)).await),
            ),
            12 => {
                let answer = engine.fork(actor, &id, 1, None).await;
                told("fork", on, made(answer))
            }
            13..=14 | 24 => {
                let task = self.any_task().await;
                let input = Json::parse(br#"{"entity_ids":["price"]}"#).unwrap();
                let input = [None, Some(input)][self.dice.roll(2)].clone();
                let named = input.is_some();
                let answer = engine.trigger(actor, &task, input, None).await;
                let call = format!("trigger {task} {}", if named { "for price" } else { "" });
                Told { started: Some((task, named)), ..told(&call, None, made(answer)) }
            }
            15 | 25 => {
                let output = *self.dice.pick(&[
                    r#""output":{"type":"entity"},"entity_id":"price""#,
                    r#""output":{"type":"entities","entity_type":"made"}"#,
                    r#""output":{"type":"entity"},"entity_id":"price","writes":{"ids":["price"]}"#,
                    r#""agent_slug":"eliza","output":{"type":"entities","entity_type":"made"},
                        "writes":{"types":["made"],"ids":["price"]}"#,
                    r#""agent_slug":"eliza""#,
                ]);
                let by = actor.user.as_ref().map_or("nobody", UserId::as_str);
                let task = format!(r#"{{"slug":"s{n}","name":"T","assigned_to":"{by}",{output}}}"#);
                let task: Task = strict::read(&task).unwrap();
                let answer = engine.define(actor, None, task, None).await;
                if let Ok(made) = &answer {
                    self.defined_last = Some(made.id.to_string());
                }
                if let (Role::Owner, Ok(made)) = (actor.role, &answer) {
                    let granted = ["price", "made"].into_iter().filter(|name| output.contains(name));
                    self.grants.insert(made.id.to_string(), granted.map(str::to_owned).collect());
                }
                told("define", None, text(answer))
            }
            16 => {
                let task = self.any_task().await;
                let patch = *self.dice.pick(&[
                    r#"{"entity_id":"price","output":{"type":"entity"}}"#,
                    r#"{"entity_id":"price"}"#,
                    r#"{"assigned_to":"eve"}"#,
                    r#"{"assigned_to":"mallory"}"#,
                    r#"{"writes":{"types":["made"],"ids":["price","given"]}}"#,
                ]);
                // Owners take tasks away and give them back; what they grant stays as it was.
                let hands_over = [r#"{"assigned_to":"eve"}"#, r#"{"assigned_to":"mallory"}"#];
                let patch = if actor.role == Role::Owner { *self.dice.pick(&hands_over) } else { patch };
                let patch = Json::parse(patch.as_bytes()).unwrap();
                told("redefine", None, text(engine.redefine::<Task>(actor, &task, &patch, None).await))
            }
            17 => {
                let result = Json::parse(br#"{"n":1}"#).unwrap();
                told(
                    "human-complete",
                    on,
                    text(engine.human_complete(actor, &id, Some(result), None, None).await),
                )
            }
            18 => {
                let query = ApprovalQuery {
                    state: Some(ApprovalState::Pending),
                    limit: 100,
                    ..ApprovalQuery::default()
                };
                let all = engine.approvals(&self.world.owner(), false, query).await.unwrap().items;
                if all.is_empty() {
                    return told("nothing to decide", None, String::new().into());
                }
                let asked = self.dice.pick(&all).clone();
                let decision = *self.dice.pick(&[Decision::Approve, Decision::Deny]);
                let decide = DecisionRequest {
                    decision,
                    modified_args: None,
                    modified_output: None,
                    reason: None,
                    digest: None,
                };
                told(
                    "decide",
                    Some(asked.session.clone()),
                    text(engine.decide(actor, &asked.id, decide, None).await),
                )
            }
            CLAIM => {
                let claim = engine.claim(actor, ClaimRequest { limit: 1, ..request() }, None).await;
                self.claims.extend(claim.as_ref().ok().into_iter().flatten().cloned());
                self.unsettled.extend(claim.as_ref().ok().into_iter().flatten().cloned());
                told("claim", None, text(claim))
            }
            SETTLE => {
                if self.claims.is_empty() {
                    return told("nothing to settle", None, String::new().into());
                }
                // A claim that was settled or lost before is tried again now and then.
                let newest = self.unsettled.last().filter(|_| self.dice.roll(4) > 0).cloned();
                let claim = newest.unwrap_or_else(|| self.dice.pick(&self.claims).clone());
                let results =
                    [r#"[{"id":"given","n":1}]"#, r#"[{"id":"price","n":1}]"#, r#"[{"n":1}]"#, r#"{"n":1}"#];
                let result = *self.dice.pick(&results);
                let how = match self.dice.roll(3) {
                    0 => Settle::Fail {
                        error: "x".into(),
                        retryable: n.is_multiple_of(2),
                        reason: None,
                        usage: None,
                    },
                    _ => {
                        let result = Json::parse(result.as_bytes()).unwrap();
                        Settle::Complete { result: Some(result), text: None, usage: None }
                    }
                };
                let answer = engine.settle(actor, &claim.session.id, claim.epoch, how, None).await;
                // A result that does not fit may be repaired once.
                if !matches!(&answer, Err(Error::OutputInvalid { .. })) {
                    self.unsettled.retain(|other| other.session.id != claim.session.id);
                }
                told(&format!("settle with {result}"), Some(claim.session.id), text(answer))
            }
            _ => {
                let user = [None, Some("ada")][self.dice.roll(2)];
                let thread = [None, Some(&id)][self.dice.roll(2)];
                let act = if n.is_multiple_of(2) { MemoryAct::Read } else { MemoryAct::Forget };
                let answer = match engine.memory_scope(actor, thread, user, act).await {
                    Ok(scope) if act == MemoryAct::Read => {
                        text(engine.memories(&scope, MemoryKind::Fact, None, 100).await)
                    }
                    Ok(scope) => text(engine.forget(&scope, MemoryKind::Fact, "fact-of-ada").await),
                    Err(error) => text(Err::<(), _>(error)),
                };
                told("memory", on, answer)
            }
        }
    }

    /// Keeps what the oracles need to know of a call that was carried out.
    async fn note(&mut self, actor: &Actor, told: &Told) {
        let Some(made) = &told.made else { return };
        let family = self.sessions().await;
        let family =
            family.iter().filter(|one| one.id == *made || one.details.parent_id.as_ref() == Some(made));
        for session in family {
            let former = session.details.retry_of.clone().or_else(|| told.on.clone());
            for carriers in self.carriers.values_mut() {
                if former.as_ref().is_some_and(|former| carriers.contains(former)) {
                    carriers.insert(session.id.clone());
                }
            }
            let granted = match (&told.started, &former) {
                (Some((task, named)), _) => {
                    let mut granted = self.grants.get(task).cloned().unwrap_or_default();
                    if actor.role == Role::Owner && *named {
                        granted.insert("price".into());
                    }
                    granted
                }
                (None, Some(former)) => self.granted.get(former).cloned().unwrap_or_default(),
                (None, None) => BTreeSet::new(),
            };
            self.granted.insert(session.id.clone(), granted);
        }
    }

    /// Whether this caller may start this task now.
    async fn may_start(&self, actor: &Actor, task: &str) -> bool {
        let task = self.world.engine.definition::<Task>(&self.world.owner(), task).await.unwrap();
        let user = actor.user.as_ref().map(UserId::as_str);
        actor.role == Role::Member
            && (task.created_by.as_ref().map(UserId::as_str) == user
                || task.value.assigned_to.as_deref() == user)
    }

    async fn check_pending(&self, actor: &Actor, told: &Told, before: &Seen, after: &Seen) {
        for id in after.pending.difference(&before.pending) {
            let session = self.world.session(id.as_str()).await;
            let goes_on = session.head.epoch > 0 && session.details.retry_of.as_ref() != told.on.as_ref();
            let allowed = actor.role == Role::Owner
                || goes_on
                || match &session.details.task_id {
                    Some(task) => self.may_start(actor, task).await,
                    // Without a task, what a worker has had is done again.
                    None => match &told.on {
                        Some(former) => self.world.session(former.as_str()).await.head.epoch > 0,
                        None => false,
                    },
                };
            assert!(allowed, "{} made {id} pending by `{}`:\n{}", name(actor), told.call, self.story);
        }
    }

    fn check_entities(&self, actor: &Actor, told: &Told, before: &Seen, after: &Seen) {
        for (id, version) in &after.entities {
            if before.entities.get(id) == Some(version) {
                continue;
            }
            // What is new is of the type `made`, or of no granted one.
            let needed = if before.entities.contains_key(id) { id.as_str() } else { "made" };
            let granted = told.on.as_ref().and_then(|on| self.granted.get(on));
            let allowed = granted.is_some_and(|granted| granted.contains(needed));
            assert!(allowed, "{} wrote {id} by `{}`:\n{}", name(actor), told.call, self.story);
        }
    }

    async fn check_words(&self, actor: &Actor, told: &Told) {
        for (room, carriers) in &self.carriers {
            if !told.answer.contains(&format!("word-of-{room}")) {
                continue;
            }
            let mut reads = actor.role == Role::Owner;
            for id in carriers {
                reads |= self.reads(actor, id).await;
            }
            assert!(reads, "{} was told of {room} by `{}`:\n{}", name(actor), told.call, self.story);
        }
    }

    async fn reads(&self, actor: &Actor, id: &SessionId) -> bool {
        let Ok(session) = self.world.engine.session(&self.world.owner(), id).await else { return false };
        match actor.role {
            Role::Owner => true,
            Role::Member | Role::Guest => {
                session.head.holder == actor.user
                    || actor.user.as_ref().is_some_and(|user| session.participants.contains(user))
            }
            Role::Worker => self.claims.iter().any(|claim| claim.session.id == *id),
            Role::Share => actor.shared.as_ref().is_some_and(|(shared, _)| shared == id),
            Role::Channel => false,
        }
    }

    async fn check_memory(&self, actor: &Actor, told: &Told) {
        assert!(!told.answer.contains(REMEMBERED), "{} read ada's memory:\n{}", name(actor), self.story);
        let kept = self.world.store.memory(&actor.tenant, "fact-of-ada").await.unwrap();
        assert!(kept.is_some(), "{} forgot what ada is remembered by:\n{}", name(actor), self.story);
    }
}

fn name(actor: &Actor) -> String {
    format!("{:?} {:?}", actor.role, actor.user)
}

/// An answer as its caller receives it, and the session that it made.
struct Answered {
    text: String,
    made: Option<SessionId>,
}

impl From<String> for Answered {
    fn from(text: String) -> Self {
        Self { text, made: None }
    }
}

fn text<T: Debug>(answer: Result<T>) -> Answered {
    match answer {
        Ok(told) => format!("{told:?}").into(),
        Err(error) => format!("{} {error}", error.code()).into(),
    }
}

fn made(answer: Result<Session>) -> Answered {
    let made = answer.as_ref().ok().map(|session| session.id.clone());
    Answered { made, ..text(answer) }
}

fn told(call: &str, on: Option<SessionId>, answered: Answered) -> Told {
    let on_what = on.as_ref().map_or("", |id| id.as_str());
    Told { call: format!("{call} {on_what}"), answer: answered.text, on, started: None, made: answered.made }
}

async fn remember(world: &World, user: &str, text: &str) {
    let fact = Fact {
        subject: user.to_owned(),
        predicate: "says".to_owned(),
        object: text.to_owned(),
        quote: text.to_owned(),
        category: Category::default(),
        confidence: 1.0,
        sources: Vec::new(),
        support: 0,
        superseded_by: None,
    };
    let memory = Memory {
        id: format!("fact-of-{user}"),
        owner: Owner::user(&UserId::stored(user)),
        body: MemoryBody::Fact(fact),
        created_at: Timestamp::default(),
        last_referenced_at: Timestamp::default(),
        dormant_at: None,
    };
    let change = Change::new(world.owner().tenant.clone()).record(Record::PutMemory(Box::new(memory)));
    world.store.commit(change).await.unwrap();
}
