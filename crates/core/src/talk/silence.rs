//! The markers of silence: what a model says when it has nothing to say.
//!
//! The log keeps a reply as the model wrote it. Every reader is shown it without its markers: [`shown_text`] for a whole
//! text, [`HeldText`] for one that is still being written. Both take the same steps, so what was streamed and what is
//! shown at the end do not differ.

use std::borrow::Cow;

use serde_json::Value;

use crate::json::Json;

/// Exactly these, in this case.
pub const MARKERS: [&str; 2] = ["<NO_REPLY>", "<EMPTY_RESPONSE>"];

/// A text that looks like the beginnings of markers, one inside the other, is held back up to this many bytes.
const HELD_BYTES_MAX: usize = 4096;

/// A reply without its markers; empty if nothing but blanks is left beside one.
pub fn shown_text(text: &str) -> Cow<'_, str> {
    if !MARKERS.iter().any(|marker| text.contains(marker)) {
        return Cow::Borrowed(text);
    }
    let mut held = HeldText::default();
    let mut shown = held.push(text);
    shown.push_str(&held.finish());
    Cow::Owned(shown)
}

/// The parts of a reply without its markers: parts of text with nothing left are dropped.
pub fn shown_parts(content: &Json) -> Json {
    let Value::Array(parts) = content.value() else { return content.clone() };
    let shown: Vec<Value> = parts
        .into_iter()
        .filter_map(|mut part| {
            if part["type"] == "text"
                && let Some(text) = part["text"].as_str()
                && let Cow::Owned(shown) = shown_text(text)
            {
                if shown.is_empty() {
                    return None;
                }
                part["text"] = shown.into();
            }
            Some(part)
        })
        .collect();
    Json::of(&shown).unwrap_or_else(|_| Json::stored("[]"))
}

/// Whether a content may hold a marker: a look at its bytes, which is cheap.
pub fn may_hold_marker(content: &Json) -> bool {
    MARKERS.iter().any(|marker| content.as_str().contains(&marker[1..marker.len() - 1]))
}

/// A reply that is still being written. What may yet become a marker is held back; what turns out to be text is let go.
///
/// A marker may stand inside the beginning of another one: taking it out joins the two halves around it. So the
/// beginnings are held as a stack, each inside the one before it.
#[derive(Clone, Debug, Default)]
pub struct HeldText {
    /// The beginnings of markers, joined.
    held: String,
    /// Where each beginning starts in `held`.
    starts: Vec<usize>,
    /// Blanks at the start of the reply: alone with a marker they are nothing.
    blanks: String,
    /// Something that is no blank was let go.
    has_text: bool,
    /// A marker was taken out.
    has_marker: bool,
}

