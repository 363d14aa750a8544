//! The page on which a view is answered: rendered here, with one script and one style sheet of our own and nothing
//! from another server. People's texts are escaped. The script sends JSON; without it the browser sends the form itself,
//! and [`values`] reads that.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use sederunt_core::Error;
use sederunt_core::definitions::{StoredDefinition, View};
use sederunt_core::engine::{Asker, OpenedView};
use sederunt_core::json::Json;
use sederunt_core::view::{QuestionType, ViewQuestion};
use serde_json::{Map, Value};

use super::page::escape;

pub const SCRIPT: &str = include_str!("form/form.js");
pub const STYLE: &str = include_str!("form/form.css");

/// What a form holds when it is shown again: what was entered, and what is wrong with it.
#[derive(Debug, Default)]
pub struct Entered {
    pub values: Map<String, Value>,
    pub wrong: Option<String>,
}

impl Entered {
    /// What the respondent has saved before.
    pub fn saved(opened: &OpenedView) -> Self {
        let saved = opened.saved.as_ref().map(Json::value);
        let values = match saved {
            Some(Value::Object(values)) => values,
            _ => Map::new(),
        };
        Self { values, wrong: None }
    }
}

/// The page for a caller who may read the whole view and not answer it.
pub fn whole(view: &StoredDefinition<View>) -> String {
    let text = match view.value.session_id {
        Some(_) => "This form is shown to the people who answer it.",
        None => "This form is not published.",
    };
    page(&view.value.title, view.value.description.as_deref(), &said(text))
}

/// The page for a respondent.
pub fn asked(opened: &OpenedView, entered: &Entered) -> String {
    let body = match &opened.view {
        _ if opened.answered => said("Thank you. Your answer has been received."),
        _ if !opened.open => said("This form takes no answers any more."),
        Some(view) => {
            let kind = if view.response.is_some() { FormKind::Response } else { FormKind::Answer };
            questions(&opened.id, kind, &view.questions, entered)
        }
        None => lead(&opened.id, entered),
    };
    page(&opened.title, opened.description.as_deref(), &format!("{}{body}", asker(&opened.asked_by)))
}

/// Who asks, in one sentence.
fn asker(asked_by: &Asker) -> String {
    let sentence = match (&asked_by.name, &asked_by.tenant) {
        (Some(name), Some(tenant)) => format!("Asked by {name} for {tenant}."),
        (Some(name), None) => format!("Asked by {name}."),
        (None, Some(tenant)) => format!("Asked for {tenant}."),
        (None, None) => return String::new(),
    };
    format!("<p class=\"help\">{}</p>\n", escape(&sentence))
}

/// The page for a caller who may not see the view, or came too late.
pub fn refused(message: &str) -> String {
    page("This form cannot be shown", None, &said(message))
}

fn page(title: &str, description: Option<&str>, body: &str) -> String {
    let title = escape(title);
    let description =
        description.map_or_else(String::new, |text| format!("<p class=\"about\">{}</p>\n", escape(text)));
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{title}</title>
<link rel="stylesheet" href="../assets/view-form.css">
<script src="../assets/view-form.js" defer></script>
</head>
<body>
<main>
<h1>{title}</h1>
{description}{body}</main>
</body>
</html>
"#
    )
}

fn said(text: &str) -> String {
    format!("<p role=\"status\">{}</p>\n", escape(text))
}

fn lead(id: &str, entered: &Entered) -> String {
    let given = |name: &str| match entered.values.get(name) {
        Some(Value::String(text)) => format!(" value=\"{}\"", escape(text)),
        _ => String::new(),
    };
    format!(
        "<form method=\"post\" data-view=\"{}\" data-kind=\"lead\">\n<p>Please say who you are first. Your name and \
         e-mail go to those who ask, with your answer, and are used for nothing else here.</p>\n\
         <label for=\"lead-name\">Name</label>\n\
         <input id=\"lead-name\" name=\"name\" data-type=\"text\" maxlength=\"200\" autocomplete=\"name\" required{}>\n\
         <label for=\"lead-email\">E-mail</label>\n\
         <input id=\"lead-email\" name=\"email\" type=\"email\" data-type=\"text\" maxlength=\"254\" autocomplete=\"email\" required{}>\n\
         {}",
        escape(id),
        given("name"),
        given("email"),
        end("Continue", entered)
    )
}

