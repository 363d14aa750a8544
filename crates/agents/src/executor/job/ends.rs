//! How a run ends: its limits, its failures, and what it has used up by then.

use sederunt_core::json::Json;
use sederunt_core::library::task::RunLimits;
use sederunt_core::work::Settle;
use serde_json::json;

use super::super::past::Spent;
use super::Work;
use crate::limits;

/// The limit that a run has reached.
pub(super) fn reached(limits: &RunLimits, spent: &Spent) -> Option<&'static str> {
    let tokens = spent.usage.input_tokens + spent.usage.output_tokens;
    let over = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used >= limit);
    if over(limits.steps, spent.steps) || spent.steps >= limits::STEPS_MAX {
        Some("steps")
    } else if over(limits.tokens, tokens) {
        Some("tokens")
    } else if over(limits.cost_micros, spent.usage.cost_micros.unwrap_or(0)) {
        Some("cost_micros")
    } else {
        None
    }
}

pub(super) fn over(limit: &'static str) -> Settle {
    fail(&format!("limit_{limit}"), &format!("the run reached its limit of {limit}"), false, None)
}

pub(super) fn fail(reason: &str, error: &str, retryable: bool, work: Option<&Work>) -> Settle {
    let error: String =
        error.replace('\0', "\u{fffd}").chars().take(sederunt_core::limits::SENTENCE_CHARS_MAX).collect();
    let how = Settle::Fail { error, retryable, reason: Some(reason.to_owned()), usage: None };
    match work {
        Some(work) => with_usage(how, work),
        None => how,
    }
}

/// What this run has used up, beside how it ends.
pub(super) fn with_usage(mut how: Settle, work: &Work) -> Settle {
    let (before, now) = (&work.spent_before, &work.spent);
    let mut used = json!({
        "steps": now.steps - before.steps,
        "input_tokens": now.usage.input_tokens - before.usage.input_tokens,
        "output_tokens": now.usage.output_tokens - before.usage.output_tokens,
        "cached_tokens": now.usage.cached_tokens - before.usage.cached_tokens,
        "model": work.model_name,
    });
    if let Some(cost) = now.usage.cost_micros {
        used["cost_micros"] = (cost - before.usage.cost_micros.unwrap_or(0)).into();
    }
    let counted = Json::of(&used).ok();
    match &mut how {
        Settle::Complete { usage, .. } | Settle::Fail { usage, .. } | Settle::Yield { usage, .. } => {
            *usage = counted
        }
    }
    how
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_the_first_limit_it_reaches() {
        let spent = |steps, input_tokens, cost| Spent {
            steps,
            usage: crate::model::Usage { input_tokens, cost_micros: Some(cost), ..Default::default() },
        };
        let limits = RunLimits { steps: Some(3), tokens: Some(100), cost_micros: Some(50), wall_ms: None };
        for (spent, limit) in [
            (spent(2, 99, 49), None),
            (spent(3, 0, 0), Some("steps")),
            (spent(0, 100, 0), Some("tokens")),
            (spent(0, 0, 50), Some("cost_micros")),
        ] {
            assert_eq!(reached(&limits, &spent), limit, "{spent:?}");
        }
        assert_eq!(reached(&RunLimits::default(), &spent(limits::STEPS_MAX, 0, 0)), Some("steps"));
    }
}
