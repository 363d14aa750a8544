//! The secrets that a call sends, and what hides them in everything that comes back: results, errors, questions to people.
//! Owns the spellings in which a secret is recognised. Refuses to know where a text goes: nothing that a tool says leaves
//! [`super::Toolbox`] before it was looked through here.

use std::ops::Range;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};
use sederunt_core::definitions::agent::secrets_in;
use sederunt_core::json::Json;
use sederunt_core::json_schema;
use tokio::time::Instant;

use super::elicitation::{InputAnswer, InputAsker, InputForm, InputRequest};
use super::http::Secrets;
use super::{Error, Outcome};

/// How often a text is read as JSON inside JSON: an answer may quote an answer that quotes a secret.
const QUOTED_MAX: usize = 3;
/// The longest spelling of a byte of a secret: `\\\\u0041`, as a string inside a string has it.
const SPELLED_BYTES_MAX: usize = 9;

/// Secrets by their names. What comes back must not repeat them.
#[derive(Clone, Debug, Default)]
pub struct SentSecrets(Vec<(String, SecretString)>);

impl SentSecrets {
    /// What a tool sends that sends no secrets.
    pub const NONE: &'static Self = &Self(Vec::new());

    /// The secrets that these texts of the configuration name.
    pub fn named_in<'a>(texts: impl IntoIterator<Item = &'a str>, known: &Secrets) -> Self {
        let mut sent = Self::default();
        for name in texts.into_iter().flat_map(secrets_in) {
            if let Some(secret) = known.get(name) {
                sent.add(name, &secret.value);
            }
        }
        sent
    }

    /// Adds a secret. One without a visible character hides nothing.
    pub fn add(&mut self, name: &str, secret: &SecretString) {
        if !secret.expose_secret().trim().is_empty() {
            self.0.push((name.to_owned(), secret.clone()));
        }
    }

    /// These secrets and those of another call.
    #[must_use]
    pub fn and(&self, others: &Self) -> Self {
        Self(self.0.iter().chain(&others.0).cloned().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text with every secret replaced by its name, however JSON spells it: with escapes of any kind, and also as a text
    /// inside a text.
    pub fn hidden_in(&self, text: &str) -> String {
        let mut found: Vec<(Range<usize>, &str)> = Vec::new();
        let mut read = SpelledText::plain(text);
        for _ in 0..=QUOTED_MAX {
            for (name, secret) in &self.0 {
                // Headers lose the blanks around a value, and answers may.
                let secret = secret.expose_secret().trim();
                found.extend(read.places_of(secret).map(|place| (place, name.as_str())));
            }
            match read.unquoted() {
                Some(next) => read = next,
                None => break,
            }
        }
        found.sort_by_key(|(place, _)| (place.start, std::cmp::Reverse(place.end)));
        let (mut shown, mut done) = (String::with_capacity(text.len()), 0);
        for (place, name) in found {
            if place.start >= done {
                shown.push_str(&text[done..place.start]);
                shown.push_str(&format!("[secret {name}]"));
            }
            done = done.max(place.end);
        }
        shown.push_str(&text[done..]);
        shown
    }

    /// A text that was cut: its end, which may be the beginning of a secret, is dropped.
    fn hidden_in_cut(&self, text: &str) -> String {
        let mut shown = self.hidden_in(text);
        let longest = self.0.iter().map(|(_, secret)| secret.expose_secret().len()).max().unwrap_or(0);
        shown.truncate(shown.floor_char_boundary(shown.len().saturating_sub(longest * SPELLED_BYTES_MAX)));
        shown
    }

    /// A schema without the secrets; one that is none any more without them is refused.
    pub(super) fn hidden_in_schema(&self, schema: Json) -> Result<Json, Error> {
        let shown = self.hidden_in(schema.as_str());
        if shown == schema.as_str() {
            return Ok(schema);
        }
        let shown = Json::parse(shown.as_bytes()).ok();
        let shown = shown.filter(|shown| json_schema::check("schema", shown).is_ok());
        shown.ok_or(Error::Malformed { what: "a schema" })
    }

    fn hidden_in_form(&self, form: InputForm) -> Result<InputForm, Error> {
        let InputForm { key, message, schema } = form;
        Ok(InputForm { key, message: self.hidden_in(&message), schema: self.hidden_in_schema(schema)? })
    }

    /// What came of a call, without the secrets.
    pub(super) fn hidden_in_outcome(&self, outcome: Outcome) -> Result<Outcome, Error> {
        if self.is_empty() {
            return Ok(outcome);
        }
        Ok(match outcome {
            Outcome::Done { content, is_error, cut } => {
                let content = if cut { self.hidden_in_cut(&content) } else { self.hidden_in(&content) };
                Outcome::Done { content, is_error, cut }
            }
            Outcome::NeedsConfirmation { summary } => {
                Outcome::NeedsConfirmation { summary: self.hidden_in(&summary) }
            }
            Outcome::NeedsInput(asked) => {
                let InputRequest { forms, responses, state, rounds } = *asked;
                let forms = forms.into_iter().map(|form| self.hidden_in_form(form));
                let forms = forms.collect::<Result<_, _>>()?;
                Outcome::NeedsInput(Box::new(InputRequest { forms, responses, state, rounds }))
            }
        })
    }

    /// Why a call has no outcome, without the secrets: what does not fit is quoted from the arguments.
    pub(super) fn hidden_in_error(&self, error: Error) -> Error {
        match error {
            Error::BadArguments { name, problems } => {
                let problems = problems.iter().map(|problem| self.hidden_in(problem)).collect();
                Error::BadArguments { name, problems }
            }
            other => other,
        }
    }

    /// Who is asked during a call, without the secrets.
    pub(super) fn hidden_from(&self, asker: Arc<dyn InputAsker>) -> Arc<dyn InputAsker> {
        match self.is_empty() {
            true => asker,
            false => Arc::new(DiscreetAsker { sent: self.clone(), asker }),
        }
    }
}

/// Puts a form before a person without the secrets of the call.
#[derive(Debug)]
struct DiscreetAsker {
    sent: SentSecrets,
    asker: Arc<dyn InputAsker>,
}

impl InputAsker for DiscreetAsker {
    fn ask<'a>(
        &'a self,
        form: &'a InputForm,
        tool: &'a str,
        until: Instant,
        ended: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, InputAnswer> {
        Box::pin(async move {
            match self.sent.hidden_in_form(form.clone()) {
                Ok(form) => self.asker.ask(&form, tool, until, ended).await,
                Err(_) => InputAnswer::Decline,
            }
        })
    }
}

/// A text as it reads once some layers of JSON strings are taken off, and where its bytes are written in the original.
struct SpelledText {
    text: String,
    /// Where each byte begins in the original, and the end of the original.
    places: Vec<usize>,
}

impl SpelledText {
    fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), places: (0..=text.len()).collect() }
    }

    /// Where a secret is written in the original.
    fn places_of<'a>(&'a self, secret: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let mut from = 0;
        std::iter::from_fn(move || {
            let start = from + self.text[from..].find(secret)?;
            // Occurrences may overlap, so that the next one is looked for inside this one.
            from = start + self.text[start..].chars().next().map_or(1, char::len_utf8);
            Some(self.places[start]..self.places[start + secret.len()])
        })
    }

    /// The text with the escapes of one layer read; `None` if it has none.
    fn unquoted(&self) -> Option<Self> {
        let mut rest = self.text.find('\\')?;
        let mut next = Self { text: String::with_capacity(self.text.len()), places: Vec::new() };
        next.push(&self.text[..rest], |nth| self.places[nth]);
        while rest < self.text.len() {
            let (read, len) = next_char(&self.text[rest..]);
            next.push(read.encode_utf8(&mut [0; 4]), |_| self.places[rest]);
            rest += len;
        }
        next.places.push(*self.places.last()?);
        Some(next)
    }

    fn push(&mut self, text: &str, place: impl Fn(usize) -> usize) {
        self.text.push_str(text);
        self.places.extend((0..text.len()).map(place));
    }
}

