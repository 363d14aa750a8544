//! The sweep of conversations: ends silent sittings, goes on with messages and turns that no node runs, and embeds
//! memories that have no vector. It reads only what a store lists as due, and everything is decided again under the
//! guard, so any number of nodes may sweep the same store.

use sederunt_core::Error;
use sederunt_core::talk::sitting::EndReason;

use super::Conversations;
use super::end::Ending;
use crate::limits;

/// What one round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConversationSweep {
    pub checked: usize,
    pub ended: usize,
    /// Another node was faster, or the person spoke again.
    pub skipped: usize,
    /// The model could not summarise it now; the next round tries again.
    pub failed: usize,
    /// Conversations that were resumed.
    pub resumed: usize,
}

impl Conversations {
    /// Ends silent sittings and resumes waiting conversations.
    pub async fn sweep(&self) -> Result<ConversationSweep, Error> {
        let mut swept = ConversationSweep::default();
        for due in self.engine.silent_sittings(limits::CONVERSATION_SWEEP_ROWS_MAX).await? {
            swept.checked += 1;
            match self.end_due(&due, EndReason::Silence).await {
                Ok(Ending::Ended(_)) => swept.ended += 1,
                Ok(Ending::Nothing) => swept.skipped += 1,
                Ok(Ending::Failed(_)) => swept.failed += 1,
                Err(Error::Conflict(_) | Error::NotFound) => swept.skipped += 1,
                Err(error) => return Err(error),
            }
        }
        swept.resumed = self.resume().await?;
        self.make_vectors_soon();
        Ok(swept)
    }

    /// Goes on with messages and turns that no node runs. Returns in how many conversations.
    pub async fn resume(&self) -> Result<usize, Error> {
        let waiting = self.engine.waiting_turns(limits::CONVERSATION_SWEEP_ROWS_MAX).await?;
        for due in &waiting {
            self.go_on(&due.tenant, &due.session);
        }
        Ok(waiting.len())
    }

    /// Ends every open sitting of this store before the process shuts down, within `patience`.
    pub async fn end_all(&self, patience: std::time::Duration) -> Result<ConversationSweep, Error> {
        let mut swept = ConversationSweep::default();
        let all = async {
            loop {
                let due = self.engine.open_sittings(limits::CONVERSATION_SWEEP_ROWS_MAX).await?;
                let before = swept.ended;
                for due in &due {
                    swept.checked += 1;
                    match self.end_due(due, EndReason::Shutdown).await {
                        Ok(Ending::Ended(_)) => swept.ended += 1,
                        Ok(Ending::Nothing) => swept.skipped += 1,
                        Ok(Ending::Failed(_)) | Err(_) => swept.failed += 1,
                    }
                }
                if swept.ended == before {
                    return Ok(());
                }
            }
        };
        match tokio::time::timeout(patience, all).await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(())) | Err(_) => Ok(swept),
        }
    }
}
