//! Assembles a reply: takes its pieces as they arrive, passes them to the listener, and returns the whole.

use sederunt_core::json::Json;

use super::{BadCall, Delta, DeltaSink, Error, ModelReply, StopReason, ToolCall, Usage};
use crate::limits;

pub(super) struct Assembly<'a> {
    heard: DeltaSink<'a>,
    text: String,
    thinking: String,
    calls: Vec<UnfinishedCall>,
    bytes: usize,
}

/// A call whose arguments come in pieces.
#[derive(Default)]
struct UnfinishedCall {
    index: u64,
    id: String,
    name: String,
    args: String,
}

/// A piece of a call, as a provider sent it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallFragment<'a> {
    /// Which call it belongs to; providers that send calls whole leave it out, or give all of them the same.
    pub index: Option<u64>,
    pub id: &'a str,
    pub name: &'a str,
    pub args: &'a str,
}

impl<'a> Assembly<'a> {
    pub fn new(heard: DeltaSink<'a>) -> Self {
        Self { heard, text: String::new(), thinking: String::new(), calls: Vec::new(), bytes: 0 }
    }

    pub fn text(&mut self, piece: &str) -> Result<(), Error> {
        self.count(piece)?;
        if !piece.is_empty() {
            self.text.push_str(piece);
            (self.heard)(Delta::Text(piece.to_owned()));
        }
        Ok(())
    }

    pub fn thinking(&mut self, piece: &str) -> Result<(), Error> {
        self.count(piece)?;
        if !piece.is_empty() {
            self.thinking.push_str(piece);
            (self.heard)(Delta::Thinking(piece.to_owned()));
        }
        Ok(())
    }

