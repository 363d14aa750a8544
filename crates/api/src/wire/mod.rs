//! The wire: the shapes of requests and answers, and their documentation.
//!
//! Most of these are not the product's own types: a field may be renamed there without a client noticing, and nothing
//! of the product reaches a client unless it is listed here. Definitions are the exception (see `definitions`).

pub mod activity_block;
pub mod approval;
pub mod crisis;
pub mod definitions;
pub mod document;
pub mod error;
pub mod event;
pub mod feedback;
pub mod human;
pub mod lesson;
pub mod memory;
pub mod people;
pub mod presence;
pub mod response;
pub mod search;
pub mod session;
pub mod sign_in;
pub mod state;
pub mod talk;
pub mod task;
pub mod thread;
pub mod tool;
pub mod view;
pub mod voice;
pub mod work;
pub mod work_queue;

use sederunt_core::json::Json;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// An enumeration of the product with the words that stand for it on the wire.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident = $core:ty { $($variant:ident),+ $(,)? }) => {
        $crate::wire::words!($(#[$doc])* $name = $core { $($variant),+ } in "snake_case");
    };
    // A `tt`: what is matched as a `literal` is hidden from the derive that describes the words.
    ($(#[$doc:meta])* $name:ident = $core:ty { $($variant:ident),+ $(,)? } in $case:tt) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        #[serde(rename_all = $case)]
        pub enum $name { $($variant),+ }

        impl From<$core> for $name {
            fn from(core: $core) -> Self {
                match core { $(<$core>::$variant => Self::$variant),+ }
            }
        }

        impl From<$name> for $core {
            fn from(wire: $name) -> Self {
                match wire { $($name::$variant => Self::$variant),+ }
            }
        }
    };
}
pub(crate) use words;

/// JSON that is passed on as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw(pub Json);

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<serde_json::value::RawValue>::deserialize(from)?;
        Ok(Self(Json::stored(raw.get())))
    }
}

impl PartialSchema for Raw {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some("Any JSON")).into()
    }
}

impl ToSchema for Raw {
    fn name() -> std::borrow::Cow<'static, str> {
        "Json".into()
    }
}

/// A count, a sequence or an epoch: what a signed 64-bit integer holds, from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count(pub u64);

impl Count {
    pub const MAX: u64 = i64::MAX as u64;
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(from)?;
        if number > Self::MAX {
            return Err(serde::de::Error::custom(format!("must be at most {}", Self::MAX)));
        }
        Ok(Self(number))
    }
}

impl PartialSchema for Count {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(0))
            .into()
    }
}

impl ToSchema for Count {
    fn name() -> std::borrow::Cow<'static, str> {
        "Count".into()
    }
}

/// How sure something is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confidence(sederunt_core::confidence::Confidence);

impl From<sederunt_core::confidence::Confidence> for Confidence {
    fn from(confidence: sederunt_core::confidence::Confidence) -> Self {
        Self(confidence)
    }
}

impl From<f32> for Confidence {
    fn from(share: f32) -> Self {
        Self(share.into())
    }
}

impl PartialSchema for Confidence {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Double)))
            .description(Some("From 0 to 1, with at most two decimals."))
            .minimum(Some(0))
            .maximum(Some(1))
            .into()
    }
}

impl ToSchema for Confidence {
    fn name() -> std::borrow::Cow<'static, str> {
        "Confidence".into()
    }
}

/// A request without any fields: an empty body, or `{}`.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}
