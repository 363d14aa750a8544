//! Crisis records: made when a crisis is found, and held beyond their retention for a court, a complaint or an audit. A
//! hold only ever extends how long a record is kept.

use std::collections::HashSet;

use super::people::audit;
use super::{Engine, RunningTurn};
use crate::access::{self, Actor, Verb};
use crate::error::{Error, Result};
use crate::ids::{SessionId, UserId};
use crate::limits;
use crate::safety::Crisis;
use crate::safety::codes::{CrisisEventType, HoldReason};
use crate::safety::record::CrisisRecord;
use crate::safety::response::Response;
use crate::session::{MemoryMode, Session};
use crate::store::{Change, Record};
use crate::talk::TurnRecords;
use crate::time::Timestamp;

/// Which records to hold, and until when.
#[derive(Clone, Debug)]
pub struct CrisisHold {
    /// A day (`2027-01-31`), all of which counts, or a time.
    pub until: String,
    /// Only those of one conversation; without it, the whole tenant's.
    pub thread: Option<SessionId>,
    pub reason: HoldReason,
}

impl Engine {
    /// The record of a crisis that a turn answers; committed with the turn.
    pub async fn crisis_answered(
        &self,
        begun: &RunningTurn,
        crisis: &Crisis,
        response: &Response,
    ) -> Result<TurnRecords> {
        let user = begun.speaker.user.clone();
        let record = self.crisis_record(&begun.session, crisis, user).await?.answered_with(response);
        Ok(TurnRecords::of([Record::AddCrisis(Box::new(record))]))
    }

    /// The record of a crisis in a spoken turn, which a realtime model has answered already.
    pub async fn crisis_missed_by_voice(
        &self,
        session: &Session,
        crisis: &Crisis,
        user: Option<UserId>,
    ) -> Result<TurnRecords> {
        let found = self.crisis_record(session, crisis, user).await?;
        let record = CrisisRecord { event_type: CrisisEventType::VoiceMissedCrisis, ..found };
        Ok(TurnRecords::of([Record::AddCrisis(Box::new(record))]))
    }

    /// A crisis record, before the response is known. That of an incognito conversation names no user.
    async fn crisis_record(
        &self,
        session: &Session,
        crisis: &Crisis,
        user: Option<UserId>,
    ) -> Result<CrisisRecord> {
        let opaque = self.opaque().await?.of(&session.tenant, session.id.as_str());
        let user = user.filter(|_| session.details.memory_mode != MemoryMode::Incognito);
        let now = self.tenant.now().await?;
        Ok(CrisisRecord::begin(self.ids.ordered(), opaque, user, now, crisis))
    }

    /// Holds the crisis records of a tenant, or of one conversation, from being purged. Returns how many there are.
    pub async fn hold_crises(&self, actor: &Actor, hold: &CrisisHold) -> Result<u64> {
        access::check_general(actor, Verb::Administer)?;
        let now = self.tenant.now().await?;
        let until = held_until(&hold.until, now)?;
        let opaque = match &hold.thread {
            Some(id) => Some(self.opaque().await?.of(&actor.tenant, id.as_str())),
            None => None,
        };
        let (mut from, mut seen) = (Timestamp::from_micros(0), HashSet::new());
        let mut held = 0;
        loop {
            let limit = limits::PAGE_ROWS_MAX;
            let page =
                self.tenant.crises(&actor.tenant, from, Timestamp::from_micros(i64::MAX), limit).await?;
            let full = page.len() == limit;
            let new: Vec<_> = page.into_iter().filter(|crisis| seen.insert(crisis.id)).collect();
            let Some(last) = new.last().map(|crisis| crisis.detected_at) else { return Ok(held) };
            let meant =
                new.iter().filter(|one| opaque.as_ref().is_none_or(|id| *id == one.session_id_opaque));
            let mut change = Change::new(actor.tenant.clone());
            for crisis in meant {
                let id = crisis.id.to_string().into();
                change = change.record(Record::HoldCrisis { id, until, reason: hold.reason });
            }
            held += change.records.len() as u64;
            if !change.records.is_empty() {
                let target = opaque.as_ref().map_or("all", |id| id.as_str());
                self.commit(change.audited(audit(actor, "crisis.hold", target))).await?;
            }
            if !full {
                return Ok(held);
            }
            from = last;
        }
    }
}

/// The end of a day, or a time, within the allowed range.
fn held_until(text: &str, now: Timestamp) -> Result<Timestamp> {
    let day = Timestamp::parse(&format!("{text}T00:00:00Z")).map(|day| day.plus(DAY));
    let until = day
        .or_else(|| Timestamp::parse(text))
        .ok_or_else(|| Error::invalid("until", "must be a day such as 2027-01-31, or a time"))?;
    if until <= now || until > now.plus(limits::CRISIS_HELD_MAX) {
        return Err(Error::invalid("until", "must lie ahead, and not more than ten years"));
    }
    Ok(until)
}

const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_ends_with_its_day_and_within_ten_years() {
        let now = Timestamp::parse("2026-11-16T08:00:00Z").unwrap();
        let table = [
            ("2026-11-16", Some("2026-11-17T00:00:00.000000Z")),
            ("2027-01-31", Some("2027-02-01T00:00:00.000000Z")),
            ("2027-01-31T12:00:00Z", Some("2027-01-31T12:00:00.000000Z")),
            ("2036-11-10", Some("2036-11-11T00:00:00.000000Z")),
            ("2026-11-15", None),
            ("2037-01-01", None),
            ("2027-02-30", None),
            ("soon", None),
            ("", None),
        ];
        for (text, until) in table {
            assert_eq!(held_until(text, now).ok().map(|at| at.to_string()).as_deref(), until, "{text}");
        }
    }

    #[test]
    fn a_hold_of_one_microsecond_too_long_is_refused() {
        let now = Timestamp::parse("2026-11-16T08:00:00Z").unwrap();
        let last = now.plus(limits::CRISIS_HELD_MAX);
        assert_eq!(held_until(&last.to_string(), now).unwrap(), last);
        let beyond = last.plus(std::time::Duration::from_micros(1));
        assert!(held_until(&beyond.to_string(), now).is_err());
    }
}
