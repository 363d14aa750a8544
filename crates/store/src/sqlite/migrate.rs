//! The schema, in numbered steps. The number is in the file's header (`user_version`) and changes in the transaction
//! of its step, so a kill in between leaves a complete older schema.

use rusqlite::{Connection, TransactionBehavior};
use sederunt_core::{Error, Result};

use super::fault::report;

pub(super) const THREADS: &[&str] = &[
    include_str!("migrations/V1__log.sql"),
    include_str!("migrations/V2__work.sql"),
    include_str!("migrations/V3__talk.sql"),
    include_str!("migrations/V4__lessons.sql"),
    include_str!("migrations/V5__failures.sql"),
    include_str!("migrations/V6__views.sql"),
    include_str!("migrations/V7__fewer_pages.sql"),
    include_str!("migrations/V8__stock.sql"),
    include_str!("migrations/V9__known_rows.sql"),
    include_str!("migrations/V10__bursts.sql"),
    include_str!("migrations/V11__in_work.sql"),
    include_str!("migrations/V12__names.sql"),
    include_str!("migrations/V13__sizes.sql"),
    include_str!("migrations/V14__reply_pieces.sql"),
    include_str!("migrations/V15__roles.sql"),
    include_str!("migrations/V16__departures.sql"),
    include_str!("migrations/V17__personal_links.sql"),
    include_str!("migrations/V18__human_bridge.sql"),
    include_str!("migrations/V19__view_links.sql"),
    include_str!("migrations/V20__responses.sql"),
    include_str!("migrations/V21__tool_sessions.sql"),
    include_str!("migrations/V22__documents.sql"),
    include_str!("migrations/V23__browser_sessions.sql"),
    include_str!("migrations/V24__copied_activity.sql"),
    include_str!("migrations/V25__channel_people.sql"),
    include_str!("migrations/V26__channels.sql"),
];
pub(super) const SEARCH: &[&str] =
    &[include_str!("migrations/search/V1__words.sql"), include_str!("migrations/search/V2__bursts.sql")];
pub(super) const MEMORY: &[&str] = &[include_str!("migrations/memory/V1__memories.sql")];
pub(super) const CRISIS: &[&str] = &[include_str!("migrations/crisis/V1__crisis_log.sql")];
pub(super) const FEEDBACK: &[&str] = &[include_str!("migrations/feedback/V1__session_feedback.sql")];

/// Brings a file to the newest schema; refuses one that a newer binary wrote.
pub(super) fn migrate(db: &mut Connection, steps: &[&str]) -> Result<()> {
    let done = usize::try_from(version(db).map_err(report)?).unwrap_or(usize::MAX);
    if done > steps.len() {
        let known = steps.len();
        return Err(Error::invalid(
            "store",
            format!("its schema {done} is newer than schema {known} of this version; run a newer sederunt"),
        ));
    }
    for (number, sql) in (1..).zip(steps).skip(done) {
        take_step(db, number, sql).map_err(report)?;
    }
    Ok(())
}

fn take_step(db: &mut Connection, number: u32, sql: &str) -> rusqlite::Result<()> {
    let step = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    step.execute_batch(sql)?;
    step.pragma_update(None, "user_version", number)?;
    step.commit()
}

pub(super) fn version(db: &Connection) -> rusqlite::Result<u32> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}
