//! What channels ask of a database.

use super::{ChannelState, ConversationKey, Delivery, DeliveryState};
use crate::ids::{SessionId, TenantId};
use crate::store::StoreFuture;
use crate::time::Timestamp;

/// Channels of a tenant: their conversations, what they were told, and what they are to be told.
pub trait ChannelStore {
    /// The row of a channel; `None` before a node has first held it.
    fn channel<'a>(&'a self, tenant: &'a TenantId, name: &'a str) -> StoreFuture<'a, Option<ChannelState>>;
    /// How a channel stands.
    fn channel_figures<'a>(&'a self, tenant: &'a TenantId, name: &'a str) -> StoreFuture<'a, ChannelFigures>;
    /// The session that a conversation is held in, by an index: the number of sessions does not matter.
    fn conversation_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        key: &'a ConversationKey,
    ) -> StoreFuture<'a, Option<SessionId>>;
    /// Whether a channel was told this before.
    fn has_channel_update<'a>(
        &'a self,
        tenant: &'a TenantId,
        channel: &'a str,
        update_key: &'a str,
    ) -> StoreFuture<'a, bool>;
    /// What a channel has to send now: of each conversation the first that waits, unless its time has not come; the
    /// oldest first.
    fn due_deliveries<'a>(
        &'a self,
        tenant: &'a TenantId,
        channel: &'a str,
        now: Timestamp,
        limit: usize,
    ) -> StoreFuture<'a, Vec<Delivery>>;
    /// The newest deliveries of a channel in a state.
    fn deliveries<'a>(
        &'a self,
        tenant: &'a TenantId,
        channel: &'a str,
        state: DeliveryState,
        limit: usize,
    ) -> StoreFuture<'a, Vec<Delivery>>;
    /// Forgets what a channel was told, and what was given up, before a time; at most `limit` rows of each. Returns how
    /// many went.
    fn forget_channel_updates<'a>(
        &'a self,
        tenant: &'a TenantId,
        channel: &'a str,
        before: Timestamp,
        limit: usize,
    ) -> StoreFuture<'a, u64>;
}

/// How a channel stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelFigures {
    /// When the platform last told it something.
    pub heard_at: Option<Timestamp>,
    /// Deliveries that wait, and since when the oldest does.
    pub waiting: u64,
    pub waiting_since: Option<Timestamp>,
    pub given_up: u64,
}
