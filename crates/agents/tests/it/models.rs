//! Both wire formats, by frames written from the published formats: what is said, and everything that can go
//! wrong.

use std::sync::Arc;
use std::time::Duration;

use sederunt_agents::model::anthropic::Anthropic;
use sederunt_agents::model::openai::OpenAi;
use sederunt_agents::model::retry::{RetryPolicy, Retrying};
use sederunt_agents::model::{
    Delta, Error, Message, Model, ModelReply, Request, Settings, StopReason, Usage, Wait,
};

use crate::ground::until;
use crate::wire::{Answer, SOON, Server};

const KEY: &str = "sk-very-secret";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    OpenAi,
    Anthropic,
}

const BOTH: [Format; 2] = [Format::OpenAi, Format::Anthropic];

fn model(format: Format, server: &Server, idle: Duration) -> Arc<dyn Model> {
    let settings = Settings { idle, ..Settings::new(server.url(""), Some(KEY.into()), "m") };
    match format {
        Format::OpenAi => Arc::new(OpenAi::new(&settings).unwrap()),
        Format::Anthropic => Arc::new(Anthropic::new(&settings).unwrap()),
    }
}

fn request() -> Request {
    Request { messages: vec![Message::user("private words")], ..Request::default() }
}

async fn run(model: &dyn Model) -> (Result<ModelReply, Error>, Vec<Delta>) {
    let mut deltas = Vec::new();
    let request = request();
    let mut heard = |delta| deltas.push(delta);
    let reply = tokio::time::timeout(SOON, model.run(&request, &mut heard)).await.expect("the model hangs");
    (reply, deltas)
}

async fn ask(format: Format, answer: Answer) -> (Result<ModelReply, Error>, Vec<Delta>) {
    let server = Server::start(vec![answer]).await;
    run(&*model(format, &server, SOON)).await
}

/// `data:` lines, as OpenAI writes them.
fn chunks(data: &[&str]) -> Vec<String> {
    data.iter().map(|data| format!("data: {data}\n\n")).collect()
}

/// Events with their names, as Anthropic writes them.
fn events(data: &[&str]) -> Vec<String> {
    let name = |data: &str| {
        serde_json::from_str::<serde_json::Value>(data).unwrap()["type"].as_str().unwrap().to_owned()
    };
    data.iter().map(|data| format!("event: {}\ndata: {data}\n\n", name(data))).collect()
}

fn strs(frames: &[String]) -> Vec<&str> {
    frames.iter().map(String::as_str).collect()
}

/// Two words and a proper end.
fn hello(format: Format) -> Vec<String> {
    match format {
        Format::OpenAi => chunks(&[
            r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
            r#"{"id":"c","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}"#,
            r#"{"id":"c","choices":[{"index":0,"delta":{"content":" you"},"finish_reason":null}]}"#,
            r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
            r#"{"id":"c","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4}}}"#,
            "[DONE]",
        ]),
        Format::Anthropic => events(&[
            r#"{"type":"message_start","message":{"id":"msg","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"usage":{"input_tokens":8,"cache_read_input_tokens":4,"cache_creation_input_tokens":0,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" you"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":3}}"#,
            r#"{"type":"message_stop"}"#,
        ]),
    }
}

/// [`hello`] as far as its first word.
fn begun(format: Format) -> Vec<String> {
    let mut frames = hello(format);
    frames.truncate(if format == Format::OpenAi { 2 } else { 4 });
    frames
}

