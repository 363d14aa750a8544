//! Commands of turns that wait for a person's approval: pausing one, and giving it up.

use super::talk::change_from_plan;
use super::{Engine, FinishedTurn, RunningTurn};
use crate::error::Result;
use crate::session::Session;
use crate::store::{Change, Write};
use crate::talk::Talk;
use crate::talk::pause::{self, AbandonReason, TurnApproval};

impl Engine {
    /// Parks a turn until a person decides on its call. Fenced if the turn lost its lease. `None`: the turn was asked
    /// to stop, so no person is asked.
    pub async fn pause_turn(
        &self,
        begun: &RunningTurn,
        asking: TurnApproval,
    ) -> Result<Option<FinishedTurn>> {
        let now = self.tenant.now().await?;
        self.release_turn(begun, false, |session, talk| {
            if session.head.stop_requested {
                return Ok(None);
            }
            pause::pause(session, talk, asking.clone(), now, &self.settings.talk, &*self.ids).map(Some)
        })
        .await
    }

    /// Gives up the paused turn of a conversation, if there is one: none of its calls is made.
    pub async fn give_up_pause(&self, session: &Session, talk: &Talk) -> Result<()> {
        match pause::give_up(session, talk, AbandonReason::Stopped)? {
            Some(plan) => self.commit(change_from_plan(session, &plan)).await.map(drop),
            None => Ok(()),
        }
    }
}

/// Lets the turn of a decided approval go on, in the change that decides.
pub(super) fn release_talk(change: &mut Change, session: &Session, talk: &Talk) {
    if session.head.is_talk
        && let Some(own) = change.parts.first_mut()
    {
        own.writes.push(Write::Talk(Box::new(pause::decided(talk))));
    }
}
