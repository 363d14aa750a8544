//! Telegram: what an update says ([`update`]), how a reply looks ([`rich_text`]), what the answer to a call means
//! ([`verdict`]), how fast a bot sends ([`pace`]), its calls ([`api`]), and a bot at work ([`runner`]). Written from the
//! published format of the Bot API.

pub mod api;
pub mod pace;
pub mod rich_text;
pub mod runner;
pub mod update;
pub mod verdict;
