//! Rating a sitting that has ended, and commenting on it.

use super::{CaptureOutcome, Engine};
use crate::access::{Actor, Verb};
use crate::error::Result;
use crate::feedback::RatingRequest;
use crate::feedback::capture::Capture;
use crate::ids::SessionId;
use crate::session::MemoryMode;
use crate::session::decide::check_memory_mode;
use crate::store::IdemKey;

/// A caller's rating of the sitting that ended last.
#[derive(Clone, Debug)]
pub struct SittingRating {
    pub rating: RatingRequest,
    /// Feedback in words. It is kept apart from the rating, which holds none.
    pub comment: Option<String>,
    /// The memory mode that the caller takes the conversation to have; another one is refused.
    pub memory_mode: Option<MemoryMode>,
}

/// What became of a rating and its comment.
#[derive(Debug)]
pub struct SittingRatingResult {
    /// `false`: the sitting was rated before, and the first rating counts.
    pub recorded: bool,
    /// What became of the comment. If it is refused, the rating counts all the same.
    pub comment: Option<Result<CaptureOutcome>>,
}

impl Engine {
    /// Rates the sitting of a conversation that ended last. Refused before one has ended.
    pub async fn rate_sitting(
        &self,
        actor: &Actor,
        id: &SessionId,
        wish: SittingRating,
        key: Option<IdemKey>,
    ) -> Result<SittingRatingResult> {
        let comment = match wish.comment {
            Some(comment) => Capture::beside(wish.rating.label, comment, id.clone())?,
            None => None,
        };
        check_memory_mode(&self.load(actor, Verb::Read, id).await?, wish.memory_mode)?;
        let recorded = self.rate_ended(actor, id, wish.rating).await?;
        let comment = match comment {
            Some(comment) => Some(self.capture_feedback(actor, comment, key).await),
            None => None,
        };
        if let Some(Err(error)) = &comment {
            tracing::warn!(
                target: "sederunt::feedback", session = %id, code = error.code(), %error,
                "the comment on a sitting could not be written; its rating is recorded, and the caller was told"
            );
        }
        Ok(SittingRatingResult { recorded, comment })
    }
}
