//! Lengths of time as people write them: `500ms`, `20m`, `7d`, `1h30m`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// The units, longest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

const ADVICE: &str = "is no length of time; write it like 500ms, 20m or 7d";

impl FromStr for Span {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut rest = text.trim();
        let mut millis: u64 = 0;
        if rest.is_empty() {
            return Err(ADVICE);
        }
        while !rest.is_empty() {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let count: u64 = rest[..digits].parse().map_err(|_| ADVICE)?;
            rest = &rest[digits..];
            let letters = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
            let (_, unit) = UNITS.iter().find(|(name, _)| *name == &rest[..letters]).ok_or(ADVICE)?;
            rest = &rest[letters..];
            millis = count.checked_mul(*unit).and_then(|more| millis.checked_add(more)).ok_or(ADVICE)?;
        }
        Ok(Self(Duration::from_millis(millis)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let (name, unit) = UNITS
            .iter()
            .find(|(_, unit)| millis >= *unit && millis.is_multiple_of(*unit))
            .unwrap_or(&("ms", 1));
        write!(f, "{}{name}", millis / unit)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time such as \"500ms\", \"20m\" or \"7d\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Span, E> {
                text.parse().map_err(|advice| E::custom(format!("`{text}` {advice}")))
            }
        }
        from.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_as_people_write_them() {
        for (text, millis) in [
            ("0ms", 0),
            ("500ms", 500),
            ("1s", 1_000),
            ("20m", 1_200_000),
            ("12h", 43_200_000),
            ("7d", 604_800_000),
            ("1h30m", 5_400_000),
            (" 2s ", 2_000),
        ] {
            assert_eq!(text.parse(), Ok(Span(Duration::from_millis(millis))), "{text}");
        }
    }

    #[test]
    fn what_is_no_length_is_refused() {
        for text in
            ["", "5", "m", "-1s", "1.5h", "1w", "1 h", "s1", "99999999999999999999d", "9999999999999999d"]
        {
            assert_eq!(text.parse::<Span>(), Err(ADVICE), "{text}");
        }
    }

    #[test]
    fn a_length_prints_in_its_largest_whole_unit() {
        for text in ["500ms", "30s", "90s", "20m", "36h", "7d"] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.to_string(), text);
        }
        assert_eq!(Span(Duration::from_secs(120)).to_string(), "2m");
    }
}
