//! Applies one change: looks everything up and checks it, then writes. After the first write nothing refuses; the
//! types say so: checks may refuse, writes can only fail.

use rusqlite::Connection;
use sederunt_core::event::{AppendOutcome, NewEvent};
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::session::{DescriptionSource, Status};
use sederunt_core::store::{
    Change, ChangePart, CommitResult, Guard, GuardRows, IdemKey, NewSession, Notice, PartResult, PartTarget,
    Record, Refusal, Update, Write,
};
use sederunt_core::talk::Talk;
use sederunt_core::{Error, Timestamp};
use smallvec::SmallVec;

use super::fault::{WorkError, refuse};
use super::heads::{self, ChangedColumns, StoredHead};
use super::idempotency::{self, KeyEffect, KeyUse};
use super::indexer::IndexMark;
use super::outbox::OutboxEntry;
use super::writer::WriteTransaction;
use super::{bridges, documents, events, index_queue, logs, records, sessions, talk};

type Checked<T> = Result<T, WorkError<Refusal>>;

/// Commits a change. `crises` are the existing crises among those that the records rest on; they are in a side file,
/// which this transaction cannot read.
pub(super) fn commit(
    tx: &mut WriteTransaction<'_>,
    change: &Change,
    crises: &[Box<str>],
) -> Checked<CommitResult> {
    let now = tx.now();
    let Some(tk) = tx.tenant(&change.tenant)? else { return refuse(Error::NotFound) };
    if let Some(key) = &change.key
        && let Some(used) = find_key(tx, tk, key)?
    {
        return answer_repeat(tx, tk, change, used, now);
    }
    let targets = change
        .parts
        .iter()
        .map(|part| check(tx, tk, change, part, now))
        .collect::<Checked<SmallVec<[CheckedTarget; 1]>>>()?;
    records::check(tx.db, tk, change, crises)?;
    Ok(write(tx, tk, change, targets, now)?)
}

/// What was done under this key before. Another body under the same key is refused.
pub(super) fn find_key<E: From<Error>>(
    tx: &mut WriteTransaction<'_>,
    tk: i64,
    key: &IdemKey,
) -> Result<Option<KeyUse>, WorkError<E>> {
    match tx.statements.find_key()?.find(tx.pending_keys, tk, key)? {
        Some(used) if used.body != key.body => refuse(Error::IdempotencyMismatch),
        used => Ok(used),
    }
}

/// The first answer again, on the sessions as they are now.
fn answer_repeat(
    tx: &mut WriteTransaction<'_>,
    tk: i64,
    change: &Change,
    used: KeyUse,
    now: Timestamp,
) -> Checked<CommitResult> {
    let mut parts = SmallVec::new();
    for part in &change.parts {
        let id = match &part.on {
            PartTarget::Session(id) => id,
            PartTarget::New(new) => &new.id,
        };
        if let Some(found) = tx.head(tk, id)? {
            parts.push(PartResult { head: found.head, appended: Vec::new() });
        }
    }
    Ok(CommitResult { at: now, parts, replay: Some(used.replay) })
}

/// The session that a part writes to, as it was checked.
enum CheckedTarget {
    Found(StoredHead),
    New { fork_source: Option<StoredHead> },
}

fn check(
    tx: &mut WriteTransaction<'_>,
    tk: i64,
    change: &Change,
    part: &ChangePart,
    now: Timestamp,
) -> Checked<CheckedTarget> {
    match &part.on {
        PartTarget::Session(id) => {
            let Some(found) = tx.head(tk, id)? else {
                return refuse(Error::NotFound);
            };
            let rows = guard_rows(tx.db, &found, &part.guard)?;
            part.guard.check(id, &found.head, &rows, now).map_err(WorkError::Refused)?;
            Ok(CheckedTarget::Found(found))
        }
        PartTarget::New(new) => {
            if tx.head(tk, &new.id)?.is_some() {
                return Err(WorkError::Refused(Refusal::Stale));
            }
            if new.head.is_bridge
                && let Some((_, id)) = bridges::running(tx.db, tk, new.head.holder.as_ref())?
                && !ends(change, &id)
            {
                return Err(WorkError::Refused(Refusal::Stale));
            }
            let Some(fork) = &new.fork_of else { return Ok(CheckedTarget::New { fork_source: None }) };
            match tx.head(tk, &fork.session)? {
                Some(source)
                    if source.head.incarnation == fork.incarnation
                        && source.head.last_sequence >= fork.at_sequence =>
                {
                    Ok(CheckedTarget::New { fork_source: Some(source) })
                }
                _ => Err(WorkError::Refused(Refusal::Stale)),
            }
        }
    }
}

