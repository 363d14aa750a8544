//! The documents that a node keeps parsed, and the patches that wait for their turn on one of them.
//!
//! A patch is put into the queue of its document. One task takes what waits there, judges it in order and commits it as one
//! change. The commit refuses a change that was judged on another patch than the newest, so a node whose copy is old reads
//! what it lacks and judges again. Nothing here is needed after a restart.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use tokio::sync::{Mutex as AsyncMutex, Semaphore, oneshot};
use tokio::time::Instant;

use super::Engine;
use crate::document::patch::PatchOp;
use crate::document::paths::WrittenPaths;
use crate::document::state::{BaseStanding, JudgedPatch, unknown_base};
use crate::document::{
    DocumentContent, DocumentKey, DocumentPatch, DocumentSnapshot, DocumentState, PatchRange, SharedDocument,
    StoredDocument,
};
use crate::error::{Conflict, Error, Result};
use crate::event::{AppendOutcome, Event, NewEvent};
use crate::ids::{Incarnation, SessionId, TenantId};
use crate::json::Json;
use crate::limits;
use crate::store::{
    AppendRule, Change, ChangePart, DocumentGuard, Guard, PartTarget, Record, Refusal, Write,
};

/// The documents of a node.
#[derive(Debug)]
pub(super) struct DocumentDesk {
    slots: moka::sync::Cache<DocumentName, Arc<DocumentPlace>>,
    /// Earlier states that may be computed at once.
    pub(super) folds: Semaphore,
}

/// The name of a document in its installation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DocumentName {
    pub(super) tenant: TenantId,
    pub(super) session: SessionId,
    pub(super) key: DocumentKey,
}

/// A document's place on a node.
#[derive(Debug, Default)]
pub(super) struct DocumentPlace {
    queue: Mutex<PatchQueue<WaitingPatch>>,
    pub(super) held: Arc<AsyncMutex<Option<HeldDocument>>>,
    /// What it takes in memory, as the cache has last heard.
    weight: AtomicU32,
}

/// The patches that wait for their turn on one document.
#[derive(Debug)]
struct PatchQueue<P> {
    waiting: VecDeque<P>,
    /// A task takes what waits.
    is_driven: bool,
}

impl<P> Default for PatchQueue<P> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), is_driven: false }
    }
}

impl<P> PatchQueue<P> {
    /// Adds a patch. Returns whether the caller has to start the task that takes what waits.
    fn push(&mut self, patch: P) -> Result<bool> {
        if self.waiting.len() >= limits::PATCHES_WAITING_MAX {
            return Err(Error::unavailable("too many patches of this document wait"));
        }
        self.waiting.push_back(patch);
        Ok(!std::mem::replace(&mut self.is_driven, true))
    }

    /// The next patches, to be committed together; with none, the task ends.
    fn take(&mut self) -> Vec<P> {
        let count = self.waiting.len().min(limits::PATCHES_GATHERED_MAX);
        self.is_driven = count > 0;
        self.waiting.drain(..count).collect()
    }
}

/// A document as the node has it.
#[derive(Debug)]
pub(super) struct HeldDocument {
    pub(super) incarnation: Incarnation,
    pub(super) state: DocumentState,
    snapshot_sequence: u64,
    /// The text of the value, and its patch: readers ask for the same one.
    rendered: Option<(u64, Json, String)>,
}

/// A patch that was checked and waits to be judged.
#[derive(Debug)]
pub(super) struct WaitingPatch {
    pub(super) patch: DocumentPatch,
    pub(super) event: NewEvent,
    pub(super) rule: AppendRule,
    pub(super) done: oneshot::Sender<Result<CommittedPatch>>,
}

/// A patch that is in the log.
#[derive(Clone, Debug)]
pub(super) struct CommittedPatch {
    pub(super) event: Arc<Event>,
    pub(super) rebased: bool,
    pub(super) inverse: Vec<PatchOp>,
}

/// What a place takes in memory without a document: a name that has none takes a place too.
const PLACE_BYTES: u32 = 512;

impl Default for DocumentDesk {
    fn default() -> Self {
        let slots = moka::sync::Cache::builder()
            .max_capacity(limits::DOCUMENT_CACHE_BYTES_MAX)
            .weigher(|_, place: &Arc<DocumentPlace>| place.weight.load(Ordering::Relaxed).max(PLACE_BYTES))
            .build();
        Self { slots, folds: Semaphore::new(limits::DOCUMENT_FOLDS_MAX) }
    }
}