/// The end of a form, with its button.
fn end(button: &str, entered: &Entered) -> String {
    let wrong = match &entered.wrong {
        Some(text) => format!("<p class=\"wrong\" role=\"alert\">{}</p>", escape(text)),
        None => "<p class=\"wrong\" role=\"alert\" hidden></p>".to_owned(),
    };
    format!("{wrong}\n<button type=\"submit\">{button}</button>\n</form>\n")
}

/// Up to this many choices are shown as radio buttons, more as a drop-down list.
const RADIOS_MAX: usize = 4;

/// What the script does with a form of questions.
#[derive(Clone, Copy)]
enum FormKind {
    /// Sends it at once.
    Answer,
    /// Saves it while it is written.
    Response,
}

fn questions(id: &str, kind: FormKind, questions: &[ViewQuestion], entered: &Entered) -> String {
    let (kind, saved) = match kind {
        FormKind::Answer => ("answer", ""),
        FormKind::Response => ("response", "<p class=\"saved\" role=\"status\" aria-live=\"polite\"></p>\n"),
    };
    let fields: String = questions
        .iter()
        .enumerate()
        .map(|(n, question)| field(n, question, entered.values.get(&question.key)))
        .collect();
    let must = if questions.iter().any(|question| question.required) {
        "<p class=\"help\"><span class=\"must\">*</span> needs an answer</p>\n"
    } else {
        ""
    };
    format!(
        "<form method=\"post\" data-view=\"{}\" data-kind=\"{kind}\">\n{must}{fields}{saved}{}",
        escape(id),
        end("Send", entered)
    )
}

