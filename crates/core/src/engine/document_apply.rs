//! Writing a document to its entity or view: by owners at once, by others through an owner's approval.

use smallvec::smallvec;

use super::documents::name_of;
use super::people::audit;
use super::{CommandOutcome, Decided, Engine};
use crate::access::{Actor, Role, Verb};
use crate::approval::promotion::{PromotedDocument, stage_document};
use crate::approval::{ApprovalKind, ApprovalQuery, ApprovalState};
use crate::definitions::DefinitionKind;
use crate::document::apply::DefinedRow;
use crate::document::{self, DocumentKey, DocumentOrigin};
use crate::error::{Conflict, Error, Result};
use crate::ids::{SessionId, TenantId};
use crate::json::Json;
use crate::limits;
use crate::session::Session;
use crate::store::{Change, ChangePart, CommitResult, Guard, IdemKey, PartTarget, Record, Write};

/// What applying a document did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedDocument {
    /// The fields that were written, or are to be written.
    pub fields: Vec<String>,
    /// The version that the row has now, if it was written.
    pub version: Option<u64>,
    /// The approval that an owner decides on.
    pub approval_id: Option<Box<str>>,
}

impl Engine {
    /// Writes what a document has changed to its entity or view: an owner at once, others by an approval.
    pub async fn apply_document(
        &self,
        actor: &Actor,
        id: &SessionId,
        key: &DocumentKey,
        base_sequence: u64,
        idem: Option<IdemKey>,
    ) -> Result<AppliedDocument> {
        let approval_id = self.ids.ordered();
        let idem = idem.map(|idem| IdemKey { note: Some(crate::store::KeyNote(approval_id)), ..idem });
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let session = self.load(actor, Verb::Edit, id).await?;
                    document::check_session(&session)?;
                    if !matches!(actor.role, Role::Owner | Role::Member) {
                        return Err(Error::denied("only members and owners apply documents"));
                    }
                    let kind = key.kind.row_kind().ok_or(Conflict::NothingToApply)?;
                    let (sequence, value, origin, opened) = self.applied_state(actor, id, key).await?;
                    let base = if base_sequence == 0 { opened } else { base_sequence };
                    if base > sequence {
                        return Err(Error::invalid(
                            "base_sequence",
                            "is ahead of the document's newest patch",
                        ));
                    }
                    if base != sequence {
                        return Err(Conflict::StaleDocument { sequence, conflicts: Vec::new() }.into());
                    }
                    let row = self.current_row(&actor.tenant, kind, &key.id).await?.ok_or(Error::NotFound)?;
                    let changed = row.changes(&origin, &value)?;
                    let fields: Vec<String> = changed.iter().map(|(name, _)| name.clone()).collect();
                    if changed.is_empty() {
                        let version = Some(row.version());
                        return Ok(Decided::Nothing(AppliedDocument { fields, version, approval_id: None }));
                    }
                    let part = ChangePart {
                        on: PartTarget::Session(session.id.clone()),
                        guard: Guard {
                            documents: smallvec![crate::store::DocumentGuard {
                                key: key.clone(),
                                newest: sequence
                            }],
                            ..Guard::seen(&session)
                        },
                        writes: smallvec![Write::Update(Box::default())],
                    };
                    // What is written is checked also where an owner is still to decide.
                    let written = row.write(&changed)?;
                    let mut change = Change::new(actor.tenant.clone()).part(part).keyed(idem);
                    let applied = if actor.role == Role::Owner {
                        let version = row.version() + 1;
                        let origin = match &written {
                            Record::PutDoc { doc, .. } => {
                                origin.after(&DefinedRow::of(doc)?, version, &fields)?
                            }
                            _ => origin,
                        };
                        let origin = Box::new(origin);
                        change.records.push(written);
                        change.records.push(Record::SetDocumentOrigin {
                            session: session.id.clone(),
                            key: key.clone(),
                            origin,
                        });
                        change = change.audited(audit(actor, "document.apply", &key.joined()));
                        AppliedDocument { fields, version: Some(version), approval_id: None }
                    } else {
                        self.check_no_pending(&session, key).await?;
                        let now = self.tenant.now().await?;
                        let about =
                            PromotedDocument { kind: key.kind.as_str().into(), id: key.id.to_string() };
                        let asked = stage_document(
                            &session.id,
                            &row,
                            &changed,
                            about,
                            now,
                            &approval_id.to_string(),
                        )?;
                        let approval_id = Some(asked.id.clone());
                        change.records.push(Record::AddApproval(Box::new(asked)));
                        change = change.audited(audit(actor, "document.propose", &key.joined()));
                        AppliedDocument { fields, version: None, approval_id }
                    };
                    Ok(Decided::Change(Box::new(change), Some(applied)))
                })
            })
            .await;
        match self.or_replayed(actor, idem, done).await? {
            CommandOutcome::Nothing(applied) | CommandOutcome::Done(_, Some(applied)) => Ok(applied),
            CommandOutcome::Done(done, None) => self.applied_before(actor, key, &done).await,
        }
    }

    /// The answer to a repeated apply: what the first one left.
    async fn applied_before(
        &self,
        actor: &Actor,
        key: &DocumentKey,
        done: &CommitResult,
    ) -> Result<AppliedDocument> {
        let note = done.replay.as_ref().and_then(|replay| replay.note).map(|note| note.0.to_string());
        if let Some(id) = note
            && let Some(approval) = self.sessions.approval(&actor.tenant, &id).await?
        {
            let staged = approval.body.staged.as_ref().map(Json::fields).unwrap_or_default();
            let fields = staged.into_iter().map(|(name, _)| name).collect();
            return Ok(AppliedDocument { fields, version: None, approval_id: Some(approval.id) });
        }
        let kind = key.kind.row_kind().ok_or(Conflict::NothingToApply)?;
        let row = self.current_row(&actor.tenant, kind, &key.id).await?.ok_or(Error::NotFound)?;
        Ok(AppliedDocument { fields: Vec::new(), version: Some(row.version()), approval_id: None })
    }

    /// A document's newest patch and value, what it has seen of its row, and its opening.
    async fn applied_state(
        &self,
        actor: &Actor,
        id: &SessionId,
        key: &DocumentKey,
    ) -> Result<(u64, serde_json::Value, DocumentOrigin, u64)> {
        let name = name_of(actor, id, key);
        let place = self.documents.place(&name);
        let mut held = place.held.lock().await;
        self.catch_up(&name, &mut held).await?;
        let document = held.as_ref().ok_or(Error::NotFound)?;
        let found = self.sessions.document(&actor.tenant, id, key, Some(document.state.sequence)).await?;
        let origin = found.and_then(|found| found.origin).ok_or(Conflict::NothingToApply)?;
        let state = &document.state;
        Ok((state.sequence, state.content.value().clone(), origin, state.opened_sequence))
    }

    /// Refuses a second proposal of one document.
    async fn check_no_pending(&self, session: &Session, key: &DocumentKey) -> Result<()> {
        let query = ApprovalQuery {
            state: Some(ApprovalState::Pending),
            session: Some(session.id.clone()),
            limit: limits::PAGE_ROWS_MAX,
            ..ApprovalQuery::default()
        };
        let pending = self.tenant.approvals(&session.tenant, query).await?.items;
        let is_same = |approval: &crate::approval::Approval| {
            let target =
                approval.body.promotion.as_ref().filter(|_| approval.kind == ApprovalKind::Promotion);
            let document = target.and_then(|target| target.document.as_ref());
            document.is_some_and(|one| one.kind == key.kind.as_str() && *one.id == *key.id)
        };
        if pending.iter().any(is_same) { Err(Conflict::PromotionPending.into()) } else { Ok(()) }
    }

    /// The row of an entity or a view as it is now.
    pub(super) async fn current_row(
        &self,
        tenant: &TenantId,
        kind: DefinitionKind,
        id: &str,
    ) -> Result<Option<DefinedRow>> {
        self.tenant.doc(tenant, kind, id).await?.map(|doc| DefinedRow::of(&doc)).transpose()
    }

    /// The record by which a document sees what an approval has written to its row.
    pub(super) async fn seen_by_document(
        &self,
        session: &Session,
        about: &PromotedDocument,
        written: &DefinedRow,
        version: u64,
        names: &[String],
    ) -> Result<Option<Record>> {
        let key = DocumentKey::parse(&about.kind, &about.id)?;
        let Some(found) = self.sessions.document(&session.tenant, &session.id, &key, None).await? else {
            return Ok(None);
        };
        let origin = found.origin.map(|origin| origin.after(written, version, names)).transpose()?;
        Ok(origin.map(Box::new).map(|origin| Record::SetDocumentOrigin {
            session: session.id.clone(),
            key,
            origin,
        }))
    }
}
