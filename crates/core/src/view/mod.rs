//! The view room: forms that people answer. A view is a definition like any other; one that a session has published
//! takes answers for it. Owns the view and its questions, which values fit them ([`answer`]), who answers and how
//! that is proved ([`respondent`]), and what a submit does to the session ([`decide`]). Refuses to keep answers: each
//! is one event of the session's log, and the run only names those that no run has read.

pub mod answer;
pub mod decide;
pub mod respondent;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use answer::{UnreadAnswer, ViewAnswer};
pub use respondent::{Lead, Respondent};

use crate::definitions::{ASSIGNED_TO, Definition, DefinitionKind};
use crate::error::{Error, Result};
use crate::ids::{check_name, check_text};
use crate::limits;
use crate::response::ResponseConfig;
use crate::time::Timestamp;

/// A form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    pub title: String,
    pub description: Option<String>,
    #[serde(default)]
    pub questions: Vec<ViewQuestion>,
    #[serde(default)]
    pub publish_config: PublishConfig,
    /// The session that has published it, and takes its answers. Set by publishing alone.
    pub session_id: Option<String>,
    /// Each answer is a response: a session of its own, which can be saved before it is submitted. No run publishes
    /// such a view; it is open from its making until it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseConfig>,
}

/// Who may answer, and how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishConfig {
    #[serde(default)]
    pub gate: ViewAudience,
    /// Later answers are refused; `None`: as long as the session goes on.
    pub expires_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewAudience {
    /// Members and owners of the tenant.
    #[default]
    Member,
    /// Anyone with the link.
    None,
    /// Anyone with the link who gives a name and an address first.
    Lead,
}

impl ViewAudience {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::None => "none",
            Self::Lead => "lead",
        }
    }
}

/// One thing that is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewQuestion {
    /// The name of its value in an answer.
    pub key: String,
    pub label: String,
    #[serde(rename = "type", default)]
    pub kind: QuestionType,
    #[serde(default)]
    pub required: bool,
    pub help: Option<String>,
    /// What may be chosen.
    #[serde(default)]
    pub options: Vec<QuestionOption>,
    /// Bounds the characters of a text, the value of a number, or how many choices are made; the ends of a scale.
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// What single steps of a scale mean: step → label.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionType {
    #[default]
    Text,
    Choice,
    MultiChoice,
    Number,
    Boolean,
    /// A day: `2026-11-16`.
    Date,
    /// A whole number between `min` and `max`.
    Scale,
}

