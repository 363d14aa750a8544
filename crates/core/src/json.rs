//! JSON as the product keeps it: one strict pass over the text, compact, keys in the sender's
//! order, numbers as written.
//!
//! Refused on the way in, so that both stores and every reader agree on what was said: duplicate
//! keys, NUL and lone surrogates in strings, numbers that no double or 64-bit integer holds,
//! nesting beyond [`limits::JSON_DEPTH_MAX`]. Stored text is never parsed and printed again.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::error::{Error, Result};
use crate::limits;

/// Canonical JSON text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// Checks and compacts a caller's text.
    pub fn parse(text: &[u8]) -> Result<Self> {
        Ok(Self(canonical(text)?.into()))
    }

    /// Wraps text that is canonical already: what a store wrote, or a slice of a parsed body.
    pub fn stored(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The canonical JSON of a value that the engine itself made.
    pub fn of(value: &impl Serialize) -> Result<Self> {
        serde_json::to_string(value).map(|text| Self(text.into())).map_err(Error::internal)
    }

    pub fn empty_object() -> Self {
        Self("{}".into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }

    pub fn is_array(&self) -> bool {
        self.0.starts_with('[')
    }

    /// A view for reading inside; storing goes by the text.
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// The fields of an object in their order, each as written; none if this is no object.
    pub fn fields(&self) -> Vec<(String, Self)> {
        self.read::<ObjectFields>().map(|fields| fields.0).unwrap_or_default()
    }

    /// An object of these fields, in this order.
    pub fn object<'a>(fields: impl IntoIterator<Item = (&'a str, &'a Self)>) -> Self {
        let mut text = String::from("{");
        for (key, value) in fields {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&serde_json::Value::from(key).to_string());
            text.push(':');
            text.push_str(value.as_str());
        }
        text.push('}');
        Self(text.into())
    }

    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
        serde_json::from_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let raw: &serde_json::value::RawValue =
            serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(to)
    }
}

/// Fields in the order in which they were written.
struct ObjectFields(Vec<(String, Json)>);

impl<'de> Deserialize<'de> for ObjectFields {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct InOrder;
        impl<'de> serde::de::Visitor<'de> for InOrder {
            type Value = ObjectFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<ObjectFields, A::Error> {
                let mut fields = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Box<serde_json::value::RawValue>>()? {
                    fields.push((key, Json(Box::<str>::from(value).into())));
                }
                Ok(ObjectFields(fields))
            }
        }
        from.deserialize_map(InOrder)
    }
}

/// Reads an embedded JSON value without changing its text.
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let raw = Box::<serde_json::value::RawValue>::deserialize(from)?;
        Self::parse(raw.get().as_bytes()).map_err(serde::de::Error::custom)
    }
}

/// The canonical form of a JSON text, or what is wrong with it.
pub fn canonical(text: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(text).map_err(|_| Error::BadJson("not UTF-8".into()))?;
    let mut scan = Scan { text, at: 0, out: String::with_capacity(text.len()) };
    scan.space();
    scan.value(0)?;
    scan.space();
    if scan.at < text.len() {
        return Err(scan.bad("text after the end of the value"));
    }
    Ok(scan.out)
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    out: String,
}