/// The input of one question, with what it holds already.
fn field(n: usize, question: &ViewQuestion, held: Option<&Value>) -> String {
    let (key, label, kind) = (escape(&question.key), escape(&question.label), question.kind.as_str());
    let required = if question.required { " required" } else { "" };
    let mark = if question.required { " <span class=\"must\" title=\"required\">*</span>" } else { "" };
    let help = question
        .help
        .as_deref()
        .map_or_else(String::new, |help| format!("<p class=\"help\" id=\"h{n}\">{}</p>\n", escape(help)));
    let described = if help.is_empty() { String::new() } else { format!(" aria-describedby=\"h{n}\"") };
    let common = format!("id=\"q{n}\" name=\"{key}\" data-type=\"{kind}\"{described}");
    let bound = |name: &str, value: Option<f64>| {
        value.map_or_else(String::new, |value| format!(" {name}=\"{value}\""))
    };
    let (least, most) = (bound("min", question.min), bound("max", question.max));
    let labelled = |input: String| format!("<label for=\"q{n}\">{label}{mark}</label>\n{help}{input}\n");
    let grouped = |each: String| {
        format!("<fieldset{described}>\n<legend>{label}{mark}</legend>\n{help}{each}</fieldset>\n")
    };
    // An optional question can be left unanswered again.
    let no_answer = (!question.required).then_some(("", "No answer"));
    let text = held.map(shown_value).unwrap_or_default();
    let marked = |value: &str, mark: &'static str| {
        let is_held = match held {
            Some(Value::Array(chosen)) => chosen.iter().any(|one| one == value),
            _ => !text.is_empty() && text == value,
        };
        if is_held { mark } else { "" }
    };
    let held_value = match text.as_str() {
        "" => String::new(),
        text => format!(" value=\"{}\"", escape(text)),
    };
    let radios = |each: &[(&str, &str)]| -> String {
        each.iter()
            .copied()
            .chain(no_answer)
            .map(|(value, shown)| {
                format!(
                    "<label class=\"one\"><input type=\"radio\" name=\"{key}\" data-type=\"{kind}\" value=\"{}\"{}{required}> {}</label>\n",
                    escape(value),
                    marked(value, " checked"),
                    escape(shown)
                )
            })
            .collect()
    };
    match question.kind {
        QuestionType::Text => {
            let most = bound("maxlength", question.max.filter(|max| *max >= 0.0).map(f64::floor));
            // A browser drops the first line break of the text.
            let text = escape(&text);
            labelled(format!("<textarea {common} rows=\"3\"{most}{required}>\n{text}</textarea>"))
        }
        QuestionType::Number => labelled(format!(
            "<input {common} type=\"number\" step=\"any\"{least}{most}{held_value}{required}>"
        )),
        QuestionType::Date => labelled(format!("<input {common} type=\"date\"{held_value}{required}>")),
        QuestionType::Boolean => grouped(radios(&[("true", "Yes"), ("false", "No")])),
        QuestionType::Scale => {
            let steps: Vec<String> = question.steps().map(|step| step.to_string()).collect();
            let each: Vec<(&str, String)> = steps
                .iter()
                .map(|step| match question.labels.get(step) {
                    Some(label) => (step.as_str(), format!("{step} – {label}")),
                    None => (step.as_str(), step.clone()),
                })
                .collect();
            let each: Vec<(&str, &str)> = each.iter().map(|(step, shown)| (*step, shown.as_str())).collect();
            let steps = format!("<div class=\"steps\">\n{}</div>\n", radios(&each));
            grouped(steps).replacen("<fieldset", "<fieldset class=\"scale\"", 1)
        }
        QuestionType::Choice if question.options.len() <= RADIOS_MAX => {
            let each: Vec<(&str, &str)> = question
                .options
                .iter()
                .map(|option| (option.value.as_str(), option.label.as_deref().unwrap_or(&option.value)))
                .collect();
            grouped(radios(&each))
        }
        QuestionType::Choice => {
            let each = question.options.iter().map(|option| {
                let shown = option.label.as_deref().unwrap_or(&option.value);
                let chosen = marked(&option.value, " selected");
                format!("<option value=\"{}\"{chosen}>{}</option>", escape(&option.value), escape(shown))
            });
            let each: String = each.collect();
            labelled(format!("<select {common}{required}><option value=\"\"></option>{each}</select>"))
        }
        QuestionType::MultiChoice => {
            let each = question.options.iter().map(|option| {
                let shown = option.label.as_deref().unwrap_or(&option.value);
                format!(
                    "<label class=\"one\"><input type=\"checkbox\" name=\"{key}\" data-type=\"{kind}\" value=\"{}\"{}> {}</label>\n",
                    escape(&option.value),
                    marked(&option.value, " checked"),
                    escape(shown)
                )
            });
            grouped(each.collect())
        }
    }
}

/// A value as its input holds it.
fn shown_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    }
}

/// The values that a browser without the script sends of a form. What was left empty is `null`; what does not fit its
/// question stays as it is, and is refused with the answer.
pub fn values(questions: &[ViewQuestion], fields: Vec<(String, String)>) -> Map<String, Value> {
    let mut values: Map<String, Value> = questions
        .iter()
        .map(|question| {
            let none = match question.kind {
                QuestionType::MultiChoice => Value::Array(Vec::new()),
                _ => Value::Null,
            };
            (question.key.clone(), none)
        })
        .collect();
    for (name, text) in fields {
        let kind = questions.iter().find(|question| question.key == name).map(|question| question.kind);
        match (kind, values.get_mut(&name)) {
            (Some(QuestionType::MultiChoice), Some(Value::Array(chosen))) => chosen.push(text.into()),
            (Some(_), _) if text.is_empty() => {}
            (kind, _) => {
                let value = match kind {
                    Some(QuestionType::Number | QuestionType::Scale | QuestionType::Boolean) => {
                        serde_json::from_str(&text).ok().filter(|value: &Value| !value.is_null())
                    }
                    // Browsers end the lines of a text by two characters.
                    Some(QuestionType::Text) => Some(text.replace("\r\n", "\n").into()),
                    _ => None,
                };
                values.insert(name, value.unwrap_or_else(|| text.into()));
            }
        }
    }
    values
}