impl QuestionType {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Choice => "choice",
            Self::MultiChoice => "multi_choice",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Date => "date",
            Self::Scale => "scale",
        }
    }

    const fn chooses(self) -> bool {
        matches!(self, Self::Choice | Self::MultiChoice)
    }

    /// Whether its value grows while it is given, so that a draft may be below `min`.
    const fn is_written(self) -> bool {
        matches!(self, Self::Text | Self::MultiChoice)
    }

    const fn counts(self) -> bool {
        matches!(self, Self::Text | Self::Number | Self::MultiChoice | Self::Scale)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionOption {
    pub value: String,
    pub label: Option<String>,
}

/// The facet that leads from a session to its views.
pub const SESSION_FACET: &str = "session_id";

impl Definition for View {
    const KIND: DefinitionKind = DefinitionKind::View;

    fn check(&self) -> Result<()> {
        check_text("title", &self.title, limits::NAME_CHARS_MAX)?;
        if self.title.trim().is_empty() {
            return Err(Error::invalid("title", "must say what is asked"));
        }
        if let Some(description) = &self.description {
            check_text("description", description, limits::DESCRIPTION_CHARS_MAX)?;
        }
        if self.questions.is_empty() || self.questions.len() > limits::QUESTIONS_MAX {
            return Err(Error::invalid("questions", format!("must be 1 to {}", limits::QUESTIONS_MAX)));
        }
        for (n, question) in self.questions.iter().enumerate() {
            question.check().map_err(|error| error.within(&format!("questions[{n}]")))?;
            if self.questions[..n].iter().any(|other| other.key == question.key) {
                return Err(Error::invalid(
                    format!("questions[{n}].key"),
                    format!("names `{}` twice", question.key),
                ));
            }
        }
        match &self.response {
            Some(_) if self.session_id.is_some() => {
                Err(Error::invalid("response", "a view that a run publishes takes no responses"))
            }
            Some(response) => response.check(&self.questions).map_err(|error| error.within("response")),
            None => Ok(()),
        }
    }

    fn check_change(&self, before: &Self) -> Result<()> {
        if self.session_id != before.session_id {
            return Err(Error::invalid("session_id", "is set by publishing and cannot be changed"));
        }
        if before.session_id.is_some() && self.questions != before.questions {
            return Err(Error::invalid("questions", "somebody may have answered them; publish another view"));
        }
        Ok(())
    }

    fn own_id(&self) -> Option<&str> {
        None
    }

    fn slug(&self) -> Option<&str> {
        None
    }

    fn facets(&self) -> Vec<(&'static str, Box<str>)> {
        let session = self.session_id.iter().map(|id| (SESSION_FACET, id.as_str().into()));
        let assignee = self.response.iter().filter_map(|response| response.assigned_to.as_ref());
        session.chain(assignee.map(|user| (ASSIGNED_TO, user.as_str().into()))).collect()
    }
}

impl View {
    /// Whether people can answer it: a run has published it, or it takes responses.
    pub const fn takes_answers(&self) -> bool {
        self.session_id.is_some() || self.response.is_some()
    }
}

impl ViewQuestion {
    /// The steps of a scale, from the lowest.
    pub fn steps(&self) -> impl Iterator<Item = i64> + use<> {
        let end = |bound: Option<f64>| bound.unwrap_or_default() as i64;
        end(self.min)..=end(self.max)
    }

    fn check_scale(&self) -> Result<()> {
        if self.kind != QuestionType::Scale {
            return match self.labels.is_empty() {
                true => Ok(()),
                false => Err(Error::invalid("labels", "are for scales")),
            };
        }
        let (Some(min), Some(max)) = (self.min, self.max) else {
            return Err(Error::invalid("min", "a scale needs `min` and `max`"));
        };
        for (field, end) in [("min", min), ("max", max)] {
            if end.fract() != 0.0 || end.abs() > SCALE_END_MAX {
                return Err(Error::invalid(field, "must be a whole number within a million"));
            }
        }
        if min >= max || max - min >= limits::SCALE_STEPS_MAX as f64 {
            let most = limits::SCALE_STEPS_MAX;
            return Err(Error::invalid("max", format!("a scale has 2 to {most} steps")));
        }
        for (step, label) in &self.labels {
            check_text("labels", label, limits::NAME_CHARS_MAX)?;
            if !self.steps().any(|known| known.to_string() == *step) {
                return Err(Error::invalid("labels", format!("`{step}` is no step of the scale")));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        check_name("key", &self.key)?;
        check_text("label", &self.label, limits::QUESTION_CHARS_MAX)?;
        if self.label.trim().is_empty() {
            return Err(Error::invalid("label", "must say what is asked"));
        }
        if let Some(help) = &self.help {
            check_text("help", help, limits::DESCRIPTION_CHARS_MAX)?;
        }
        if self.kind.chooses() == self.options.is_empty() {
            return Err(Error::invalid(
                "options",
                "are required for choice questions and not allowed for other types",
            ));
        }
        if self.options.len() > limits::OPTIONS_MAX {
            return Err(Error::invalid("options", format!("names more than {}", limits::OPTIONS_MAX)));
        }
        for (n, option) in self.options.iter().enumerate() {
            check_name("options.value", &option.value)?;
            if let Some(label) = &option.label {
                check_text("options.label", label, limits::NAME_CHARS_MAX)?;
            }
            if self.options[..n].iter().any(|other| other.value == option.value) {
                return Err(Error::invalid("options.value", format!("names `{}` twice", option.value)));
            }
        }
        if (self.min.is_some() || self.max.is_some()) && !self.kind.counts() {
            return Err(Error::invalid("min", format!("says nothing about a {}", self.kind.as_str())));
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            return Err(Error::invalid("max", "is less than `min`"));
        }
        self.check_scale()
    }
}

/// How far the ends of a scale may be from zero.
const SCALE_END_MAX: f64 = 1e6;

/// An HMAC under the installation's key, with every part delimited from the next.
pub(crate) fn mac(key: &[u8; 32], what: &str, parts: &[&str]) -> [u8; 32] {
    let mut message: Vec<u8> = Vec::new();
    for part in std::iter::once(&what).chain(parts) {
        message.extend((part.len() as u64).to_be_bytes());
        message.extend(part.as_bytes());
    }
    crate::safety::opaque::hmac_sha256(key, &[&message])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::json::Json;
    use crate::strict;

    pub(crate) fn view(questions: &str) -> View {
        strict::read(
            Json::parse(format!(r#"{{"title":"T","questions":{questions}}}"#).as_bytes()).unwrap().as_str(),
        )
        .unwrap()
    }

    #[test]
    fn what_could_not_be_answered_is_refused_with_its_place() {
        for (questions, field) in [
            ("[]", "questions"),
            (r#"[{"key":"a/b","label":"A"}]"#, "questions[0].key"),
            (r#"[{"key":"a","label":" "}]"#, "questions[0].label"),
            (r#"[{"key":"a","label":"A"},{"key":"a","label":"B"}]"#, "questions[1].key"),
            (r#"[{"key":"a","label":"A","type":"choice"}]"#, "questions[0].options"),
            (r#"[{"key":"a","label":"A","options":[{"value":"x"}]}]"#, "questions[0].options"),
            (
                r#"[{"key":"a","label":"A","type":"choice","options":[{"value":"x"},{"value":"x"}]}]"#,
                "questions[0].options.value",
            ),
            (r#"[{"key":"a","label":"A","type":"date","min":1}]"#, "questions[0].min"),
            (r#"[{"key":"a","label":"A","type":"number","min":2,"max":1}]"#, "questions[0].max"),
            (r#"[{"key":"a","label":"A","type":"scale","min":1}]"#, "questions[0].min"),
            (r#"[{"key":"a","label":"A","type":"scale","min":0.5,"max":3}]"#, "questions[0].min"),
            (r#"[{"key":"a","label":"A","type":"scale","min":0,"max":1e9}]"#, "questions[0].max"),
            (r#"[{"key":"a","label":"A","type":"scale","min":1,"max":1}]"#, "questions[0].max"),
            (r#"[{"key":"a","label":"A","type":"scale","min":0,"max":11}]"#, "questions[0].max"),
            (
                r#"[{"key":"a","label":"A","type":"scale","min":0,"max":2,"labels":{"3":"x"}}]"#,
                "questions[0].labels",
            ),
            (r#"[{"key":"a","label":"A","type":"number","labels":{"3":"x"}}]"#, "questions[0].labels"),
        ] {
            match view(questions).check() {
                Err(Error::Invalid { field: named, .. }) => assert_eq!(named, field, "{questions}"),
                other => panic!("{questions}: {other:?}"),
            }
        }
        let many = |count: usize| {
            let each = (0..count).map(|n| format!(r#"{{"key":"k{n}","label":"L"}}"#)).collect::<Vec<_>>();
            view(&format!("[{}]", each.join(",")))
        };
        assert!(many(limits::QUESTIONS_MAX).check().is_ok());
        assert!(many(limits::QUESTIONS_MAX + 1).check().is_err());
    }

    #[test]
    fn a_scale_has_up_to_eleven_whole_steps() {
        let scale = view(
            r#"[{"key":"a","label":"A","type":"scale","min":0,"max":10,"labels":{"0":"no","10":"yes"}}]"#,
        );
        assert!(scale.check().is_ok());
        assert_eq!(scale.questions[0].steps().count(), limits::SCALE_STEPS_MAX);
    }

    #[test]
    fn a_published_view_keeps_its_session_and_its_questions() {
        let draft = view(r#"[{"key":"a","label":"A"}]"#);
        let published = View { session_id: Some("s".into()), ..draft.clone() };
        let other = view(r#"[{"key":"b","label":"B"}]"#);
        assert!(other.check_change(&draft).is_ok());
        assert!(published.check_change(&draft).is_err());
        assert!(View { session_id: Some("s".into()), ..other }.check_change(&published).is_err());
        assert!(View { title: "U".into(), ..published.clone() }.check_change(&published).is_ok());
    }
}
