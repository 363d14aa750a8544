//! Query parameters, described once: a definition in `params!` makes the struct, the reader that
//! fills it and its description in the API document.

use std::marker::PhantomData;

use sederunt_core::ids::check_text;
use sederunt_core::session::query::ListCursor;
use sederunt_core::{Error, SessionId, limits};
use serde::de::DeserializeOwned;
use serde::de::value::{Error as WordError, StrDeserializer};
use serde_json::Value;
use utoipa::openapi::path::{Parameter as Described, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{KnownFormat, Object, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{Ref, RefOr, Required, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::QueryPairs;

/// Defines the parameters of a route:
///
/// ```text
/// params! {
///     /// Filters of a list of approvals.
///     pub struct ApprovalsQuery {
///         state: Option<ApprovalState> = word(),
///         /// Only those of one session.
///         session_id | "sessionId": Option<SessionId> = parsed("is no id of a session", parse_session),
///         limit: usize = page_limit(),
///     }
/// }
/// ```
///
/// A field has its own name on the wire, unless `as "name"` gives another; further names are its aliases.
macro_rules! params {
    (
        $(#[doc = $about:literal])*
        pub struct $query:ident {
            $(
                $(#[doc = $text:literal])*
                $field:ident $(as $wire:literal)? $(| $alias:literal)* : $type:ty = $parameter:expr
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug)]
        pub struct $query {
            $($(#[doc = $text])* pub $field: $type),+
        }

        impl $crate::query::FromQuery for $query {
            fn read(pairs: &mut $crate::query::QueryPairs) -> Result<Self, sederunt_core::Error> {
                use $crate::query::parameters::*;
                Ok(Self {
                    $($field: Parameter::read(
                        &$parameter,
                        &[$crate::query::params!(@name $field $($wire)?), $($alias),*],
                        pairs,
                    )?),+
                })
            }
        }

        impl utoipa::IntoParams for $query {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                use $crate::query::parameters::*;
                vec![$(describe::<$type>(
                    $crate::query::params!(@name $field $($wire)?),
                    &[$($text),*],
                    &$parameter,
                )),+]
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $wire:literal) => { $wire };
}
pub(crate) use params;

/// One parameter: how it is read, and what the API document says about its values.
pub trait Parameter {
    type Value;

    /// Takes the parameter by any of its names. Errors name the first.
    fn read(&self, names: &[&'static str], pairs: &mut QueryPairs) -> Result<Self::Value, Error>;
    fn schema(&self) -> RefOr<Schema>;

    fn is_required(&self) -> bool {
        false
    }

    fn example(&self) -> Option<&'static str> {
        None
    }
}

/// The parameter in the API document.
pub fn describe<T>(name: &str, text: &[&str], parameter: &impl Parameter<Value = T>) -> Described {
    let text = text.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n");
    let required = if parameter.is_required() { Required::True } else { Required::False };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .description((!text.is_empty()).then_some(text))
        .required(required)
        .schema(Some(parameter.schema()))
        .example(parameter.example().map(Value::from))
        .build()
}

/// A text. Its length is checked here; what it names is checked by the core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text {
    chars_min: Option<usize>,
    chars_max: Option<usize>,
    pattern: Option<&'static str>,
    example: Option<&'static str>,
}

pub const fn text() -> Text {
    Text { chars_min: None, chars_max: None, pattern: None, example: None }
}

/// The id or the name of something.
pub const fn name() -> Text {
    text().chars_min(1).chars_max(limits::NAME_CHARS_MAX)
}

impl Text {
    pub const fn chars_min(self, chars: usize) -> Self {
        Self { chars_min: Some(chars), ..self }
    }

    pub const fn chars_max(self, chars: usize) -> Self {
        Self { chars_max: Some(chars), ..self }
    }

    pub const fn pattern(self, pattern: &'static str) -> Self {
        Self { pattern: Some(pattern), ..self }
    }

    pub const fn example(self, example: &'static str) -> Self {
        Self { example: Some(example), ..self }
    }

    /// Refuses a request without it.
    pub const fn required(self) -> RequiredText {
        RequiredText(self)
    }

    /// A text that `parse` must accept; `rule` says what it accepts.
    pub const fn parsed<T>(self, rule: &'static str, parse: fn(&str) -> Option<T>) -> Parsed<T> {
        Parsed { text: self, rule, parse }
    }

    /// A list of words with commas in between.
    pub const fn list(self) -> TextList {
        TextList(self)
    }

    /// Takes the text, unless it is longer than the API document says.
    fn take(&self, names: &[&'static str], pairs: &mut QueryPairs) -> Result<Option<String>, Error> {
        let found = pairs.text(names)?;
        if let (Some(text), Some(chars_max)) = (&found, self.chars_max) {
            check_text(names[0], text, chars_max)?;
        }
        Ok(found)
    }

    fn object(&self) -> Object {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(self.chars_min)
            .max_length(self.chars_max)
            .pattern(self.pattern)
            .build()
    }
}

impl Parameter for Text {
    type Value = Option<String>;

    fn read(&self, names: &[&'static str], pairs: &mut QueryPairs) -> Result<Self::Value, Error> {
        self.take(names, pairs)
    }

    fn schema(&self) -> RefOr<Schema> {
        self.object().into()
    }

    fn example(&self) -> Option<&'static str> {
        self.example
    }
}

/// A text that must be given.
#[derive(Clone, Copy, Debug)]
pub struct RequiredText(Text);

impl Parameter for RequiredText {
    type Value = String;

    fn read(&self, names: &[&'static str], pairs: &mut QueryPairs) -> Result<Self::Value, Error> {
        self.0.take(names, pairs)?.ok_or_else(|| Error::invalid(names[0], "is required"))
    }

    fn schema(&self) -> RefOr<Schema> {
        self.0.schema()
    }

    fn is_required(&self) -> bool {
        true
    }

    fn example(&self) -> Option<&'static str> {
        self.0.example
    }
}

/// A text with a form of its own, such as an id or a cursor.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<T> {
    text: Text,
    rule: &'static str,
    parse: fn(&str) -> Option<T>,
}

impl<T> Parameter for Parsed<T> {
    type Value = Option<T>;

    fn read(&self, names: &[&'static str], pairs: &mut QueryPairs) -> Result<Self::Value, Error> {
        match self.text.take(names, pairs)? {
            None => Ok(None),
            Some(text) => (self.parse)(&text).map(Some).ok_or_else(|| Error::invalid(names[0], self.rule)),
        }
    }

    fn schema(&self) -> RefOr<Schema> {
        self.text.schema()
    }

    fn example(&self) -> Option<&'static str> {
        self.text.example
    }
}

/// Words with commas in between.
#[derive(Clone, Copy, Debug)]
pub struct TextList(Text);

impl Parameter for TextList {
    type Value = Vec<String>;

    fn read(&self, names: &[&'static str], pairs: &mut QueryPairs) -> Result<Self::Value, Error> {
        let text = self.0.take(names, pairs)?.unwrap_or_default();
        Ok(text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect())
    }

    fn schema(&self) -> RefOr<Schema> {
        self.0.schema()
    }

    fn example(&self) -> Option<&'static str> {
        self.0.example
    }
}

/// One word of an enumeration of the wire.
#[derive(Clone, Copy, Debug)]
pub struct Word<T> {
    by_name: bool,
    wire: PhantomData<fn() -> T>,
}

/// Its schema is a part of the parameter.
pub const fn word<T>() -> Word<T> {
    Word { by_name: false, wire: PhantomData }
}

/// Its schema is named; a body of the API must use it too.
pub const fn named_word<T>() -> Word<T> {
    Word { by_name: true, wire: PhantomData }
}

impl<T: DeserializeOwned + ToSchema> Parameter for Word<T> {
    type Value = Option<T>;

    fn read(&self, names: &[&'static str], pairs: &mut QueryPairs) -> Result<Self::Value, Error> {
        let Some(text) = pairs.text(names)? else { return Ok(None) };
        T::deserialize(StrDeserializer::<WordError>::new(&text))
            .map(Some)
            .map_err(|_| Error::invalid(names[0], format!("must be {}", one_of(&words_of::<T>()))))
    }

    fn schema(&self) -> RefOr<Schema> {
        if self.by_name { Ref::from_schema_name(T::name()).into() } else { T::schema() }
    }
}

/// The words of an enumeration, from its description.
fn words_of<T: PartialSchema>() -> Vec<String> {
    let RefOr::T(Schema::Object(object)) = T::schema() else { return Vec::new() };
    let values = object.enum_values.unwrap_or_default();
    values.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

fn one_of(words: &[String]) -> String {
    match words {
        [] => "a known word".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// `true` or `false`.
#[derive(Clone, Copy, Debug)]
pub struct Flag;

pub const fn flag() -> Flag {
    Flag
}

impl Parameter for Flag {
    type Value = Option<bool>;

    fn read(&self, names: &[&'static str], pairs: &mut QueryPairs) -> Result<Self::Value, Error> {
        pairs.flag(names)
    }

    fn schema(&self) -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Boolean).into()
    }
}

/// A flag that is `false` where it is left out.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    says_default: bool,
}

pub const fn switch() -> Switch {
    Switch { says_default: false }
}

impl Switch {
    /// The document names the default.
    pub const fn says_default(self) -> Self {
        Self { says_default: true }
    }
}

impl Parameter for Switch {
    type Value = bool;

    fn read(&self, names: &[&'static str], pairs: &mut QueryPairs) -> Result<Self::Value, Error> {
        Ok(pairs.flag(names)?.unwrap_or(false))
    }

    fn schema(&self) -> RefOr<Schema> {
        let default = self.says_default.then_some(Value::Bool(false));
        ObjectBuilder::new().schema_type(Type::Boolean).default(default).into()
    }
}

/// A whole number. Its bounds are described here and checked by those who use it.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    min: Option<u64>,
    max: Option<usize>,
}

pub const fn number() -> Number {
    Number { min: None, max: None }
}

impl Number {
    pub const fn min(self, min: u64) -> Self {
        Self { min: Some(min), ..self }
    }

    pub const fn max(self, max: usize) -> Self {
        Self { max: Some(max), ..self }
    }

    /// The number where none is given.
    pub const fn or(self, default: u64) -> NumberOr {
        NumberOr { number: self, default }
    }

    fn object(&self) -> ObjectBuilder {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(self.min)
            .maximum(self.max)
    }
}

impl Parameter for Number {
    type Value = Option<u64>;

    fn read(&self, names: &[&'static str], pairs: &mut QueryPairs) -> Result<Self::Value, Error> {
        pairs.number(names)
    }

    fn schema(&self) -> RefOr<Schema> {
        self.object().into()
    }
}

/// A whole number with a default.
#[derive(Clone, Copy, Debug)]
pub struct NumberOr {
    number: Number,
    default: u64,
}

impl Parameter for NumberOr {
    type Value = u64;

    fn read(&self, names: &[&'static str], pairs: &mut QueryPairs) -> Result<Self::Value, Error> {
        Ok(pairs.number(names)?.unwrap_or(self.default))
    }

    fn schema(&self) -> RefOr<Schema> {
        self.number.object().default(Some(self.default.into())).into()
    }
}

/// The size of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageLimit {
    max: usize,
    default: usize,
}

pub const fn page_limit() -> PageLimit {
    PageLimit { max: limits::PAGE_ROWS_MAX, default: limits::PAGE_ROWS_DEFAULT }
}

impl PageLimit {
    pub const fn at_most(max: usize, default: usize) -> Self {
        Self { max, default }
    }
}

impl Parameter for PageLimit {
    type Value = usize;

    fn read(&self, names: &[&'static str], pairs: &mut QueryPairs) -> Result<Self::Value, Error> {
        let limit = pairs.parsed(names, &format!("must be 1 to {}", self.max), |text| {
            text.parse().ok().filter(|limit| (1..=self.max).contains(limit))
        })?;
        Ok(limit.unwrap_or(self.default))
    }

    fn schema(&self) -> RefOr<Schema> {
        number().min(1).max(self.max).object().default(Some(self.default.into())).into()
    }
}

const CURSOR_RULE: &str = "must be a `next_cursor` of this list";

/// The cursor of a list by time.
pub const fn list_cursor() -> Parsed<ListCursor> {
    text().pattern(r"^-?[0-9]{1,18}\.-?[0-9]{1,18}$").parsed(CURSOR_RULE, ListCursor::parse)
}

/// The cursor of a list of numbered rows.
pub const fn row_cursor() -> Parsed<i64> {
    text().pattern("^-?[0-9]{1,18}$").parsed(CURSOR_RULE, parse_row)
}

/// A row's number.
pub fn parse_row(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// A sequence, in digits alone.
pub fn parse_sequence(text: &str) -> Option<u64> {
    (text.len() <= 19 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// The id of a session.
pub fn session_id(text: &str) -> Option<SessionId> {
    SessionId::parse(text).ok()
}

/// Every parameter under a prefix, such as `metadata.`; the document shows one of them.
#[derive(Clone, Copy, Debug)]
pub struct Under {
    prefix: &'static str,
    example: Text,
}

pub const fn under(prefix: &'static str, example: Text) -> Under {
    Under { prefix, example }
}

impl Parameter for Under {
    type Value = Vec<(String, String)>;

    fn read(&self, _: &[&'static str], pairs: &mut QueryPairs) -> Result<Self::Value, Error> {
        pairs.under(self.prefix)
    }

    fn schema(&self) -> RefOr<Schema> {
        self.example.schema()
    }
}

/// The token of a share link. Every route takes it, and the server reads it before the route does.
#[derive(Clone, Copy, Debug)]
pub struct ShareToken;

impl Parameter for ShareToken {
    type Value = ();

    fn read(&self, _: &[&'static str], _: &mut QueryPairs) -> Result<Self::Value, Error> {
        Ok(())
    }

    fn schema(&self) -> RefOr<Schema> {
        text().schema()
    }
}
