//! A demo: fills an empty store with sessions of every type and status, and runs a small worker that keeps a log
//! growing.
//!
//! Every session it opens carries `{"demo": true}` in its metadata, every definition an id that begins with `demo-`,
//! and it touches nothing else. It is a caller like any other: public calls of the engine, one claim at a time.

mod demo_text;
mod documents;
mod entity;
mod feedback;
mod fill;
mod responses;
mod stories;
mod talk;
mod tasks;
mod tools;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use sederunt::{
    Actor, Append, ClaimRequest, ClaimedRun, Engine, Error, Json, OpenSession, Result, SessionId,
    SessionQuery, SessionType, Settle, SourceKind, TypeFilter,
};
use sederunt_agents::talk::Conversations;
use serde_json::json;

use demo_text::NumberedStory;
use stories::ROUNDS;

/// The time between two events of the growing log.
const PACE: Duration = Duration::from_secs(1);
/// The pause after a failure.
const RECOVER: Duration = Duration::from_secs(5);
/// Finished sessions that the worker keeps; older ones of its own are deleted.
const FINISHED_MAX: usize = 100;
/// The agent whose sessions the worker runs.
const AGENT: &str = "demo-worker";
/// One run in this many fails, so that there is a failure to look at.
const FAIL_EVERY: usize = 6;

/// Fills the store if it is empty, prints a link to the demo's form, then keeps a log growing until it is dropped. A store
/// with anything else is left alone. `address` is where people reach the server.
pub async fn run(conversations: Conversations, address: String) {
    let me = Arc::new(Actor::local(SourceKind::Api));
    let engine = conversations.engine().clone();
    match prepare(&conversations, &me).await {
        Ok(true) => {}
        Ok(false) => {
            tracing::warn!(target: "sederunt::demo", "the demo was not started: the store already holds sessions");
            return;
        }
        Err(error) => {
            tracing::warn!(target: "sederunt::demo", code = error.code(), %error, "the demo could not be started; the server goes on without it");
            return;
        }
    }
    // A token is told once, so every start makes a link of its own.
    match responses::link(&engine, &me, &address).await {
        Ok(url) => {
            tracing::info!(target: "sederunt::demo", url, "anyone answers the demo's form by this link, for a day");
        }
        Err(error) => {
            tracing::debug!(target: "sederunt::demo", code = error.code(), %error, "the demo's form has no link");
        }
    }
    let mut worker = DemoWorker { engine, me, pace: PACE, runs: 0, finished: VecDeque::new() };
    loop {
        if let Err(error) = worker.round().await {
            tracing::debug!(target: "sederunt::demo", code = error.code(), %error, "a run of the demo failed; the next one begins after a pause");
            tokio::time::sleep(RECOVER).await;
        }
    }
}

/// Whether to run the demo here; fills an empty store.
async fn prepare(conversations: &Conversations, me: &Arc<Actor>) -> Result<bool> {
    let engine = conversations.engine();
    let any = SessionQuery { inactive: Some(false), ..SessionQuery::of(TypeFilter::All, 1) };
    let ours = SessionQuery { metadata: vec![("demo".into(), "true".into())], ..any.clone() };
    if engine.sessions(me, any).await?.items.is_empty() {
        fill::fill(engine, me).await?;
        tasks::define_and_start(engine, me).await?;
        responses::collect(engine, me).await?;
        documents::edit(engine, me).await?;
        tools::run_one(engine, me, tasks::PLAN).await?;
        entity::fill_in(engine, me).await?;
        talk::hold(conversations, me).await?;
        feedback::give(conversations, me).await?;
        return Ok(true);
    }
    Ok(!engine.sessions(me, ours).await?.items.is_empty())
}

struct DemoWorker {
    engine: Engine,
    me: Arc<Actor>,
    pace: Duration,
    runs: usize,
    finished: VecDeque<SessionId>,
}

impl DemoWorker {
    /// Runs one session from its claim to its end, or queues the next.
    async fn round(&mut self) -> Result<()> {
        let request = ClaimRequest {
            worker: "demo".into(),
            session_types: vec![SessionType::Agent],
            agent_slugs: vec![AGENT.into()],
            limit: 1,
            lease: self.engine.settings().lease,
            wait: self.pace,
        };
        match self.engine.claim(&self.me, request, None).await?.pop() {
            Some(claimed) => {
                self.runs += 1;
                self.tell(&claimed).await?;
                self.finished.push_back(claimed.session.id);
                self.tidy().await
            }
            None => {
                let story = &ROUNDS[self.runs % ROUNDS.len()];
                // Changes every second of the day: no two visible sessions have the same.
                let number = self.engine.now().await?.as_micros() / 1_000_000 % 100_000;
                open(&self.engine, &self.me, story.told(number.unsigned_abs()).work(AGENT)?).await.map(drop)
            }
        }
    }

    async fn tell(&self, claimed: &ClaimedRun) -> Result<()> {
        let (id, epoch) = (&claimed.session.id, claimed.epoch);
        let told = NumberedStory::of(&claimed.session)
            .ok_or_else(|| Error::internal("a demo session without a story"))?;
        for event in told.events()? {
            tokio::time::sleep(self.pace).await;
            let wish = Append { events: vec![event], epoch: Some(epoch), ..Append::default() };
            self.engine.append(&self.me, id, wish, None).await?;
            self.engine.heartbeat(&self.me, id, epoch, None).await?;
        }
        tokio::time::sleep(self.pace).await;
        let how = if self.runs.is_multiple_of(FAIL_EVERY) {
            Settle::Fail {
                error: "the model did not answer in time".into(),
                retryable: false,
                reason: None,
                usage: None,
            }
        } else {
            told.complete()?
        };
        self.engine.settle(&self.me, id, epoch, how, None).await.map(drop)
    }

