//! A model that replays a fixture, for tests and demonstrations.
//!
//! A fixture is a JSON object with `steps`; each step is one reply:
//!
//! ```json
//! {"steps": [
//!   {"expect": "invoice", "think": "Which one?", "call": {"name": "find", "args": {"id": 7}}},
//!   {"delay_ms": 20, "say": ["It is ", "paid."], "usage": {"input_tokens": 12, "output_tokens": 3}},
//!   {"fail": {"kind": "rate_limited", "retry_after_ms": 10, "times": 1}, "say": "Here I am again."}
//! ]}
//! ```
//!
//! | key | meaning |
//! |---|---|
//! | `say` | the text; a list is heard piece by piece |
//! | `think` | likewise, as thinking |
//! | `call` | a tool call `{name, args?}`, or a list of them |
//! | `expect` | a message since the model last spoke must contain this |
//! | `delay_ms` | the wait before anything is said |
//! | `usage` | `{input_tokens, output_tokens, cached_tokens}` |
//! | `fail` | `{kind, retry_after_ms?, times?}`: instead of a reply, always or the first `times` times |
//!
//! Kinds of failure: `unreachable`, `rate_limited`, `unavailable`, `refused`, `too_long`, `cut_short` (after
//! the words were heard), `malformed`, `timed_out`, `hang` (never answers).
//!
//! The step is chosen by how often the model has spoken in the request, and by nothing else: a worker that takes over
//! a session after a crash goes on at the right step. After the last step the script has ended, which is an error,
//! unless the fixture has `"start_over": true` beside `steps`. Only `times` is counted in the process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sederunt_core::json::Json;
use sederunt_core::strict;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Delta, DeltaSink, Model, ModelReply, Request, StopReason, ToolCall, Usage, Wait};

/// Why a step could not be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the script has ended: it has {steps} steps")]
    Ended { steps: usize },
    #[error("step {step} of the script expects other words since the model last spoke")]
    Unexpected { step: usize },
}

/// Why a fixture cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadFixture {
    #[error("the script {} cannot be read: {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: std::io::Error },
    #[error("the script {} cannot be used: {reason}", .path.display())]
    Unusable { path: PathBuf, reason: Box<Self> },
    #[error("{0}")]
    Form(String),
    #[error("it has no steps")]
    Empty,
    #[error("step {step}: {what}")]
    Step { step: usize, what: &'static str },
}

