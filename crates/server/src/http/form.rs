//! The page on which a view is answered: rendered here, with one script and one style sheet of our own and nothing
//! from another server. People's texts are escaped; the script sends JSON, since the routes accept nothing else.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use sederunt_core::definitions::{StoredDefinition, View};
use sederunt_core::engine::{Asker, OpenedView};
use sederunt_core::view::{QuestionType, ViewQuestion};

use super::page::escape;

pub const SCRIPT: &str = include_str!("form/form.js");
pub const STYLE: &str = include_str!("form/form.css");

/// The page for a caller who may read the whole view.
pub fn whole(view: &StoredDefinition<View>) -> String {
    let body = match view.value.session_id {
        Some(_) => questions(&view.id, &view.value.questions),
        None => said("This form is not published."),
    };
    page(&view.value.title, view.value.description.as_deref(), &body)
}

/// The page for a respondent.
pub fn asked(opened: &OpenedView) -> String {
    let body = match &opened.view {
        _ if opened.answered => said("Thank you. Your answer has been received."),
        _ if !opened.open => said("This form takes no answers any more."),
        Some(view) => questions(&opened.id, &view.questions),
        None => lead(&opened.id),
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

const NO_SCRIPT: &str =
    "<noscript><p role=\"alert\">Answers are sent by a small script: please let it run.</p></noscript>\n";

fn lead(id: &str) -> String {
    format!(
        "<form data-view=\"{}\" data-kind=\"lead\">\n{NO_SCRIPT}<p>Please say who you are first. Your name and \
         e-mail go to those who ask, with your answer, and are used for nothing else here.</p>\n\
         <label for=\"lead-name\">Name</label>\n\
         <input id=\"lead-name\" name=\"name\" data-type=\"text\" maxlength=\"200\" autocomplete=\"name\" required>\n\
         <label for=\"lead-email\">E-mail</label>\n\
         <input id=\"lead-email\" name=\"email\" type=\"email\" data-type=\"text\" maxlength=\"254\" autocomplete=\"email\" required>\n\
         {}",
        escape(id),
        end("Continue")
    )
}

/// The end of a form, with its button.
fn end(button: &str) -> String {
    format!(
        "<p class=\"wrong\" role=\"alert\" hidden></p>\n<button type=\"submit\">{button}</button>\n</form>\n"
    )
}

/// Up to this many choices are shown as radio buttons, more as a drop-down list.
const RADIOS_MAX: usize = 4;

fn questions(id: &str, questions: &[ViewQuestion]) -> String {
    let fields: String = questions.iter().enumerate().map(|(n, question)| field(n, question)).collect();
    let must = if questions.iter().any(|question| question.required) {
        "<p class=\"help\"><span class=\"must\">*</span> needs an answer</p>\n"
    } else {
        ""
    };
    format!(
        "<form data-view=\"{}\" data-kind=\"answer\">\n{NO_SCRIPT}{must}{fields}{}",
        escape(id),
        end("Send")
    )
}

fn field(n: usize, question: &ViewQuestion) -> String {
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
    let radios = |each: &[(&str, &str)]| -> String {
        each.iter()
            .copied()
            .chain(no_answer)
            .map(|(value, shown)| {
                format!(
                    "<label class=\"one\"><input type=\"radio\" name=\"{key}\" data-type=\"{kind}\" value=\"{}\"{required}> {}</label>\n",
                    escape(value),
                    escape(shown)
                )
            })
            .collect()
    };
    match question.kind {
        QuestionType::Text => {
            let most = bound("maxlength", question.max.filter(|max| *max >= 0.0).map(f64::floor));
            labelled(format!("<textarea {common} rows=\"3\"{most}{required}></textarea>"))
        }
        QuestionType::Number => {
            labelled(format!("<input {common} type=\"number\" step=\"any\"{least}{most}{required}>"))
        }
        QuestionType::Date => labelled(format!("<input {common} type=\"date\"{required}>")),
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
            grouped(radios(&each))
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
                format!("<option value=\"{}\">{}</option>", escape(&option.value), escape(shown))
            });
            let each: String = each.collect();
            labelled(format!("<select {common}{required}><option value=\"\"></option>{each}</select>"))
        }
        QuestionType::MultiChoice => {
            let each = question.options.iter().map(|option| {
                let shown = option.label.as_deref().unwrap_or(&option.value);
                format!(
                    "<label class=\"one\"><input type=\"checkbox\" name=\"{key}\" data-type=\"{kind}\" value=\"{}\"> {}</label>\n",
                    escape(&option.value),
                    escape(shown)
                )
            });
            grouped(each.collect())
        }
    }
}

/// Lets the page load its own script and style, speak to its own server, and nothing else.
pub fn guarded(mut response: Response) -> Response {
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
                  form-action 'none'; frame-ancestors 'none'";
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    // The address holds the token of the link.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
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
    use sederunt_core::json::Json;
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
            open: true,
            answered: false,
            cookie: None,
        }
    }

    #[test]
    fn what_people_wrote_stays_text() {
        let page = asked(&opened());
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
                assert!(asked(&view).contains(says), "{}", asked(&view));
            }
        }
        assert!(!asked(&OpenedView { asked_by: Asker::default(), ..opened() }).contains("Asked"));
    }

    #[test]
    fn the_page_says_where_a_respondent_stands() {
        let answered = asked(&OpenedView { answered: true, ..opened() });
        let closed = asked(&OpenedView { open: false, ..opened() });
        let lead = asked(&OpenedView { view: None, gate: ViewAudience::Lead, ..opened() });
        for (page, says, has_form) in [
            (&answered, "Thank you", false),
            (&closed, "no answers any more", false),
            (&lead, "say who you are", true),
            (&lead, "go to those who ask", true),
            (&lead, ">Continue</button>", true),
            (&asked(&opened()), "needs an answer", true),
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
}
