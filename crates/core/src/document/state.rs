//! A document as a node holds it, and the judgement of patches on it: the conflict rule.
//!
//! A patch names the newest patch of the document that its author has seen. If that is the newest one there is, the patch
//! is applied. If it is older, the patch is applied as it is, provided that no place that it reads or writes collides with
//! a place that was written since. Patches are judged in order, each on what those before it left; they get their
//! sequences when they are committed.

use std::collections::VecDeque;

use super::content::{AppliedPatch, DocumentContent};
use super::patch::{DocumentPatch, PatchOp};
use super::paths::{self, TouchedPaths, WrittenPaths};
use crate::error::{Conflict, Error, Result};
use crate::limits;

/// The newest state of a document that a node knows, and what was written recently.
#[derive(Clone, Debug)]
pub struct DocumentState {
    pub content: DocumentContent,
    /// The sequence of the event that opened the document.
    pub opened_sequence: u64,
    /// The newest patch, or the opening.
    pub sequence: u64,
    /// The patches after [`Self::known_from`], oldest first.
    recent: VecDeque<RecentPatch>,
    /// The last patch whose places are not known, or the opening.
    known_from: u64,
    /// The patches since the last snapshot, and the bytes of their operations.
    pub since_snapshot: SnapshotDebt,
    memory: usize,
}

/// What was written since the last snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotDebt {
    pub patches: usize,
    pub bytes: usize,
}

impl SnapshotDebt {
    pub fn add(&mut self, bytes: usize) {
        self.patches += 1;
        self.bytes += bytes;
    }

    /// Whether the next commit writes a snapshot.
    pub fn is_due(self) -> bool {
        self.patches >= limits::SNAPSHOT_PATCHES || self.bytes >= limits::SNAPSHOT_OPS_BYTES
    }
}

#[derive(Clone, Debug)]
struct RecentPatch {
    /// `None` until it is committed.
    sequence: Option<u64>,
    written: WrittenPaths,
}

impl RecentPatch {
    fn is_after(&self, base: u64) -> bool {
        self.sequence.is_none_or(|sequence| sequence > base)
    }
}

/// A patch that was judged and applied, and is not committed yet.
#[derive(Clone, Debug)]
pub struct JudgedPatch {
    /// Others had written since its base.
    pub rebased: bool,
    /// What takes it back.
    pub inverse: Vec<PatchOp>,
    ops_bytes: usize,
}

/// What is known of a base before a patch is judged on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseStanding {
    /// The patch can be judged.
    Known,
    /// The places of the patches after this one have to be read first; the base must be one of them.
    Unread { after: u64 },
}

impl DocumentState {
    /// A document whose newest known patch is this one.
    pub fn new(content: DocumentContent, opened_sequence: u64, sequence: u64) -> Self {
        let memory = content.memory_bytes();
        Self {
            content,
            opened_sequence,
            sequence,
            recent: VecDeque::new(),
            known_from: sequence,
            since_snapshot: SnapshotDebt::default(),
            memory,
        }
    }

    /// Applies a patch of the log, which was judged when it was appended.
    pub fn follow(&mut self, sequence: u64, ops: &[PatchOp], ops_bytes: usize) -> Result<()> {
        let applied = self.content.apply(ops).map_err(|refused| {
            Error::internal(format!("patch {sequence} of the log does not apply: {}", Error::from(refused)))
        })?;
        self.remember(applied.paths.written, Some(sequence), ops_bytes);
        self.sequence = sequence;
        self.since_snapshot.add(ops_bytes);
        Ok(())
    }

    /// What is known of a base.
    pub fn standing_of(&self, base: u64) -> Result<BaseStanding> {
        let base = if base == 0 { self.opened_sequence } else { base };
        if base > self.sequence {
            return Err(Error::invalid("base_sequence", "is ahead of the document's newest patch"));
        }
        if base < self.opened_sequence {
            return Err(unknown_base());
        }
        if base < self.known_from {
            return Ok(BaseStanding::Unread { after: base - 1 });
        }
        let is_known = base == self.known_from
            || base == self.sequence
            || self.recent.binary_search_by_key(&base, |one| one.sequence.unwrap_or(u64::MAX)).is_ok();
        if is_known { Ok(BaseStanding::Known) } else { Err(unknown_base()) }
    }

