//! The outbox to the side files. An entry is written in the commit that decided it, so a crash before it is copied
//! loses nothing. Copying an entry twice has the effect of copying it once, so a crash after the copy doubles
//! nothing.

use rusqlite::{Connection, params};
use sederunt_core::Timestamp;
use sederunt_core::feedback::Rating;
use sederunt_core::memory::{Memory, Owner};
use sederunt_core::safety::codes::HoldReason;
use sederunt_core::safety::record::CrisisRecord;
use sederunt_core::store::SideRecord;
use serde::{Deserialize, Serialize};

use super::fault::{unknown_word, unreadable, unwritable};
use super::open::Side;
use super::{crises, memories, ratings};

/// One change of a side file.
#[derive(Clone, Debug)]
pub(super) enum OutboxEntry {
    PutMemory(Box<Memory>),
    DropMemory(Box<str>),
    DropMemories(Owner),
    MoveMemories(Owner, Owner),
    AddRating(Box<Rating>),
    AddCrisis(Box<CrisisRecord>),
    HoldCrisis(CrisisHold),
    /// Removes all rows of a deleted tenant, in every side file.
    DropTenant,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CrisisHold {
    id: Box<str>,
    until: Timestamp,
    reason: HoldReason,
}

impl OutboxEntry {
    /// The entry for a record that belongs in a side file.
    pub(super) fn of(record: SideRecord<'_>) -> Self {
        match record {
            SideRecord::PutMemory(memory) => Self::PutMemory(Box::new(memory.clone())),
            SideRecord::DropMemory(id) => Self::DropMemory(id.into()),
            SideRecord::DropMemories(owner) => Self::DropMemories(owner.clone()),
            SideRecord::MoveMemories(from, into) => Self::MoveMemories(from.clone(), into.clone()),
            SideRecord::AddRating(rating) => Self::AddRating(Box::new(rating.clone())),
            SideRecord::AddCrisis(crisis) => Self::AddCrisis(Box::new(crisis.clone())),
            SideRecord::HoldCrisis { id, until, reason } => {
                Self::HoldCrisis(CrisisHold { id: id.into(), until, reason })
            }
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::PutMemory(_) => "put_memory",
            Self::DropMemory(_) => "drop_memory",
            Self::DropMemories(_) => "drop_memories",
            Self::MoveMemories(..) => "move_memories",
            Self::AddRating(_) => "add_rating",
            Self::AddCrisis(_) => "add_crisis",
            Self::HoldCrisis(_) => "hold_crisis",
            Self::DropTenant => "drop_tenant",
        }
    }

    fn body(&self) -> serde_json::Result<String> {
        match self {
            Self::PutMemory(memory) => serde_json::to_string(memory),
            Self::DropMemory(id) => serde_json::to_string(id),
            Self::DropMemories(owner) => serde_json::to_string(owner),
            Self::MoveMemories(from, into) => serde_json::to_string(&(from, into)),
            Self::AddRating(rating) => serde_json::to_string(rating),
            Self::AddCrisis(crisis) => serde_json::to_string(crisis),
            Self::HoldCrisis(hold) => serde_json::to_string(hold),
            Self::DropTenant => Ok("null".to_owned()),
        }
    }

    fn read(what: &str, body: &str) -> rusqlite::Result<Self> {
        let read = match what {
            "put_memory" => serde_json::from_str(body).map(Self::PutMemory),
            "drop_memory" => serde_json::from_str(body).map(Self::DropMemory),
            "drop_memories" => serde_json::from_str(body).map(Self::DropMemories),
            "move_memories" => serde_json::from_str(body).map(|(from, into)| Self::MoveMemories(from, into)),
            "add_rating" => serde_json::from_str(body).map(Self::AddRating),
            "add_crisis" => serde_json::from_str(body).map(Self::AddCrisis),
            "hold_crisis" => serde_json::from_str(body).map(Self::HoldCrisis),
            "drop_tenant" => Ok(Self::DropTenant),
            _ => return Err(unknown_word(what)),
        };
        read.map_err(unreadable)
    }

