//! Answers: which values fit the questions of a view, and how the log holds an answer. Pure.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{QuestionType, Respondent, ViewQuestion};
use crate::error::{Error, Result};
use crate::event::{Event, EventType, NewEvent};
use crate::json::Json;
use crate::limits;
use crate::strict::shortened;
use crate::time::Timestamp;

/// The event type of an answer.
pub const SUBMIT: &str = "user.form_submit";

/// One respondent's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewAnswer {
    /// Its external id in the log: one for each respondent of a view.
    pub name: String,
    pub sequence: u64,
    pub view_id: String,
    pub respondent: Respondent,
    pub values: Json,
    pub at: Timestamp,
}

/// An answer that no run has read: where it is, and the epoch in which it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadAnswer {
    pub name: String,
    pub view_id: String,
    /// Later claims are handed it.
    pub epoch: u64,
}

#[derive(Deserialize)]
struct Metadata {
    view_id: String,
    respondent: Respondent,
    values: Json,
}

impl ViewAnswer {
    /// Reads an answer from a log; `None` for any other event.
    pub fn of(event: &Event) -> Option<Self> {
        if event.kind.as_str() != SUBMIT {
            return None;
        }
        let Metadata { view_id, respondent, values } = event.metadata.as_ref()?.read().ok()?;
        let name = event.external_event_id.as_deref().unwrap_or_default().to_owned();
        Some(Self { name, sequence: event.sequence, view_id, respondent, values, at: event.at })
    }

    /// The JSON that a worker and a model get of it.
    pub fn told(&self) -> Result<Json> {
        told(&self.view_id, &self.respondent, &self.values)
    }
}

pub(super) fn told(view_id: &str, respondent: &Respondent, values: &Json) -> Result<Json> {
    let (view_id, respondent) = (Json::of(&view_id)?, Json::of(respondent)?);
    Ok(Json::object([("view_id", &view_id), ("respondent", &respondent), ("values", values)]))
}

/// The event of an answer.
pub(crate) fn event(view_id: &str, respondent: &Respondent, name: &str, values: &Json) -> Result<NewEvent> {
    let mut event = NewEvent::engine(EventType::known(SUBMIT), Some(told(view_id, respondent, values)?));
    event.external_event_id = Some(name.into());
    event.author = Some(respondent.author().into());
    Ok(event)
}

/// The event that says which answers a run was given.
pub fn injected(names: &[String]) -> Result<NewEvent> {
    let metadata = Json::of(&json!({"kind": INJECTED, "ids": names}))?;
    Ok(NewEvent::engine(EventType::known(crate::lesson::shown::INJECTION), Some(metadata)))
}

/// The kind of injected context under which the log lists answers.
const INJECTED: &str = "answers";

/// The answers that an event says a run was given.
pub fn names_in(event: &Event) -> Vec<String> {
    crate::lesson::shown::injected_ids(event, INJECTED)
}

/// Refuses values that do not fit the questions; the refusal names the first that does not.
pub fn check(questions: &[ViewQuestion], values: &Json) -> Result<()> {
    check_as(AnswerStage::Whole, questions, values)
}

/// Refuses values that could not become part of an answer. What is required may still be missing.
pub fn check_draft(questions: &[ViewQuestion], values: &Json) -> Result<()> {
    check_as(AnswerStage::Draft, questions, values)
}

/// How complete an answer must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerStage {
    /// Its writer goes on writing: nothing is required, and nothing must have its least size yet.
    Draft,
    Whole,
}

fn check_as(stage: AnswerStage, questions: &[ViewQuestion], values: &Json) -> Result<()> {
    if !values.is_object() {
        return Err(Error::invalid("values", "must be an object"));
    }
    if values.len() > limits::ANSWER_BYTES_MAX {
        return Err(Error::TooLarge { what: "values", limit: limits::ANSWER_BYTES_MAX });
    }
    let given = values.fields();
    if let Some((key, _)) =
        given.iter().find(|(key, _)| !questions.iter().any(|question| question.key == *key))
    {
        return Err(Error::invalid(format!("values.{}", shortened(key)), "is no question of this view"));
    }
    for question in questions {
        let value = given.iter().find(|(key, _)| *key == question.key).map(|(_, value)| value.value());
        let wrong = match (stage, value) {
            (AnswerStage::Draft, None | Some(Value::Null)) => None,
            (AnswerStage::Whole, None | Some(Value::Null)) => {
                question.required.then(|| "is required".to_owned())
            }
            (AnswerStage::Draft, Some(value)) => {
                let unfinished = ViewQuestion {
                    required: false,
                    min: question.min.filter(|_| !question.kind.is_written()),
                    ..question.clone()
                };
                misfit(&unfinished, &value)
            }
            (AnswerStage::Whole, Some(value)) => misfit(question, &value),
        };
        if let Some(wrong) = wrong {
            return Err(Error::invalid(format!("values.{}", question.key), wrong));
        }
    }
    Ok(())
}