    /// Judges a patch whose base is known. One that is accepted is applied, until [`Self::land`] or
    /// [`Self::take_back`].
    pub fn judge(&mut self, patch: &DocumentPatch) -> Result<JudgedPatch> {
        let base = if patch.base_sequence == 0 { self.opened_sequence } else { patch.base_sequence };
        let behind = self.recent.iter().rev().take_while(|one| one.is_after(base)).count();
        if behind > limits::PATCHES_BEHIND_MAX || base < self.known_from {
            return Err(self.stale(Vec::new()));
        }
        // First the places as they are named: what is not there any more was removed by one of the others.
        self.check_collisions(&TouchedPaths::named(&patch.ops), behind)?;
        let AppliedPatch { inverse, paths } = match self.content.apply(&patch.ops) {
            Ok(applied) => applied,
            Err(refused) => {
                return Err(match &refused.failed_test {
                    Some(path) => self.stale(vec![path.as_str().into()]),
                    None => refused.into(),
                });
            }
        };
        if let Err(stale) = self.check_collisions(&paths, behind) {
            self.content.take_back(inverse);
            return Err(stale);
        }
        let ops_bytes = patch.text.len();
        self.remember(paths.written, None, ops_bytes);
        Ok(JudgedPatch { rebased: behind > 0, inverse, ops_bytes })
    }

    /// Says that judged patches were committed under these sequences, in their order.
    pub fn land(&mut self, landed: impl IntoIterator<Item = (u64, usize)>) {
        let first = self.recent.iter().position(|one| one.sequence.is_none()).unwrap_or(self.recent.len());
        for (one, (sequence, ops_bytes)) in self.recent.range_mut(first..).zip(landed) {
            one.sequence = Some(sequence);
            self.sequence = sequence;
            self.since_snapshot.add(ops_bytes);
        }
        while self.recent.len() > limits::PATCHES_BEHIND_MAX {
            if let Some(RecentPatch { sequence: Some(sequence), written }) = self.recent.pop_front() {
                self.known_from = sequence;
                self.memory = self.memory.saturating_sub(paths::memory_bytes(&written));
            }
        }
    }

    /// Takes back judged patches that were not committed, given in the order of their judgement.
    pub fn take_back(&mut self, judged: impl DoubleEndedIterator<Item = JudgedPatch>) {
        for one in judged.rev() {
            self.content.take_back(one.inverse);
            self.recent.pop_back();
        }
    }

    /// The first of the recent patches gets company: the places of the patches before it.
    pub fn remember_earlier(&mut self, from: u64, earlier: Vec<(u64, WrittenPaths)>) {
        for (sequence, written) in earlier.into_iter().rev().filter(|(sequence, _)| *sequence > from) {
            self.memory += paths::memory_bytes(&written);
            self.recent.push_front(RecentPatch { sequence: Some(sequence), written });
        }
        self.known_from = from;
    }

    /// The last patch whose places are not known.
    pub fn known_from(&self) -> u64 {
        self.known_from
    }

    /// What this takes in memory, at most about.
    pub fn memory_bytes(&self) -> usize {
        self.memory
    }

    fn remember(&mut self, written: WrittenPaths, sequence: Option<u64>, ops_bytes: usize) {
        // The values of the operations are in the document now; a small value takes many times its text.
        const PER_BYTE: usize = 16;
        self.memory += paths::memory_bytes(&written) + PER_BYTE * ops_bytes;
        self.recent.push_back(RecentPatch { sequence, written });
    }

    /// Refuses places that collide with those that the last so many patches wrote.
    fn check_collisions(&self, touched: &TouchedPaths, behind: usize) -> Result<()> {
        let since = self.recent.range(self.recent.len() - behind..).flat_map(|one| &one.written);
        let mut conflicts: Vec<String> = Vec::new();
        for one in since.filter(|one| touched.collide(one)) {
            if conflicts.len() < limits::CONFLICTS_LISTED_MAX
                && !conflicts.iter().any(|listed| listed == one.path.as_str())
            {
                conflicts.push(one.path.as_str().into());
            }
        }
        if conflicts.is_empty() { Ok(()) } else { Err(self.stale(conflicts)) }
    }

    fn stale(&self, conflicts: Vec<String>) -> Error {
        Conflict::StaleDocument { sequence: self.sequence, conflicts }.into()
    }
}

impl JudgedPatch {
    pub fn ops_bytes(&self) -> usize {
        self.ops_bytes
    }
}

/// The refusal of a base that is no patch of the document.
pub fn unknown_base() -> Error {
    Error::invalid("base_sequence", "is not the sequence of a patch of this document")
}

#[cfg(test)]
mod tests;
