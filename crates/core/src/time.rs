//! Instants as microseconds since the epoch, printed as RFC 3339 in UTC with a `Z`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time, to the microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole minutes since the epoch: the grain by which lists are ordered.
    pub const fn minute(self) -> i64 {
        self.0.div_euclid(60_000_000)
    }

    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }

    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Its day in UTC, as `2026-11-15`.
    pub fn day(self) -> String {
        let (year, month, day) = civil(self.0.div_euclid(86_400_000_000));
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// Reads RFC 3339; anything finer than a microsecond is cut.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|at| Self(at.as_microsecond()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, micros) = (self.0.div_euclid(86_400_000_000), self.0.rem_euclid(86_400_000_000));
        let (year, month, day) = civil(days);
        let (secs, fraction) = (micros / 1_000_000, micros % 1_000_000);
        if !(0..=9_999).contains(&year) {
            let (hour, minute, second) = (secs / 3600, secs / 60 % 60, secs % 60);
            return write!(
                f,
                "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z"
            );
        }
        // Every event that is answered or streamed has one, so it is put together by hand.
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        for (end, width, number) in [
            (4, 4, year),
            (7, 2, month),
            (10, 2, day),
            (13, 2, secs / 3600),
            (16, 2, secs / 60 % 60),
            (19, 2, secs % 60),
            (26, 6, fraction),
        ] {
            let mut left = number;
            for place in text[end - width..end].iter_mut().rev() {
                *place += (left % 10) as u8;
                left /= 10;
            }
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// Days since the epoch to a proleptic Gregorian date (era arithmetic, no table).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_as_a_calendar_library_prints_them() {
        for micros in [
            0, 1, -1, 951_782_400_000_000, 1_793_000_000_123_456, 4_102_444_799_999_999,
            -62_135_596_800_000_000,
        ] {
            let expected = jiff::Timestamp::from_microsecond(micros).unwrap();
            assert_eq!(Timestamp(micros).to_string(), format!("{expected:.6}"));
            assert_eq!(Timestamp::parse(&Timestamp(micros).to_string()), Some(Timestamp(micros)));
        }
    }
}
