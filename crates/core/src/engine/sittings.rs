//! Commands on sittings: finding open and silent ones, closing, rating, and looking back over a conversation.

use std::time::Duration;

use super::talk::{change_from_plan, talk_change};
use super::talk_memory::Harvest;
use super::{CommandOutcome, Decided, Engine};
use crate::access::{self, Actor, Verb};
use crate::error::{Conflict, Result};
use crate::event::{Event, EventType, NewEvent};
use crate::feedback::{RATING_SCHEMA_VERSION, Rating, RatingRequest};
use crate::ids::{SessionId, UserId};
use crate::json::Json;
use crate::limits;
use crate::memory::candidate::Candidate;
use crate::memory::harvest::SittingContent;
use crate::memory::summary::Summary;
use crate::safety;
use crate::safety::opaque::Opaque;
use crate::session::decide::SessionStep;
use crate::session::{DescriptionSource, MemoryMode, Session};
use crate::store::{DueSession, Record, Refusal, Update};
use crate::talk::sitting::{self, EndReason};
use crate::talk::turn::{self, TurnPlan};
use crate::talk::{Sitting, StateFields, Talk};

/// What looking back over a conversation has found.
#[derive(Clone, Debug)]
pub struct LookbackResult {
    /// The last message that was read.
    pub to: u64,
    pub candidates: Vec<Candidate>,
    /// What was said that no ended sitting has decided on is about this.
    pub about: Option<Summary>,
    pub description: Option<String>,
}

/// What a rating takes from the sitting that it is about.
struct RatedSitting {
    turns: u64,
    user: Option<String>,
    opened_by: Option<String>,
}

impl Engine {
    /// Whether the open sitting of a conversation has been silent for too long.
    pub async fn is_silent(&self, session: &Session, talk: &Talk) -> Result<bool> {
        let now = self.tenant.now().await?;
        Ok(sitting::has_expired(talk, now, &self.settings.talk) && !turn::is_open(session, talk, now))
    }

    /// Whether a turn of a conversation runs now.
    pub async fn is_in_turn(&self, session: &Session) -> Result<bool> {
        Ok(turn::runs(session, self.tenant.now().await?))
    }

    /// The messages of an open sitting that its summary and memories may use, oldest first.
    pub async fn sitting_messages(
        &self,
        session: &Session,
        open: &Sitting,
        safety: &safety::Settings,
    ) -> Result<Vec<Event>> {
        let said = self.said_since(session, open.first, limits::SITTING_MESSAGES_MAX).await?;
        Ok(sitting::summarisable(open, said, safety))
    }

    /// Closes this sitting. What it leaves in the memory of its owner is made from `content` and committed with it;
    /// without content it leaves nothing. `None`: the conversation has changed since it was read; read it again.
    pub async fn close_sitting(
        &self,
        session: &Session,
        talk: &Talk,
        why: EndReason,
        content: Option<SittingContent<'_>>,
    ) -> Result<Option<Talk>> {
        let Some(open) = &talk.sitting else { return Ok(None) };
        let now = self.tenant.now().await?;
        let Harvest { arc, records } = match content {
            Some(content) => self.harvest(session, open, content, now).await?,
            None => Harvest::default(),
        };
        let summary = content.and_then(|content| content.summary).filter(|_| !open.buffer.emptied);
        let Some(plan) = sitting::end(session, talk, why, arc.as_deref(), summary, records, now)? else {
            return Ok(None);
        };
        let change = self.turn_change(session, &plan, turn::died(session, now)).await?;
        match self.try_commit(change).await {
            Ok(_) => Ok(Some(plan.talk)),
            Err(Refusal::Stale) => Ok(None),
            Err(Refusal::Rejected(error)) => Err(error),
        }
    }

    /// A conversation whose open sitting the caller may end, discard or have looked back over.
    pub async fn sitting(&self, actor: &Actor, id: &SessionId) -> Result<(Session, Talk)> {
        let (session, talk) = self.conversation(actor, Verb::Read, id).await?;
        let opened_by = talk.sitting.as_ref().and_then(|open| open.opened_by.as_deref());
        access::check_sitting(actor, &session, opened_by)?;
        Ok((session, talk))
    }

    /// Rates the open sitting. The first rating counts: `false` says that there was one.
    pub async fn rate_open(&self, actor: &Actor, id: &SessionId, rate: RatingRequest) -> Result<bool> {
        self.rate(actor, id, rate, |talk| {
            let open = talk.sitting.as_mut()?;
            let rated = RatedSitting {
                turns: open.turns,
                user: open.user.clone(),
                opened_by: open.opened_by.clone(),
            };
            Some((&mut open.rated, rated))
        })
        .await
    }

    /// Rates the sitting that ended last. Refused before one has ended.
    pub async fn rate_ended(&self, actor: &Actor, id: &SessionId, rate: RatingRequest) -> Result<bool> {
        self.rate(actor, id, rate, |talk| {
            let ended = talk.ended.as_mut().filter(|ended| !ended.discarded)?;
            let rated = RatedSitting {
                turns: ended.turns,
                user: ended.user.clone(),
                opened_by: ended.opened_by.clone(),
            };
            Some((&mut ended.rated, rated))
        })
        .await
    }