    /// Applies the entry to one file.
    pub(super) fn run(&self, db: &Connection, side: Side, tk: i64) -> rusqlite::Result<()> {
        match (self, side) {
            (Self::PutMemory(memory), Side::Memory) => memories::put(db, tk, memory),
            (Self::DropMemory(id), Side::Memory) => memories::remove(db, tk, id),
            (Self::DropMemories(owner), Side::Memory) => memories::remove_of(db, tk, owner),
            (Self::MoveMemories(from, into), Side::Memory) => memories::hand_over(db, tk, from, into),
            (Self::AddRating(rating), Side::Feedback) => ratings::add(db, tk, rating),
            (Self::AddCrisis(crisis), Side::Crisis) => crises::add(db, tk, crisis),
            (Self::HoldCrisis(CrisisHold { id, until, reason }), Side::Crisis) => {
                crises::hold(db, tk, id, *until, *reason)
            }
            (Self::DropTenant, Side::Memory) => memories::remove_all(db, tk),
            (Self::DropTenant, Side::Crisis) => crises::remove_all(db, tk),
            (Self::DropTenant, Side::Feedback) => ratings::remove_all(db, tk),
            (
                Self::PutMemory(_) | Self::DropMemory(_) | Self::DropMemories(_) | Self::MoveMemories(..),
                Side::Crisis | Side::Feedback,
            )
            | (Self::AddRating(_), Side::Memory | Side::Crisis)
            | (Self::AddCrisis(_) | Self::HoldCrisis(_), Side::Memory | Side::Feedback) => Ok(()),
        }
    }

    pub(super) const fn concerns(&self, side: Side) -> bool {
        match self {
            Self::PutMemory(_) | Self::DropMemory(_) | Self::DropMemories(_) | Self::MoveMemories(..) => {
                matches!(side, Side::Memory)
            }
            Self::AddRating(_) => matches!(side, Side::Feedback),
            Self::AddCrisis(_) | Self::HoldCrisis(_) => matches!(side, Side::Crisis),
            Self::DropTenant => true,
        }
    }

    /// Whether the entry deletes rows, so that their bytes must leave the log too.
    pub(super) const fn removes(&self) -> bool {
        matches!(self, Self::DropMemory(_) | Self::DropMemories(_) | Self::DropTenant)
    }
}

/// An entry with its number, by which it is removed.
#[derive(Debug)]
pub(super) struct OutboxRow {
    pub n: i64,
    pub tk: i64,
    pub entry: OutboxEntry,
}

pub(super) fn add(db: &Connection, tk: i64, entry: &OutboxEntry) -> rusqlite::Result<i64> {
    db.prepare_cached("INSERT INTO talk_outbox (tk, what, body) VALUES (?1, ?2, ?3)")?.insert(params![
        tk,
        entry.kind(),
        entry.body().map_err(unwritable)?
    ])
}

/// The oldest entries after a number.
pub(super) fn read(db: &Connection, after: i64, limit: i64) -> rusqlite::Result<Vec<OutboxRow>> {
    db.prepare_cached("SELECT n, tk, what, body FROM talk_outbox WHERE n > ?1 ORDER BY n LIMIT ?2")?
        .query_map([after, limit], |row| {
            let entry = OutboxEntry::read(row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?)?;
            Ok(OutboxRow { n: row.get(0)?, tk: row.get(1)?, entry })
        })?
        .collect()
}

/// The number of the newest entry; 0 if there is none.
pub(super) fn newest(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("SELECT coalesce(max(n), 0) FROM talk_outbox", [], |row| row.get(0))
}

/// Removes the entries up to this number.
pub(super) fn remove_to(db: &Connection, n: i64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM talk_outbox WHERE n <= ?1")?.execute([n]).map(drop)
}