impl Scan<'_> {
    fn bad(&self, what: &str) -> Error {
        Error::BadJson(format!("{what} at byte {}", self.at))
    }

    fn refuse(&self, what: &str) -> Error {
        Error::invalid("body", format!("{what} at byte {}", self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<()> {
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(_) => Err(self.bad("unexpected character")),
            None => Err(self.bad("unexpected end")),
        }
    }

    fn deeper(&self, depth: usize) -> Result<()> {
        if depth > limits::JSON_DEPTH_MAX {
            return Err(self.refuse(&format!("is nested deeper than {}", limits::JSON_DEPTH_MAX)));
        }
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<()> {
        self.deeper(depth)?;
        self.take('{');
        // Short objects, the usual kind, are compared key by key; long ones by a set.
        let mut keys: Vec<std::ops::Range<usize>> = Vec::new();
        let mut many: Option<std::collections::HashSet<String>> = None;
        self.space();
        if self.peek() == Some(b'}') {
            self.take('}');
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.bad("expected a key"));
            }
            let key = self.string()?;
            let twice = match &mut many {
                Some(seen) => !seen.insert(self.out[key.clone()].to_owned()),
                None => keys.iter().any(|other| self.out[other.clone()] == self.out[key.clone()]),
            };
            if twice {
                return Err(self.refuse("has a key twice in one object"));
            }
            if many.is_none() {
                keys.push(key);
                if keys.len() > 32 {
                    many = Some(keys.drain(..).map(|range| self.out[range].to_owned()).collect());
                }
            }
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.bad("expected `:`"));
            }
            self.take(':');
            self.space();
            self.value(depth)?;
            self.space();
            match self.peek() {
                Some(b',') => self.take(','),
                Some(b'}') => {
                    self.take('}');
                    return Ok(());
                }
                _ => return Err(self.bad("expected `,` or `}`")),
            }
            self.space();
        }
    }

    fn array(&mut self, depth: usize) -> Result<()> {
        self.deeper(depth)?;
        self.take('[');
        self.space();
        if self.peek() == Some(b']') {
            self.take(']');
            return Ok(());
        }
        loop {
            self.value(depth)?;
            self.space();
            match self.peek() {
                Some(b',') => self.take(','),
                Some(b']') => {
                    self.take(']');
                    return Ok(());
                }
                _ => return Err(self.bad("expected `,` or `]`")),
            }
            self.space();
        }
    }

    /// Copies one string in its shortest escaping; returns its range in the output.
    fn string(&mut self) -> Result<std::ops::Range<usize>> {
        let start = self.out.len();
        self.take('"');
        loop {
            let Some(plain) = plain_bytes(&self.text.as_bytes()[self.at..]) else {
                return Err(self.bad("a string has no end"));
            };
            self.out.push_str(&self.text[self.at..self.at + plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.take('"');
                    return Ok(start..self.out.len());
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(self.bad("a control character in a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<()> {
        self.at += 1;
        let escaped = self.peek();
        self.at += 1;
        let c = match escaped {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => self.unicode()?,
            _ => return Err(self.bad("an unknown escape")),
        };
        match c {
            '"' => self.out.push_str("\\\""),
            '\\' => self.out.push_str("\\\\"),
            '\n' => self.out.push_str("\\n"),
            '\r' => self.out.push_str("\\r"),
            '\t' => self.out.push_str("\\t"),
            '\u{8}' => self.out.push_str("\\b"),
            '\u{c}' => self.out.push_str("\\f"),
            '\0' => return Err(self.refuse("contains NUL in a string")),
            c if c < ' ' => self.out.push_str(&format!("\\u{:04x}", c as u32)),
            c => self.out.push(c),
        }
        Ok(())
    }

    fn unicode(&mut self) -> Result<char> {
        let high = self.hex()?;
        let code = match high {
            0xD800..=0xDBFF => {
                if !self.text[self.at..].starts_with("\\u") {
                    return Err(self.refuse("contains a lone surrogate in a string"));
                }
                self.at += 2;
                let low = self.hex()?;
                if !(0xDC00..=0xDFFF).contains(&low) {
                    return Err(self.refuse("contains a lone surrogate in a string"));
                }
                0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
            }
            code => code,
        };
        char::from_u32(code).ok_or_else(|| self.refuse("contains a lone surrogate in a string"))
    }

    fn hex(&mut self) -> Result<u32> {
        let digits = self.text.get(self.at..self.at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += 4;
        code.ok_or_else(|| self.bad("a broken \\u escape"))
    }

    fn number(&mut self) -> Result<()> {
        let start = self.at;
        let digits = |scan: &mut Self| {
            let from = scan.at;
            while matches!(scan.peek(), Some(b'0'..=b'9')) {
                scan.at += 1;
            }
            scan.at > from
        };
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        let whole_from = self.at;
        if !digits(self) || (leading_zero && self.at - whole_from > 1) {
            return Err(self.bad("a broken number"));
        }
        let mut whole = true;
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            if !digits(self) {
                return Err(self.bad("a broken number"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !digits(self) {
                return Err(self.bad("a broken number"));
            }
        }
        let text = &self.text[start..self.at];
        let fits = if whole {
            text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok()
        } else {
            text.parse::<f64>().is_ok_and(f64::is_finite)
        };
        if !fits {
            return Err(self.refuse("contains a number too large to keep exactly"));
        }
        self.out.push_str(text);
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<()> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.bad("unexpected character"));
        }
        self.at += word.len();
        self.out.push_str(word);
        Ok(())
    }

    fn take(&mut self, c: char) {
        self.at += 1;
        self.out.push(c);
    }
}

/// The number of bytes before the next one that ends a string or is special in it. Bytes are compared sixteen at a
/// time,
/// which the compiler makes one comparison of: most of what is ever read here is inside of strings.
fn plain_bytes(bytes: &[u8]) -> Option<usize> {
    let special = |byte: u8| byte == b'"' || byte == b'\\' || byte < 0x20;
    let (blocks, _) = bytes.as_chunks::<16>();
    let plain =
        16 * blocks.iter().take_while(|block| !block.iter().fold(false, |any, &b| any | special(b))).count();
    Some(plain + bytes[plain..].iter().position(|&byte| special(byte))?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_compacted_and_keeps_its_keys_and_numbers() {
        let text =
            " { \"b\" : 1.50 , \"a\" : [ 1e2 , -0, true,null ] , \"é\\u00e9\\n\": \"\\/\\ud83d\\ude00\" } ";
        assert_eq!(
            canonical(text.as_bytes()).unwrap(),
            "{\"b\":1.50,\"a\":[1e2,-0,true,null],\"éé\\n\":\"/😀\"}"
        );
    }

    #[test]
    fn a_string_ends_where_it_ends_however_long_it_is() {
        for before in 0..40 {
            for after in [0, 1, 15, 16, 17, 40] {
                let (a, b) = ("é".repeat(before / 2) + &"a".repeat(before % 2), "b".repeat(after));
                let text = format!("[\"{a}\\n{b}\", \"{b}\"]");
                assert_eq!(canonical(text.as_bytes()).unwrap(), text.replace(", ", ","));
                for bad in ["\u{1}", "\n", "\u{1f}"] {
                    let text = format!("\"{a}{bad}{b}\"");
                    assert_eq!(canonical(text.as_bytes()).unwrap_err().code(), "bad_json", "{text:?}");
                }
                let open = format!("\"{a}{b}");
                assert_eq!(canonical(open.as_bytes()).unwrap_err().code(), "bad_json", "{open:?}");
            }
        }
    }

    #[test]
    fn what_the_stores_would_disagree_on_is_refused() {
        for (text, code) in [
            (r#"{"a":1,"a":2}"#, "invalid"),
            (r#"{"a":1,"\u0061":2}"#, "invalid"),
            (r#""\u0000""#, "invalid"),
            (r#""\ud800""#, "invalid"),
            (r#""\ud800\u0041""#, "invalid"),
            (r#""\udc00""#, "invalid"),
            ("1e999", "invalid"),
            ("18446744073709551616", "invalid"),
            ("-9223372036854775809", "invalid"),
            ("", "bad_json"),
            ("{", "bad_json"),
            ("[1,]", "bad_json"),
            ("{\"a\"}", "bad_json"),
            ("01", "bad_json"),
            ("1.", "bad_json"),
            ("+1", "bad_json"),
            ("nul", "bad_json"),
            ("\"a\nb\"", "bad_json"),
            (r#""\x""#, "bad_json"),
            (r#""\u12"#, "bad_json"),
            ("\"a", "bad_json"),
            ("1 2", "bad_json"),
            ("NaN", "bad_json"),
        ] {
            assert_eq!(canonical(text.as_bytes()).unwrap_err().code(), code, "{text}");
        }
        assert_eq!(canonical(b"\"\xff\"").unwrap_err().code(), "bad_json");
    }

    #[test]
    fn nesting_is_taken_to_the_limit_and_refused_one_past_it() {
        let nest = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(canonical(nest(limits::JSON_DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(canonical(nest(limits::JSON_DEPTH_MAX + 1).as_bytes()).unwrap_err().code(), "invalid");
    }

    #[test]
    fn fields_keep_their_order_and_their_numbers() {
        let json = Json::parse(br#"{"z": 1.50, "a\"": [1e2], "m": {"x": null}}"#).unwrap();
        let fields = json.fields();
        assert_eq!(fields[0], ("z".to_owned(), Json::stored("1.50")));
        assert_eq!(Json::object(fields.iter().map(|(key, value)| (key.as_str(), value))), json);
        assert!(Json::stored("[1]").fields().is_empty());
    }

    #[test]
    fn a_repeated_key_is_found_in_a_long_object_too() {
        let keys: Vec<String> = (0..100).map(|n| format!("\"k{n}\":{n}")).collect();
        assert!(canonical(format!("{{{}}}", keys.join(",")).as_bytes()).is_ok());
        assert!(canonical(format!("{{{},\"k7\":0}}", keys.join(",")).as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn canonical_text_means_the_same_and_is_a_fixed_point(value in arbitrary_json()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let once = canonical(pretty.as_bytes()).unwrap();
            prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&once).unwrap(), &value);
            prop_assert_eq!(canonical(once.as_bytes()).unwrap(), once);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(text) = canonical(&bytes) {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
            }
        }
    }

    fn arbitrary_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            (-1e15f64..1e15).prop_map(Into::into),
            "[^\\x00]{0,20}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                proptest::collection::hash_map("[a-z]{1,5}", inner, 0..6)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }
}
