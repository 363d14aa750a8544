//! The keeper of conversations: ends silent sittings, goes on with messages and turns that no node runs, and embeds
//! memories that have no vector. It reads only what a store lists as due, and everything is decided again under the
//! guard, so any number of nodes may run a keeper on the same store.

use sederunt_core::Error;
use sederunt_core::talk::sitting::EndReason;

use super::Talker;
use super::end::Ending;
use crate::limits;

/// What one round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub checked: usize,
    pub ended: usize,
    /// Another node was faster, or the person spoke again.
    pub skipped: usize,
    /// The model could not summarise it now; the next round tries again.
    pub failed: usize,
    /// Conversations that were resumed.
    pub resumed: usize,
}

impl Talker {
    /// Ends silent sittings and resumes waiting conversations.
    pub async fn keep(&self) -> Result<Kept, Error> {
        let mut kept = Kept::default();
        for due in self.engine.silent_sittings(limits::KEEP_ROWS_MAX).await? {
            kept.checked += 1;
            match self.end_due(&due, EndReason::Silence).await {
                Ok(Ending::Ended(_)) => kept.ended += 1,
                Ok(Ending::Nothing) => kept.skipped += 1,
                Ok(Ending::Failed(_)) => kept.failed += 1,
                Err(Error::Conflict(_) | Error::NotFound) => kept.skipped += 1,
                Err(error) => return Err(error),
            }
        }
        kept.resumed = self.resume().await?;
        self.make_vectors_soon();
        Ok(kept)
    }

    /// Goes on with messages and turns that no node runs. Returns in how many conversations.
    pub async fn resume(&self) -> Result<usize, Error> {
        let waiting = self.engine.waiting_turns(limits::KEEP_ROWS_MAX).await?;
        for due in &waiting {
            self.go_on(&due.tenant, &due.session);
        }
        Ok(waiting.len())
    }

    /// Ends every open sitting of this store before the process shuts down, within `patience`.
    pub async fn end_all(&self, patience: std::time::Duration) -> Result<Kept, Error> {
        let mut kept = Kept::default();
        let all = async {
            loop {
                let due = self.engine.open_sittings(limits::KEEP_ROWS_MAX).await?;
                let before = kept.ended;
                for due in &due {
                    kept.checked += 1;
                    match self.end_due(due, EndReason::Shutdown).await {
                        Ok(Ending::Ended(_)) => kept.ended += 1,
                        Ok(Ending::Nothing) => kept.skipped += 1,
                        Ok(Ending::Failed(_)) | Err(_) => kept.failed += 1,
                    }
                }
                if kept.ended == before {
                    return Ok(());
                }
            }
        };
        match tokio::time::timeout(patience, all).await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(())) | Err(_) => Ok(kept),
        }
    }
}
