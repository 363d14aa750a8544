//! The first filling: one session of each kind that a list can show.

use std::sync::Arc;

use sederunt::{
    Actor, Append, ClaimRequest, Claimed, Engine, Error, Json, OpenSession, Pause, Result, SessionId,
    SessionType, Settle, Status, Transition,
};
use serde_json::json;

use super::stories::{STORIES, Story, TALKS};
use super::{complete, event, open, work};

/// An agent that nobody runs: its sessions stay as they are.
const IDLE_AGENT: &str = "demo-nightly";
/// The agent of the sessions that are run while filling.
const FILLER: &str = "demo-filler";

/// How a run of the filling ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Completed,
    Failed,
    AsksAPerson,
    AwaitsATool,
}

pub async fn fill(engine: &Engine, me: &Arc<Actor>) -> Result<()> {
    for (title, steps) in TALKS {
        let id = talk(engine, me, title).await?;
        for step in *steps {
            let wish = Append { events: vec![event(step)?], ..Append::default() };
            engine.append(me, &id, wish, None).await?;
        }
    }
    let live = talk(engine, me, "A sister system is answering").await?;
    move_to(engine, me, &live, Status::Running).await?;

    for (kind, title) in [
        (SessionType::Agent, "Translate the handbook"),
        (SessionType::Response, "Customer survey, autumn"),
        (SessionType::Tool, "Price calculator"),
    ] {
        open(engine, me, draft(kind, title)).await?;
    }
    for (kind, title, to) in [
        (SessionType::Response, "Customer survey, left early", Status::Abandoned),
        (SessionType::Agent, "A report that nobody asked for any more", Status::Expired),
        (SessionType::Tool, "Price calculator, closed", Status::Abandoned),
    ] {
        let id = open(engine, me, draft(kind, title)).await?;
        move_to(engine, me, &id, to).await?;
    }
    for story in STORIES {
        open(engine, me, work(story, IDLE_AGENT)?).await?;
    }
    for (kind, title, end) in [
        (SessionType::Agent, "Sort the inbox of last week", End::Completed),
        (SessionType::Agent, "Find out who sells oak shelves", End::Failed),
        (SessionType::Agent, "Check invoices against delivery notes", End::AsksAPerson),
        (SessionType::Agent, "Tell everyone about the new opening hours", End::AwaitsATool),
        (SessionType::Tool, "Price calculator, with a result", End::Completed),
        (SessionType::Response, "Customer survey, handed in", End::Completed),
        (SessionType::Mixed, "Rewrite the privacy page together", End::Completed),
    ] {
        let story = &STORIES[end as usize % STORIES.len()];
        let wish =
            OpenSession { session_type: Some(kind), title: Some(title.to_owned()), ..work(story, FILLER)? };
        open(engine, me, wish).await?;
        run(engine, me, story, end).await?;
    }
    Ok(())
}

async fn talk(engine: &Engine, me: &Actor, title: &str) -> Result<SessionId> {
    let wish = OpenSession {
        session_type: Some(SessionType::Mixed),
        // Talk whose agent lives elsewhere: then its owner may write both voices.
        agent_slug: Some("external".into()),
        title: Some(title.to_owned()),
        ..OpenSession::default()
    };
    open(engine, me, wish).await
}

fn draft(kind: SessionType, title: &str) -> OpenSession {
    OpenSession {
        session_type: Some(kind),
        status: Some(Status::Draft),
        title: Some(title.to_owned()),
        ..OpenSession::default()
    }
}

async fn move_to(engine: &Engine, me: &Actor, id: &SessionId, to: Status) -> Result<()> {
    let wish = Transition { to, expected: None, reason: Some("demo".into()) };
    engine.transition(me, id, wish, None).await.map(drop)
}

/// Runs the one session that waits for the filler.
async fn run(engine: &Engine, me: &Arc<Actor>, story: &Story, end: End) -> Result<()> {
    let Claimed { session, epoch, .. } = claim(engine, me).await?;
    let events = story.steps.iter().map(event).collect::<Result<_>>()?;
    let wish = Append { events, epoch: Some(epoch), ..Append::default() };
    engine.append(me, &session.id, wish, None).await?;
    let how = match end {
        End::Completed => complete(story)?,
        End::Failed => Settle::Fail { error: "the search did not answer in time".into(), retryable: false },
        End::AsksAPerson => {
            let question = json!({ "text": "Two invoices disagree with their deliveries. Pay them anyway?" });
            Settle::Yield { pause: Pause::Human { question: Some(Json::of(&question)?) } }
        }
        End::AwaitsATool => {
            let call = json!({ "id": "call_9", "name": "send_mail", "args": { "to": "all@example.org" } });
            Settle::Yield { pause: Pause::Tool { call: Some(Json::of(&call)?) } }
        }
    };
    engine.settle(me, &session.id, epoch, how, None).await.map(drop)
}

async fn claim(engine: &Engine, me: &Actor) -> Result<Claimed> {
    let request = ClaimRequest {
        worker: "demo".into(),
        session_types: Vec::new(),
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
