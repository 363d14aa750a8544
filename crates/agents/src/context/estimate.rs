//! Estimates the tokens of a text: a token is about four characters, and every message costs a little more than its
//! words. Every budget is kept by these numbers and no others. Scripts with more tokens per character come out too
//! low, so a budget should leave a margin below what the model can read.

use crate::model::{Message, Request, ToolSpec};

/// Characters that make a token.
const CHARS_PER_TOKEN: usize = 4;
/// The tokens of a message besides its words: role, borders, ids.
pub const MESSAGE_OVERHEAD: usize = 4;
/// The tokens of a call, a result or a tool besides its words.
pub const PART_OVERHEAD: usize = 8;

/// The tokens of a text.
pub fn tokens(text: &str) -> usize {
    text.chars().count().div_ceil(CHARS_PER_TOKEN)
}

pub fn message(message: &Message) -> usize {
    MESSAGE_OVERHEAD
        + match message {
            Message::User { text } => tokens(text),
            Message::Assistant { text, calls } => {
                let call = |call: &crate::model::ToolCall| {
                    PART_OVERHEAD + tokens(&call.id) + tokens(&call.name) + tokens(call.args.as_str())
                };
                tokens(text) + calls.iter().map(call).sum::<usize>()
            }
            Message::ToolResult { call_id, name, content, .. } => {
                PART_OVERHEAD + tokens(call_id) + tokens(name) + tokens(content)
            }
        }
}

pub fn tool(tool: &ToolSpec) -> usize {
    PART_OVERHEAD + tokens(&tool.name) + tokens(&tool.description) + tokens(tool.schema.as_str())
}

/// The tokens of a whole request.
pub fn request(request: &Request) -> usize {
    MESSAGE_OVERHEAD
        + tokens(&request.instructions)
        + request.tools.iter().map(tool).sum::<usize>()
        + request.output_schema.as_ref().map_or(0, |schema| tokens(schema.as_str()))
        + request.messages.iter().map(message).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_characters_are_a_token_and_a_rest_is_one_too() {
        for (text, expected) in [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("üüüü", 1), ("三三三三三", 2)]
        {
            assert_eq!(tokens(text), expected, "{text}");
        }
        assert_eq!(message(&Message::user("abcd")), MESSAGE_OVERHEAD + 1);
    }
}