#[tokio::test]
async fn words_are_heard_as_they_come_and_counted() {
    for format in BOTH {
        let server = Server::start(vec![Answer::stream(&strs(&hello(format)))]).await;
        let (reply, deltas) = run(&*model(format, &server, SOON)).await;
        let usage = Usage { input_tokens: 12, output_tokens: 3, cached_tokens: 4, cost_micros: None };
        let expected = ModelReply {
            text: "Hello you".to_owned(),
            thinking: String::new(),
            calls: vec![],
            bad_calls: vec![],
            usage,
            stop: StopReason::End,
        };
        assert_eq!(reply, Ok(expected), "{format:?}");
        assert_eq!(deltas, [Delta::Text("Hello".to_owned()), Delta::Text(" you".to_owned())], "{format:?}");
        let asked = &server.asked()[0];
        let (path, header) = match format {
            Format::OpenAi => ("post /chat/completions ", format!("authorization: bearer {KEY}")),
            Format::Anthropic => ("post /v1/messages ", format!("x-api-key: {KEY}")),
        };
        assert!(asked.head.starts_with(path) && asked.head.contains(&header), "{}", asked.head);
        assert!(asked.body.contains("private words") && asked.body.contains(r#""stream":true"#));
    }
}

#[tokio::test]
async fn thinking_is_kept_apart_from_words() {
    let openai = chunks(&[
        r#"{"choices":[{"delta":{"reasoning_content":"Hm."}}]}"#,
        r#"{"choices":[{"delta":{"content":"Yes."}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ]);
    let anthropic = events(&[
        r#"{"type":"message_start","message":{"usage":{"input_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"abc"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Yes."}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    for (format, frames) in [(Format::OpenAi, openai), (Format::Anthropic, anthropic)] {
        let (reply, deltas) = ask(format, Answer::stream(&strs(&frames))).await;
        let reply = reply.unwrap();
        assert_eq!((reply.thinking.as_str(), reply.text.as_str()), ("Hm.", "Yes."), "{format:?}");
        assert_eq!(deltas, [Delta::Thinking("Hm.".to_owned()), Delta::Text("Yes.".to_owned())], "{format:?}");
    }
}

#[tokio::test]
async fn calls_are_put_together_from_their_pieces() {
    let openai = chunks(&[
        r#"{"choices":[{"delta":{"content":"Let me look."}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"find","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"id\":"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":" 7.50}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"list","arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        "[DONE]",
    ]);
    let anthropic = events(&[
        r#"{"type":"message_start","message":{"usage":{}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Let me look."}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"find","input":{}}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"id\":"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":" 7.50}"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c2","name":"list","input":{}}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    for (format, frames) in [(Format::OpenAi, openai), (Format::Anthropic, anthropic)] {
        let reply = ask(format, Answer::stream(&strs(&frames))).await.0.unwrap();
        assert_eq!((reply.text.as_str(), reply.stop), ("Let me look.", StopReason::Calls), "{format:?}");
        let calls: Vec<_> = reply
            .calls
            .iter()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.args.as_str()))
            .collect();
        assert_eq!(calls, [("c1", "find", r#"{"id":7.50}"#), ("c2", "list", "{}")], "{format:?}");
    }
}

#[tokio::test]
async fn the_reason_to_stop_is_told() {
    let openai = |reason: &str| {
        chunks(&[
            &format!(r#"{{"choices":[{{"delta":{{"content":"x"}},"finish_reason":"{reason}"}}]}}"#),
            "[DONE]",
        ])
    };
    let anthropic = |reason: &str| {
        events(&[
            &format!(
                r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}},"usage":{{"output_tokens":1}}}}"#
            ),
            r#"{"type":"message_stop"}"#,
        ])
    };
    let cases = [
        (Format::OpenAi, openai("stop"), StopReason::End),
        (Format::OpenAi, openai("length"), StopReason::Length),
        (Format::OpenAi, openai("content_filter"), StopReason::Refused),
        (
            Format::OpenAi,
            chunks(&[r#"{"choices":[{"delta":{"refusal":"No."}}]}"#, "[DONE]"]),
            StopReason::End,
        ),
        (Format::Anthropic, anthropic("end_turn"), StopReason::End),
        (Format::Anthropic, anthropic("stop_sequence"), StopReason::End),
        (Format::Anthropic, anthropic("max_tokens"), StopReason::Length),
        (Format::Anthropic, anthropic("refusal"), StopReason::Refused),
    ];
    for (format, frames, expected) in cases {
        let expected = if frames[0].contains("No.") { StopReason::Refused } else { expected };
        let reply = ask(format, Answer::stream(&strs(&frames))).await.0.unwrap();
        assert_eq!(reply.stop, expected, "{format:?} {frames:?}");
    }
}

#[tokio::test]
async fn every_way_to_break_has_its_own_type() {
    for format in BOTH {
        let begun = begun(format);
        let begun = &strs(&begun)[..];
        let plus = |frame: &'static str| Answer::stream(&[begun, &[frame]].concat());
        let error_frame = match format {
            Format::OpenAi => {
                "data: {\"error\":{\"message\":\"private\",\"type\":\"server_error\",\"code\":null}}\n\n"
            }
            Format::Anthropic => {
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"private\"}}\n\n"
            }
        };
        let fault = if format == Format::OpenAi { 500 } else { 529 };
        let unavailable = |status| Error::Unavailable { status, retry_after: None };
        let refused = |status, code: &str| Error::Refused { status, code: Some(code.to_owned()) };
        let body = |kind: &str| {
            format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{KEY} private"}}}}"#)
        };
        let not_json = match format {
            Format::OpenAi => Error::Malformed { what: "a chunk is not JSON" },
            Format::Anthropic => Error::Malformed { what: "an unreadable event" },
        };
        let html = Answer::status(200, "content-type: text/html\r\n", "<html>");
        let cases = [
            ("cut without an end", Answer::cut(begun), Error::CutShort),
            ("ended too early", Answer::stream(begun), Error::CutShort),
            ("cut inside a frame", Answer::cut(&[begun, &["data: {\"cho"]].concat()), Error::CutShort),
            ("an error in the stream", plus(error_frame), unavailable(fault)),
            ("a frame that is not JSON", plus("data: {\"choices\": [oops\n\n"), not_json),
            ("not an event stream", html, Error::Malformed { what: "not an event stream" }),
            ("nothing at all", Answer::Bytes(vec![]), Error::CutShort),
            (
                "a bad request",
                Answer::status(400, "", &body("invalid_request_error")),
                refused(400, "invalid_request_error"),
            ),
            (
                "a bad key",
                Answer::status(401, "", &body("authentication_error")),
                refused(401, "authentication_error"),
            ),
            ("no such model", Answer::status(404, "", "<html>"), Error::Refused { status: 404, code: None }),
            ("too long", Answer::status(413, "", &body("request_too_large")), Error::TooLong),
            ("a fault", Answer::status(500, "", ""), unavailable(500)),
            (
                "a redirect",
                Answer::status(302, "location: http://127.0.0.1:1/\r\n", ""),
                Error::Refused { status: 302, code: None },
            ),
            (
                "too many requests",
                Answer::status(429, "retry-after: 7\r\n", &body("rate_limit_error")),
                Error::RateLimited { retry_after: Some(Duration::from_secs(7)) },
            ),
        ];
        for (name, answer, expected) in cases {
            let error = ask(format, answer).await.0.unwrap_err();
            assert_eq!(error, expected, "{format:?}: {name}");
            let told = format!("{error} {error:?}");
            assert!(!told.contains(KEY) && !told.contains("private"), "{told}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let model = OpenAi::new(&Settings::new(base, None, "m")).unwrap();
    assert_eq!(run(&model).await.0, Err(Error::Unreachable));
}

#[tokio::test]
async fn a_server_that_falls_silent_is_given_up() {
    for format in BOTH {
        for answer in [Answer::Hang(vec![]), Answer::silent(&strs(&begun(format)))] {
            let server = Server::start(vec![answer]).await;
            let error = run(&*model(format, &server, Duration::from_millis(60))).await.0.unwrap_err();
            assert_eq!(error, Error::TimedOut(Wait::Idle), "{format:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_never_ends_is_given_up_in_all() {
    for format in BOTH {
        let server = Server::start(vec![Answer::silent(&strs(&begun(format)))]).await;
        let policy = RetryPolicy { total: Duration::from_millis(60), ..RetryPolicy::default() };
        let model = Retrying::new(model(format, &server, SOON), policy);
        assert_eq!(run(&model).await.0, Err(Error::TimedOut(Wait::Total)), "{format:?}");
    }
}

#[tokio::test]
async fn what_passes_is_tried_again_until_it_has_passed() {
    let policy = RetryPolicy { wait_first: Duration::from_millis(1), ..RetryPolicy::default() };
    let limited = || Answer::status(429, "retry-after-ms: 1\r\n", "");
    for format in BOTH {
        let well = || Answer::stream(&strs(&hello(format)));
        for first in [limited(), Answer::status(500, "", ""), Answer::Bytes(vec![]), Answer::cut(&[])] {
            let server = Server::start(vec![first.clone(), well()]).await;
            let (reply, deltas) = run(&Retrying::new(model(format, &server, SOON), policy)).await;
            assert_eq!(reply.map(|reply| reply.text), Ok("Hello you".to_owned()), "{format:?} {first:?}");
            assert_eq!((deltas.len(), server.asked().len()), (2, 2));
        }
        let server = Server::start(vec![Answer::cut(&strs(&begun(format))), well()]).await;
        let (reply, deltas) = run(&Retrying::new(model(format, &server, SOON), policy)).await;
        assert_eq!((reply, deltas.len()), (Err(Error::CutShort), 1), "what was heard is not said again");
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn dropping_the_call_closes_the_connection() {
    for format in BOTH {
        let silent = Answer::silent(&strs(&begun(format)));
        let mut server = Server::start(vec![silent, Answer::Hang(vec![])]).await;
        let model = model(format, &server, SOON);
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let speaking = tokio::spawn({
            let model = Arc::clone(&model);
            async move { model.run(&request(), &mut |delta| drop(tell.send(delta))).await }
        });
        assert!(told.recv().await.is_some(), "it speaks");
        speaking.abort();
        server.client_is_gone().await;

        // Before the first byte of an answer, too.
        let waiting = tokio::spawn(async move { model.run(&request(), &mut |_| {}).await });
        until("the second call", async || server.asked().len() == 2).await;
        waiting.abort();
        server.client_is_gone().await;
    }
}

#[tokio::test]
async fn a_stream_without_its_last_line_is_whole_once_the_reason_was_told() {
    for (format, missing) in [(Format::OpenAi, 1), (Format::Anthropic, 1)] {
        let hello = hello(format);
        let frames = &strs(&hello)[..hello.len() - missing];
        for answer in [Answer::stream(frames), Answer::cut(frames)] {
            let reply = ask(format, answer).await.0.unwrap();
            assert_eq!((reply.text.as_str(), reply.usage.output_tokens), ("Hello you", 3), "{format:?}");
        }
    }
}
