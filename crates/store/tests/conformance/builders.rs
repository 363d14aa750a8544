//! Builders for tests: sessions, events, keys, and the few commands that set a scene.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::event::{Event, EventQuery, EventType, NewEvent};
use sederunt_core::ids::RandomIds;
use sederunt_core::json::Json;
use sederunt_core::session::query::{SessionQuery, TypeFilter};
use sederunt_core::session::{Details, Head, Session, SessionSource, SessionType, SourceKind, Status};
use sederunt_core::store::{
    Change, ChangePart, CommitResult, Guard, IdemKey, KeyNote, NewSession, PartResult, PartTarget, Refusal,
    SearchQuery, Update, Write,
};
use sederunt_core::work::{ClaimOrder, ClaimedRun};
use sederunt_core::{Actor, CredentialId, Incarnation, Role, SessionId, UserId};
use smallvec::smallvec;

use crate::stores::TestStore;

pub const LEASE: Duration = Duration::from_secs(30);
pub const DAY: Duration = Duration::from_secs(24 * 3600);

pub fn id(text: &str) -> SessionId {
    SessionId::stored(text)
}

pub fn user(text: &str) -> UserId {
    UserId::stored(text)
}

pub fn credential(text: &str) -> CredentialId {
    CredentialId::stored(text)
}

pub fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

/// An idle talk session, changed as the test needs it.
pub fn a_session(name: &str, adjust: impl FnOnce(&mut NewSession)) -> NewSession {
    let incarnation = Incarnation::drawn(&RandomIds);
    let mut new = NewSession {
        id: id(name),
        head: Head { is_talk: true, ..Head::blank(incarnation, SessionType::Mixed, Status::Idle, None) },
        details: Details::blank(SessionSource::direct(SourceKind::Api, false)),
        participants: Vec::new(),
        fork_of: None,
    };
    adjust(&mut new);
    new
}

/// A pending session.
pub fn work(name: &str) -> NewSession {
    a_session(name, |new| {
        new.head.session_type = SessionType::Agent;
        new.head.is_talk = false;
        new.head.status = Status::Pending;
    })
}

pub fn event(kind: &str) -> NewEvent {
    NewEvent {
        kind: EventType::parse(kind).unwrap(),
        content: None,
        metadata: None,
        subthread_id: None,
        external_event_id: None,
        author: None,
    }
}

pub fn saying(kind: &str, text: &str) -> NewEvent {
    let content = Json::of(&serde_json::json!([{ "type": "text", "text": text }])).unwrap();
    NewEvent { content: Some(content), ..event(kind) }
}

pub fn message(text: &str) -> NewEvent {
    saying("user.message", text)
}

/// An event that its sender may send twice.
pub fn external(external_id: &str) -> NewEvent {
    NewEvent { external_event_id: Some(external_id.into()), ..event("external.event") }
}

pub fn messages(count: usize) -> Vec<NewEvent> {
    (0..count).map(|n| message(&format!("message {n}"))).collect()
}

pub fn key(scope: u8, body: u8) -> IdemKey {
    IdemKey { scope: [scope; 16], body: [body; 16], note: None }
}

pub fn noted(key: IdemKey) -> IdemKey {
    IdemKey { note: Some(KeyNote(uuid::Uuid::new_v4())), ..key }
}

pub fn actor(role: Role, name: Option<&str>, by: &str) -> Actor {
    Actor { role, user: name.map(user), credential: credential(by), ..Actor::local(SourceKind::Api) }
}

pub fn creating(new: NewSession) -> ChangePart {
    ChangePart { on: PartTarget::New(Box::new(new)), guard: Guard::default(), writes: smallvec![] }
}

pub fn on(name: &str, guard: Guard, write: Write) -> ChangePart {
    ChangePart { on: PartTarget::Session(id(name)), guard, writes: smallvec![write] }
}

pub fn appending(name: &str, events: Vec<NewEvent>) -> ChangePart {
    on(name, Guard::default(), Write::Append(events))
}

pub fn updating(name: &str, update: Update) -> ChangePart {
    on(name, Guard::default(), Write::Update(Box::new(update)))
}

/// The result of a change: `ok`, `stale`, or the code of its refusal.
pub fn verdict<T>(outcome: &Result<T, Refusal>) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(Refusal::Stale) => "stale",
        Err(Refusal::Rejected(error)) => error.code(),
    }
}

pub fn sequences(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.sequence).collect()
}

pub fn appended(done: &PartResult) -> Vec<u64> {
    done.appended.iter().map(sederunt_core::event::AppendOutcome::sequence).collect()
}

pub fn words(text: &[&str]) -> SearchQuery {
    SearchQuery {
        words: text.iter().map(|&word| word.into()).collect(),
        seen_by: None,
        after: None,
        limit: 100,
    }
}

