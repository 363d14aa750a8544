//! Fills the demo's store: one session of each kind that a list can show.

use std::sync::Arc;

use sederunt::{
    Actor, Append, ClaimRequest, ClaimedRun, Engine, Error, Json, OpenSession, Pause, Result, SessionId,
    SessionType, Settle, Status, Transition,
};
use serde_json::json;

use super::demo_text::{NumberedStory, event, work};
use super::open;
use super::stories::{DRAFTS, ENDED, LIVE, QUEUED, RUNS, Step, StoryEnd, TALKS};

/// An agent that no worker runs: its sessions stay pending.
const IDLE_AGENT: &str = "demo-nightly";
/// The agent of the sessions that are run while filling.
const FILLER: &str = "demo-filler";

pub async fn fill(engine: &Engine, me: &Arc<Actor>) -> Result<()> {
    for (title, steps) in TALKS {
        talk(engine, me, title, steps).await?;
    }
    let live = talk(engine, me, LIVE.0, LIVE.1).await?;
    move_to(engine, me, &live, Status::Running, None).await?;
    for (kind, title) in DRAFTS {
        open(engine, me, draft(*kind, title)).await?;
    }
    for (kind, title, to, why) in ENDED {
        let id = open(engine, me, draft(*kind, title)).await?;
        move_to(engine, me, &id, *to, Some(why)).await?;
    }
    for title in QUEUED {
        open(engine, me, work(title, IDLE_AGENT)?).await?;
    }
    for (kind, story, end) in RUNS {
        let told = story.told(0);
        let wish = OpenSession { session_type: Some(*kind), ..work(story.title, FILLER)? };
        open(engine, me, wish).await?;
        run(engine, me, &told, *end).await?;
    }
    Ok(())
}

async fn talk(engine: &Engine, me: &Arc<Actor>, title: &str, steps: &[Step]) -> Result<SessionId> {
    let wish = OpenSession {
        session_type: Some(SessionType::Mixed),
        // Talk whose agent runs elsewhere: its owner may then write both sides.
        agent_slug: Some("external".into()),
        title: Some(title.to_owned()),
        ..OpenSession::default()
    };
    let id = open(engine, me, wish).await?;
    for step in steps {
        let wish = Append { events: vec![event(*step, 0)?], ..Append::default() };
        engine.append(me, &id, wish, None).await?;
    }
    Ok(id)
}

fn draft(kind: SessionType, title: &str) -> OpenSession {
    OpenSession {
        session_type: Some(kind),
        status: Some(Status::Draft),
        title: Some(title.to_owned()),
        ..OpenSession::default()
    }
}

async fn move_to(engine: &Engine, me: &Actor, id: &SessionId, to: Status, why: Option<&str>) -> Result<()> {
    let wish = Transition { to, expected: None, reason: why.map(str::to_owned) };
    engine.transition(me, id, wish, None).await.map(drop)
}

/// Runs the one session that waits for the filler.
async fn run(engine: &Engine, me: &Arc<Actor>, told: &NumberedStory<'_>, end: StoryEnd) -> Result<()> {
    let ClaimedRun { session, epoch, .. } = claim(engine, me).await?;
    let wish = Append { events: told.events()?, epoch: Some(epoch), ..Append::default() };
    engine.append(me, &session.id, wish, None).await?;
    let how = match end {
        StoryEnd::Completed => told.complete()?,
        StoryEnd::Failed(why) => {
            Settle::Fail { error: why.into(), retryable: false, reason: None, usage: None }
        }
        StoryEnd::AsksAPerson(text) => {
            let question = json!({ "text": text });
            Settle::Yield { pause: Pause::Human { question: Some(Json::of(&question)?) }, usage: None }
        }
        StoryEnd::AwaitsATool { tool, what } => {
            let call = json!({ "id": "call_9", "name": tool, "args": { "what": what } });
            Settle::Yield { pause: Pause::Tool { call: Some(Json::of(&call)?) }, usage: None }
        }
    };
    engine.settle(me, &session.id, epoch, how, None).await.map(drop)
}

async fn claim(engine: &Engine, me: &Actor) -> Result<ClaimedRun> {
    let request = ClaimRequest {
        worker: "demo".into(),
        session_types: SessionType::ALL.to_vec(),
        agent_slugs: vec![FILLER.into()],
        limit: 1,
        lease: engine.settings().lease,
        wait: std::time::Duration::ZERO,
    };
    let claimed = engine.claim(me, request, None).await?;
    claimed
        .into_iter()
        .next()
        .ok_or_else(|| Error::internal("the demo's own session was taken by another worker"))
}
