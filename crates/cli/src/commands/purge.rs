//! `purge`: the operator's own. Ratings and crises go by whole days; the server does the same once a day.

use serde_json::Value;

use super::Scene;
use crate::args::Purge;
use crate::exit::{Failure, Result};
use crate::reach::{Ask, Missing};

pub async fn run(scene: &Scene, wish: Purge) -> Result<()> {
    if !wish.yes {
        return Err(Failure::usage(format!(
            "this forgets ratings older than {} days and crises older than {}, in all tenants",
            wish.ratings, wish.crisis
        ))
        .hint("add --yes if that is what you want"));
    }
    let ask = Ask::Purge { ratings_days: Some(wish.ratings), crisis_days: Some(wish.crisis) };
    let purged: Value = scene.ask(Missing::Refuse, ask).await?;
    if scene.out.is_json() {
        return scene.out.value(&purged);
    }
    scene.out.line(format!("forgot {} ratings and {} crises", purged["ratings"], purged["crises"]))
}