pub fn everything() -> SessionQuery {
    SessionQuery::of(TypeFilter::All, 100)
}

impl TestStore {
    pub fn change(&self, part: ChangePart) -> Change {
        Change::new(self.tenant.clone()).part(part)
    }

    /// Commits a change of one part that must succeed.
    pub async fn write(&self, part: ChangePart) -> PartResult {
        let done = self.commit(self.change(part)).await;
        assert_eq!(verdict(&done), "ok", "{done:?}");
        done.unwrap().parts.pop().expect("a change that was applied says what it did")
    }

    pub async fn create(&self, new: NewSession) -> PartResult {
        self.write(creating(new)).await
    }

    /// An idle talk session.
    pub async fn open(&self, name: &str) -> PartResult {
        self.create(a_session(name, |_| {})).await
    }

    pub async fn append(&self, name: &str, events: Vec<NewEvent>) -> PartResult {
        self.write(appending(name, events)).await
    }

    pub async fn append_under(
        &self,
        name: &str,
        guard: Guard,
        events: Vec<NewEvent>,
    ) -> Result<CommitResult, Refusal> {
        self.commit(self.change(on(name, guard, Write::Append(events)))).await
    }

    pub async fn update(&self, name: &str, update: Update) -> PartResult {
        self.write(updating(name, update)).await
    }

    pub async fn delete(&self, name: &str) {
        let done = self.commit(self.change(on(name, Guard::default(), Write::Delete))).await;
        assert_eq!(verdict(&done), "ok", "{done:?}");
    }

    pub async fn find(&self, name: &str) -> Option<Session> {
        self.store.session(&self.tenant, &id(name)).await.unwrap()
    }

    pub async fn get(&self, name: &str) -> Session {
        self.find(name).await.unwrap_or_else(|| panic!("there is no session {name:?}"))
    }

    /// The whole log, page by page.
    pub async fn log(&self, name: &str) -> Vec<Event> {
        let mut log = Vec::new();
        let mut after = 0;
        loop {
            let query = EventQuery { after, limit: 1000, ..EventQuery::default() };
            let page = self.store.events(&self.tenant, &id(name), query).await.unwrap();
            log.extend(page.events);
            if !page.has_more {
                return log;
            }
            assert!(page.next_after > after, "a page that promises more must move on");
            after = page.next_after;
        }
    }

    /// Everything that a refused change must leave unchanged.
    pub async fn state(&self, name: &str) -> (Session, Vec<Event>) {
        (self.get(name).await, self.log(name).await)
    }

    /// Sessions that a list shows, in its order.
    pub async fn listed(&self, query: SessionQuery) -> Vec<String> {
        let page = self.store.sessions(&self.tenant, query).await.unwrap();
        page.items.into_iter().map(|session| session.id.as_str().to_owned()).collect()
    }

    /// Where the words are found, after everything was indexed.
    pub async fn found(&self, query: SearchQuery) -> Vec<(String, Option<u64>)> {
        self.store.index_now().await.unwrap();
        let page = self.store.search(&self.tenant, query).await.unwrap();
        page.items.into_iter().map(|hit| (hit.session.as_str().to_owned(), hit.sequence)).collect()
    }

    /// The messages that the words are found in; the first of a session may also be its description.
    pub async fn found_said(&self, query: SearchQuery) -> Vec<(String, u64)> {
        let found = self.found(query).await;
        found.into_iter().filter_map(|(session, at)| Some((session, at?))).collect()
    }

    pub fn order(&self, by: &str, limit: usize) -> ClaimOrder {
        ClaimOrder {
            tenant: self.tenant.clone(),
            credential: credential(by),
            worker: format!("worker of {by}").into(),
            session_types: SessionType::ALL.to_vec(),
            agent_slugs: Vec::new(),
            limit,
            lease: LEASE,
            key: None,
        }
    }

    /// Claims one session, which must be this one.
    pub async fn claim_one(&self, name: &str, by: &str) -> ClaimedRun {
        let mut claims = self.claim(self.order(by, 1)).await.unwrap();
        let claim = claims.pop().unwrap_or_else(|| panic!("{name:?} was not handed out"));
        assert_eq!(claim.session.id, id(name));
        claim
    }

    /// Runs the same command from many tasks at once, and gives their answers.
    pub async fn at_once<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        count: usize,
        command: impl Fn(TestStore, usize) -> F,
    ) -> Vec<T> {
        let gate = Arc::new(tokio::sync::Barrier::new(count));
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..count {
            let (gate, command) = (gate.clone(), command(self.clone(), n));
            tasks.spawn(async move {
                gate.wait().await;
                command.await
            });
        }
        tasks.join_all().await
    }
}