/// Finds what a guard asks beside the head.
fn guard_rows(db: &Connection, found: &StoredHead, guard: &Guard) -> rusqlite::Result<GuardRows> {
    let mut rows = GuardRows::default();
    for user in guard.asks_participants(&found.head) {
        if sessions::participates(db, found.sk, user)? {
            rows.participants.push(user.clone());
        }
    }
    for document in &guard.documents {
        if let Some(newest) = documents::newest(db, found.sk, &document.key)? {
            rows.documents.push((document.key.clone(), newest));
        }
    }
    Ok(rows)
}

/// Whether a change ends a session.
fn ends(change: &Change, id: &str) -> bool {
    change.parts.iter().any(|part| {
        let is_it = matches!(&part.on, PartTarget::Session(named) if named.as_str() == id);
        is_it
            && part.writes.iter().any(|write| match write {
                Write::Update(update) => update.status.is_some_and(Status::is_terminal),
                Write::Delete => true,
                Write::Append(_) | Write::Talk(_) => false,
            })
    })
}

fn write(
    tx: &mut WriteTransaction<'_>,
    tk: i64,
    change: &Change,
    targets: SmallVec<[CheckedTarget; 1]>,
    now: Timestamp,
) -> rusqlite::Result<CommitResult> {
    let mut parts = SmallVec::with_capacity(change.parts.len());
    let mut first_sk = None;
    for (part, target) in change.parts.iter().zip(targets) {
        let (id, mut part_writer) = match (&part.on, target) {
            (PartTarget::Session(id), CheckedTarget::Found(found)) => (id, PartWriter::on(found)),
            (PartTarget::New(new), CheckedTarget::New { fork_source }) => {
                (&new.id, PartWriter::on_new(insert(tx.db, tk, new, fork_source.as_ref(), now)?))
            }
            (PartTarget::Session(_), CheckedTarget::New { .. })
            | (PartTarget::New(_), CheckedTarget::Found(_)) => {
                continue;
            }
        };
        first_sk.get_or_insert(part_writer.found.sk);
        for write in &part.writes {
            match write {
                Write::Append(events) => part_writer.append(tx, id, events, now)?,
                Write::Update(update) => part_writer.update(tx.db, tk, update, now)?,
                Write::Talk(talk) => part_writer.talk(tx.db, tk, talk, now)?,
                Write::Delete => part_writer.delete(tx.db, tk)?,
            }
        }
        parts.push(part_writer.finish(tx, tk, &change.tenant, id)?);
    }
    records::write(tx.db, tk, change, &parts, now)?;
    for entry in change.records.iter().filter_map(Record::side).map(OutboxEntry::of) {
        tx.add_to_outbox(tk, &entry)?;
    }
    if change.records.iter().any(|record| matches!(record, Record::MergeUser { .. })) {
        tx.forget_heads();
    }
    if let Some(key) = &change.key {
        let sequences: SmallVec<[u64; 4]> = parts
            .iter()
            .find(|part: &&PartResult| !part.appended.is_empty())
            .map(|part| part.appended.iter().map(AppendOutcome::sequence).collect())
            .unwrap_or_default();
        let done = KeyEffect { sk: first_sk, sequences: &sequences, taken: &[] };
        idempotency::remember(tx.statements.remember_key()?, tx.pending_keys, tk, key, &done, now)?;
    }
    Ok(CommitResult { at: now, parts, replay: None })
}

fn insert(
    db: &Connection,
    tk: i64,
    new: &NewSession,
    fork_source: Option<&StoredHead>,
    now: Timestamp,
) -> rusqlite::Result<StoredHead> {
    let mut new = new.clone();
    new.stamp(now);
    let NewSession { id, mut head, details, participants, fork_of } = new;
    let prefix_to = fork_of.map_or(0, |fork| fork.at_sequence);
    if fork_source.is_some() {
        head.last_sequence = prefix_to;
    }
    let sk = heads::insert(db, tk, &id, &head, &details, prefix_to)?;
    sessions::insert(db, tk, sk, &head, &details)?;
    for user in &participants {
        sessions::add_participant(db, tk, sk, user)?;
    }
    if let Some(source) = fork_source {
        logs::share_prefix(db, sk, source, prefix_to)?;
    }
    Ok(StoredHead { sk, prefix_to, head })
}

