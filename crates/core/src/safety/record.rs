//! One line of the crisis log: that a crisis was answered, when and how. Codes and metadata only;
//! no field can hold what was said.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use super::codes::{
    ClassifierPath, CrisisEventType, FallbackCode, HoldReason, OverrideKind, ReasonCode,
    ResourceLookupStatus, ResponsePath, ResponseStyle,
};
use super::opaque::OpaqueId;
use super::response::Response;
use super::{Crisis, Level};
use crate::feedback::retention_cutoff;
use crate::ids::{UserId, optional_user_id};
use crate::limits;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrisisRecord {
    pub id: uuid::Uuid,
    pub event_type: CrisisEventType,
    pub session_id_opaque: OpaqueId,
    #[serde(deserialize_with = "optional_user_id")]
    pub user_id_or_null: Option<UserId>,
    pub detected_at: Timestamp,
    pub level: Level,
    pub override_kind: Option<OverrideKind>,
    pub classifier_path: ClassifierPath,
    pub reason_code: ReasonCode,
    /// Whether the answer was given to its end.
    pub response_node_completed: bool,
    pub llm_failure_occurred: bool,
    pub response_style: ResponseStyle,
    pub resource_lookup_status: ResourceLookupStatus,
    pub resource_count: u32,
    /// Names of tools that were called on the way.
    pub tool_calls: Vec<ToolName>,
    pub response_path: ResponsePath,
    pub fallback_code: Option<FallbackCode>,
    pub retention_extended_until: Option<Timestamp>,
    pub retention_extended_reason_code: Option<HoldReason>,
}

impl CrisisRecord {
    /// The record at the time of the check; the response fills in the rest.
    pub fn begin(
        id: uuid::Uuid,
        session: OpaqueId,
        user: Option<UserId>,
        at: Timestamp,
        crisis: &Crisis,
    ) -> Self {
        Self {
            id,
            event_type: CrisisEventType::CrisisResponse,
            session_id_opaque: session,
            user_id_or_null: user,
            detected_at: at,
            level: crisis.level,
            override_kind: crisis.override_kind,
            classifier_path: crisis.classifier_path,
            reason_code: crisis.reason_code,
            response_node_completed: false,
            llm_failure_occurred: crisis.classifier_path == ClassifierPath::LexiconAfterFailure,
            response_style: ResponseStyle::Crisis,
            resource_lookup_status: ResourceLookupStatus::NotAttempted,
            resource_count: 0,
            tool_calls: Vec::new(),
            response_path: ResponsePath::Template,
            fallback_code: None,
            retention_extended_until: None,
            retention_extended_reason_code: None,
        }
    }

    /// The same record after the response was given.
    #[must_use]
    pub fn answered_with(mut self, response: &Response) -> Self {
        self.response_node_completed = true;
        self.resource_lookup_status = response.resources.status;
        self.resource_count = u32::try_from(response.resources.places.len()).unwrap_or(u32::MAX);
        self
    }

    /// Holds the record at least until this date; a hold is never shortened.
    pub fn extend(&mut self, until: Timestamp, reason: HoldReason) {
        if self.retention_extended_until.is_none_or(|held| held < until) {
            self.retention_extended_until = Some(until);
            self.retention_extended_reason_code = Some(reason);
        }
    }

    /// Whether a purge that keeps records for `kept` removes it.
    pub fn is_due(&self, now: Timestamp, kept: Duration) -> bool {
        self.detected_at < retention_cutoff(now, kept)
            && self.retention_extended_until.is_none_or(|until| until <= now)
    }
}

/// A tool's name, and nothing that could be a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolName(String);

impl ToolName {
    pub fn parse(text: &str) -> Option<Self> {
        let fits = !text.is_empty()
            && text.len() <= limits::TOOL_NAME_BYTES_MAX
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte));
        fits.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ToolName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a tool's name"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn record() -> CrisisRecord {
        let crisis = Crisis {
            level: Level::Acute,
            confidence: 0.9,
            reason_code: ReasonCode::ActiveIdeation,
            flags: vec![],
            override_kind: None,
            classifier_path: ClassifierPath::LexiconAfterFailure,
        };
        let at = Timestamp::parse("2026-11-16T08:00:00Z").unwrap();
        CrisisRecord::begin(uuid::Uuid::from_u128(1), OpaqueId::stored("ab"), None, at, &crisis)
    }

    #[test]
    fn a_record_holds_these_fields_and_no_other() {
        let value = serde_json::to_value(record()).unwrap();
        let fields: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            fields,
            [
                "id", "event_type", "session_id_opaque", "user_id_or_null", "detected_at", "level",
                "override_kind", "classifier_path", "reason_code", "response_node_completed",
                "llm_failure_occurred", "response_style", "resource_lookup_status", "resource_count",
                "tool_calls", "response_path", "fallback_code", "retention_extended_until",
                "retention_extended_reason_code",
            ]
        );
        assert_eq!(value["level"], 3);
        assert_eq!(value["llm_failure_occurred"], true);
        assert_eq!(serde_json::from_value::<CrisisRecord>(value.clone()).unwrap(), record());
        for (field, prose) in [
            ("reason_code", "said goodbye to a friend"),
            ("fallback_code", "it broke"),
            ("classifier_path", "x"),
        ] {
            let mut value = value.clone();
            value[field] = prose.into();
            assert!(serde_json::from_value::<CrisisRecord>(value).is_err(), "{field}");
        }
        let mut value = value;
        value["tool_calls"] = serde_json::json!(["what I said"]);
        assert!(serde_json::from_value::<CrisisRecord>(value).is_err());
    }

    #[test]
    fn a_hold_outlives_the_retention_and_is_never_shortened() {
        let mut record = record();
        let at = record.detected_at;
        assert!(!record.is_due(at.plus(90 * DAY), 90 * DAY), "the day of the cutoff stays");
        assert!(record.is_due(at.plus(91 * DAY), 90 * DAY));
        record.extend(at.plus(200 * DAY), HoldReason::LegalHold);
        record.extend(at.plus(100 * DAY), HoldReason::Audit);
        assert_eq!(record.retention_extended_reason_code, Some(HoldReason::LegalHold));
        assert!(!record.is_due(at.plus(199 * DAY), 90 * DAY));
        assert!(record.is_due(at.plus(200 * DAY), 90 * DAY));
    }

    #[test]
    fn tool_names_are_short_and_are_no_sentences() {
        assert!(ToolName::parse("find_resources.v2").is_some());
        assert!(ToolName::parse(&"x".repeat(limits::TOOL_NAME_BYTES_MAX)).is_some());
        for bad in ["", "I said this", "ü", &"x".repeat(limits::TOOL_NAME_BYTES_MAX + 1)] {
            assert!(ToolName::parse(bad).is_none(), "{bad:?}");
        }
    }
}
