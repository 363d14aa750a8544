//! How sure something is: one scale for everything that is told of it, from 0 to 1 in steps of a hundredth.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Confidence(f64);

impl Confidence {
    pub const SURE: Self = Self(1.0);

    /// The nearest hundredth within the scale; what is no number is 0.
    pub fn new(share: f64) -> Self {
        if share.is_finite() { Self((share.clamp(0.0, 1.0) * 100.0).round() / 100.0) } else { Self(0.0) }
    }

    pub const fn value(self) -> f64 {
        self.0
    }
}

impl From<f32> for Confidence {
    fn from(share: f32) -> Self {
        Self::new(f64::from(share))
    }
}

impl Serialize for Confidence {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Confidence {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        f64::deserialize(from).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confidence_is_a_hundredth_between_nothing_and_sure() {
        for (given, written) in [
            (Confidence::from(0.9_f32), "0.9"),
            (Confidence::from(0.85_f32), "0.85"),
            (Confidence::new(1.0 / 6.0), "0.17"),
            (Confidence::new(7.0), "1.0"),
            (Confidence::new(-0.5), "0.0"),
            (Confidence::new(f64::NAN), "0.0"),
            (Confidence::new(f64::INFINITY), "0.0"),
            (Confidence::SURE, "1.0"),
        ] {
            assert_eq!(serde_json::to_string(&given).unwrap(), written);
            assert_eq!(serde_json::to_value(given).unwrap().to_string(), written);
        }
        assert_eq!(serde_json::from_str::<Confidence>("0.8999999761581421").unwrap(), Confidence::new(0.9));
    }
}
