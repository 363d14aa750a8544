//! A batch of appends as it is judged: one append after the other, each on the head as the one before left it.

use std::collections::HashMap;

use sederunt_core::error::Error;
use sederunt_core::event::AppendOutcome;
use sederunt_core::session::Head;
use sederunt_core::store::{CommitResult, Notice, PartResult, Replay};
use sederunt_core::time::Timestamp;
use smallvec::smallvec;

use super::head_cache::{CachedHead, Xid};
use super::{AppendJob, CommitAnswer};
use crate::postgres::idempotency::StoredKey;
use crate::postgres::judge::{JudgedPart, Lookups, judge};
use crate::postgres::rows::new_events;
use crate::postgres::tx::Context;
use crate::postgres::writes::{CounterRows, DescriptionRows, EventRows, KeyRows, Writes};

/// What a batch is judged on: heads, and the rows beside them.
pub(super) struct LoadedBatch {
    now: Timestamp,
    pub(super) heads: Vec<BatchHead>,
    /// The index of each job's head.
    pub(super) place: Vec<Option<usize>>,
    pub(super) lookups: Lookups,
    /// What the idempotency keys of the batch did before, by tenant and scope.
    pub(super) keys: HashMap<(i32, [u8; 16]), StoredKey>,
}

impl LoadedBatch {
    /// Without any rows yet.
    pub(super) fn at(now: Timestamp) -> Self {
        Self { now, heads: Vec::new(), place: Vec::new(), lookups: Lookups::default(), keys: HashMap::new() }
    }
}

/// A head as the appends of the batch move it. Its preview is `None` until one of them sets it.
pub(super) struct BatchHead {
    pub(super) tk: i32,
    pub(super) sk: i64,
    pub(super) head: Head,
    pub(super) grown: bool,
    pub(super) description: Option<Box<str>>,
}

impl BatchHead {
    pub(super) fn new(tk: i32, sk: i64, head: Head) -> Self {
        Self { tk, sk, head, grown: false, description: None }
    }
}

/// The batch while it is judged, append by append.
pub(super) struct JudgedBatch {
    pub(super) loaded: LoadedBatch,
    keys: KeyRows,
}

pub(super) struct BatchRows<'a> {
    events: EventRows<'a>,
    plain: CounterRows<'a>,
    with_preview: CounterRows<'a>,
    descriptions: DescriptionRows<'a>,
    keys: &'a KeyRows,
}

impl BatchRows<'_> {
    pub(super) fn write<'w>(&'w self, writes: &mut Writes<'w>) {
        self.events.write(writes);
        self.plain.write(writes);
        self.with_preview.write_with_preview(writes);
        self.descriptions.write(writes);
        self.keys.write(writes);
    }
}

impl JudgedBatch {
    pub(super) fn new(loaded: LoadedBatch) -> Self {
        Self { loaded, keys: KeyRows::default() }
    }

    /// Judges one append on its head as the appends before it left it. A refused append changes nothing.
    pub(super) fn judge(&mut self, place: Option<usize>, job: &AppendJob) -> CommitAnswer {
        let Self { loaded, keys } = self;
        let Some(locked) = place.and_then(|place| loaded.heads.get_mut(place)) else {
            return Err(Error::NotFound.into());
        };
        let (sk, head) = (locked.sk, &mut locked.head);
        if let Some(key) = &job.key
            && let Some(found) = loaded.keys.get(&(job.tk, key.scope)).filter(|found| found.sk == Some(sk))
        {
            return found.answer(key, [head.clone()], loaded.now);
        }
        let before = head.last_sequence;
        let writes = std::slice::from_ref(&job.write);
        let JudgedPart { appended, description, .. } =
            judge(&job.session, sk, head, Some(&job.guard), writes, &mut loaded.lookups, loaded.now)?;
        locked.grown |= head.last_sequence > before;
        if description.is_some() {
            locked.description = description;
        }
        if let Some(key) = &job.key {
            let sequences = appended.iter().map(AppendOutcome::sequence).collect();
            let replay = Replay { sequences, note: key.note };
            keys.push(job.tk, Some(sk), key, &replay, loaded.now);
            loaded.keys.insert((job.tk, key.scope), StoredKey::of_commit(job.tk, sk, key, replay));
        }
        let head = locked.head.clone();
        Ok(CommitResult { at: loaded.now, parts: smallvec![PartResult { head, appended }], replay: None })
    }