    async fn rate(
        &self,
        actor: &Actor,
        id: &SessionId,
        RatingRequest { label, source, modality }: RatingRequest,
        of: impl Fn(&mut Talk) -> Option<(&mut bool, RatedSitting)> + Sync,
    ) -> Result<bool> {
        let opaque = self.opaque().await?;
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let (session, mut talk) = self.conversation(actor, Verb::Read, id).await?;
                    let now = self.tenant.now().await?;
                    let Some((rated, RatedSitting { turns, user, opened_by })) = of(&mut talk) else {
                        access::check_sitting(actor, &session, None)?;
                        return Err(Conflict::NothingEnded.into());
                    };
                    access::check_sitting(actor, &session, opened_by.as_deref())?;
                    if std::mem::replace(rated, true) {
                        return Ok(Decided::Nothing(()));
                    }
                    let incognito = session.details.memory_mode == MemoryMode::Incognito;
                    let rating = Rating {
                        id: self.ids.unordered(),
                        session_id_opaque: opaque.of(&actor.tenant, session.id.as_str()),
                        user_id_or_null: user.filter(|_| !incognito).map(UserId::stored),
                        recorded_at: now,
                        label,
                        turn_count_at_end: turns,
                        source,
                        modality,
                        schema_version: RATING_SCHEMA_VERSION,
                    };
                    let change = talk_change(&session, talk).record(Record::AddRating(Box::new(rating)));
                    Ok(Decided::change(change))
                })
            })
            .await?;
        Ok(matches!(done, CommandOutcome::Done(..)))
    }

    /// Stores what looking back over a conversation found, up to a message. Returns what was written.
    pub async fn look_back(
        &self,
        actor: &Actor,
        id: &SessionId,
        found: LookbackResult,
    ) -> Result<Vec<&'static str>> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let (session, talk) = self.sitting(actor, id).await?;
                    let now = self.tenant.now().await?;
                    if turn::runs(&session, now) {
                        return Err(Conflict::SessionBusy.into());
                    }
                    if talk.looked_back_to >= found.to {
                        return Ok(Decided::Nothing(()));
                    }
                    let (plan, wrote) = look_back(&session, &talk, &found, "manual")?;
                    Ok(Decided::Change(Box::new(change_from_plan(&session, &plan)), wrote))
                })
            })
            .await?;
        match done {
            CommandOutcome::Done(_, wrote) => Ok(wrote),
            CommandOutcome::Nothing(()) => Ok(Vec::new()),
        }
    }

    /// How this installation names sessions in records that must not lead back to them.
    pub async fn opaque(&self) -> Result<Opaque> {
        match self.settings.plain_opaque_ids {
            true => Ok(Opaque::Sha256),
            false => self.tenant.installation_key().await.map(Opaque::Keyed),
        }
    }

    /// Sittings of all tenants that have been silent for too long.
    pub async fn silent_sittings(&self, limit: usize) -> Result<Vec<DueSession>> {
        let now = self.tenant.now().await?;
        self.sessions.silent_sittings(now.minus(self.settings.talk.idle_after), limit).await
    }

    /// Open sittings of all tenants, the longest silent first.
    pub async fn open_sittings(&self, limit: usize) -> Result<Vec<DueSession>> {
        let now = self.tenant.now().await?;
        self.sessions.silent_sittings(now.plus(Duration::from_secs(1)), limit).await
    }
}

/// The change of looking back: new candidates, what the sitting is about, a description where no person wrote one, and
/// an event that says why.
pub(super) fn look_back(
    session: &Session,
    talk: &Talk,
    found: &LookbackResult,
    reason: &'static str,
) -> Result<(TurnPlan, Vec<&'static str>)> {
    let mut wrote = Vec::new();
    let mut after = talk.clone();
    let undecided_from = talk.undecided_from();
    let undecided = found.candidates.iter().filter(|one| one.sequence >= undecided_from);
    if let Some(open) = &mut after.sitting {
        let is_new = |one: &&Candidate| {
            let mut held = open.buffer.candidates.iter();
            !held.any(|known| (&known.what, known.sequence) == (&one.what, one.sequence))
        };
        let new: Vec<Candidate> = undecided.filter(is_new).cloned().collect();
        if !new.is_empty() && !open.buffer.emptied {
            wrote.push("candidates");
            open.buffer.hold(new);
        }
    } else {
        let before = after.found_between.len();
        after.found_between.extend(undecided.cloned());
        if after.found_between.len() > before {
            wrote.push("candidates");
        }
        let spare = after.found_between.len().saturating_sub(limits::CANDIDATES_MAX);
        after.found_between.drain(..spare);
    }
    let mut change = StateFields::default();
    let is_wanted = after.sitting.as_ref().is_none_or(|open| !open.buffer.emptied);
    if let Some(about) = found.about.as_ref().filter(|_| is_wanted) {
        change = change.with("session_memory", sitting::session_memory(about));
        after.state.touch(&change);
        wrote.push("session_memory");
    }
    let mut update = Update::default();
    if let Some(text) = found.description.as_deref()
        && session.details.description_source != Some(DescriptionSource::User)
        && session.details.description.as_deref() != Some(text)
    {
        let text: String = text.chars().take(limits::DESCRIPTION_CHARS_MAX).collect();
        update.description = Some((Some(text.into()), Some(DescriptionSource::Introspection)));
        wrote.push("description");
    }
    let metadata = Json::of(&serde_json::json!({
        "reason": reason, "from_sequence": talk.looked_back_to + 1, "to_sequence": found.to, "state": change,
    }))?;
    after.looked_back_to = found.to;
    let event = NewEvent::engine(EventType::known("session.introspection"), Some(metadata));
    let step = SessionStep { events: vec![event], ..SessionStep::of(update) };
    Ok((TurnPlan { step, talk: after }, wrote))
}