impl DocumentDesk {
    pub(super) fn place(&self, name: &DocumentName) -> Arc<DocumentPlace> {
        self.slots.get_with_by_ref(name, Arc::default)
    }

    /// Tells the cache what a document takes now, if that has changed enough to matter.
    pub(super) fn weigh(&self, name: &DocumentName, place: &Arc<DocumentPlace>, held: &HeldDocument) {
        let rendered = held.rendered.as_ref().map_or(0, |(_, text, _)| text.len());
        let own = u32::try_from(held.state.memory_bytes() + rendered).unwrap_or(u32::MAX);
        let weight = PLACE_BYTES.saturating_add(own);
        let known = place.weight.load(Ordering::Relaxed);
        if weight.abs_diff(known) > known / 8 {
            place.weight.store(weight, Ordering::Relaxed);
            self.slots.insert(name.clone(), place.clone());
        }
    }
}

impl HeldDocument {
    /// The text of the value with sorted keys, and its digest.
    pub(super) fn rendered(&mut self) -> (Json, String) {
        let sequence = self.state.sequence;
        match &self.rendered {
            Some((of, text, digest)) if *of == sequence => (text.clone(), digest.clone()),
            _ => {
                let text = self.state.content.sorted_text();
                let digest = crate::document::content::digest(&text);
                self.rendered = Some((sequence, text.clone(), digest.clone()));
                (text, digest)
            }
        }
    }

    fn of(found: &StoredDocument) -> Option<Self> {
        let DocumentSnapshot { sequence, value } = found.snapshot.as_ref()?;
        Some(Self {
            incarnation: found.incarnation,
            state: DocumentState::new(DocumentContent::stored(value), found.opened_sequence, *sequence),
            snapshot_sequence: *sequence,
            rendered: None,
        })
    }

    /// The record that writes the value down, if that is due after these patches.
    pub(super) fn snapshot_due(&self, name: &DocumentName, more: &[JudgedPatch]) -> Option<Record> {
        let mut debt = self.state.since_snapshot;
        more.iter().for_each(|one| debt.add(one.ops_bytes()));
        debt.is_due().then(|| {
            Record::SnapshotDocument(Box::new(SharedDocument {
                session: name.session.clone(),
                key: name.key.clone(),
                opened_sequence: self.state.opened_sequence,
                // The commit sets the sequence.
                snapshot: DocumentSnapshot {
                    sequence: self.state.sequence,
                    value: self.state.content.sorted_text(),
                },
                origin: None,
            }))
        })
    }

    /// Says that judged patches were committed.
    pub(super) fn land(&mut self, landed: &[(u64, usize)], has_snapshot: bool) {
        self.state.land(landed.iter().copied());
        if has_snapshot {
            self.state.since_snapshot = Default::default();
            self.snapshot_sequence = self.state.sequence;
        }
    }

    pub(super) fn guard(&self, key: &DocumentKey) -> DocumentGuard {
        DocumentGuard { key: key.clone(), newest: self.state.sequence }
    }
}

impl Engine {
    /// Puts a patch into the queue of its document and waits until it is committed or refused.
    pub(super) async fn gather(&self, name: DocumentName, waiting: WaitingPatch) -> Result<()> {
        let place = self.documents.place(&name);
        if !place.queue.lock().push(waiting)? {
            return Ok(());
        }
        // In a task of its own: a caller that goes away does not stop the patches of others.
        let engine = self.clone();
        tokio::spawn(async move { engine.drive(&name, &place).await });
        Ok(())
    }

    async fn drive(&self, name: &DocumentName, place: &Arc<DocumentPlace>) {
        let _end = DriveEnd(place);
        loop {
            let group = place.queue.lock().take();
            if group.is_empty() {
                return;
            }
            self.commit_group(name, place, group).await;
        }
    }