/// The first character of a text as a JSON string has it, and how many bytes it takes. A backslash that begins no escape is
/// itself.
fn next_char(text: &str) -> (char, usize) {
    let mut chars = text.chars();
    let first = chars.next().unwrap_or_default();
    let itself = (first, first.len_utf8());
    if first != '\\' {
        return itself;
    }
    let read = match chars.next() {
        Some(same @ ('"' | '\\' | '/')) => same,
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('u') => return unicode_escape(text).unwrap_or(itself),
        _ => return itself,
    };
    (read, 2)
}

/// The character that `\uXXXX`, or a pair of those, stands for.
fn unicode_escape(text: &str) -> Option<(char, usize)> {
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
    };
    let first = unit(text)?;
    if let Some(one) = char::from_u32(first.into()) {
        return Some((one, 6));
    }
    let pair = [first, unit(text.get(6..)?)?];
    char::decode_utf16(pair).next()?.ok().map(|one| (one, 12))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(secrets: &[(&str, &str)]) -> SentSecrets {
        let mut sent = SentSecrets::default();
        secrets.iter().for_each(|(name, secret)| sent.add(name, &(*secret).to_owned().into()));
        sent
    }

    #[test]
    fn a_secret_is_recognised_however_json_spells_it() {
        let sent = sent(&[("crm", "s3c\"/é\\😀")]);
        let quoted = |text: &str| serde_json::to_string(text).unwrap();
        let once = quoted("s3c\"/é\\😀");
        let twice = quoted(&once);
        let thrice = quoted(&twice);
        for text in [
            "it was s3c\"/é\\😀.",
            &once,
            r#"{"a":"\u0073\u0033c\"\/\u00e9\\\ud83d\uDE00"}"#,
            r#"status 400: {"error":"bad key s3c\u0022\u002F\u00E9\u005c\uD83D\ude00!"}"#,
            &twice,
            &thrice,
            r#""{\"e\":\"s3c\\\"\\/\\u00e9\\\\\\ud83d\\ude00\"}""#,
        ] {
            let shown = sent.hidden_in(text);
            assert!(shown.contains("[secret crm]"), "{text} → {shown}");
            assert!(!shown.contains("s3c") && !shown.contains("0073"), "{text} → {shown}");
        }
        let shown = sent.hidden_in(r#"{"a":"\u0073\u0033c\"\/\u00e9\\\ud83d\uDE00","b":"\n"}"#);
        assert_eq!(shown, r#"{"a":"[secret crm]","b":"\n"}"#, "the rest stays as it is");
    }

    #[test]
    fn what_is_no_secret_stays_as_it_is() {
        let sent = sent(&[("a", "alpha"), ("blank", " \n"), ("padded", " beta ")]);
        for text in ["", "\\", "\\u", "\\u00", "\\ud800", "\\ud800\\u0041", "alph", "\\x alp\\ha", "é\\u+041"]
        {
            assert_eq!(sent.hidden_in(text), text);
        }
        assert_eq!(sent.hidden_in("alphalpha alpha, beta"), "[secret a] [secret a], [secret padded]");
    }

    #[test]
    fn overlapping_secrets_are_hidden_whole() {
        let sent = sent(&[("one", "abcabc"), ("two", "cabX"), ("inner", "bc")]);
        assert_eq!(sent.hidden_in("-abcabcabX-abcabcabc-"), "-[secret one]-[secret one]-");
    }

    #[test]
    fn the_end_of_a_cut_text_is_not_the_beginning_of_a_secret() {
        let sent = sent(&[("key", "0123456789")]);
        let cut =
            Outcome::Done { content: format!("{} 012345678", "x".repeat(200)), is_error: false, cut: true };
        let Ok(Outcome::Done { content, cut: true, .. }) = sent.hidden_in_outcome(cut) else {
            panic!("not cut")
        };
        assert!(content.starts_with("xxx") && !content.contains('0'), "{content}");
    }

    #[test]
    fn a_form_that_is_none_without_its_secret_is_refused() {
        let sent = sent(&[("word", "string"), ("number", "12345")]);
        let form = |message: &str, schema: &str| {
            InputForm::bounded("string".to_owned(), message.to_owned(), Json::stored(schema)).unwrap()
        };
        let plain = form("A string?", r#"{"title":"a string"}"#);
        let shown = sent.hidden_in_form(plain).unwrap();
        assert_eq!((shown.key.as_str(), shown.message.as_str()), ("string", "A [secret word]?"));
        assert_eq!(shown.schema.as_str(), r#"{"title":"a [secret word]"}"#);
        for schema in [r#"{"type":"string"}"#, r#"{"maximum":12345}"#] {
            assert!(sent.hidden_in_form(form("?", schema)).is_err(), "{schema}");
        }
    }
}
