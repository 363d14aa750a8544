//! Limits that the API sets itself. Those of the product are in `sederunt_core::limits`; the API document repeats both as
//! literals, and a test of the server compares every one of them. A test goes to each, and one past it.

use sederunt_core::limits::{NAME_CHARS_MAX, TAG_CHARS_MAX, TAGS_MAX};

/// A caller's name for its request, which is logged and returned.
pub const REQUEST_ID_CHARS_MAX: usize = 128;
/// A token by which a person signs in from a browser: as much as fits into the head of a request.
pub const SIGN_IN_TOKEN_CHARS_MAX: usize = 8_192;
/// The longest life of a key, in seconds: a hundred years.
pub const KEY_LIFE_S_MAX: u64 = 3_153_600_000;
/// The oldest records that a purge may be told to keep, in days: a hundred years.
pub const PURGE_DAYS_MAX: u32 = 36_500;
/// Conversations on one page: lists for people are short.
pub const THREADS_MAX: usize = 100;
pub const THREADS_DEFAULT: usize = 20;
/// Sessions about an entity on one page; a larger limit means this one.
pub const ENTITY_SESSIONS_MAX: usize = 100;
pub const ENTITY_SESSIONS_DEFAULT: usize = 20;
/// The tags that a list of lessons is filtered by: as many as a lesson can have, with room for what separates them.
pub const TAG_FILTER_CHARS_MAX: usize = TAGS_MAX * (TAG_CHARS_MAX + 10);
/// Sessions that a list is asked for by their ids, and the characters of that list.
pub const SESSION_IDS_MAX: usize = 100;
pub const SESSION_IDS_CHARS_MAX: usize = SESSION_IDS_MAX * (NAME_CHARS_MAX + 1);
/// A cursor that is a row's number: the digits of a 64-bit number, and a sign.
pub const ROW_CURSOR_CHARS_MAX: usize = 20;
/// A cursor of share links: the time of the last one in microseconds, and its id.
pub const SHARE_CURSOR_CHARS_MAX: usize = ROW_CURSOR_CHARS_MAX + 1 + NAME_CHARS_MAX;
/// The cursor of a stream of hints.
pub const HINT_CURSOR_CHARS_MAX: usize = 100;