    /// Judges and commits patches that came from different callers.
    async fn commit_group(&self, name: &DocumentName, place: &Arc<DocumentPlace>, group: Vec<WaitingPatch>) {
        let mut held = place.held.lock().await;
        let outcomes = match self.try_group(name, &mut held, &group).await {
            Ok(outcomes) => outcomes,
            Err(error) if group.len() == 1 => vec![Err(error)],
            Err(error) => {
                let mut outcomes = Vec::with_capacity(group.len());
                for one in &group {
                    outcomes.push(match for_everybody(&error) {
                        Some(error) => Err(error),
                        // One caller's refusal must not refuse the others: each is tried alone.
                        None => self.try_alone(name, &mut held, one).await,
                    });
                }
                outcomes
            }
        };
        for (one, outcome) in group.into_iter().zip(outcomes) {
            // The caller may have stopped waiting; the patch stands.
            let _ = one.done.send(outcome);
        }
        if let Some(held) = held.as_ref() {
            self.documents.weigh(name, place, held);
        }
    }

    async fn try_alone(
        &self,
        name: &DocumentName,
        held: &mut Option<HeldDocument>,
        one: &WaitingPatch,
    ) -> Result<CommittedPatch> {
        let outcomes = self.try_group(name, held, std::slice::from_ref(one)).await?;
        outcomes.into_iter().next().unwrap_or(Err(Conflict::SessionBusy.into()))
    }

    /// An outcome for each patch; or the refusal of the whole change, of which nothing was written then.
    async fn try_group(
        &self,
        name: &DocumentName,
        held: &mut Option<HeldDocument>,
        group: &[WaitingPatch],
    ) -> Result<Vec<Result<CommittedPatch>>> {
        let started = Instant::now();
        let mut is_fresh = false;
        loop {
            if held.is_none() || is_fresh {
                self.catch_up(name, held).await?;
                is_fresh = true;
            }
            let document = held.as_mut().ok_or(Error::NotFound)?;
            let mut verdicts: Vec<Result<JudgedPatch>> = Vec::with_capacity(group.len());
            for one in group {
                verdicts.push(self.judge_patch(name, document, &one.patch).await);
            }
            let accepted: Vec<&WaitingPatch> = group
                .iter()
                .zip(&verdicts)
                .filter(|(_, verdict)| verdict.is_ok())
                .map(|(one, _)| one)
                .collect();
            if accepted.len() < group.len() && !is_fresh {
                // A patch is refused only by a copy that is known to be the newest.
                document.state.take_back(verdicts.into_iter().flatten());
                is_fresh = true;
                continue;
            }
            if accepted.is_empty() {
                return Ok(verdicts
                    .into_iter()
                    .map(|verdict| verdict.and_then(|_| Err(Error::NotFound)))
                    .collect());
            }
            let judged: Vec<JudgedPatch> = verdicts.iter().flatten().cloned().collect();
            let record = document.snapshot_due(name, &judged);
            let has_snapshot = record.is_some();
            match self.try_commit(group_change(name, document, &accepted, record)).await {
                Ok(done) => {
                    let appended =
                        done.parts.into_iter().next().map(|part| part.appended).unwrap_or_default();
                    let events: Vec<Arc<Event>> = appended.into_iter().filter_map(new_event).collect();
                    let landed: Vec<(u64, usize)> = events
                        .iter()
                        .zip(&judged)
                        .map(|(event, one)| (event.sequence, one.ops_bytes()))
                        .collect();
                    document.land(&landed, has_snapshot);
                    let mut events = events.into_iter();
                    return Ok(verdicts
                        .into_iter()
                        .map(|verdict| {
                            let JudgedPatch { rebased, inverse, .. } = verdict?;
                            let event =
                                events.next().ok_or_else(|| Error::internal("a commit lost its event"))?;
                            Ok(CommittedPatch { event, rebased, inverse })
                        })
                        .collect());
                }
                Err(refusal) => {
                    document.state.take_back(judged.into_iter());
                    match refusal {
                        Refusal::Rejected(error) => {
                            if !matches!(error, Error::Conflict(_) | Error::Denied(_) | Error::NotFound) {
                                // It is not known what was written.
                                *held = None;
                            }
                            return Err(error);
                        }
                        Refusal::Stale if started.elapsed() > limits::PATCH_JUDGED_FOR => {
                            return Err(Conflict::SessionBusy.into());
                        }
                        Refusal::Stale => is_fresh = true,
                    }
                }
            }
        }
    }

