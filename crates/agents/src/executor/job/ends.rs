//! How a run ends: its limits, its failures, and its usage.

use sederunt_core::definitions::task::RunLimits;
use sederunt_core::json::Json;
use sederunt_core::work::Settle;
use serde_json::json;

use super::RunState;
use crate::limits::STEPS_MAX;
use crate::steps::replay::SpentUsage;

/// The usage of a run.
#[derive(Clone, Debug)]
pub(super) struct UsageTally {
    /// The name of the model that used it.
    pub model: String,
    /// The usage before this run: a settlement reports only what is new.
    pub before: SpentUsage,
    pub now: SpentUsage,
}

impl UsageTally {
    /// Adds the usage to a settlement that has none.
    pub(super) fn beside(&self, mut how: Settle) -> Settle {
        let (Settle::Complete { usage, .. } | Settle::Fail { usage, .. } | Settle::Yield { usage, .. }) =
            &mut how;
        if usage.is_none() {
            *usage = self.counted();
        }
        how
    }

    fn counted(&self) -> Option<Json> {
        let (before, now) = (&self.before, &self.now);
        let mut used = json!({
            "steps": now.steps - before.steps,
            "input_tokens": now.usage.input_tokens - before.usage.input_tokens,
            "output_tokens": now.usage.output_tokens - before.usage.output_tokens,
            "cached_tokens": now.usage.cached_tokens - before.usage.cached_tokens,
            "model": self.model,
        });
        if let Some(cost) = now.usage.cost_micros {
            used["cost_micros"] = (cost - before.usage.cost_micros.unwrap_or(0)).into();
        }
        Json::of(&used).ok()
    }
}

/// A run that has reached one of its limits.
pub(super) fn over(limit: &'static str, limits: &RunLimits) -> Settle {
    let set = match limit {
        "steps" => limits.steps.or(Some(STEPS_MAX)),
        "tokens" => limits.tokens,
        "cost_micros" => limits.cost_micros,
        "wall_ms" => limits.wall_ms,
        _ => None,
    };
    let set = set.map(|set| format!(" ({set})")).unwrap_or_default();
    fail(&format!("limit_{limit}"), &format!("the run reached its limit `{limit}`{set}"), false, None)
}

pub(super) fn stopped() -> Settle {
    fail("stopped", "the session was asked to stop", false, None)
}

pub(super) fn fail(reason: &str, error: &str, retryable: bool, work: Option<&RunState>) -> Settle {
    let error: String =
        error.replace('\0', "\u{fffd}").chars().take(sederunt_core::limits::SENTENCE_CHARS_MAX).collect();
    let how = Settle::Fail { error, retryable, reason: Some(reason.to_owned()), usage: None };
    match work {
        Some(work) => with_usage(how, work),
        None => how,
    }
}

/// Adds the usage of this run to its settlement.
pub(super) fn with_usage(how: Settle, work: &RunState) -> Settle {
    work.tally.beside(how)
}