    pub fn call(&mut self, piece: CallFragment<'_>) -> Result<(), Error> {
        self.count(piece.args)?;
        let fits = |call: &UnfinishedCall| {
            let same_id = piece.id.is_empty() || call.id.is_empty() || call.id == piece.id;
            same_id
                && piece.index.map_or(piece.id.is_empty() || call.id == piece.id, |index| call.index == index)
        };
        let place = match self.calls.iter().rposition(fits) {
            Some(place) => place,
            None if self.calls.len() == limits::REPLY_CALLS_MAX => {
                return Err(Error::Malformed { what: "too many calls" });
            }
            None => {
                let index = piece.index.unwrap_or(self.calls.len() as u64);
                self.calls.push(UnfinishedCall { index, ..UnfinishedCall::default() });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[place];
        if call.id.is_empty() {
            piece.id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            piece.name.clone_into(&mut call.name);
        }
        call.args.push_str(piece.args);
        Ok(())
    }

    fn count(&mut self, piece: &str) -> Result<(), Error> {
        self.bytes += piece.len();
        match self.bytes > limits::REPLY_BYTES_MAX {
            true => Err(Error::ReplyTooLarge { limit: limits::REPLY_BYTES_MAX }),
            false => Ok(()),
        }
    }

    /// The whole reply. A call that was cut because the tokens ran out is left out; any other whose arguments are no
    /// object is marked, so that the model can be told.
    pub fn finish(self, stop: StopReason, usage: Usage) -> Result<ModelReply, Error> {
        let mut calls = Vec::new();
        let mut bad_calls = Vec::new();
        for (number, call) in self.calls.into_iter().enumerate() {
            if call.name.is_empty() {
                return Err(Error::Malformed { what: "a call without a name" });
            }
            let args = match read_args(call.args.trim()) {
                Ok(args) => args,
                Err(_) if stop == StopReason::Length => continue,
                Err(why) => {
                    let why = format!("bad_arguments: the arguments of `{}` {why}", call.name);
                    bad_calls.push(BadCall { place: calls.len(), why });
                    Json::empty_object()
                }
            };
            let id = if call.id.is_empty() { format!("call_{number}") } else { call.id };
            calls.push(ToolCall { id, name: call.name, args });
        }
        let stop = match (stop, calls.is_empty()) {
            (StopReason::End, false) => StopReason::Calls,
            (StopReason::Calls, true) => StopReason::End,
            (stop, _) => stop,
        };
        Ok(ModelReply { text: self.text, thinking: self.thinking, calls, bad_calls, usage, stop })
    }
}

/// The arguments of a call, or what is wrong with them and what to do about it.
fn read_args(text: &str) -> Result<Json, String> {
    const START_CHARS: usize = 200;
    let wrong = match text {
        "" => return Ok(Json::empty_object()),
        text if text.len() > limits::ARGUMENT_BYTES_MAX => {
            format!("are larger than {} bytes", limits::ARGUMENT_BYTES_MAX)
        }
        text => match Json::parse(text.as_bytes()) {
            Ok(args) if args.is_object() => return Ok(args),
            Ok(_) => "are JSON, but no object".to_owned(),
            Err(sederunt_core::Error::BadJson(why)) => format!("cannot be read as JSON: {why}"),
            Err(error) => format!("cannot be read as JSON: {error}"),
        },
    };
    let start: String = text.chars().take(START_CHARS).collect();
    Err(format!(
        "{wrong}. They begin with: {start}\nThe tool was not called. Call it again with one JSON object."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Id, name, arguments.
    type AssembledCall = (String, String, String);

    fn assemble(
        pieces: &[CallFragment<'_>],
        stop: StopReason,
    ) -> Result<(Vec<AssembledCall>, StopReason), Error> {
        let mut deaf = |_| {};
        let mut assembly = Assembly::new(&mut deaf);
        for piece in pieces {
            assembly.call(*piece)?;
        }
        let reply = assembly.finish(stop, Usage::default())?;
        let calls = reply.calls.into_iter().map(|call| (call.id, call.name, call.args.as_str().to_owned()));
        Ok((calls.collect(), reply.stop))
    }

    fn piece<'a>(index: Option<u64>, id: &'a str, name: &'a str, args: &'a str) -> CallFragment<'a> {
        CallFragment { index, id, name, args }
    }

    fn call(id: &str, name: &str, args: &str) -> AssembledCall {
        (id.to_owned(), name.to_owned(), args.to_owned())
    }

    #[test]
    fn calls_are_put_together_however_a_provider_numbers_them() {
        let two = vec![call("a", "x", r#"{"n":1}"#), call("b", "y", r#"{"n":2}"#)];
        let cases = [
            vec![
                piece(Some(0), "a", "x", ""),
                piece(Some(1), "b", "y", r#"{"n""#),
                piece(Some(0), "", "", r#"{"n":1}"#),
                piece(Some(1), "", "", ":2}"),
            ],
            vec![piece(Some(0), "a", "x", r#"{"n":1}"#), piece(Some(0), "b", "y", r#"{"n":2}"#)],
            vec![piece(None, "a", "x", r#"{"n":1}"#), piece(None, "b", "y", r#"{"n":2}"#)],
            vec![
                piece(None, "a", "x", "{"),
                piece(None, "", "", r#""n":1}"#),
                piece(None, "b", "y", r#"{"n":2}"#),
            ],
        ];
        for pieces in cases {
            assert_eq!(
                assemble(&pieces, StopReason::End),
                Ok((two.clone(), StopReason::Calls)),
                "{pieces:?}"
            );
        }
    }

    #[test]
    fn what_is_missing_is_filled_in_or_refused() {
        let cut = [piece(Some(0), "a", "x", r#"{"n":1}"#), piece(Some(1), "b", "y", r#"{"n"#)];
        let cases = [
            (
                vec![piece(Some(0), "", "x", "")],
                StopReason::Calls,
                Ok((vec![call("call_0", "x", "{}")], StopReason::Calls)),
            ),
            (
                vec![piece(Some(0), "a", "", "{}")],
                StopReason::Calls,
                Err(Error::Malformed { what: "a call without a name" }),
            ),
            (
                vec![piece(Some(0), "a", "x", "[1]")],
                StopReason::Calls,
                Ok((vec![call("a", "x", "{}")], StopReason::Calls)),
            ),
            (
                cut.to_vec(),
                StopReason::Calls,
                Ok((vec![call("a", "x", r#"{"n":1}"#), call("b", "y", "{}")], StopReason::Calls)),
            ),
            (cut.to_vec(), StopReason::Length, Ok((vec![call("a", "x", r#"{"n":1}"#)], StopReason::Length))),
            (vec![], StopReason::Calls, Ok((vec![], StopReason::End))),
            (vec![], StopReason::Refused, Ok((vec![], StopReason::Refused))),
        ];
        for (pieces, stop, expected) in cases {
            assert_eq!(assemble(&pieces, stop), expected, "{pieces:?}");
        }
    }

    #[test]
    fn a_call_with_arguments_that_cannot_be_read_is_marked_with_what_is_wrong() {
        let huge = format!(r#"{{"x":"{}"}}"#, "x".repeat(limits::ARGUMENT_BYTES_MAX));
        for (args, said) in [
            ("[1,2,3]", Some("are JSON, but no object")),
            (r#"{"n":"#, Some("cannot be read as JSON: unexpected end at byte 5.")),
            ("nonsense", Some("They begin with: nonsense")),
            (&*huge, Some("are larger than")),
            (r#"{"n":1}"#, None),
        ] {
            let mut deaf = |_| {};
            let mut assembly = Assembly::new(&mut deaf);
            assembly.call(piece(Some(0), "a", "good", "{}")).unwrap();
            assembly.call(piece(Some(1), "b", "x", args)).unwrap();
            let reply = assembly.finish(StopReason::Calls, Usage::default()).unwrap();
            assert_eq!(reply.calls.len(), 2);
            match said {
                Some(said) => {
                    assert_eq!(reply.bad_calls[0].place, 1);
                    assert!(reply.bad_calls[0].why.contains(said), "{:?}", reply.bad_calls);
                    assert!(reply.bad_calls[0].why.len() < 1_000);
                }
                None => assert!(reply.bad_calls.is_empty()),
            }
        }
    }

    #[test]
    fn a_reply_without_end_is_refused() {
        let mut deaf = |_| {};
        let mut assembly = Assembly::new(&mut deaf);
        let piece = "x".repeat(limits::REPLY_BYTES_MAX);
        assert_eq!(assembly.text(&piece), Ok(()));
        assert_eq!(assembly.thinking("x"), Err(Error::ReplyTooLarge { limit: limits::REPLY_BYTES_MAX }));
        let many: Vec<_> = (0..=limits::REPLY_CALLS_MAX as u64).map(piece_at).collect();
        assert_eq!(assemble(&many, StopReason::End), Err(Error::Malformed { what: "too many calls" }));
    }

    fn piece_at(index: u64) -> CallFragment<'static> {
        piece(Some(index), "", "x", "")
    }
}
