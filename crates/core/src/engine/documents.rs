//! The documents of a session: list, read, open, fork; which strangers keep a document of a row out. Patches are in
//! `document_patches.rs`, what is written to rows in `document_apply.rs`.

use smallvec::smallvec;

use super::document_desk::DocumentName;
use super::{Decided, Engine};
use crate::access::{Actor, Role, Verb};
use crate::document::apply::DefinedRow;
use crate::document::{
    self, DocumentContent, DocumentKey, DocumentKind, DocumentSnapshot, DocumentState, DocumentSummary,
    PatchRange, SharedDocument, StoredDocument,
};
use crate::error::{Conflict, Error, Result};
use crate::ids::{SessionId, TenantId, UserId};
use crate::json::Json;
use crate::limits;
use crate::people::{Key, ShareListQuery};
use crate::session::Session;
use crate::store::{Change, ChangePart, Guard, IdemKey, PartTarget, Record, Write};

/// Patches that are read at a time while an earlier state is computed.
const FOLD_PAGE: usize = 1_000;

/// A document's value at one of its patches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentValue {
    pub key: DocumentKey,
    /// The newest patch in it, or the opening.
    pub sequence: u64,
    /// Its keys are sorted.
    pub value: Json,
    /// The SHA-256 of the value's text.
    pub digest: String,
}

impl Engine {
    /// The documents of a session; a session that may not have any has none.
    pub async fn documents(&self, actor: &Actor, id: &SessionId) -> Result<Vec<DocumentSummary>> {
        let session = self.load_for_documents(actor, id).await?;
        if document::check_session(&session).is_err() {
            return Ok(Vec::new());
        }
        let mut all = self.sessions.documents(&actor.tenant, id).await?;
        all.retain(|one| shows(actor, one.key.kind));
        Ok(all)
    }

    /// A document as it is now, or as it was at a sequence of its log.
    pub async fn shared_document(
        &self,
        actor: &Actor,
        id: &SessionId,
        key: &DocumentKey,
        at_sequence: Option<u64>,
    ) -> Result<DocumentValue> {
        let session = self.load_for_documents(actor, id).await?;
        if !shows(actor, key.kind) || document::check_session(&session).is_err() {
            return Err(Error::NotFound);
        }
        if at_sequence.is_some_and(|at| at > session.head.last_sequence) {
            return Err(Error::invalid("at_sequence", "is ahead of the session's log"));
        }
        let name = name_of(actor, id, key);
        let place = self.documents.place(&name);
        let opened_sequence = {
            let mut held = place.held.lock().await;
            self.catch_up(&name, &mut held).await?;
            let document = held.as_mut().ok_or(Error::NotFound)?;
            let sequence = document.state.sequence;
            if at_sequence.is_none_or(|at| at >= sequence) {
                let (value, digest) = document.rendered();
                self.documents.weigh(&name, &place, document);
                return Ok(DocumentValue { key: key.clone(), sequence, value, digest });
            }
            document.state.opened_sequence
        };
        let at = at_sequence.unwrap_or_default();
        if at < opened_sequence {
            return Err(Error::invalid("at_sequence", "is before the document was opened"));
        }
        let permit = self.documents.folds.try_acquire();
        let _permit = permit.map_err(|_| Error::unavailable("this server computes other earlier states"))?;
        let state = self.document_at(&name, at).await?;
        let value = state.content.sorted_text();
        let digest = document::content::digest(&value);
        Ok(DocumentValue { key: key.clone(), sequence: state.sequence, value, digest })
    }

    /// The session, if the caller may read its log.
    async fn load_for_documents(&self, actor: &Actor, id: &SessionId) -> Result<Session> {
        let session = self.load_log(actor, id).await?;
        match actor.role {
            Role::Share => Err(Error::denied("a share link shows messages alone")),
            _ => Ok(session),
        }
    }

    /// A document as it was at a sequence: from its snapshot if that is not later, otherwise from its opening.
    pub(super) async fn document_at(&self, name: &DocumentName, at: u64) -> Result<DocumentState> {
        let DocumentName { tenant, session, key } = name;
        let found = self.sessions.document(tenant, session, key, None).await?.ok_or(Error::NotFound)?;
        let StoredDocument { opened_sequence, snapshot, snapshot_sequence, .. } = found;
        let mut state = match snapshot.filter(|_| snapshot_sequence <= at) {
            Some(snapshot) => DocumentState::new(
                DocumentContent::stored(&snapshot.value),
                opened_sequence,
                snapshot_sequence,
            ),
            None => {
                let within = PatchRange { after: opened_sequence - 1, to: opened_sequence, limit: 1 };
                let opening = self.sessions.document_patches(tenant, session, key, within).await?;
                let value = opening.first().and_then(document::StoredPatch::opening);
                let value = value.ok_or_else(|| Error::internal("a document without its opening"))?;
                DocumentState::new(DocumentContent::stored(&value), opened_sequence, opened_sequence)
            }
        };
        loop {
            let within = PatchRange { after: state.sequence, to: at, limit: FOLD_PAGE };
            let page = self.sessions.document_patches(tenant, session, key, within).await?;
            let is_last = page.len() < FOLD_PAGE;
            // A page of patches of a large document takes a while.
            let folded = tokio::task::spawn_blocking(move || {
                for patch in &page {
                    let (ops, bytes) = patch.ops()?;
                    state.follow(patch.sequence, &ops, bytes)?;
                }
                state.land([]);
                Ok::<_, Error>(state)
            });
            state = folded.await.map_err(Error::internal)??;
            if is_last {
                return Ok(state);
            }
        }
    }

