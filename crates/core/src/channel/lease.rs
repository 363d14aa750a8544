//! Which node holds a channel: it polls or keeps the gateway, and it alone sends. Owns the row of a channel and the
//! rule by which a node takes one over. A lease has an epoch; everything that its holder writes names it, so an
//! older holder writes nothing.

use std::time::Duration;

use crate::time::Timestamp;

/// The row of a channel that is declared in the configuration: what nodes and operators have to agree on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelState {
    /// An operator wants it to neither read nor send.
    pub paused: bool,
    pub lease: Option<ChannelLease>,
    /// The epoch of the last lease; the next one gets one more.
    pub epoch: u64,
    /// Where a reader of the platform goes on: written after what came before it is committed.
    pub cursor: Option<Box<str>>,
    /// What went wrong last, and when; cleared by the next success.
    pub error: Option<(Box<str>, Timestamp)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelLease {
    /// The node that holds the channel.
    pub node: Box<str>,
    pub until: Timestamp,
}

/// What becomes of a node's wish to hold a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseFate {
    /// It may write a lease over this row.
    Free,
    /// It holds the channel already.
    Own,
    /// Another node does, or an operator has paused the channel.
    Refused,
}

impl ChannelState {
    /// Whether a node may hold the channel now.
    pub fn fate_of(&self, node: &str, now: Timestamp) -> LeaseFate {
        match &self.lease {
            _ if self.paused => LeaseFate::Refused,
            Some(lease) if lease.until > now && &*lease.node == node => LeaseFate::Own,
            Some(lease) if lease.until > now => LeaseFate::Refused,
            _ => LeaseFate::Free,
        }
    }
}

/// A change of a channel's row. `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelStateChange {
    pub epoch: EpochRule,
    pub lease: Option<LeaseChange>,
    pub paused: Option<bool>,
    pub cursor: Option<Box<str>>,
    /// `Some(None)` clears it.
    pub error: Option<Option<Box<str>>>,
}

/// What a change expects of the channel's epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EpochRule {
    /// Nothing: it is an operator's change, or no holder's.
    #[default]
    Any,
    /// The row that was looked at, `None` for no row; another one is `Stale`.
    Seen(Option<u64>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// Under a new epoch.
    Take {
        node: Box<str>,
        lease: Duration,
    },
    Renew(Duration),
    Release,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_taken_only_when_nobody_holds_it_and_nobody_has_paused_it() {
        let now = Timestamp::from_micros(10);
        let held = |until| Some(ChannelLease { node: "a".into(), until: Timestamp::from_micros(until) });
        for (paused, lease, of_a, of_b) in [
            (false, None, LeaseFate::Free, LeaseFate::Free),
            (false, held(11), LeaseFate::Own, LeaseFate::Refused),
            (false, held(10), LeaseFate::Free, LeaseFate::Free),
            (true, None, LeaseFate::Refused, LeaseFate::Refused),
            (true, held(11), LeaseFate::Refused, LeaseFate::Refused),
        ] {
            let state = ChannelState { paused, lease, ..ChannelState::default() };
            assert_eq!(state.fate_of("a", now), of_a, "{state:?}");
            assert_eq!(state.fate_of("b", now), of_b, "{state:?}");
        }
    }
}