    async fn tidy(&mut self) -> Result<()> {
        while self.finished.len() > FINISHED_MAX {
            let Some(oldest) = self.finished.pop_front() else { break };
            match self.engine.delete(&self.me, &oldest).await {
                Ok(()) | Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Opens a session marked as the demo's.
async fn open(engine: &Engine, me: &Actor, wish: OpenSession) -> Result<SessionId> {
    let wish = OpenSession { metadata: Some(Json::of(&json!({ "demo": true }))?), ..wish };
    Ok(engine.open(me, wish, None).await?.session.id)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use sederunt::Status;
    use sederunt_core::approval::{ApprovalKind, ApprovalQuery, ApprovalState};
    use sederunt_core::engine::LessonSearch;

    use super::*;

    #[tokio::test]
    async fn an_empty_store_gets_every_type_and_every_status() {
        let store = sederunt::open("memory:").await.unwrap();
        let me = Arc::new(Actor::local(SourceKind::Api));
        assert!(prepare(store.conversations(), &me).await.unwrap());
        let all = SessionQuery { inactive: Some(false), ..SessionQuery::of(TypeFilter::All, 1000) };
        let sessions = store.sessions(&me, all).await.unwrap().items;
        for kind in SessionType::ALL {
            assert!(sessions.iter().any(|session| session.head.session_type == kind), "{kind:?}");
        }
        for status in Status::ALL {
            assert!(sessions.iter().any(|session| session.head.status == status), "{status}");
        }
        // Sessions of a tool or a task are called after it.
        let named: Vec<_> = sessions.iter().filter(|session| session.details.run.is_none()).collect();
        let titles: HashSet<_> = named.iter().filter_map(|session| session.details.title.as_ref()).collect();
        assert_eq!(titles.len(), named.len(), "each is about something else");
        let mut opened = named.iter().filter(|session| session.details.task_id.is_none());
        assert!(opened.all(|session| session.details.metadata.as_str().contains(r#""demo":true"#)));
        assert!(sessions.iter().any(|session| session.details.task_id.as_deref() == Some("demo-report")));
        let waiting =
            ApprovalQuery { state: Some(ApprovalState::Pending), limit: 100, ..ApprovalQuery::default() };
        let waiting = store.approvals(&me, false, waiting).await.unwrap().items;
        let promotions = waiting.iter().filter(|approval| approval.kind == ApprovalKind::Promotion);
        assert_eq!(promotions.count(), 1, "a promotion waits in the inbox");

        for kind in [ApprovalKind::Tool, ApprovalKind::Output, ApprovalKind::Question] {
            assert!(waiting.iter().any(|approval| approval.kind == kind), "{kind:?}");
        }
        let map = store.entity_status_map(&me, tasks::VISITED).await.unwrap();
        let fields: BTreeMap<_, _> =
            map.by_field.iter().map(|(field, status)| (field.as_str(), status.as_str())).collect();
        let expected = [
            ("ferries", "complete"),
            ("history", "pending"),
            ("lodging", "waiting-human"),
            ("walks", "failed"),
        ];
        assert_eq!(fields, BTreeMap::from(expected));
        let search = LessonSearch { limit: 10, ..LessonSearch::default() };
        assert_eq!(store.search_lessons(&me, search).await.unwrap().items.len(), 3);

        let block = store.activity_block(&me, 20).await.unwrap().unwrap().block;
        for part in ["Plan the trip to Mull", "viewed **Isle of Mull** (place)", "comparing the ferries"] {
            assert!(block.contains(part), "{part}: {block}");
        }

        let link = responses::link(&store, &me, "http://localhost:7070/").await.unwrap();
        assert!(link.starts_with("http://localhost:7070/views/demo-picnic?share="), "{link}");

        let before = sessions.len();
        assert!(prepare(store.conversations(), &me).await.unwrap(), "a demo that was filled before goes on");
        let all = SessionQuery { inactive: Some(false), ..SessionQuery::of(TypeFilter::All, 1000) };
        assert_eq!(store.sessions(&me, all).await.unwrap().items.len(), before);
        store.close().await;
    }

    #[tokio::test]
    async fn a_store_with_sessions_of_its_own_is_left_alone() {
        let store = sederunt::open("memory:").await.unwrap();
        let me = Arc::new(Actor::local(SourceKind::Api));
        let own = OpenSession { session_type: Some(SessionType::Mixed), ..OpenSession::default() };
        store.open(&me, own, None).await.unwrap();
        assert!(!prepare(store.conversations(), &me).await.unwrap());
        store.close().await;
    }

    #[tokio::test]
    async fn the_worker_queues_runs_and_completes_a_session() {
        let store = sederunt::open("memory:").await.unwrap();
        let me = Arc::new(Actor::local(SourceKind::Api));
        let mut worker = DemoWorker {
            engine: store.engine().clone(),
            me: me.clone(),
            pace: Duration::ZERO,
            runs: 0,
            finished: VecDeque::new(),
        };
        worker.round().await.unwrap();
        worker.round().await.unwrap();
        let id = worker.finished.front().unwrap();
        let session = store.session(&me, id).await.unwrap();
        assert_eq!(session.head.status, Status::Completed);
        assert!(session.head.last_sequence > 5);
        let number = session.details.input.unwrap().value()["number"].to_string();
        assert!(session.details.title.unwrap().ends_with(&number));
        assert!(session.details.result.unwrap().as_str().contains(&number));
        store.close().await;
    }
}
