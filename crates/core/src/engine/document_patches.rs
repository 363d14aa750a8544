//! Patches of documents: one alone, with an idempotency key, or among the events of an append. Patches without a key wait in
//! `document_desk.rs` and are committed together.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::smallvec;
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::time::Instant;

use super::Engine;
use super::document_desk::{CommittedPatch, DocumentName, HeldDocument, WaitingPatch};
use super::documents::{name_of, shows};
use super::log::{Append, AppendResult, check_batch};
use super::work::without_a_claim;
use crate::access::{Actor, Role, Verb};
use crate::document::patch::{PatchOp, read_ops};
use crate::document::state::JudgedPatch;
use crate::document::{self, DocumentKey, DocumentPatch};
use crate::error::{Conflict, Error, Result};
use crate::event::{AppendOutcome, Kinds, NewEvent};
use crate::ids::{SessionId, TenantId};
use crate::json::Json;
use crate::limits;
use crate::store::{
    AppendRule, Change, ChangePart, CommitResult, Guard, IdemKey, PartTarget, Refusal, Write,
};

/// A patch that a caller sends.
#[derive(Clone, Debug)]
pub struct PatchRequest {
    pub base_sequence: u64,
    pub ops: Json,
    /// The claim under which the caller works.
    pub epoch: Option<u64>,
    /// Whether to answer with the operations that take the patch back.
    pub wants_inverse: bool,
}

/// A patch that was accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct PatchedDocument {
    pub sequence: u64,
    /// Others had patched the document since the base.
    pub rebased: bool,
    /// What takes it back, if that was asked for and is a patch.
    pub inverse: Option<Json>,
}

impl Engine {
    /// Patches a document. The same as appending `state.patch` to the log.
    pub async fn patch_document(
        &self,
        actor: &Arc<Actor>,
        id: &SessionId,
        key: &DocumentKey,
        request: PatchRequest,
        idem: Option<IdemKey>,
    ) -> Result<PatchedDocument> {
        let patch = DocumentPatch::read(request.base_sequence, &request.ops)?;
        let event = document::patch_event(key, &patch, author(actor))?;
        let rule = AppendRule { actor: actor.clone(), kinds: Kinds::of([&event.kind]), epoch: request.epoch };
        let name = name_of(actor, id, key);
        let committed = self.commit_patch(actor, name, patch, event, rule, idem).await;
        let CommittedPatch { event, rebased, inverse } =
            self.told(actor, id, request.epoch, committed).await?;
        let inverse = request.wants_inverse.then(|| inverse_json(&inverse)).transpose()?.flatten();
        Ok(PatchedDocument { sequence: event.sequence, rebased, inverse })
    }

    async fn commit_patch(
        &self,
        actor: &Arc<Actor>,
        name: DocumentName,
        patch: DocumentPatch,
        event: NewEvent,
        rule: AppendRule,
        idem: Option<IdemKey>,
    ) -> Result<CommittedPatch> {
        self.check_byte_quota(actor).await?;
        if !shows(actor, name.key.kind) {
            return Err(Error::NotFound);
        }
        if let Some(idem) = idem {
            return self.commit_keyed_patch(actor, name, patch, event, rule, idem).await;
        }
        let (done, answer) = oneshot::channel();
        self.gather(name, WaitingPatch { patch, event, rule, done }).await?;
        answer.await.unwrap_or_else(|_| Err(Error::unavailable("the server is stopping")))
    }