    /// Brings a node's copy of a document up to the newest patch.
    pub(super) async fn catch_up(&self, name: &DocumentName, held: &mut Option<HeldDocument>) -> Result<()> {
        let DocumentName { tenant, session, key } = name;
        let seen = held.as_ref().map(|held| held.state.sequence);
        let mut found = self.sessions.document(tenant, session, key, seen).await?;
        let is_other = match (&*held, &found) {
            (Some(held), Some(found)) => held.incarnation != found.incarnation,
            _ => false,
        };
        if is_other {
            // The session was deleted and made again.
            *held = None;
            found = self.sessions.document(tenant, session, key, None).await?;
        }
        let Some(found) = found else {
            *held = None;
            return Err(Error::NotFound);
        };
        if let Some(snapshot) = HeldDocument::of(&found) {
            *held = Some(snapshot);
        }
        let document = held.as_mut().ok_or_else(|| Error::internal("a document without a value"))?;
        if found.snapshot_sequence > document.snapshot_sequence {
            document.snapshot_sequence = found.snapshot_sequence;
            document.state.since_snapshot = Default::default();
        }
        for patch in &found.patches {
            let (ops, bytes) = patch.ops()?;
            if let Err(error) = document.state.follow(patch.sequence, &ops, bytes) {
                *held = None;
                return Err(error);
            }
        }
        document.state.land([]);
        Ok(())
    }

    /// Judges a patch on a node's copy. What was written before the copy was read is looked up, if the patch is that
    /// old.
    pub(super) async fn judge_patch(
        &self,
        name: &DocumentName,
        document: &mut HeldDocument,
        patch: &DocumentPatch,
    ) -> Result<JudgedPatch> {
        if let BaseStanding::Unread { after } = document.state.standing_of(patch.base_sequence)? {
            let within = PatchRange {
                after,
                to: document.state.known_from(),
                // The base, and one more than may lie between.
                limit: limits::PATCHES_BEHIND_MAX + 2,
            };
            let DocumentName { tenant, session, key } = name;
            let found = self.sessions.document_patches(tenant, session, key, within).await?;
            if found.first().is_none_or(|first| first.sequence != after + 1) {
                return Err(unknown_base());
            }
            if found.len() > limits::PATCHES_BEHIND_MAX + 1 {
                let sequence = document.state.sequence;
                return Err(Conflict::StaleDocument { sequence, conflicts: Vec::new() }.into());
            }
            let mut earlier: Vec<(u64, WrittenPaths)> = Vec::with_capacity(found.len());
            for one in &found {
                let (ops, _) = one.ops()?;
                earlier.push((one.sequence, document.state.content.written_by(&ops)));
            }
            document.state.remember_earlier(after + 1, earlier);
        }
        document.state.judge(patch)
    }
}

/// The end of the task that takes what waits. If it ends by a fault, those who wait hear so, and the next patch starts
/// another.
struct DriveEnd<'a>(&'a DocumentPlace);

impl Drop for DriveEnd<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        if queue.is_driven && std::thread::panicking() {
            *queue = PatchQueue::default();
        }
    }
}

/// The error of a whole group as each of its callers gets it, unless it may be one caller's own. After an answer of the
/// store was lost, a second try could write a patch twice; on a busy document each would wait once more.
fn for_everybody(error: &Error) -> Option<Error> {
    match error {
        Error::Unavailable(why) => Some(Error::unavailable(why.to_string())),
        Error::Internal(why) => Some(Error::internal(why.to_string())),
        Error::Conflict(busy @ Conflict::SessionBusy) => Some(busy.clone().into()),
        _ => None,
    }
}

/// The change of a group: one part, which everybody's right is checked for under the lock.
fn group_change(
    name: &DocumentName,
    document: &HeldDocument,
    accepted: &[&WaitingPatch],
    record: Option<Record>,
) -> Change {
    let mut rules: SmallVec<[AppendRule; 1]> = SmallVec::new();
    for one in accepted {
        let is_known = |rule: &AppendRule| rule.epoch == one.rule.epoch && rule.actor == one.rule.actor;
        if !rules.iter().any(is_known) {
            rules.push(one.rule.clone());
        }
    }
    let mut rules = rules.into_iter();
    let part = ChangePart {
        on: PartTarget::Session(name.session.clone()),
        guard: Guard {
            incarnation: Some(document.incarnation),
            append: rules.next(),
            also: rules.collect(),
            documents: smallvec![document.guard(&name.key)],
            ..Guard::default()
        },
        writes: smallvec![Write::Append(accepted.iter().map(|one| one.event.clone()).collect())],
    };
    let mut change = Change::new(name.tenant.clone()).part(part);
    change.records.extend(record);
    change
}

