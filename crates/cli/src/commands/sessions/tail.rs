//! `sessions tail`: a log from any point on, as it grows.

use std::sync::Arc;
use std::time::Duration;

use sederunt::{Actor, Event, Sederunt, SessionId, StreamItem};
use sederunt_server::client::Client;
use sederunt_server::wire;
use serde_json::Value;

use super::super::Scene;
use super::line_of;
use crate::exit::{Exit, Failure, Result};
use crate::output::note;
use crate::reach::{Missing, Reach, path};

/// The pause before a stream that was cut is taken up again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

pub async fn run(scene: &Scene, id: &str, after: u64, follow: bool) -> Result<()> {
    match Reach::find(&scene.config, &scene.global, Missing::Refuse).await? {
        Reach::Store { store, actor, .. } => {
            let done = in_store(scene, &store, *actor, id, after, follow).await;
            store.close().await;
            done
        }
        Reach::Server(client) => on_server(scene, &client, id, after, follow).await,
    }
}

async fn in_store(
    scene: &Scene,
    store: &Sederunt,
    actor: Actor,
    id: &str,
    after: u64,
    follow: bool,
) -> Result<()> {
    let mut log = store.stream(Arc::new(actor), &SessionId::parse(id)?, Some(after)).await?;
    loop {
        match log.next().await? {
            StreamItem::Frames(frames) => {
                for frame in frames {
                    print(scene, &event_text(&frame.event)?)?;
                }
            }
            StreamItem::Gap { first } => note(format!("events before {first} were removed")),
            StreamItem::Ready if !follow => return Ok(()),
            StreamItem::Ready | StreamItem::Reply(_) => {}
            StreamItem::Ended => return Err(ended()),
        }
    }
}

async fn on_server(scene: &Scene, client: &Client, id: &str, mut after: u64, follow: bool) -> Result<()> {
    loop {
        let query = [("after".to_owned(), after.to_string())];
        let mut stream = client.stream(&path(&["sessions", id, "stream"], &query), None).await?;
        // A stream that breaks off is taken up again where it was; a server that is gone does not
        // answer then.
        while let Ok(Some(message)) = stream.next().await {
            match message.event.as_str() {
                "message" => after = print(scene, &message.data)?.max(after),
                "gap" => note(format!("some events were removed: {}", message.data)),
                "ready" if !follow => return Ok(()),
                _ => {}
            }
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// Prints an event, and says which one it was.
fn print(scene: &Scene, event: &str) -> Result<u64> {
    let value: Value = serde_json::from_str(event).map_err(sederunt::Error::internal)?;
    if scene.out.is_json() {
        scene.out.line(event)?;
    } else {
        scene.out.line(line_of(&value))?;
    }
    Ok(value["sequence"].as_u64().unwrap_or(0))
}

fn event_text(event: &Event) -> Result<String> {
    serde_json::to_string(&wire::event::Event::from(event))
        .map_err(|error| sederunt::Error::internal(error).into())
}

fn ended() -> Failure {
    Failure::new(Exit::NotFound, "not_found", "the session was deleted")
}