    /// A patch with an idempotency key is a change of its own. A repeat gets the answer of the first.
    async fn commit_keyed_patch(
        &self,
        actor: &Arc<Actor>,
        name: DocumentName,
        patch: DocumentPatch,
        event: NewEvent,
        rule: AppendRule,
        idem: IdemKey,
    ) -> Result<CommittedPatch> {
        let batch = PatchBatch {
            rule,
            events: vec![event],
            patches: vec![(0, name.key.clone(), patch)],
            expected_sequence: None,
            key: Some(idem),
        };
        let done = self.commit_patches(&name.tenant, &name.session, batch).await;
        let (done, mut judged) = match done {
            Err(error @ (Error::Conflict(_) | Error::Denied(_) | Error::Invalid { .. })) => {
                match self.sessions.recall(&name.tenant, idem).await? {
                    Some(replay) => {
                        let at = self.tenant.now().await?;
                        (CommitResult { at, parts: smallvec![], replay: Some(replay) }, Vec::new())
                    }
                    None => return Err(error),
                }
            }
            done => done?,
        };
        let Some(replay) = &done.replay else {
            let slot = done.parts.into_iter().next().and_then(|part| part.appended.into_iter().next());
            let (Some(AppendOutcome::New(event)), Some(JudgedPatch { rebased, inverse, .. })) =
                (slot, judged.pop())
            else {
                return Err(Error::internal("a commit lost its event"));
            };
            return Ok(CommittedPatch { event, rebased, inverse });
        };
        // The first answer again, from the log.
        self.session_after(actor, &name.session, &done).await?;
        let event =
            self.events_at(actor, &name.session, &replay.sequences).await?.pop().ok_or(Error::NotFound)?;
        let mut before = self.document_at(&name, event.sequence - 1).await?;
        let metadata =
            event.metadata.as_ref().ok_or_else(|| Error::internal("a patch without operations"))?;
        let (_, first) = document::read_appended(metadata)?;
        let base = if first.base_sequence == 0 { before.opened_sequence } else { first.base_sequence };
        let rebased = before.sequence > base;
        let applied = before.content.apply(&first.ops).map_err(Error::from)?;
        Ok(CommittedPatch { event, rebased, inverse: applied.inverse })
    }

    /// A refusal as the caller may hear it: who may not read the session hears nothing about its documents.
    async fn told<T>(
        &self,
        actor: &Actor,
        id: &SessionId,
        epoch: Option<u64>,
        outcome: Result<T>,
    ) -> Result<T> {
        let Err(error) = outcome else { return outcome };
        let is_about_document = matches!(
            error,
            Error::NotFound | Error::Invalid { .. } | Error::Conflict(Conflict::StaleDocument { .. })
        );
        if is_about_document {
            let session = match self.load(actor, Verb::Read, id).await {
                Err(refused) if epoch.is_some() => return Err(without_a_claim(actor, refused)),
                loaded => loaded?,
            };
            if let Some(epoch) = epoch
                && !session.head.holds(&actor.credential, epoch, self.tenant.now().await?)
            {
                return Err(Conflict::Fenced.into());
            }
            document::check_session(&session)?;
            if session.head.status.is_terminal() {
                return Err(Conflict::SessionClosed.into());
            }
        }
        Err(if epoch.is_some() { without_a_claim(actor, error) } else { error })
    }

    /// Appends events of which at least one patches a document: all of them, or none.
    pub(super) async fn append_with_patches(
        &self,
        actor: &Arc<Actor>,
        id: &SessionId,
        wish: Append,
        key: Option<IdemKey>,
    ) -> Result<AppendResult> {
        let epoch = wish.epoch;
        let events = check_batch(actor, wish.events)?;
        self.check_byte_quota(actor).await?;
        let mut patches = Vec::new();
        for (at, event) in events.iter().enumerate().filter(|(_, event)| event.kind.is_patch()) {
            if event.external_event_id.is_some() {
                return Err(Error::invalid(
                    "external_event_id",
                    "a patch has none: send an idempotency key instead",
                ));
            }
            let metadata = event.metadata.as_ref().ok_or_else(|| Error::invalid("metadata", "is missing"))?;
            let (document, patch) = document::read_appended(metadata)?;
            if !shows(actor, document.kind) {
                return Err(Error::invalid("metadata.document", "names no document of this session"));
            }
            patches.push((at, document, patch));
        }
        let rule = AppendRule {
            actor: actor.clone(),
            kinds: Kinds::of(events.iter().map(|event| &event.kind)),
            epoch,
        };
        if let ([event], None, None) = (&events[..], key, wish.expected_sequence) {
            let (_, document, patch) =
                patches.pop().ok_or_else(|| Error::internal("a batch without its patch"))?;
            let name = name_of(actor, id, &document);
            let committed = self.commit_patch(actor, name, patch, event.clone(), rule, None).await;
            let committed = self.told(actor, id, epoch, committed.map_err(in_metadata)).await?;
            let session = match epoch {
                Some(_) => Some(self.sessions.session(&actor.tenant, id).await?.ok_or(Error::NotFound)?),
                None => None,
            };
            return Ok(AppendResult {
                last_sequence: committed.event.sequence,
                events: vec![committed.event],
                stop_requested: session.is_some_and(|session| session.head.stop_requested),
                dropped: None,
            });
        }
        let batch = PatchBatch { rule, events, patches, expected_sequence: wish.expected_sequence, key };
        let done = match (self.commit_patches(&actor.tenant, id, batch).await, key) {
            (Err(error @ (Error::Conflict(_) | Error::Denied(_) | Error::Invalid { .. })), Some(key)) => {
                match self.sessions.recall(&actor.tenant, key).await? {
                    Some(replay) => {
                        let at = self.tenant.now().await?;
                        Ok((CommitResult { at, parts: smallvec![], replay: Some(replay) }, Vec::new()))
                    }
                    None => Err(error),
                }
            }
            (done, _) => done,
        };
        let (done, _) = self.told(actor, id, epoch, done.map_err(in_metadata)).await?;
        self.appended(actor, id, done, epoch.is_some()).await
    }

