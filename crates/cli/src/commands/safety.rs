//! `safety hold`: crises that somebody has still to look at outlive the purge.

use serde_json::Value;

use super::Scene;
use crate::args::Safety;
use crate::exit::Result;
use crate::reach::{Ask, Missing};

pub async fn run(scene: &Scene, command: Safety) -> Result<()> {
    let Safety::Hold { until, thread, reason } = command;
    let ask = Ask::HoldCrises { until: until.clone(), thread, reason: Some(reason) };
    let done: Value = scene.ask(Missing::Refuse, ask).await?;
    if scene.out.is_json() {
        return scene.out.value(&done);
    }
    scene.out.line(format!("{} crises are held until {until}", done["held"]))
}
