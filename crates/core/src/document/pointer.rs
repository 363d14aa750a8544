//! JSON Pointers (RFC 6901): where an operation reads or writes. Owns how one is read from a caller's text; refuses tokens
//! that a program in a browser could take for the prototype of an object.

use std::borrow::Cow;

/// A token that no pointer may have: in JavaScript it names the prototype of every object.
const PROTOTYPE: &str = "__proto__";

/// A checked pointer. Its text has one spelling for each place, so two pointers are compared as texts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JsonPointer(Box<str>);

impl JsonPointer {
    /// The pointer to the whole document.
    pub fn root() -> Self {
        Self("".into())
    }

    /// Reads a caller's text; otherwise says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if !text.is_empty() && !text.starts_with('/') {
            return Err("must start with `/`, or be empty for the whole document");
        }
        let mut rest = text;
        while let Some(at) = rest.find('~') {
            match rest.as_bytes().get(at + 1) {
                Some(b'0' | b'1') => rest = &rest[at + 2..],
                _ => return Err("has a `~` that is neither `~0` (for `~`) nor `~1` (for `/`)"),
            }
        }
        let pointer = Self(text.into());
        if pointer.tokens().any(|token| token == PROTOTYPE) {
            return Err("must not name `__proto__`");
        }
        Ok(pointer)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The names on the way to the place.
    pub fn tokens(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.0.split('/').skip(1).map(unescaped)
    }

    /// The pointer to what holds the place, and the last token; `None` for the whole document.
    pub fn split_last(&self) -> Option<(Self, Cow<'_, str>)> {
        let at = self.0.rfind('/')?;
        Some((Self(self.0[..at].into()), unescaped(&self.0[at + 1..])))
    }

    /// The pointer to the element of a list at this place.
    #[must_use]
    pub fn element(&self, index: usize) -> Self {
        Self(format!("{}/{index}", self.0).into())
    }

    /// Whether this place is the other one or holds it.
    pub fn holds(&self, other: &Self) -> bool {
        other.0.strip_prefix(&*self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

fn unescaped(token: &str) -> Cow<'_, str> {
    if token.contains('~') {
        Cow::Owned(token.replace("~1", "/").replace("~0", "~"))
    } else {
        Cow::Borrowed(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_read_by_its_tokens_and_a_bad_one_is_refused() {
        for (text, tokens) in [
            ("", &[][..]),
            ("/", &[""]),
            ("/a/b", &["a", "b"]),
            ("/a~1b/~0/~01", &["a/b", "~", "~1"]),
            ("/list/-", &["list", "-"]),
        ] {
            let pointer = JsonPointer::parse(text).unwrap();
            assert_eq!(pointer.tokens().collect::<Vec<_>>(), tokens, "{text}");
        }
        for bad in ["a", "a/b", "/~", "/~2", "/a~/b", "/__proto__", "/a/__proto__/b", "~0"] {
            assert!(JsonPointer::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_place_holds_itself_and_what_is_in_it_token_by_token() {
        let of = |text| JsonPointer::parse(text).unwrap();
        for (outer, inner, holds) in [
            ("", "", true),
            ("", "/a", true),
            ("/a", "/a", true),
            ("/a", "/a/b", true),
            ("/a", "/ab", false),
            ("/a/b", "/a", false),
            ("/a", "/b", false),
            ("/a/", "/a/b", false),
            ("/a/", "/a//b", true),
        ] {
            assert_eq!(of(outer).holds(&of(inner)), holds, "{outer} holds {inner}");
        }
    }
}
