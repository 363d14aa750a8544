//! What a platform tells a channel: its messages start turns here, and `/new` begins a conversation anew.

use sederunt_core::channel::inbound::{ChannelProfile, InboundMessage};
use sederunt_core::engine::ReceivedMessage;
use sederunt_core::{Conflict, Error, limits as core_limits};
use tokio::sync::mpsc;

use super::Conversations;

impl Conversations {
    /// Takes in what somebody has said on a platform. When this returns, it is kept; its turn goes on by itself. Returns
    /// the code that the person is to be told, if they asked for one.
    pub async fn receive(
        &self,
        profile: &ChannelProfile,
        inbound: &InboundMessage,
    ) -> Result<Option<String>, Error> {
        for _ in 0..core_limits::DECIDE_ROUNDS_MAX {
            match self.engine.receive(profile, inbound, &self.hold).await? {
                ReceivedMessage::EndFirst(id, first) => self.end_first(&profile.tenant, &id, first).await?,
                ReceivedMessage::Started(begun, message) => {
                    let (heard, _) = mpsc::unbounded_channel();
                    self.run_on(begun, message, heard);
                    return Ok(None);
                }
                ReceivedMessage::Waits(id) => {
                    self.go_on(&profile.tenant, &id);
                    return Ok(None);
                }
                ReceivedMessage::Kept { code, .. } => return Ok(code),
                ReceivedMessage::Repeated => return Ok(None),
            }
        }
        Err(Conflict::SessionBusy.into())
    }

    /// Begins a conversation anew, after looking back over what was said in it. A repeat does nothing.
    pub async fn start_over(&self, profile: &ChannelProfile, inbound: &InboundMessage) -> Result<(), Error> {
        let before = self.engine.conversation_of_key(&profile.tenant, &inbound.conversation).await?;
        let found = match &before {
            Some((session, talk)) => self.looked_back(session, talk).await?,
            None => None,
        };
        let found = found.as_ref().map(|(found, _)| found);
        self.engine.start_over(profile, inbound, found).await.map(drop)
    }
}