/// A model that says what it was told to say.
#[derive(Debug)]
pub struct Scripted {
    steps: Vec<ScriptStep>,
    start_over: bool,
    /// How often each step has failed so far.
    failed: Mutex<HashMap<usize, u32>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    steps: Vec<ScriptStepText>,
    #[serde(default)]
    start_over: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ScriptStepText {
    say: ScriptText,
    think: ScriptText,
    call: Option<ScriptCalls>,
    expect: Option<String>,
    delay_ms: u64,
    usage: Usage,
    fail: Option<ScriptFailure>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ScriptText {
    One(String),
    Many(Vec<String>),
}

impl Default for ScriptText {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl ScriptText {
    fn list(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Many(pieces) => pieces,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct ScriptCalls(Box<RawValue>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptCallText {
    name: String,
    args: Option<Box<RawValue>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFailure {
    kind: ScriptFailureKind,
    retry_after_ms: Option<u64>,
    times: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ScriptFailureKind {
    Unreachable,
    RateLimited,
    Unavailable,
    Refused,
    TooLong,
    CutShort,
    Malformed,
    TimedOut,
    Hang,
}

#[derive(Debug)]
struct ScriptStep {
    say: Vec<String>,
    think: Vec<String>,
    calls: Vec<(String, Json)>,
    expect: Option<String>,
    delay: Duration,
    usage: Usage,
    fail: Option<ScriptFailure>,
}

/// The fault of a fixture; the reader's sentence speaks of a request's body, so it is reworded.
fn misfit(error: sederunt_core::Error) -> BadFixture {
    BadFixture::Form(error.to_string().replace("the body is", "it is").replace(" of this request", ""))
}

impl Scripted {
    pub fn open(path: &Path) -> Result<Self, BadFixture> {
        let unreadable = |reason| BadFixture::Unreadable { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let unusable = |reason| BadFixture::Unusable { path: path.to_owned(), reason: Box::new(reason) };
        Self::parse(&text).map_err(unusable)
    }

    pub fn parse(text: &str) -> Result<Self, BadFixture> {
        let json = Json::parse(text.as_bytes()).map_err(misfit)?;
        let fixture: Fixture = strict::read(json.as_str()).map_err(misfit)?;
        if fixture.steps.is_empty() {
            return Err(BadFixture::Empty);
        }
        let steps = fixture.steps.into_iter().enumerate().map(|(number, step)| step.check(number));
        let steps = steps.collect::<Result<_, _>>()?;
        Ok(Self { steps, start_over: fixture.start_over, failed: Mutex::default() })
    }

    async fn play(&self, request: &Request, heard: DeltaSink<'_>) -> Result<ModelReply, super::Error> {
        let spoken = request.replies();
        let number = if self.start_over { spoken % self.steps.len() } else { spoken };
        let step = self.steps.get(number).ok_or(Error::Ended { steps: self.steps.len() })?;
        let said = |message: &&super::Message| !matches!(message, super::Message::Assistant { .. });
        let mut since = request.messages.iter().rev().take_while(said);
        if step
            .expect
            .as_ref()
            .is_some_and(|words| !since.any(|message| message.text().contains(words.as_str())))
        {
            return Err(Error::Unexpected { step: number }.into());
        }
        tokio::time::sleep(step.delay).await;
        let fail = step.fail.filter(|fail| self.still_fails(number, fail));
        if let Some(fail) = fail.filter(|fail| fail.kind != ScriptFailureKind::CutShort) {
            return Err(fail.error().await);
        }
        step.think.iter().for_each(|piece| heard(Delta::Thinking(piece.clone())));
        step.say.iter().for_each(|piece| heard(Delta::Text(piece.clone())));
        if fail.is_some() {
            return Err(super::Error::CutShort);
        }
        let call = |(at, (name, args)): (usize, &(String, Json))| ToolCall {
            id: format!("call_{spoken}_{at}"),
            name: name.clone(),
            args: args.clone(),
        };
        Ok(ModelReply {
            text: step.say.concat(),
            thinking: step.think.concat(),
            calls: step.calls.iter().enumerate().map(call).collect(),
            bad_calls: Vec::new(),
            usage: step.usage,
            stop: if step.calls.is_empty() { StopReason::End } else { StopReason::Calls },
        })
    }

    fn still_fails(&self, step: usize, fail: &ScriptFailure) -> bool {
        let Some(times) = fail.times else { return true };
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let so_far = failed.entry(step).or_default();
        let fails = *so_far < times;
        *so_far += u32::from(fails);
        fails
    }
}

impl Model for Scripted {
    fn run<'a>(
        &'a self,
        request: &'a Request,
        heard: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, super::Error>> {
        Box::pin(self.play(request, heard))
    }
}

impl ScriptStepText {
    fn check(self, step: usize) -> Result<ScriptStep, BadFixture> {
        let calls = self.call.map(|calls| calls.check(step)).transpose()?.unwrap_or_default();
        let (say, think) = (self.say.list(), self.think.list());
        if say.is_empty() && think.is_empty() && calls.is_empty() && self.fail.is_none() {
            return Err(BadFixture::Step { step, what: "it says, thinks, calls and fails nothing" });
        }
        Ok(ScriptStep {
            say,
            think,
            calls,
            expect: self.expect,
            delay: Duration::from_millis(self.delay_ms),
            usage: self.usage,
            fail: self.fail,
        })
    }
}

impl ScriptCalls {
    fn check(&self, step: usize) -> Result<Vec<(String, Json)>, BadFixture> {
        let bad = |what| BadFixture::Step { step, what };
        let text = self.0.get();
        let calls: Vec<ScriptCallText> = match text.starts_with('[') {
            true => serde_json::from_str(text),
            false => serde_json::from_str(text).map(|call| vec![call]),
        }
        .map_err(|_| bad("a call is `{name, args?}`"))?;
        let call = |call: ScriptCallText| {
            let args = match call.args {
                None => Some(Json::empty_object()),
                Some(args) => Json::parse(args.get().as_bytes()).ok().filter(Json::is_object),
            };
            Ok((call.name, args.ok_or_else(|| bad("the arguments of a call are an object"))?))
        };
        calls.into_iter().map(call).collect()
    }
}

impl ScriptFailure {
    async fn error(self) -> super::Error {
        let retry_after = self.retry_after_ms.map(Duration::from_millis);
        match self.kind {
            ScriptFailureKind::Unreachable => super::Error::Unreachable,
            ScriptFailureKind::RateLimited => super::Error::RateLimited { retry_after },
            ScriptFailureKind::Unavailable => super::Error::Unavailable { status: 503, retry_after },
            ScriptFailureKind::Refused => super::Error::Refused { status: 400, code: None },
            ScriptFailureKind::TooLong => super::Error::TooLong,
            ScriptFailureKind::CutShort => super::Error::CutShort,
            ScriptFailureKind::Malformed => super::Error::Malformed { what: "the script says so" },
            ScriptFailureKind::TimedOut => super::Error::TimedOut(Wait::Idle),
            ScriptFailureKind::Hang => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Message;
    use super::*;

    const SCRIPT: &str = r#"{"steps": [
        {"expect": "invoice", "think": "Which?", "call": {"name": "find", "args": {"id": 7.50}}},
        {"delay_ms": 60000, "say": ["It is ", "paid."], "usage": {"input_tokens": 12}},
        {"fail": {"kind": "rate_limited", "retry_after_ms": 10, "times": 1}, "say": "Again."},
        {"fail": {"kind": "cut_short"}, "say": "Half"},
        {"call": [{"name": "a"}, {"name": "b"}]}
    ]}"#;

    /// A request in which the model has spoken so often.
    fn request(spoken: usize, last: &str) -> Request {
        let mut messages = vec![Message::user("x"); 1];
        messages.extend(vec![Message::assistant("x"); spoken]);
        messages.push(Message::user(last));
        Request { messages, ..Request::default() }
    }

    async fn play(
        model: &Scripted,
        request: &Request,
    ) -> (Result<ModelReply, super::super::Error>, Vec<Delta>) {
        let mut deltas = Vec::new();
        let reply = model.run(request, &mut |delta| deltas.push(delta)).await;
        (reply, deltas)
    }

    #[tokio::test(start_paused = true)]
    async fn each_step_is_played_where_the_transcript_stands() {
        let model = Scripted::parse(SCRIPT).unwrap();
        let (reply, deltas) = play(&model, &request(0, "my invoice")).await;
        let reply = reply.unwrap();
        assert_eq!((reply.stop, reply.thinking.as_str()), (StopReason::Calls, "Which?"));
        assert_eq!(reply.calls[0].id, "call_0_0");
        assert_eq!(reply.calls[0].args.as_str(), r#"{"id":7.50}"#);
        assert_eq!(deltas, [Delta::Thinking("Which?".to_owned())]);

        let (reply, deltas) = play(&model, &request(1, "")).await;
        let reply = reply.unwrap();
        assert_eq!((reply.text.as_str(), reply.usage.input_tokens), ("It is paid.", 12));
        assert_eq!(deltas.len(), 2);

        let calls = play(&model, &request(4, "")).await.0.unwrap().calls;
        assert_eq!(calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["call_4_0", "call_4_1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_typed_and_can_pass() {
        let model = Scripted::parse(SCRIPT).unwrap();
        let limited = super::super::Error::RateLimited { retry_after: Some(Duration::from_millis(10)) };
        assert_eq!(play(&model, &request(2, "")).await.0, Err(limited));
        assert_eq!(play(&model, &request(2, "")).await.0.unwrap().text, "Again.");
        let (cut, deltas) = play(&model, &request(3, "")).await;
        assert_eq!((cut, deltas.len()), (Err(super::super::Error::CutShort), 1));
        assert_eq!(play(&model, &request(0, "hello")).await.0, Err(Error::Unexpected { step: 0 }.into()));
        assert_eq!(play(&model, &request(5, "")).await.0, Err(Error::Ended { steps: 5 }.into()));
    }

    #[tokio::test]
    async fn what_was_cut_from_the_transcript_still_counts() {
        let model =
            Scripted::parse(r#"{"steps":[{"say":"a"},{"say":"b"},{"say":"c"}],"start_over":true}"#).unwrap();
        for (cut, spoken, expected) in [(2, 0, "c"), (1, 1, "c"), (0, 0, "a"), (4, 0, "b")] {
            let request = Request { replies_cut: cut, ..request(spoken, "") };
            assert_eq!(play(&model, &request).await.0.unwrap().text, expected, "{cut} {spoken}");
        }
    }

    #[test]
    fn a_bad_fixture_says_what_is_wrong_with_it() {
        let cases = [
            ("", "it is not valid JSON"),
            ("{}", "`steps` is required"),
            (r#"{"steps":[]}"#, "no steps"),
            (r#"{"steps":[{}]}"#, "step 0: it says, thinks, calls and fails nothing"),
            (r#"{"steps":[{"say":"a"},{"shout":"b"}]}"#, "`steps[1].shout` is not a field"),
            (
                r#"{"steps":[{"call":{"name":"a","args":[]}}]}"#,
                "step 0: the arguments of a call are an object",
            ),
            (r#"{"steps":[{"call":"a"}]}"#, "step 0: a call is"),
            (r#"{"steps":[{"fail":{"kind":"sulk"}}]}"#, "`steps[0].fail.kind` must be unreachable, "),
        ];
        for (text, expected) in cases {
            let error = Scripted::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let missing = Scripted::open(Path::new("/does/not/exist.json")).unwrap_err();
        assert!(matches!(missing, BadFixture::Unreadable { .. }), "{missing}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), r#"{"steps":[{"shout":"b"}]}"#).unwrap();
        let said = Scripted::open(file.path()).unwrap_err().to_string();
        let name = file.path().display();
        assert_eq!(said, format!("the script {name} cannot be used: `steps[0].shout` is not a field"));
    }
}
