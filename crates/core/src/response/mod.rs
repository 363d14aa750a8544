//! The response room: answers that people save before they submit them, and that can be written to an entity. A view
//! with a [`ResponseConfig`] takes them. A response is a session of its own, of type `response`, with one row beside it
//! ([`ResponseRow`]) that says who answers which view and holds the questions as they were when it was opened. Owns what
//! opening, saving, submitting and abandoning do ([`decide`]). Refuses to keep values: they are the session's draft
//! values, and then its result.

pub mod decide;
mod store;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use store::{ResponseFilter, ResponseQuery, ResponseStore};

use crate::approval::Approval;
use crate::error::{Error, Result};
use crate::ids::{SessionId, check_name};
use crate::json::Json;
use crate::limits;
use crate::session::Session;
use crate::time::Timestamp;
use crate::view::{Respondent, ViewAudience, ViewQuestion};

/// How a view takes responses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponseConfig {
    /// The type of the entity that a promoted response becomes, where the response names no entity.
    pub entity_type: Option<String>,
    /// Which answer is written to which field of the entity: question key → entity field.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
    /// Scores and flags a submitted response.
    pub criteria_set_id: Option<String>,
    #[serde(default)]
    pub promote: PromotionMode,
    /// The user who decides on promotions, and who may read the responses.
    pub assigned_to: Option<String>,
    /// Each respondent submits one response.
    #[serde(default = "yes")]
    pub once: bool,
    /// The web origins that may show the form in a frame.
    #[serde(default)]
    pub embed_origins: Vec<String>,
}

const fn yes() -> bool {
    true
}

/// Whether submitted responses are to be written to an entity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromotionMode {
    /// A person decides on each.
    Approval,
    #[default]
    Off,
}

impl ResponseConfig {
    /// Refuses a configuration that could not work with these questions.
    pub(crate) fn check(&self, questions: &[ViewQuestion]) -> Result<()> {
        for (field, name) in [
            ("entity_type", &self.entity_type),
            ("criteria_set_id", &self.criteria_set_id),
            ("assigned_to", &self.assigned_to),
        ] {
            name.as_deref().map_or(Ok(()), |name| check_name(field, name))?;
        }
        for (n, (key, field)) in self.fields.iter().enumerate() {
            if !questions.iter().any(|question| question.key == *key) {
                return Err(Error::invalid("fields", format!("`{key}` is no question of this view")));
            }
            check_name("fields", field)?;
            if self.fields.values().take(n).any(|other| other == field) {
                return Err(Error::invalid("fields", format!("names the entity field `{field}` twice")));
            }
        }
        if self.promote == PromotionMode::Approval && self.fields.is_empty() {
            return Err(Error::invalid("fields", "must name what a promotion writes"));
        }
        if self.embed_origins.len() > limits::EMBED_ORIGINS_MAX {
            let most = limits::EMBED_ORIGINS_MAX;
            return Err(Error::invalid("embed_origins", format!("names more than {most}")));
        }
        match self.embed_origins.iter().find(|origin| !is_https_origin(origin)) {
            Some(_) => Err(Error::invalid(
                "embed_origins",
                "must be exact origins such as `https://example.org` or `https://example.org:8443`",
            )),
            None => Ok(()),
        }
    }
}

/// Whether a text is `https://host` or `https://host:port` as browsers write it: in small letters, without the port
/// 443.
fn is_https_origin(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://") else { return false };
    let (host, port) = match rest.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (rest, None),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|n| n != 0 && n != 443 && n.to_string() == port);
    host.len() <= limits::HOST_BYTES_MAX && host.split('.').all(is_label) && port.is_none_or(is_port)
}

/// What a response was opened with: later changes of the view do not touch it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResponseForm {
    pub title: String,
    pub questions: Vec<ViewQuestion>,
    pub response: ResponseConfig,
    pub gate: ViewAudience,
    pub view_version: u64,
    /// The entity that it is about.
    pub entity_id: Option<String>,
}

/// Where a response is between its opening and its end. It follows the session's status, and is stored so that the
/// database keeps a respondent from having two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseState {
    Open,
    Submitted,
    Abandoned,
}

