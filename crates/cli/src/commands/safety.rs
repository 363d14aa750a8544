//! `safety hold`: keeps crisis records from the purge until a date.

use serde_json::json;

use super::Scene;
use crate::api::{Missing, Request};
use crate::args::Safety;
use crate::exit::Result;

pub async fn run(scene: &Scene, command: Safety) -> Result<()> {
    let Safety::Hold { until, thread, reason } = command;
    let body = json!({ "until": until, "thread_id": thread, "reason": reason });
    let done = scene.send(Missing::Refuse, Request::post(&["crises", "hold"], body)).await?;
    if scene.out.is_json() {
        return scene.out.value(&done);
    }
    scene.out.line(format!("{} crises are held until {until}", done["held"]))
}
