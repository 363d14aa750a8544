//! The activity room: what people do on their own, beside agents. Owns the text of the recent-activity block
//! ([`block`]).

pub mod block;