    /// The appends that wrote something, with their heads and results.
    pub(super) fn written<'a>(
        &'a self,
        jobs: &'a [&AppendJob],
        answers: &'a [CommitAnswer],
    ) -> impl Iterator<Item = (&'a AppendJob, &'a BatchHead, &'a PartResult)> {
        jobs.iter().zip(answers).zip(&self.loaded.place).filter_map(|((job, answer), place)| {
            let done = answer.as_ref().ok().filter(|done| done.replay.is_none())?.parts.first()?;
            Some((*job, self.loaded.heads.get((*place)?)?, done))
        })
    }

    pub(super) fn rows<'a>(&'a self, jobs: &'a [&AppendJob], answers: &'a [CommitAnswer]) -> BatchRows<'a> {
        let mut rows = BatchRows {
            events: EventRows::default(),
            plain: CounterRows::default(),
            with_preview: CounterRows::default(),
            descriptions: DescriptionRows::default(),
            keys: &self.keys,
        };
        for (_, locked, done) in self.written(jobs, answers) {
            for event in new_events(&done.appended) {
                rows.events.push(locked.tk, locked.sk, event);
            }
        }
        for BatchHead { tk, sk, head, description, .. } in
            self.loaded.heads.iter().filter(|locked| locked.grown)
        {
            let into = if head.preview.is_some() { &mut rows.with_preview } else { &mut rows.plain };
            into.push(*tk, *sk, head);
            if let Some(text) = description {
                rows.descriptions.push(*tk, *sk, text);
            }
        }
        rows
    }

    /// Publishes what was committed.
    pub(super) fn publish(&self, context: &Context, jobs: &[&AppendJob], answers: &[CommitAnswer]) {
        let (notices, keys) = self.notices(jobs, answers);
        context.publish(&notices, &keys, Notice::speaks);
    }

    /// Caches the heads that this transaction wrote.
    pub(super) fn cache_heads(self, context: &Context, jobs: &[&AppendJob], writer: Xid) {
        let mut heads: Vec<Option<BatchHead>> = self.loaded.heads.into_iter().map(Some).collect();
        let mut patches = self.loaded.lookups.into_newest_patches();
        let known = jobs.iter().zip(self.loaded.place).filter_map(|(job, place)| {
            let BatchHead { tk, sk, head, .. } = heads[place?].take().filter(|locked| locked.grown)?;
            let patches = patches.remove(&sk).unwrap_or_default();
            Some(((job.tenant.clone(), job.session.clone()), CachedHead::new(tk, sk, head, writer, patches)))
        });
        context.head_cache.put(known);
    }

    /// The notices to publish, in the order of the batch, and the keys of their sessions.
    fn notices(&self, jobs: &[&AppendJob], answers: &[CommitAnswer]) -> (Vec<Notice>, Vec<(i32, i64)>) {
        self.written(jobs, answers)
            .filter_map(|(job, locked, done)| {
                let events: Vec<_> = new_events(&done.appended).cloned().collect();
                let notice = Notice {
                    tenant: job.tenant.clone(),
                    session: job.session.clone(),
                    incarnation: done.head.incarnation,
                    last_sequence: done.head.last_sequence,
                    events,
                    status: done.head.status,
                    row_changed: locked.description.is_some(),
                    deleted: false,
                };
                (!notice.events.is_empty()).then_some((notice, (locked.tk, locked.sk)))
            })
            .unzip()
    }
}
