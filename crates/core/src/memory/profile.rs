//! How a person wants to be talked to: one document per owner, with the rules in force, those that
//! were, and whether the past may be brought up.

use serde::{Deserialize, Serialize};

use super::{MemorySource, Owner, derived_id};
use crate::limits;

/// How a person wants to be talked to. Its rules always apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// Active rules, oldest first.
    pub rules: Vec<ProfileRule>,
    pub archived_rules: Vec<ProfileRule>,
    /// Off: the agent does not bring up the past unasked.
    pub recall_enabled: bool,
}

impl Profile {
    /// Takes a rule in. Beyond the limit the oldest one is archived.
    pub fn add(&mut self, rule: ProfileRule) {
        self.rules.push(rule);
        while self.rules.len() > limits::RULES_MAX {
            self.archive(0);
        }
    }

    /// Archives an active rule. Beyond the limit the oldest archived one is dropped.
    pub fn archive(&mut self, at: usize) {
        if at < self.rules.len() {
            self.archived_rules.push(self.rules.remove(at));
        }
        let spare = self.archived_rules.len().saturating_sub(limits::ARCHIVED_RULES_MAX);
        self.archived_rules.drain(..spare);
    }

    /// Removes a rule for good; returns whether it existed.
    pub fn remove(&mut self, id: &str) -> bool {
        let before = self.rules.len() + self.archived_rules.len();
        self.rules.retain(|rule| rule.id != id);
        self.archived_rules.retain(|rule| rule.id != id);
        self.rules.len() + self.archived_rules.len() < before
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileRule {
    pub id: String,
    pub text: String,
    pub confidence: f32,
    pub quotes: Vec<String>,
    pub sources: Vec<MemorySource>,
}

/// The id of the one profile that an owner has.
pub fn profile_id(owner: &Owner) -> String {
    derived_id(&["profile", owner.as_str()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(n: usize) -> ProfileRule {
        ProfileRule {
            id: n.to_string(),
            text: format!("rule {n}"),
            confidence: 0.5,
            quotes: vec![],
            sources: vec![],
        }
    }

    #[test]
    fn the_rule_beyond_the_limit_archives_the_oldest() {
        let mut profile = Profile::default();
        for n in 0..=limits::RULES_MAX {
            profile.add(rule(n));
        }
        assert_eq!(profile.rules.len(), limits::RULES_MAX);
        assert_eq!(profile.rules[0].id, "1");
        assert_eq!(profile.archived_rules[0].id, "0");
        for n in 0..=limits::ARCHIVED_RULES_MAX {
            profile.add(rule(1000 + n));
        }
        assert_eq!(profile.archived_rules.len(), limits::ARCHIVED_RULES_MAX);
        assert!(profile.remove("1050") && !profile.remove("1050"));
    }
}
