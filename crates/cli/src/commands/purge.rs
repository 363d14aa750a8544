//! `purge`: the operator's own. Ratings and crisis records are removed by whole days; the server does the same once a
//! day.

use serde_json::{Value, json};

use super::CommandContext;
use crate::api::{Missing, Request};
use crate::args::PurgeArgs;
use crate::exit::Result;
use crate::output::note;

pub async fn run(context: &CommandContext, wish: PurgeArgs) -> Result<()> {
    let body = json!({ "ratings_days": wish.ratings, "crisis_days": wish.crisis, "preview": !wish.yes });
    let counted = context.send(Missing::Refuse, Request::post(&["purge"], body)).await?;
    if context.out.is_json() {
        return context.out.value(&counted);
    }
    let what = records(&counted);
    if wish.yes {
        return context.out.line(format!("Deleted {what}."));
    }
    context.out.line(format!(
        "This would delete {what} of all tenants: ratings older than {}, crisis records older than {}.",
        days(wish.ratings),
        days(wish.crisis)
    ))?;
    note("Nothing was deleted. Add --yes to do it.");
    Ok(())
}

fn records(counted: &Value) -> String {
    let count = |field: &str| counted[field].as_u64().unwrap_or(0);
    let some = |n: u64, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    format!("{} and {}", some(count("ratings"), "rating"), some(count("crises"), "crisis record"))
}

fn days(n: u32) -> String {
    if n == 1 { "1 day".to_owned() } else { format!("{n} days") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_in_the_right_number() {
        for (ratings, crises, told) in [
            (0, 1, "0 ratings and 1 crisis record"),
            (1, 0, "1 rating and 0 crisis records"),
            (2, 3, "2 ratings and 3 crisis records"),
        ] {
            assert_eq!(records(&json!({ "ratings": ratings, "crises": crises })), told);
        }
    }
}