/// One session while it is written.
struct PartWriter {
    found: StoredHead,
    changed: ChangedColumns,
    appended: Vec<AppendOutcome>,
    row_changed: bool,
    words_changed: bool,
    deleted: bool,
}

impl PartWriter {
    fn on(found: StoredHead) -> Self {
        Self {
            found,
            changed: ChangedColumns::default(),
            appended: Vec::new(),
            row_changed: false,
            words_changed: false,
            deleted: false,
        }
    }

    fn on_new(found: StoredHead) -> Self {
        Self { row_changed: true, words_changed: true, ..Self::on(found) }
    }

    fn append(
        &mut self,
        tx: &mut WriteTransaction<'_>,
        id: &SessionId,
        events: &[NewEvent],
        now: Timestamp,
    ) -> rusqlite::Result<()> {
        let (appended, cold) = events::append(tx, id, &mut self.found, events, now)?;
        self.changed.tail |= appended.iter().any(|slot| matches!(slot, AppendOutcome::New(_)));
        self.changed.deadline |= cold.deadline_changed;
        if let Some(minute) = cold.minute {
            sessions::set_minute(tx.db, self.found.sk, minute)?;
        }
        if let Some(description) = &cold.description {
            sessions::describe(tx.db, self.found.sk, Some(description), Some(DescriptionSource::Fallback))?;
            self.row_changed = true;
        }
        self.appended.extend(appended);
        Ok(())
    }

    fn update(&mut self, db: &Connection, tk: i64, update: &Update, now: Timestamp) -> rusqlite::Result<()> {
        let before = self.found.head.status;
        update.apply(&mut self.found.head, now);
        let advances = update.advances_version();
        self.changed.row |= advances;
        self.changed.status |= self.found.head.status != before;
        self.changed.claim |= update.claim.is_some();
        self.changed.deadline |= update.deadline.is_some();
        self.row_changed |= advances;
        self.changed.tail |= update.description.is_some() || update.turn.is_some();
        if update.title.is_some() || update.description.is_some() {
            self.words_changed = true;
            index_queue::add(db, self.found.sk)?;
        }
        sessions::update(db, tk, self.found.sk, update, before, &self.found.head, now)
    }

    /// The events that this part appended have their sequences by now.
    fn talk(&self, db: &Connection, tk: i64, talk: &Talk, now: Timestamp) -> rusqlite::Result<()> {
        let mut talk = talk.clone();
        talk.land(&self.appended, now);
        talk::write(db, tk, self.found.sk, &talk)
    }

    fn delete(&mut self, db: &Connection, tk: i64) -> rusqlite::Result<()> {
        delete(db, tk, self.found.sk)?;
        self.deleted = true;
        Ok(())
    }

    /// Saves the head and announces what changed.
    fn finish(
        self,
        tx: &mut WriteTransaction<'_>,
        tk: i64,
        tenant: &TenantId,
        id: &SessionId,
    ) -> rusqlite::Result<PartResult> {
        let sk = self.found.sk;
        if self.deleted {
            tx.forget_head(tk, id);
        } else {
            if self.changed.tail {
                heads::write_tail(tx.statements.tail()?, sk, &self.found.head)?;
            }
            heads::save(tx.db, sk, &self.found.head, self.changed)?;
            tx.cache_head(tk, id, self.found.clone());
        }
        let head = self.found.head;
        let events: Vec<_> = self
            .appended
            .iter()
            .filter_map(|slot| match slot {
                AppendOutcome::New(event) => Some(event.clone()),
                AppendOutcome::Repeat(_) => None,
            })
            .collect();
        let words = self.words_changed || self.deleted;
        if words || events.iter().any(|event| event.kind.is_message()) {
            tx.mark(IndexMark { sk, row: words });
        }
        if self.row_changed || self.deleted || !events.is_empty() {
            tx.announce(Notice {
                tenant: tenant.clone(),
                session: id.clone(),
                incarnation: head.incarnation,
                last_sequence: head.last_sequence,
                events,
                status: head.status,
                row_changed: self.row_changed,
                deleted: self.deleted,
            });
        }
        Ok(PartResult { head, appended: self.appended })
    }
}

/// Removes a session with all its rows, and queues it for the indexer.
pub(super) fn delete(db: &Connection, tk: i64, sk: i64) -> rusqlite::Result<()> {
    logs::release(db, sk)?;
    sessions::delete(db, tk, sk)?;
    index_queue::add(db, sk)
}