    /// Opens a document: a scratch one with this value, one of an entity or a view from its row.
    pub async fn open_document(
        &self,
        actor: &Actor,
        id: &SessionId,
        key: &DocumentKey,
        value: Option<&Json>,
        idem: Option<IdemKey>,
    ) -> Result<DocumentValue> {
        self.check_byte_quota(actor).await?;
        let key = &self.named_document(actor, key).await?;
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let session = self.load(actor, Verb::Edit, id).await?;
                    document::check_session(&session)?;
                    if session.head.status.is_terminal() {
                        return Err(Conflict::SessionClosed.into());
                    }
                    let others = self.sessions.documents(&actor.tenant, id).await?;
                    if others.iter().any(|other| other.key == *key) {
                        return Err(Conflict::AlreadyExists.into());
                    }
                    if others.len() >= limits::DOCUMENTS_PER_SESSION_MAX {
                        let most = limits::DOCUMENTS_PER_SESSION_MAX;
                        return Err(Error::invalid("id", format!("a session has {most} documents at most")));
                    }
                    let row = self.row_of_document(actor, &session, key).await?;
                    let origin = row.as_ref().map(DefinedRow::origin).transpose()?;
                    let value = match (&origin, value) {
                        (Some(_), Some(_)) => {
                            return Err(Error::invalid(
                                "value",
                                "is for scratch documents: this one begins from its row",
                            ));
                        }
                        (Some(origin), None) => origin.fields.value(),
                        (None, Some(value)) => value.value(),
                        (None, None) => serde_json::json!({}),
                    };
                    let value = DocumentContent::new(value)?.sorted_text();
                    let event = document::opening_event(key, &value, actor.author())?;
                    let opened = SharedDocument {
                        session: session.id.clone(),
                        key: key.clone(),
                        opened_sequence: 0,
                        snapshot: DocumentSnapshot { sequence: 0, value },
                        origin,
                    };
                    // The row's version keeps guests and links out that come at the same time.
                    let part = ChangePart {
                        on: PartTarget::Session(session.id.clone()),
                        guard: Guard::seen(&session),
                        writes: smallvec![Write::Append(vec![event]), Write::Update(Box::default())],
                    };
                    let change = Change::new(actor.tenant.clone())
                        .part(part)
                        .record(Record::OpenDocument(Box::new(opened)))
                        .keyed(idem);
                    Ok(Decided::<()>::change(change))
                })
            })
            .await;
        self.or_replayed(actor, idem, done).await?;
        self.shared_document(actor, id, key, None).await
    }

    /// The name of a document whose row the caller may know by its slug.
    async fn named_document(&self, actor: &Actor, key: &DocumentKey) -> Result<DocumentKey> {
        let Some(kind) = key.kind.row_kind() else { return Ok(key.clone()) };
        if !matches!(actor.role, Role::Owner | Role::Member) {
            return Err(Error::denied("only members and owners open documents of entities and views"));
        }
        let doc = self.readable_definition(actor, kind, &key.id).await?;
        Ok(DocumentKey { kind: key.kind, id: doc.id })
    }

    /// The row that a document begins from, if the session is not open to strangers.
    async fn row_of_document(
        &self,
        actor: &Actor,
        session: &Session,
        key: &DocumentKey,
    ) -> Result<Option<DefinedRow>> {
        let Some(kind) = key.kind.row_kind() else { return Ok(None) };
        let people: Vec<&UserId> = session.head.holder.iter().chain(&session.participants).collect();
        if self.is_guest_among(&session.tenant, people).await? {
            return Err(Conflict::OpenToStrangers { has: "a guest" }.into());
        }
        if self.has_link(actor, session).await? {
            return Err(Conflict::OpenToStrangers { has: "a share link" }.into());
        }
        self.readable_definition(actor, kind, &key.id).await.and_then(|doc| DefinedRow::of(&doc)).map(Some)
    }

    /// Whether one of these people is a guest: by their row, and without one by their keys.
    async fn is_guest_among(&self, tenant: &TenantId, people: Vec<&UserId>) -> Result<bool> {
        let mut keys: Option<Vec<Key>> = None;
        for user in people {
            let is_guest = match self.tenant.user(tenant, user).await? {
                Some(row) => row.role == Role::Guest,
                None => {
                    if keys.is_none() {
                        let now = self.tenant.now().await?;
                        let mut valid = self.tenant.keys(tenant).await?;
                        valid.retain(|key| key.is_current(now));
                        keys = Some(valid);
                    }
                    let mut own =
                        keys.iter().flatten().filter(|key| key.user.as_ref() == Some(user)).peekable();
                    own.peek().is_some() && own.all(|key| key.role == Role::Guest)
                }
            };
            if is_guest {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses to show a guest the log of a session with a document of an entity or a view: its events carry the row's
    /// values. No guest is invited there, and some who are there become guests.
    pub(super) async fn check_shows_no_rows(&self, actor: &Actor, session: &Session) -> Result<()> {
        if actor.role == Role::Guest
            && document::check_session(session).is_ok()
            && self.has_row_document(&session.tenant, &session.id).await?
        {
            return Err(Error::denied("guests read no session in which an entity or a view is edited"));
        }
        Ok(())
    }

    /// Whether a link opens the session now.
    async fn has_link(&self, actor: &Actor, session: &Session) -> Result<bool> {
        let now = self.tenant.now().await?;
        let mut after = None;
        loop {
            let query = ShareListQuery {
                session: Some(session.id.clone()),
                view: None,
                by: crate::access::ActingUser::Owner,
                after,
                limit: limits::PAGE_ROWS_MAX,
            };
            let page = self.sessions.shares(&actor.tenant, query).await?;
            let opens = |share: &crate::people::Share| {
                share.view.is_none() && share.revoked_at.is_none() && share.expires_at > now
            };
            if page.items.iter().any(opens) {
                return Ok(true);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(false),
            }
        }
    }

    /// Refuses a change that shows the document of an entity or a view to a guest or by a link.
    pub(super) async fn check_strangers(&self, change: &Change) -> Result<()> {
        for part in &change.parts {
            let PartTarget::Session(id) = &part.on else { continue };
            for write in &part.writes {
                let Write::Update(update) = write else { continue };
                let added: Vec<&UserId> = update
                    .participants
                    .iter()
                    .flatten()
                    .chain(&update.add_participant)
                    .chain(&update.holder)
                    .collect();
                if !added.is_empty()
                    && self.has_row_document(&change.tenant, id).await?
                    && self.is_guest_among(&change.tenant, added).await?
                {
                    return Err(Conflict::HasRowDocuments.into());
                }
            }
        }
        Ok(())
    }

    pub(super) async fn has_row_document(&self, tenant: &TenantId, id: &SessionId) -> Result<bool> {
        let all = self.sessions.documents(tenant, id).await?;
        Ok(all.iter().any(|one| one.key.kind != DocumentKind::Scratch))
    }

    /// The documents that a fork begins with, as records of the change that makes it.
    pub(super) async fn forked_documents(
        &self,
        source: &Session,
        fork: &SessionId,
        at_sequence: u64,
    ) -> Result<Vec<Record>> {
        if document::check_session(source).is_err() {
            return Ok(Vec::new());
        }
        let mut records = Vec::new();
        for one in self.sessions.documents(&source.tenant, &source.id).await? {
            if one.opened_sequence > at_sequence {
                continue;
            }
            let name = DocumentName {
                tenant: source.tenant.clone(),
                session: source.id.clone(),
                key: one.key.clone(),
            };
            let found = self.sessions.document(&name.tenant, &name.session, &name.key, None).await?;
            let origin = found.and_then(|found| found.origin);
            let state = {
                let _permit = self.documents.folds.acquire().await.map_err(Error::unavailable)?;
                self.document_at(&name, at_sequence).await?
            };
            records.push(Record::OpenDocument(Box::new(SharedDocument {
                session: fork.clone(),
                key: one.key,
                opened_sequence: one.opened_sequence,
                snapshot: DocumentSnapshot { sequence: state.sequence, value: state.content.sorted_text() },
                origin,
            })));
        }
        Ok(records)
    }
}

pub(super) fn name_of(actor: &Actor, id: &SessionId, key: &DocumentKey) -> DocumentName {
    DocumentName { tenant: actor.tenant.clone(), session: id.clone(), key: key.clone() }
}

/// Whether callers of this role are shown documents of this kind. Guests take part in no session with a document of an
/// entity or a view; a user who has become a guest since sees it no more.
pub(super) fn shows(actor: &Actor, kind: DocumentKind) -> bool {
    kind == DocumentKind::Scratch || matches!(actor.role, Role::Owner | Role::Member | Role::Worker)
}