    /// Judges and commits a caller's batch in a task of its own: a caller that goes away in between would leave the node's
    /// copy of a document with patches that were judged and never committed.
    async fn commit_patches(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        batch: PatchBatch,
    ) -> Result<(CommitResult, Vec<JudgedPatch>)> {
        let (engine, tenant, id) = (self.clone(), tenant.clone(), id.clone());
        let task = tokio::spawn(async move { engine.judge_and_commit(&tenant, &id, &batch).await });
        task.await.map_err(Error::internal)?
    }

    /// Judges and commits a batch, under the locks of all documents that it patches.
    async fn judge_and_commit(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        batch: &PatchBatch,
    ) -> Result<(CommitResult, Vec<JudgedPatch>)> {
        let started = Instant::now();
        let mut documents: BTreeMap<DocumentKey, HeldPlace> = BTreeMap::new();
        let mut keys: Vec<&DocumentKey> = batch.patches.iter().map(|(_, key, _)| key).collect();
        // Locked in one order, so that no two batches wait for each other.
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let name = DocumentName { tenant: tenant.clone(), session: id.clone(), key: key.clone() };
            let place = self.documents.place(&name);
            let held = place.held.clone().lock_owned().await;
            documents.insert(key.clone(), HeldPlace { name, held });
        }
        loop {
            for HeldPlace { name, held } in documents.values_mut() {
                self.catch_up(name, held).await.map_err(|error| match error {
                    Error::NotFound => Error::invalid("document", "names no document of this session"),
                    other => other,
                })?;
            }
            let mut judged: Vec<(&DocumentKey, JudgedPatch)> = Vec::new();
            let mut refused = None;
            for (at, key, patch) in &batch.patches {
                let Some(HeldPlace { name, held }) = documents.get_mut(key) else { continue };
                let document = held.as_mut().ok_or(Error::NotFound)?;
                match self.judge_patch(name, document, patch).await {
                    Ok(one) => judged.push((key, one)),
                    Err(error) if batch.events.len() > 1 => {
                        refused = Some(error.within(&format!("events[{at}].metadata")));
                    }
                    Err(error) => refused = Some(error),
                }
                if refused.is_some() {
                    break;
                }
            }
            if let Some(error) = refused {
                take_back(&mut documents, judged);
                return Err(error);
            }
            let (change, with_snapshot) = batch.change(tenant, id, &documents, &judged)?;
            match self.try_commit(change).await {
                Ok(done) if done.replay.is_some() => {
                    take_back(&mut documents, judged);
                    return Ok((done, Vec::new()));
                }
                Ok(done) => {
                    land(&mut documents, &done, &judged, &with_snapshot);
                    return Ok((done, judged.into_iter().map(|(_, one)| one).collect()));
                }
                Err(refusal) => {
                    take_back(&mut documents, judged);
                    match refusal {
                        Refusal::Rejected(error) => return Err(error),
                        Refusal::Stale if started.elapsed() > limits::PATCH_JUDGED_FOR => {
                            return Err(Conflict::SessionBusy.into());
                        }
                        Refusal::Stale => {}
                    }
                }
            }
        }
    }
}