impl HeldText {
    /// Takes the next piece; returns what may be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        let mut shown = String::with_capacity(piece.len());
        for c in piece.chars() {
            self.take(c, &mut shown);
        }
        shown
    }

    /// The reply is over: returns what was held back and is text.
    pub fn finish(&mut self) -> String {
        let mut shown = String::new();
        let held = std::mem::take(&mut self.held);
        self.starts.clear();
        self.let_go(&held, &mut shown);
        if !self.has_text && !self.has_marker {
            shown.push_str(&self.blanks);
        }
        *self = Self::default();
        shown
    }

    fn take(&mut self, c: char, shown: &mut String) {
        if c == '<' {
            self.starts.push(self.held.len());
            self.held.push(c);
        } else if let Some(start) = self.starts.last().copied() {
            self.held.push(c);
            let begun = &self.held[start..];
            if MARKERS.contains(&begun) {
                self.held.truncate(start);
                self.starts.pop();
                self.has_marker = true;
                return;
            }
            if MARKERS.iter().any(|marker| marker.starts_with(begun)) && self.held.len() <= HELD_BYTES_MAX {
                return;
            }
        } else {
            return self.let_go(c.encode_utf8(&mut [0; 4]), shown);
        }
        // Nothing that follows can make a marker of the beginnings any more, or there are too many of them.
        if c != '<' || self.held.len() > HELD_BYTES_MAX {
            let held = std::mem::take(&mut self.held);
            self.starts.clear();
            self.let_go(&held, shown);
        }
    }

    fn let_go(&mut self, text: &str, shown: &mut String) {
        if self.has_text {
            return shown.push_str(text);
        }
        self.blanks.push_str(text);
        if !text.trim().is_empty() {
            self.has_text = true;
            shown.push_str(&std::mem::take(&mut self.blanks));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reply_is_shown_without_its_markers() {
        for (said, shown) in [
            ("", ""),
            ("Hello", "Hello"),
            (" a < b ", " a < b "),
            ("<NO_REPLY>", ""),
            ("<EMPTY_RESPONSE>", ""),
            (" \n<NO_REPLY>\n", ""),
            ("<NO_REPLY><EMPTY_RESPONSE>", ""),
            ("Yes.<NO_REPLY>", "Yes."),
            ("<NO_REPLY> Yes.", " Yes."),
            ("a<NO_REPLY>b", "ab"),
            ("<no_reply>", "<no_reply>"),
            ("<NO_REPLY", "<NO_REPLY"),
            ("<<NO_REPLY>", "<"),
            ("<NO_<NO_REPLY>REPLY>", ""),
            ("<NO_<EMPTY_RESPONSE>REPLY>!", "!"),
            ("<NO_<NO_REPLY>!", "<NO_!"),
            ("<NO REPLY>", "<NO REPLY>"),
            ("  ", "  "),
        ] {
            assert_eq!(shown_text(said), shown, "{said:?}");
        }
    }

    #[test]
    fn parts_without_text_are_dropped_and_others_stay() {
        let shown = |parts: Value| shown_parts(&Json::of(&parts).unwrap()).value();
        assert_eq!(shown(json!([{"type": "text", "text": "<NO_REPLY>"}])), json!([]));
        assert_eq!(
            shown(json!([{"type": "text", "text": "a<NO_REPLY>"}, {"type": "file", "url": "NO_REPLY"}])),
            json!([{"type": "text", "text": "a"}, {"type": "file", "url": "NO_REPLY"}])
        );
        assert_eq!(shown(json!([{"type": "text", "text": ""}])), json!([{"type": "text", "text": ""}]));
    }

    #[test]
    fn what_may_become_a_marker_is_held_back_until_it_cannot() {
        let mut held = HeldText::default();
        let steps = [
            ("Hi ", "Hi "),
            ("<", ""),
            ("NO_", ""),
            ("WAY", "<NO_WAY"),
            (" <NO_REP", " "),
            ("LY>", ""),
            (".", "."),
        ];
        for (piece, shown) in steps {
            assert_eq!(held.push(piece), shown, "{piece:?}");
        }
        assert_eq!(held.push(" <EMPTY"), " ");
        assert_eq!(held.finish(), "<EMPTY", "the reply ends, so it was text");
        assert_eq!(HeldText::default().push("\n <NO_REPLY>\n"), "", "blanks beside a marker never flash");
        let many = "<".repeat(HELD_BYTES_MAX + 1);
        assert_eq!(HeldText::default().push(&many), many, "what is held back is bounded");
    }

    fn scraps() -> impl Strategy<Value = Vec<String>> {
        let scrap = prop::sample::select(vec![
            "<", "NO_", "REPLY>", "<NO_REPLY>", "<EMPTY_", "RESPONSE>", " ", "\n", "é", "x",
        ]);
        prop::collection::vec(scrap.prop_map(str::to_owned), 0..16)
    }

    proptest! {
        #[test]
        fn a_reply_in_pieces_shows_what_the_whole_shows(pieces in scraps()) {
            let mut held = HeldText::default();
            let mut shown: String = pieces.iter().map(|piece| held.push(piece)).collect();
            shown.push_str(&held.finish());
            let whole = pieces.concat();
            prop_assert_eq!(&shown, &*shown_text(&whole));
            prop_assert!(!MARKERS.iter().any(|marker| shown.contains(marker)), "{}", shown);
            // Taking markers out one after the other, until none is left, comes to the same.
            let mut plain = whole.clone();
            while let Some(marker) = MARKERS.iter().find(|marker| plain.contains(**marker)) {
                plain = plain.replacen(marker, "", 1);
            }
            if plain != whole && plain.trim().is_empty() {
                plain.clear();
            }
            prop_assert_eq!(shown, plain);
        }
    }
}