fn new_event(slot: AppendOutcome) -> Option<Arc<Event>> {
    match slot {
        AppendOutcome::New(event) => Some(event),
        AppendOutcome::Repeat(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RandomIds;

    fn name_of(n: usize) -> DocumentName {
        DocumentName {
            tenant: TenantId::stored("t"),
            session: SessionId::stored(format!("s{n}")),
            key: DocumentKey::parse("scratch", "note").unwrap(),
        }
    }

    #[test]
    fn what_a_node_keeps_of_documents_is_bounded_by_its_bytes() {
        let desk = DocumentDesk::default();
        let is_within = |desk: &DocumentDesk| {
            desk.slots.run_pending_tasks();
            desk.slots.weighted_size() <= limits::DOCUMENT_CACHE_BYTES_MAX
        };
        let text = "x".repeat(limits::SHARED_DOCUMENT_BYTES_MAX - 100);
        let value = Json::of(&serde_json::json!({"text": text})).unwrap();
        let stored = StoredDocument {
            incarnation: Incarnation::drawn(&RandomIds),
            opened_sequence: 1,
            snapshot: Some(DocumentSnapshot { sequence: 1, value: value.clone() }),
            snapshot_sequence: 1,
            origin: None,
            patches: Vec::new(),
        };
        let mut held = HeldDocument::of(&stored).unwrap();
        held.rendered();
        // Every place weighs what it would with its own copy of the value and of its text.
        let fits = usize::try_from(limits::DOCUMENT_CACHE_BYTES_MAX).unwrap() / (2 * value.len());
        for n in 0..2 * fits {
            let name = name_of(n);
            let place = desk.place(&name);
            desk.weigh(&name, &place, &held);
        }
        assert!(is_within(&desk));
        assert!(desk.slots.entry_count() > 0 && desk.slots.entry_count() <= fits as u64);

        let desk = DocumentDesk::default();
        desk.place(&name_of(0));
        assert!(is_within(&desk));
        assert!(desk.slots.weighted_size() >= u64::from(PLACE_BYTES), "a name without a document weighs too");
    }

    #[test]
    fn only_an_error_that_is_nobodys_own_is_everybodys() {
        for (error, is_shared) in [
            (Error::unavailable("the connection was lost"), true),
            (Error::internal("a fault"), true),
            (Conflict::SessionBusy.into(), true),
            (Conflict::Fenced.into(), false),
            (Conflict::SessionClosed.into(), false),
            (Error::denied("no"), false),
            (Error::NotFound, false),
        ] {
            let code = error.code();
            let shared = for_everybody(&error).map(|error| error.code());
            assert_eq!(shared, is_shared.then_some(code), "{code}");
        }
    }

    #[test]
    fn a_fault_leaves_nobody_waiting() {
        let place = DocumentPlace::default();
        let (done, mut answer) = oneshot::channel::<()>();
        let queue: &Mutex<PatchQueue<WaitingPatch>> = &place.queue;
        queue.lock().is_driven = true;
        let fault = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let (_end, _done) = (DriveEnd(&place), done);
            panic!("a fault");
        }));
        assert!(fault.is_err() && answer.try_recv().is_err());
        assert!(!place.queue.lock().is_driven, "the next patch starts another task");
    }

    #[test]
    fn so_many_patches_wait_and_so_many_are_taken_at_once() {
        let mut queue = PatchQueue::default();
        assert!(queue.push(0).unwrap(), "the first one starts the task");
        for nth in 1..limits::PATCHES_WAITING_MAX {
            assert!(!queue.push(nth).unwrap(), "{nth}");
        }
        assert_eq!(queue.push(0).unwrap_err().code(), "unavailable");
        let mut taken = queue.take();
        assert_eq!(taken.len(), limits::PATCHES_GATHERED_MAX);
        assert!(!queue.push(limits::PATCHES_WAITING_MAX).unwrap());
        while taken.len() <= limits::PATCHES_WAITING_MAX {
            taken.extend(queue.take());
        }
        assert!(taken.into_iter().eq(0..=limits::PATCHES_WAITING_MAX), "in the order in which they came");
        assert!(queue.take().is_empty(), "the task ends");
        assert!(queue.push(0).unwrap(), "the next one starts another");
    }
}
