//! The rows that a judged change writes, and what is published of it after the commit.

use std::sync::Arc;

use sederunt_core::event::{AppendOutcome, Event};
use sederunt_core::ids::SessionId;
use sederunt_core::session::Head;
use sederunt_core::store::{
    Change, ChangePart, CommitResult, Notice, PartResult, Refusal, Replay, Update, Write,
};
use sederunt_core::talk::Talk;
use sederunt_core::time::Timestamp;

use super::Abort;
use crate::postgres::judge::{Lookups, judge};
use crate::postgres::rows::new_events;
use crate::postgres::sessions::{self, NewSessionParts, NewSessionRow};
use crate::postgres::talk;
use crate::postgres::tx::Tx;
use crate::postgres::writes::{DescriptionRows, EventRows, KeyRows, StateRows, Writes, cells};

/// One part of a change: the head that its writes move, and the other rows that they touch.
pub(super) struct PartState {
    pub(super) sk: i64,
    pub(super) id: SessionId,
    pub(super) head: Head,
    pub(super) new_parts: Option<NewSessionParts>,
    pub(super) events: Vec<Arc<Event>>,
    pub(super) description: Option<Box<str>>,
    pub(super) talk: Option<Box<Talk>>,
    pub(super) deleted: bool,
}

impl PartState {
    fn new_row(&self) -> Option<NewSessionRow<'_>> {
        let parts = self.new_parts.as_ref()?;
        Some(NewSessionRow {
            sk: self.sk,
            id: &self.id,
            head: &self.head,
            parts,
            described: self.description.as_deref(),
        })
    }

    /// Judges the part and moves the state by its writes.
    pub(super) fn judge(
        &mut self,
        part: &ChangePart,
        lookups: &mut Lookups,
        now: Timestamp,
    ) -> Result<PartResult, Refusal> {
        let guard = self.new_parts.is_none().then_some(&part.guard);
        let judged = judge(&self.id, self.sk, &mut self.head, guard, &part.writes, lookups, now)?;
        self.events = new_events(&judged.appended).cloned().collect();
        self.description = judged.description;
        self.talk = judged.talk;
        self.deleted = judged.deleted;
        Ok(PartResult { head: self.head.clone(), appended: judged.appended })
    }
}

/// The judged parts of a change.
#[derive(Default)]
pub(super) struct WriteSet {
    pub(super) parts: Vec<PartState>,
}

impl WriteSet {
    /// Writes the parts, and commits unless records follow.
    pub(super) async fn write(
        &self,
        tx: &Tx,
        tk: i32,
        change: &Change,
        committed: &CommitResult,
        now: Timestamp,
    ) -> Result<(), Abort> {
        for state in self.parts.iter().filter(|state| state.deleted) {
            sessions::delete(tx, tk, state.sk).await?;
        }
        let mut events = EventRows::default();
        let mut states = StateRows::default();
        let mut descriptions = DescriptionRows::default();
        let mut keys = KeyRows::default();
        let (mut wide, mut wide_of_new) = (Vec::new(), Vec::new());
        let mut writes = Writes::default();
        let kept = || self.parts.iter().zip(&change.parts).filter(|(state, _)| !state.deleted);
        let made: Vec<_> = kept().filter_map(|(state, _)| state.new_row()).collect();
        sessions::insert_sessions(tk, &made, &mut writes);
        for (state, part) in kept() {
            let is_new = state.new_parts.is_some();
            let mut description = state.description.as_deref().filter(|_| !is_new);
            let wide = if is_new { &mut wide_of_new } else { &mut wide };
            for update in updates(part) {
                sessions::update(tk, state.sk, update, &mut description, now, wide, &mut writes);
            }
            if let Some(text) = description {
                descriptions.push(tk, state.sk, text);
            }
            if !is_new {
                states.push(tk, state.sk, &state.head);
            }
            for event in &state.events {
                events.push(tk, state.sk, event);
            }
            if let Some(talk) = &state.talk {
                talk::write(tk, state.sk, talk, &mut writes)?;
            }
        }
        sessions::update_details(tk, &wide, now).into_iter().for_each(|rows| writes.add(rows));
        sessions::update_details(tk, &wide_of_new, now)
            .into_iter()
            .for_each(|(sql, cells)| writes.add_after(sql, cells));
        if let Some(audit) = &change.audit {
            writes.add_after(
                "INSERT INTO audit (tk, at, actor, action, target) VALUES ($1, $2, $3, $4, $5)",
                cells![tk, now.as_micros(), audit.actor.as_str(), audit.action, audit.target.as_str()],
            );
        }
        if let Some(key) = &change.key {
            let first = committed.parts.iter().find(|part| !part.appended.is_empty());
            let sequences = first.map(|part| part.appended.iter().map(AppendOutcome::sequence).collect());
            let replay = Replay { sequences: sequences.unwrap_or_default(), note: key.note };
            // The key of a deletion outlives the session; any other key is deleted with it.
            let sk = self.parts.first().filter(|state| !state.deleted).map(|state| state.sk);
            keys.push(tk, sk, key, &replay, now);
        }
        if made.iter().any(|one| one.head.is_bridge) {
            // The unique index of running bridges must see the former one ended before the next one is there.
            let mut first = Writes::default();
            states.write(&mut first);
            first.run(tx.client()?).await?;
        } else {
            states.write(&mut writes);
        }
        events.write(&mut writes);
        descriptions.write(&mut writes);
        keys.write(&mut writes);
        if change.records.is_empty() {
            writes.run_and_commit(tx.client()?).await?;
        } else {
            writes.run(tx.client()?).await?;
        }
        Ok(())
    }

    pub(super) fn notices(
        self,
        tk: i32,
        change: &Change,
        committed: &CommitResult,
    ) -> (Vec<Notice>, Vec<(i32, i64)>) {
        let mut keys = Vec::new();
        let mut notices = Vec::new();
        for ((state, part), done) in self.parts.into_iter().zip(&change.parts).zip(&committed.parts) {
            let row_changed = state.new_parts.is_some()
                || state.description.is_some()
                || updates(part).any(Update::advances_version);
            if !row_changed && !state.deleted && state.events.is_empty() {
                continue;
            }
            keys.push((tk, state.sk));
            notices.push(Notice {
                tenant: change.tenant.clone(),
                session: state.id,
                incarnation: done.head.incarnation,
                last_sequence: done.head.last_sequence,
                events: state.events,
                status: done.head.status,
                row_changed,
                deleted: state.deleted,
            });
        }
        (notices, keys)
    }
}

fn updates(part: &ChangePart) -> impl Iterator<Item = &Update> {
    part.writes.iter().filter_map(|write| match write {
        Write::Update(update) => Some(&**update),
        Write::Append(_) | Write::Talk(_) | Write::Delete => None,
    })
}