/// What is wrong with a value.
fn misfit(question: &ViewQuestion, value: &Value) -> Option<String> {
    let known = |text: &str| question.options.iter().any(|option| option.value == text);
    match (question.kind, value) {
        (QuestionType::Text, Value::String(text)) => {
            if question.required && text.trim().is_empty() {
                return Some("is required".to_owned());
            }
            let most = question.max.unwrap_or(limits::ANSWER_TEXT_CHARS as f64);
            let bounded = ViewQuestion { max: Some(most), ..question.clone() };
            outside(&bounded, text.chars().count() as f64, " characters")
        }
        (QuestionType::Choice, Value::String(text)) => {
            (!known(text)).then(|| format!("must be one of the options, not `{text}`"))
        }
        (QuestionType::MultiChoice, Value::Array(chosen)) => {
            let mut seen: Vec<&str> = Vec::new();
            for one in chosen {
                match one.as_str() {
                    Some(text) if !known(text) => {
                        return Some(format!("must name options only, not `{text}`"));
                    }
                    Some(text) if seen.contains(&text) => return Some(format!("names `{text}` twice")),
                    Some(text) => seen.push(text),
                    None => return Some("must list options by their values".to_owned()),
                }
            }
            if question.required && chosen.is_empty() {
                return Some("is required".to_owned());
            }
            outside(question, chosen.len() as f64, " choices")
        }
        (QuestionType::Number, Value::Number(number)) => match number.as_f64() {
            Some(number) if number.is_finite() => outside(question, number, ""),
            _ => Some("must be a number".to_owned()),
        },
        (QuestionType::Scale, Value::Number(number)) => match number.as_f64() {
            Some(number) if number.fract() == 0.0 => outside(question, number, ""),
            _ => Some("must be a whole number".to_owned()),
        },
        (QuestionType::Boolean, Value::Bool(_)) => None,
        (QuestionType::Date, Value::String(text)) => {
            (!is_day(text)).then(|| "must be a day, as in 2026-11-16".to_owned())
        }
        (kind, _) => Some(match kind {
            QuestionType::Text => "must be a text".to_owned(),
            QuestionType::Choice => "must be one of the options".to_owned(),
            QuestionType::MultiChoice => "must be a list of options".to_owned(),
            QuestionType::Number => "must be a number".to_owned(),
            QuestionType::Scale => "must be a whole number".to_owned(),
            QuestionType::Boolean => "must be true or false".to_owned(),
            QuestionType::Date => "must be a day, as in 2026-11-16".to_owned(),
        }),
    }
}

fn outside(question: &ViewQuestion, size: f64, of: &str) -> Option<String> {
    if let Some(min) = question.min.filter(|min| size < *min) {
        return Some(format!("must be at least {min}{of}"));
    }
    question.max.filter(|max| size > *max).map(|max| format!("must be at most {max}{of}"))
}

