//! Views and answers to them on the wire.

use std::borrow::Cow;

use sederunt_core::definitions;
use sederunt_core::engine::{self, OpenedView, SubmitResult, ViewDisplay};
use sederunt_core::session::query::Page;
use sederunt_core::view::{self, ViewAnswer};
use sederunt_core::{Error, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::OneOfBuilder;
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::Raw;
use super::definitions::{DefinitionAnswer, Gate, Question, View};
use crate::query::params;

/// A view, whole or as it is asked.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ViewView {
    Whole(Box<WholeView>),
    Asked(Box<AskedView>),
}

impl PartialSchema for ViewView {
    fn schema() -> RefOr<Schema> {
        let each = [View::name(), AskedView::name()].map(Ref::from_schema_name);
        each.into_iter().fold(OneOfBuilder::new(), OneOfBuilder::item).into()
    }
}

impl ToSchema for ViewView {
    fn name() -> Cow<'static, str> {
        "ViewView".into()
    }
}

/// A view with its link.
#[derive(Debug, Serialize)]
pub struct WholeView {
    #[serde(flatten)]
    pub kept: DefinitionAnswer<definitions::View>,
    pub url: Option<String>,
}

impl WholeView {
    pub fn published(published: engine::PublishedView, base: &str) -> Self {
        let url = Some(published.url(base));
        Self { kept: published.view.into(), url }
    }
}

impl From<definitions::StoredDefinition<definitions::View>> for WholeView {
    fn from(view: definitions::StoredDefinition<definitions::View>) -> Self {
        Self { kept: view.into(), url: None }
    }
}

/// A page of views, newest first; their links stand with each of them alone.
#[derive(Debug, Serialize)]
pub struct WholeViewPage {
    pub items: Vec<WholeView>,
    pub next_cursor: Option<String>,
}

impl From<Page<definitions::StoredDefinition<definitions::View>, i64>> for WholeViewPage {
    fn from(page: Page<definitions::StoredDefinition<definitions::View>, i64>) -> Self {
        let next_cursor = page.next.map(|next| next.to_string());
        Self { items: page.items.into_iter().map(Into::into).collect(), next_cursor }
    }
}

/// A view as its respondents see it, without the session that published it.
#[derive(Debug, Serialize, ToSchema)]
pub struct AskedView {
    pub id: String,
    pub title: String,
    pub description: Option<String>,
    pub asked_by: Asker,
    #[schema(value_type = Gate)]
    pub gate: view::ViewAudience,
    /// With gate `lead`: null until the respondent has given name and email.
    #[schema(value_type = Option<Vec<Question>>)]
    pub questions: Option<Vec<view::ViewQuestion>>,
    /// Whether the view still takes answers.
    pub open: bool,
    /// Whether the caller has answered it.
    pub answered: bool,
}

/// The agent or task that asks.
#[derive(Debug, Serialize, ToSchema)]
pub struct Asker {
    /// The name of the agent, or of the task where the agent has none.
    pub name: Option<String>,
    /// The tenant, unless it is `default`.
    pub tenant: Option<String>,
}

impl From<OpenedView> for AskedView {
    fn from(opened: OpenedView) -> Self {
        Self {
            id: opened.id.into(),
            title: opened.title,
            description: opened.description,
            asked_by: Asker { name: opened.asked_by.name, tenant: opened.asked_by.tenant },
            gate: opened.gate,
            questions: opened.view.map(|view| view.questions),
            open: opened.open,
            answered: opened.answered,
        }
    }
}

impl ViewView {
    /// What is shown, and the cookie by which a respondent is recognised.
    pub fn of(shown: ViewDisplay, base: &str) -> (Self, Option<String>) {
        match shown {
            ViewDisplay::Whole { view, published, .. } => {
                let url = published.map(|published| published.url(base));
                (Self::Whole(Box::new(WholeView { kept: (*view).into(), url })), None)
            }
            ViewDisplay::Asked(opened) => {
                let cookie = opened.cookie.clone();
                (Self::Asked(Box::new((*opened).into())), cookie)
            }
        }
    }
}

/// A respondent's name and email.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "Ada", "email": "ada@example.org"}))]
pub struct Lead {
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    #[schema(min_length = 3, max_length = 254)]
    pub email: String,
}

impl TryFrom<Lead> for view::Lead {
    type Error = Error;

    fn try_from(lead: Lead) -> Result<Self, Error> {
        Self::new(&lead.name, &lead.email)
    }
}

/// An answer to a view.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"values": {"colour": "green"}}))]
pub struct Submit {
    /// A value for each question, by its key.
    #[schema(value_type = Object)]
    pub values: Raw,
    /// The respondent's name and email, if the view's gate is `lead` and no cookie names the respondent.
    pub lead: Option<Lead>,
}

impl TryFrom<Submit> for engine::Submission {
    type Error = Error;

    fn try_from(submit: Submit) -> Result<Self, Error> {
        Ok(Self { values: submit.values.0, lead: submit.lead.map(TryInto::try_into).transpose()? })
    }
}

/// An answer that was taken.
#[derive(Debug, Serialize, ToSchema)]
pub struct Accepted {
    pub accepted: bool,
    /// The respondent had given the same answer before.
    pub repeated: bool,
}

impl From<&SubmitResult> for Accepted {
    fn from(submitted: &SubmitResult) -> Self {
        Self { accepted: true, repeated: submitted.repeated }
    }
}

/// The one who answered: a `user`, a `credential` without a user, a `lead` (an entity) or a `cookie`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Respondent {
    pub kind: &'static str,
    pub id: String,
}

/// A respondent's answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Answer {
    pub view_id: String,
    pub respondent: Respondent,
    #[schema(value_type = Object)]
    pub values: Raw,
    /// The event's sequence in the log of the session.
    pub sequence: u64,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

impl From<ViewAnswer> for Answer {
    fn from(answer: ViewAnswer) -> Self {
        let view::Respondent { kind, id } = answer.respondent;
        Self {
            view_id: answer.view_id,
            respondent: Respondent { kind: kind.as_str(), id },
            values: Raw(answer.values),
            sequence: answer.sequence,
            at: answer.at,
        }
    }
}

/// A page of answers, oldest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AnswerList {
    pub items: Vec<Answer>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

impl From<Page<ViewAnswer, u64>> for AnswerList {
    fn from(page: Page<ViewAnswer, u64>) -> Self {
        Self {
            items: page.items.into_iter().map(Into::into).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}

params! {
    /// A page of answers.
    pub struct AnswersQuery {
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<u64> = text().pattern("^[0-9]{1,18}$").parsed("must be a whole number", parse_sequence),
    }
}