/// A refusal of an answer in the words of its form: questions are named as the page names them.
pub fn in_words(questions: &[ViewQuestion], error: &Error) -> String {
    let Error::Invalid { field, message } = error else { return error.to_string() };
    let key = field.strip_prefix("values.");
    match questions.iter().find(|question| Some(question.key.as_str()) == key) {
        Some(question) => format!("“{}” {message}.", question.label),
        None => error.to_string(),
    }
}

/// Lets the page load its own script and style, speak to its own server, and nothing else. Only pages of these
/// origins may show it in a frame.
pub fn guarded(mut response: Response, embed_origins: &[String]) -> Response {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                          base-uri 'none'; form-action 'self'; frame-ancestors";
    let ancestors = if embed_origins.is_empty() { "'none'".to_owned() } else { embed_origins.join(" ") };
    // An origin that could not stand in a header shows the page nowhere.
    let policy = HeaderValue::from_str(&format!("{POLICY} {ancestors}"))
        .unwrap_or(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    // The address holds the token of the link, so no other server is told it. This server is: a browser that is to
    // tell nobody would send a form without its origin.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

pub fn asset(text: &'static str, kind: &'static str) -> Response {
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    response
}

#[cfg(test)]
mod tests {
    use sederunt_core::strict;
    use sederunt_core::view::ViewAudience;

    use super::*;

    const HOSTILE: &str = r#"</title><script>x</script>" onfocus="x"#;

    fn opened() -> OpenedView {
        let text = format!(
            r#"{{"title":{0},"description":{0},"questions":[{{"key":"t","label":{0},"help":{0},"required":true,"max":5}},
                {{"key":"c","label":"C","type":"choice","options":[{{"value":"a","label":{0}}}]}},
                {{"key":"s","label":"S","type":"choice","options":[{{"value":"1"}},{{"value":"2"}},{{"value":"3"}},
                    {{"value":"4"}},{{"value":"5","label":{0}}}]}},
                {{"key":"m","label":"M","type":"multi_choice","options":[{{"value":"a"}},{{"value":"b","label":{0}}}]}},
                {{"key":"n","label":"N","type":"number","min":1,"max":2.5}},{{"key":"b","label":"B","type":"boolean"}},
                {{"key":"d","label":"D","type":"date"}}]}}"#,
            serde_json::to_string(HOSTILE).unwrap()
        );
        let view: View = strict::read(Json::parse(text.as_bytes()).unwrap().as_str()).unwrap();
        OpenedView {
            id: "v\"1".into(),
            title: view.title.clone(),
            description: view.description.clone(),
            asked_by: Asker { name: Some(HOSTILE.to_owned()), tenant: Some(HOSTILE.to_owned()) },
            gate: ViewAudience::None,
            view: Some(view),
            saved: None,
            open: true,
            answered: false,
            cookie: None,
        }
    }

    #[test]
    fn what_people_wrote_stays_text() {
        let page = asked(&opened(), &Entered::default());
        assert_eq!(page.matches("<script").count(), 1, "{page}");
        assert!(!page.contains("onfocus=\"") && page.contains("&lt;script&gt;"), "{page}");
        assert!(page.contains("data-view=\"v&quot;1\""));
        for type_of_input in [
            "<textarea", "<select", "type=\"radio\"", "type=\"checkbox\"", "type=\"number\"", "type=\"date\"",
        ] {
            assert!(page.contains(type_of_input), "{type_of_input}");
        }
        for from_elsewhere in ["http:", "https:", "style=", "<img", "javascript:"] {
            assert!(!page.contains(from_elsewhere), "{from_elsewhere}");
        }
    }

    #[test]
    fn the_page_says_who_asks_before_any_gate() {
        let by = |name: Option<&str>, tenant: Option<&str>| Asker {
            name: name.map(str::to_owned),
            tenant: tenant.map(str::to_owned),
        };
        for (asked_by, says) in [
            (by(Some("Scribe"), Some("acme")), "Asked by Scribe for acme."),
            (by(Some("Scribe & Co"), None), "Asked by Scribe &amp; Co."),
            (by(None, Some("acme")), "Asked for acme."),
        ] {
            let lead = OpenedView { view: None, gate: ViewAudience::Lead, asked_by, ..opened() };
            for view in [lead.clone(), OpenedView { open: false, ..lead.clone() }] {
                assert!(
                    asked(&view, &Entered::default()).contains(says),
                    "{}",
                    asked(&view, &Entered::default())
                );
            }
        }
        assert!(
            !asked(&OpenedView { asked_by: Asker::default(), ..opened() }, &Entered::default())
                .contains("Asked")
        );
    }

    #[test]
    fn the_page_says_where_a_respondent_stands() {
        let answered = asked(&OpenedView { answered: true, ..opened() }, &Entered::default());
        let closed = asked(&OpenedView { open: false, ..opened() }, &Entered::default());
        let lead =
            asked(&OpenedView { view: None, gate: ViewAudience::Lead, ..opened() }, &Entered::default());
        for (page, says, has_form) in [
            (&answered, "Thank you", false),
            (&closed, "no answers any more", false),
            (&lead, "say who you are", true),
            (&lead, "go to those who ask", true),
            (&lead, ">Continue</button>", true),
            (&asked(&opened(), &Entered::default()), "needs an answer", true),
        ] {
            assert!(page.contains(says), "{page}");
            assert_eq!(page.contains("<form"), has_form);
        }
        assert!(!lead.contains("data-type=\"number\""), "what is asked shows after the gate");
    }

    #[test]
    fn the_script_builds_no_markup_and_calls_nobody_else() {
        for risky in ["innerHTML", "outerHTML", "document.write", "eval(", "http:", "https:"] {
            assert!(!SCRIPT.contains(risky), "{risky}");
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }

    #[test]
    fn what_a_browser_sends_without_the_script_becomes_values() {
        let questions = opened().view.unwrap().questions;
        let of = |name: &str, text: &str| {
            let sent = vec![(name.to_owned(), text.to_owned())];
            values(&questions, sent).remove(name).unwrap()
        };
        for (name, text, value) in [
            ("t", "", Value::Null),
            ("m", "x", serde_json::json!(["x"])),
            ("n", "1.5", serde_json::json!(1.5)),
            ("n", "many", "many".into()),
            ("n", "null", "null".into()),
            ("b", "true", true.into()),
            ("b", "", Value::Null),
            ("other", "x", "x".into()),
            ("__proto__", "", "".into()),
        ] {
            assert_eq!(of(name, text), value, "{name}={text}");
        }
        assert_eq!(values(&questions, Vec::new()).len(), questions.len());
    }

    #[test]
    fn a_form_that_is_shown_again_holds_what_was_entered() {
        let fields = [
            ("t", "a\r\nb <i>"),
            ("c", "a"),
            ("s", "5"),
            ("m", "a"),
            ("m", "b"),
            ("n", "2"),
            ("b", "false"),
            ("d", "2026-11-16"),
        ];
        let questions = opened().view.unwrap().questions;
        let sent = fields.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
        let values = values(&questions, sent);
        assert_eq!(
            Value::Object(values.clone()),
            serde_json::json!({"t": "a\nb <i>", "c": "a", "s": "5", "m": ["a", "b"], "n": 2, "b": false,
                "d": "2026-11-16"})
        );
        let page = asked(&opened(), &Entered { values, wrong: Some("<b> is wrong".into()) });
        for held in [
            ">\na\nb &lt;i&gt;</textarea>", "value=\"a\" checked", "value=\"b\" checked",
            "value=\"5\" selected", "value=\"2\"", "value=\"false\" checked", "value=\"2026-11-16\"",
            "&lt;b&gt; is wrong",
        ] {
            assert!(page.contains(held), "{held}: {page}");
        }
        assert_eq!(page.matches(" checked").count(), 4, "{page}");
    }
}
