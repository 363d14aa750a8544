//! `sessions tail`: a log from any point on, as it grows.

use std::sync::Arc;
use std::time::Duration;

use sederunt::{Actor, Event, Sederunt, SessionId, StreamItem};
use sederunt_server::client::Client;
use sederunt_server::wire;
use serde_json::Value;

use super::super::Scene;
use super::{is_terminal, line_of, named};
use crate::exit::{Exit, Failure, Result};
use crate::output::note;
use crate::reach::{Missing, Reach, path};

/// The pause before a stream that was cut is taken up again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

pub async fn run(scene: &Scene, id: String, after: u64, follow: bool) -> Result<()> {
    let reach = Reach::find(&scene.config, &scene.global, Missing::Refuse).await?;
    let done = match named(&reach, id).await {
        // Nothing more comes from a session that is closed.
        Ok((id, is_closed)) => follow_log(scene, &reach, &id, after, follow && !is_closed).await,
        Err(failure) => Err(failure),
    };
    reach.close().await;
    done
}

async fn follow_log(scene: &Scene, reach: &Reach, id: &str, after: u64, follow: bool) -> Result<()> {
    match reach {
        Reach::Store { store, actor, .. } => {
            in_store(scene, store, Actor::clone(actor), id, after, follow).await
        }
        Reach::Server(client) => on_server(scene, client, id, after, follow).await,
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
    let (mut is_ready, mut is_closed) = (false, false);
    loop {
        match log.next().await? {
            StreamItem::Frames(frames) => {
                for frame in frames {
                    is_closed |= print(scene, &event_text(&frame.event)?)?.closes;
                }
            }
            StreamItem::Gap { first } => note(format!("events before {first} were removed")),
            StreamItem::Ready => is_ready = true,
            StreamItem::Reply(_) => {}
            StreamItem::Ended => return Err(ended()),
        }
        if is_ready && (is_closed || !follow) {
            return Ok(());
        }
    }
}

async fn on_server(scene: &Scene, client: &Client, id: &str, mut after: u64, mut follow: bool) -> Result<()> {
    loop {
        let mut is_ready = false;
        let query = [("after".to_owned(), after.to_string())];
        let mut stream = client.stream(&path(&["sessions", id, "stream"], &query), None).await?;
        // A stream that breaks off is taken up again where it was; a server that is gone does not
        // answer then.
        while let Ok(Some(message)) = stream.next().await {
            match message.event.as_str() {
                "message" => {
                    let printed = print(scene, &message.data)?;
                    after = printed.sequence.max(after);
                    follow &= !printed.closes;
                }
                "gap" => note(format!("some events were removed: {}", message.data)),
                "ready" if !follow => return Ok(()),
                "ready" => is_ready = true,
                _ => {}
            }
            // The session was closed just now: what was written with its end is read once more, to the end.
            if is_ready && !follow {
                break;
            }
        }
        if follow {
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
}

/// An event that was printed.
struct Printed {
    sequence: u64,
    /// After it the session is closed.
    closes: bool,
}

/// Prints an event, and says which one it was.
fn print(scene: &Scene, event: &str) -> Result<Printed> {
    let value: Value = serde_json::from_str(event).map_err(sederunt::Error::internal)?;
    if scene.out.is_json() {
        scene.out.line(event)?;
    } else {
        scene.out.line(line_of(&value))?;
    }
    Ok(Printed {
        sequence: value["sequence"].as_u64().unwrap_or(0),
        closes: value["type"] == "session.status_change"
            && value["metadata"]["to"].as_str().is_some_and(is_terminal),
    })
}

fn event_text(event: &Event) -> Result<String> {
    serde_json::to_string(&wire::event::Event::from(event))
        .map_err(|error| sederunt::Error::internal(error).into())
}

fn ended() -> Failure {
    Failure::new(Exit::NotFound, "not_found", "the session was deleted")
}