fn is_day(text: &str) -> bool {
    text.len() == "2026-11-16".len() && text.parse::<jiff::civil::Date>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::tests::view;
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn every_type_takes_its_own_and_names_what_does_not_fit() {
        let view = view(
            r#"[{"key":"text","label":"L","min":2,"max":3},
                {"key":"one","label":"L","type":"choice","options":[{"value":"a"},{"value":"b"}]},
                {"key":"many","label":"L","type":"multi_choice","max":2,
                    "options":[{"value":"a"},{"value":"b"},{"value":"c"}]},
                {"key":"n","label":"L","type":"number","min":-1,"max":1.5},
                {"key":"yes","label":"L","type":"boolean"},
                {"key":"day","label":"L","type":"date"},
                {"key":"scale","label":"L","type":"scale","min":-1,"max":5}]"#,
        );
        for fits in [
            "{}",
            r#"{"text":null,"one":null}"#,
            r#"{"text":"äöü","one":"b","many":["c","a"],"n":1.5,"yes":false,"day":"2028-02-29"}"#,
            r#"{"many":[],"n":-1}"#,
            r#"{"scale":-1}"#,
            r#"{"scale":5.0}"#,
        ] {
            assert!(
                check(&view.questions, &json(fits)).is_ok(),
                "{fits}: {:?}",
                check(&view.questions, &json(fits))
            );
        }
        for (misfit, field) in [
            ("[]", "values"),
            (r#"{"other":1}"#, "values.other"),
            (r#"{"text":5}"#, "values.text"),
            (r#"{"text":"x"}"#, "values.text"),
            (r#"{"text":"four"}"#, "values.text"),
            (r#"{"one":"c"}"#, "values.one"),
            (r#"{"one":["a"]}"#, "values.one"),
            (r#"{"many":"a"}"#, "values.many"),
            (r#"{"many":["a","a"]}"#, "values.many"),
            (r#"{"many":["x"]}"#, "values.many"),
            (r#"{"many":[1]}"#, "values.many"),
            (r#"{"many":["a","b","c"]}"#, "values.many"),
            (r#"{"n":"1"}"#, "values.n"),
            (r#"{"n":1.6}"#, "values.n"),
            (r#"{"n":-2}"#, "values.n"),
            (r#"{"yes":"true"}"#, "values.yes"),
            (r#"{"day":"2026-02-30"}"#, "values.day"),
            (r#"{"day":"2026-11-16T10:00"}"#, "values.day"),
            (r#"{"day":20261116}"#, "values.day"),
            (r#"{"scale":1.5}"#, "values.scale"),
            (r#"{"scale":6}"#, "values.scale"),
            (r#"{"scale":"5"}"#, "values.scale"),
        ] {
            match check(&view.questions, &json(misfit)) {
                Err(Error::Invalid { field: named, .. }) => assert_eq!(named, field, "{misfit}"),
                other => panic!("{misfit}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_is_required_must_say_something() {
        let view = view(
            r#"[{"key":"t","label":"L","required":true},
                {"key":"m","label":"L","type":"multi_choice","required":true,"options":[{"value":"a"}]},
                {"key":"b","label":"L","type":"boolean","required":true}]"#,
        );
        assert!(check(&view.questions, &json(r#"{"t":"x","m":["a"],"b":false}"#)).is_ok());
        for (values, field) in [
            (r#"{"m":["a"],"b":true}"#, "values.t"),
            (r#"{"t":" ","m":["a"],"b":true}"#, "values.t"),
            (r#"{"t":"x","m":[],"b":true}"#, "values.m"),
            (r#"{"t":"x","m":["a"],"b":null}"#, "values.b"),
        ] {
            match check(&view.questions, &json(values)) {
                Err(Error::Invalid { field: named, message }) => {
                    assert_eq!((&*named, message.as_str()), (field, "is required"), "{values}");
                }
                other => panic!("{values}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_draft_may_miss_what_is_required_and_what_is_not_finished_but_holds_no_misfit() {
        let view = view(
            r#"[{"key":"t","label":"L","required":true,"min":3,"max":5},
                {"key":"m","label":"L","type":"multi_choice","required":true,"min":1,"options":[{"value":"a"}]},
                {"key":"n","label":"L","type":"number","min":2}]"#,
        );
        for fits in ["{}", r#"{"t":"","m":[]}"#, r#"{"t":"ab"}"#, r#"{"t":null}"#] {
            assert!(check_draft(&view.questions, &json(fits)).is_ok(), "{fits}");
            assert!(check(&view.questions, &json(fits)).is_err(), "{fits}");
        }
        for misfit in [r#"{"t":"abcdef"}"#, r#"{"m":["b"]}"#, r#"{"n":1}"#, r#"{"x":1}"#, r#"{"t":5}"#, "[]"]
        {
            assert!(check_draft(&view.questions, &json(misfit)).is_err(), "{misfit}");
        }
    }

    #[test]
    fn an_answer_one_byte_too_large_is_refused() {
        let view = view(r#"[{"key":"a","label":"L","max":100000}]"#);
        let around = r#"{"a":""}"#.len();
        let sized = |bytes: usize| json(&format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - around)));
        assert!(check(&view.questions, &sized(limits::ANSWER_BYTES_MAX)).is_ok());
        assert!(matches!(
            check(&view.questions, &sized(limits::ANSWER_BYTES_MAX + 1)),
            Err(Error::TooLarge { .. })
        ));
        let plain = super::super::tests::view(r#"[{"key":"a","label":"L"}]"#);
        assert!(check(&plain.questions, &sized(limits::ANSWER_TEXT_CHARS + around)).is_ok());
        assert!(check(&plain.questions, &sized(limits::ANSWER_TEXT_CHARS + around + 1)).is_err());
    }
}
