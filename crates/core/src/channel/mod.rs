//! The channel room: conversations on Telegram, Slack and Discord. Owns how a conversation on a platform finds its
//! session ([`conversation`]), what one is told ([`inbound`]), what is filed to be sent ([`delivery`]), and which node holds a channel ([`lease`]).
//! Refuses to know any platform's format: the adapters translate. Who may start a turn is decided in
//! [`crate::talk`].

pub mod conversation;
pub mod delivery;
pub mod inbound;
pub mod lease;
mod store;

pub use conversation::ConversationKey;
pub use delivery::{Delivery, DeliveryNote, DeliveryState, GiveUpReason};
pub use lease::{ChannelLease, ChannelState, ChannelStateChange, EpochRule, LeaseChange};
pub use store::{ChannelFigures, ChannelStore};