impl ResponseState {
    pub const ALL: [Self; 3] = [Self::Open, Self::Submitted, Self::Abandoned];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Submitted => "submitted",
            Self::Abandoned => "abandoned",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// The row beside the session of a response.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseRow {
    pub session: SessionId,
    pub view_id: Box<str>,
    pub respondent: Respondent,
    /// The respondent's [`Respondent::answer_name`] for the view. At most one row of a view with this name is open, or
    /// submitted where each respondent submits one.
    pub respondent_name: String,
    /// Which of the respondent's responses to the view it is, from 1.
    pub ordinal: u64,
    pub is_anonymous: bool,
    /// As the form says: a submitted one is the respondent's last.
    pub once: bool,
    pub state: ResponseState,
    /// Set by the store whenever the row is written.
    pub saved_at: Timestamp,
    pub form: ResponseForm,
}

impl ResponseRow {
    /// Whether it keeps its respondent from opening another.
    pub const fn occupies(&self) -> bool {
        match self.state {
            ResponseState::Open => true,
            ResponseState::Submitted => self.once,
            ResponseState::Abandoned => false,
        }
    }

    /// The form as stores keep it.
    pub fn form_json(&self) -> Result<Json> {
        Json::of(&self.form)
    }
}

/// A response with everything that is shown of it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredResponse {
    pub row: ResponseRow,
    pub session: Session,
    /// The newest promotion that was asked for.
    pub promotion: Option<Approval>,
}

/// The earlier responses of a respondent to a view.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RespondentHistory {
    /// The ordinal of the newest; 0 if there is none.
    pub last_ordinal: u64,
    /// The newest that was not abandoned.
    pub standing: Option<ResponseRow>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::view;

    fn config(text: &str) -> ResponseConfig {
        crate::strict::read(text).unwrap()
    }

    #[test]
    fn what_could_not_work_is_refused_with_its_place() {
        let questions = view(r#"[{"key":"a","label":"A"},{"key":"b","label":"B"}]"#).questions;
        for (text, field) in [
            (r#"{"fields":{"c":"x"}}"#, "fields"),
            (r#"{"fields":{"a":"x/y"}}"#, "fields"),
            (r#"{"fields":{"a":"x","b":"x"}}"#, "fields"),
            (r#"{"promote":"approval"}"#, "fields"),
            (r#"{"entity_type":""}"#, "entity_type"),
            (r#"{"criteria_set_id":"a/b"}"#, "criteria_set_id"),
            (r#"{"assigned_to":""}"#, "assigned_to"),
            (r#"{"embed_origins":["http://a.org"]}"#, "embed_origins"),
        ] {
            match config(text).check(&questions) {
                Err(Error::Invalid { field: named, .. }) => assert_eq!(named, field, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let whole = config(
            r#"{"entity_type":"company","fields":{"a":"x","b":"y"},"criteria_set_id":"c","promote":"approval",
                "assigned_to":"ada","embed_origins":["https://a.org","https://b.org:8443"]}"#,
        );
        assert!(whole.check(&questions).is_ok());
        assert!(
            whole.once && config("{}").once,
            "each respondent submits one unless the view says otherwise"
        );
        let origins = |count: usize| ResponseConfig {
            embed_origins: (0..count).map(|n| format!("https://e{n}.org")).collect(),
            ..config("{}")
        };
        assert!(origins(limits::EMBED_ORIGINS_MAX).check(&questions).is_ok());
        assert!(origins(limits::EMBED_ORIGINS_MAX + 1).check(&questions).is_err());
    }

    #[test]
    fn only_exact_https_origins_are_taken() {
        for fits in ["https://a.org", "https://a", "https://a-b.example.org:8443", "https://127.0.0.1:1"] {
            assert!(is_https_origin(fits), "{fits}");
        }
        for misfit in [
            "https://*.a.org", "https://a.org/", "https://a.org/x", "https://A.org", "http://a.org", "a.org",
            "https://", "https://a.org:", "https://a.org:0", "https://a.org:99999", "https://a.org:443",
            "https://a.org:0443", "https://u@a.org", "https://a..org", "https://-a.org", "https://a.org ",
            "https://a.org; script-src *", "https://a.org\r\nX: y", "*",
        ] {
            assert!(!is_https_origin(misfit), "{misfit}");
        }
        assert!(is_https_origin(&format!("https://{}", "a".repeat(limits::HOST_BYTES_MAX))));
        assert!(!is_https_origin(&format!("https://{}", "a".repeat(limits::HOST_BYTES_MAX + 1))));
    }
}