/// A document under the lock of its place.
struct HeldPlace {
    name: DocumentName,
    held: OwnedMutexGuard<Option<HeldDocument>>,
}

/// The events of one append, and the patches among them.
struct PatchBatch {
    rule: AppendRule,
    events: Vec<NewEvent>,
    /// The place of each patch among the events, its document, and itself.
    patches: Vec<(usize, DocumentKey, DocumentPatch)>,
    expected_sequence: Option<u64>,
    key: Option<IdemKey>,
}

impl PatchBatch {
    /// The change, and the documents whose value it writes down.
    fn change(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        documents: &BTreeMap<DocumentKey, HeldPlace>,
        judged: &[(&DocumentKey, JudgedPatch)],
    ) -> Result<(Change, Vec<DocumentKey>)> {
        let mut guard =
            Guard { sequence: self.expected_sequence, append: Some(self.rule.clone()), ..Guard::default() };
        let (mut records, mut with_snapshot) = (Vec::new(), Vec::new());
        for (key, HeldPlace { name, held }) in documents {
            let document = held.as_ref().ok_or(Error::NotFound)?;
            guard.incarnation = Some(document.incarnation);
            guard.documents.push(document.guard(key));
            let own: Vec<JudgedPatch> =
                judged.iter().filter(|(of, _)| *of == key).map(|(_, one)| one.clone()).collect();
            if let Some(record) = document.snapshot_due(name, &own) {
                records.push(record);
                with_snapshot.push(key.clone());
            }
        }
        let part = ChangePart {
            on: PartTarget::Session(id.clone()),
            guard,
            writes: smallvec![Write::Append(self.events.clone())],
        };
        let mut change = Change::new(tenant.clone()).part(part).keyed(self.key);
        change.records = records;
        Ok((change, with_snapshot))
    }
}

fn take_back(documents: &mut BTreeMap<DocumentKey, HeldPlace>, judged: Vec<(&DocumentKey, JudgedPatch)>) {
    for (key, one) in judged.into_iter().rev() {
        if let Some(document) = documents.get_mut(key).and_then(|place| place.held.as_mut()) {
            document.state.take_back([one].into_iter());
        }
    }
}

fn land(
    documents: &mut BTreeMap<DocumentKey, HeldPlace>,
    done: &CommitResult,
    judged: &[(&DocumentKey, JudgedPatch)],
    with_snapshot: &[DocumentKey],
) {
    let appended = done.parts.iter().flat_map(|part| &part.appended);
    let patched = appended.filter_map(|slot| match slot {
        AppendOutcome::New(event) if event.kind.is_patch() => Some(event.sequence),
        _ => None,
    });
    let mut landed: BTreeMap<&DocumentKey, Vec<(u64, usize)>> = BTreeMap::new();
    for (sequence, (key, one)) in patched.zip(judged) {
        landed.entry(key).or_default().push((sequence, one.ops_bytes()));
    }
    for (key, HeldPlace { held, .. }) in documents {
        if let (Some(document), Some(landed)) = (held.as_mut(), landed.get(key)) {
            document.land(landed, with_snapshot.contains(key));
        }
    }
}

fn author(actor: &Actor) -> Option<Box<str>> {
    actor.author().or_else(|| (actor.role == Role::Worker).then(|| actor.credential.as_str().into()))
}

/// The operations that take a patch back, if they are a patch themselves: a patch that only tests has none, and what was
/// removed may be larger than a patch may be.
fn inverse_json(inverse: &[PatchOp]) -> Result<Option<Json>> {
    let ops = Json::of(&inverse.iter().map(PatchOp::to_value).collect::<Vec<_>>())?;
    Ok(read_ops(&ops).is_ok().then_some(ops))
}

/// The refusal of an appended patch names the place in the event.
fn in_metadata(error: Error) -> Error {
    match error {
        Error::NotFound => Error::invalid("metadata.document", "names no document of this session"),
        Error::Invalid { field, message }
            if ["ops", "base_sequence", "document"].iter().any(|part| field.starts_with(part)) =>
        {
            Error::invalid(format!("metadata.{field}"), message)
        }
        other => other,
    }
}
