//! The work queue of one person: five buckets of items on that person's tasks. A task belongs to its maker and its
//! assignee. Owns the buckets' names and what belongs in each; stores count.

use crate::error::{Error, Result};
use crate::ids::{SessionId, UserId};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bucket {
    /// Pending approvals assigned to me, for owners also promotions that are assigned to nobody, and sessions on my tasks that wait for a person.
    NeedsMe,
    /// Running or pending agent and mixed sessions on my tasks.
    Running,
    /// My active tasks with an agent and no running or pending session.
    Delegatable,
    /// Failing sessions on my tasks, last changed less than a day ago.
    Failed,
    /// Sessions on my tasks that completed since my midnight.
    DoneToday,
}

impl Bucket {
    pub const ALL: [Self; 5] =
        [Self::NeedsMe, Self::Running, Self::Delegatable, Self::Failed, Self::DoneToday];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NeedsMe => "needs_me",
            Self::Running => "running",
            Self::Delegatable => "delegatable",
            Self::Failed => "failed",
            Self::DoneToday => "done_today",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bucket| bucket.as_str() == text)
    }
}

/// Whose queue, and at what time.
#[derive(Clone, Debug)]
pub struct QueueOf {
    /// `None`: every task of the tenant counts as mine.
    pub user: Option<UserId>,
    /// Whether promotions that are assigned to nobody are mine to decide, too.
    pub is_owner: bool,
    /// My midnight.
    pub day_start: Timestamp,
    /// Failures before this are old.
    pub failed_since: Timestamp,
}

/// How many are in each bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    pub needs_me: u64,
    pub running: u64,
    pub delegatable: u64,
    pub failed: u64,
    pub done_today: u64,
}

/// One line of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueItem {
    /// A session that waits for a decision, with the approval it waits for.
    Approval {
        id: Box<str>,
        session: SessionId,
    },
    Session(SessionId),
    Task(Box<str>),
}

/// The last midnight in a time zone.
pub fn midnight(now: Timestamp, zone: Option<&str>) -> Result<Timestamp> {
    let bad = || Error::invalid("tz", "must be the name of a time zone, such as Europe/Berlin");
    let zone = match zone {
        None => jiff::tz::TimeZone::UTC,
        Some(name) => jiff::tz::TimeZone::get(name).map_err(|_| bad())?,
    };
    let now = jiff::Timestamp::from_microsecond(now.as_micros()).map_err(Error::internal)?;
    let start = now.to_zoned(zone).start_of_day().map_err(|_| bad())?;
    Ok(Timestamp::from_micros(start.timestamp().as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn midnight_is_the_one_of_the_persons_own_zone() {
        let now = Timestamp::parse("2026-03-29T12:00:00Z").unwrap();
        for (zone, midnight_there) in [
            (None, "2026-03-29T00:00:00Z"),
            (Some("Europe/Berlin"), "2026-03-28T23:00:00Z"),
            (Some("Pacific/Auckland"), "2026-03-29T11:00:00Z"),
            (Some("America/New_York"), "2026-03-29T04:00:00Z"),
        ] {
            assert_eq!(midnight(now, zone).unwrap(), Timestamp::parse(midnight_there).unwrap(), "{zone:?}");
        }
        assert!(midnight(now, Some("Mars/Olympus")).is_err());
    }
}
