//! Commands of turns that wait for somebody's leave: to pause one, and to give it up.

use super::talk::planned_change;
use super::{Begun, Engine, Finished};
use crate::error::Result;
use crate::session::Session;
use crate::store::{Change, Write};
use crate::talk::Talk;
use crate::talk::pause::{self, Asking, GivenUp};

impl Engine {
    /// Parks a turn until somebody has decided on a call of it. Fenced when it was too slow to live. `None`: somebody
    /// wants it to stop, so nobody is asked.
    pub async fn pause_turn(&self, begun: &Begun, asking: Asking) -> Result<Option<Finished>> {
        let now = self.tenant.now().await?;
        self.let_go(begun, |session, talk| {
            if session.head.stop_requested {
                return Ok(None);
            }
            pause::pause(session, talk, asking.clone(), now, &self.settings.talk).map(Some)
        })
        .await
    }

    /// Gives up the turn that waits in a conversation, if one does: nothing that it asked for is done.
    pub async fn give_up_pause(&self, session: &Session, talk: &Talk) -> Result<()> {
        match pause::give_up(session, talk, GivenUp::Stopped)? {
            Some(plan) => self.commit(planned_change(session, &plan)).await.map(drop),
            None => Ok(()),
        }
    }
}

/// Lets the turn of a decided approval go on, in the change that decides.
pub(super) fn let_go_on(change: &mut Change, session: &Session, talk: &Talk) {
    if session.head.is_talk
        && let Some(own) = change.parts.first_mut()
    {
        own.writes.push(Write::Talk(Box::new(pause::decided(talk))));
    }
}
