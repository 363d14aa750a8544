//! The judgement of a session's part of a change: may it be written, and what does it write. Every way to a commit calls
//! [`judge`], with a head that is locked, or with one from the head cache whose row is compared as it is written.

use std::collections::{HashMap, HashSet};

use sederunt_core::document::{DocumentKey, DocumentKind};
use sederunt_core::error::Error;
use sederunt_core::event::{AppendOutcome, Event, advance};
use sederunt_core::ids::{SessionId, UserId};
use sederunt_core::session::Head;
use sederunt_core::store::{DocumentGuard, Guard, GuardRows, Refusal, Write};
use sederunt_core::talk::Talk;
use sederunt_core::time::Timestamp;
use tokio_postgres::Row;

use super::append::head_cache::NewestPatches;
use super::fault::Result;
use super::rows::new_events;
use super::tx::{Param, count};

/// Finds the sequences of external ids. They count in a session's own log and in the ranges that it shares with others.
pub(super) const EXTERNAL_IDS: &str = "WITH w AS MATERIALIZED (
         SELECT s.tk, s.sk, u.external_id FROM unnest($1::integer[], $2::text[], $3::text[]) AS u (tk, id, external_id)
         JOIN sessions s ON s.tk = u.tk AND s.id = u.id)
     SELECT w.sk, x.external_id, x.seq FROM w
     JOIN external_ids x ON x.tk = w.tk AND x.log = w.sk AND x.external_id = w.external_id
     UNION ALL
     SELECT w.sk, x.external_id, x.seq FROM w
     JOIN session_ranges r ON r.tk = w.tk AND r.sk = w.sk
     JOIN external_ids x ON x.tk = r.tk AND x.log = r.log AND x.external_id = w.external_id
         AND x.seq BETWEEN r.from_seq AND r.to_seq";

/// Finds the newest patches of documents.
pub(super) const NEWEST_PATCHES: &str =
    "SELECT s.sk, d.kind, d.id, greatest(d.snapshot_seq, (SELECT max(p.seq) FROM document_patches p
         WHERE p.tk = d.tk AND p.log = d.sk AND p.kind = d.kind AND p.id = d.id))
     FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[]) AS u (tk, session, kind, id)
     JOIN sessions s ON s.tk = u.tk AND s.id = u.session
     JOIN documents d ON d.tk = s.tk AND d.sk = s.sk AND d.kind = u.kind AND d.id = u.id";

/// The documents that guards ask for, as [`NEWEST_PATCHES`] takes them.
#[derive(Default)]
pub(super) struct AskedDocuments<'a> {
    tk: Vec<i32>,
    session: Vec<&'a str>,
    kind: Vec<&'a str>,
    id: Vec<&'a str>,
}

impl<'a> AskedDocuments<'a> {
    pub(super) fn add(&mut self, tk: i32, session: &'a SessionId, guard: &'a Guard) {
        for document in &guard.documents {
            self.tk.push(tk);
            self.session.push(session.as_str());
            self.kind.push(document.key.kind.as_str());
            self.id.push(&document.key.id);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tk.is_empty()
    }

    pub(super) fn params(&self) -> [Param<'_>; 4] {
        [&self.tk, &self.session, &self.kind, &self.id]
    }
}

/// The rows beside heads that a judgement needs, by the number of their session.
#[derive(Default)]
pub(super) struct Lookups {
    participants: HashSet<(i64, UserId)>,
    external_ids: HashMap<(i64, Box<str>), u64>,
    /// The newest patch of each document.
    documents: HashMap<(i64, DocumentKey), u64>,
}

impl Lookups {
    /// Adds rows of session and user.
    pub(super) fn add_participants(&mut self, rows: &[Row]) -> Result<()> {
        for row in rows {
            self.participants.insert((row.try_get(0)?, UserId::stored(row.try_get::<_, &str>(1)?)));
        }
        Ok(())
    }

    /// Adds what [`NEWEST_PATCHES`] found.
    pub(super) fn add_documents(&mut self, rows: &[Row]) -> Result<()> {
        for row in rows {
            let kind = DocumentKind::parse(row.try_get(1)?);
            let kind = kind.ok_or_else(|| Error::internal("a document of no kind was found"))?;
            let key = DocumentKey::stored(kind, row.try_get::<_, &str>(2)?);
            self.documents.insert((row.try_get(0)?, key), count(row.try_get(3)?));
        }
        Ok(())
    }

    /// Adds the newest patches of documents that are known from before.
    pub(super) fn know_documents(&mut self, sk: i64, patches: NewestPatches) {
        self.documents.extend(patches.into_iter().map(|(key, newest)| ((sk, key), newest)));
    }

    /// Adds the newest patches of documents that no guard asked for, so that they stay known.
    pub(super) fn know_unasked(&mut self, sk: i64, patches: &NewestPatches) {
        for (key, newest) in patches {
            self.documents.entry((sk, key.clone())).or_insert(*newest);
        }
    }

    /// The newest patches of documents, by the number of their session.
    pub(super) fn into_newest_patches(self) -> HashMap<i64, NewestPatches> {
        let mut newest: HashMap<i64, NewestPatches> = HashMap::new();
        for ((sk, key), sequence) in self.documents {
            newest.entry(sk).or_default().push((key, sequence));
        }
        newest
    }

    /// What a guard asks beside the head.
    fn guard_rows(&self, sk: i64, head: &Head, guard: &Guard) -> GuardRows {
        let takes_part = |user: &&UserId| self.participants.contains(&(sk, (*user).clone()));
        let newest = |one: &DocumentGuard| {
            let newest = self.documents.get(&(sk, one.key.clone()))?;
            Some((one.key.clone(), *newest))
        };
        GuardRows {
            participants: guard.asks_participants(head).filter(takes_part).cloned().collect(),
            documents: guard.documents.iter().filter_map(newest).collect(),
        }
    }

    /// The patch is the newest of its document for the appends after it.
    fn note_patch(&mut self, sk: i64, event: &Event) {
        if let Some(key) = event.metadata.as_ref().and_then(DocumentKey::of_metadata) {
            self.documents.insert((sk, key), event.sequence);
        }
    }

    /// Adds what [`EXTERNAL_IDS`] found.
    pub(super) fn add_external_ids(&mut self, rows: &[Row]) -> Result<()> {
        for row in rows {
            let id = row.try_get::<_, &str>(1)?.into();
            self.external_ids.insert((row.try_get(0)?, id), count(row.try_get(2)?));
        }
        Ok(())
    }
}

/// What the writes of a part do, beside moving the head.
#[derive(Default)]
pub(super) struct JudgedPart {
    pub(super) appended: Vec<AppendOutcome>,
    /// The description that the first text gives, unless the part sets one.
    pub(super) description: Option<Box<str>>,
    pub(super) talk: Option<Box<Talk>>,
    pub(super) deleted: bool,
}

/// Checks the guard on a head and moves the head by the writes. A refusal leaves the head and the lookups as they were. A
/// new session has no guard.
pub(super) fn judge(
    session: &SessionId,
    sk: i64,
    head: &mut Head,
    guard: Option<&Guard>,
    writes: &[Write],
    lookups: &mut Lookups,
    now: Timestamp,
) -> Result<JudgedPart, Refusal> {
    if let Some(guard) = guard {
        guard.check(session, head, &lookups.guard_rows(sk, head, guard), now)?;
    }
    let mut judged = JudgedPart::default();
    for write in writes {
        match write {
            Write::Append(events) => {
                let (appended, cold) = advance(session, head, events.clone(), now, |external| {
                    lookups.external_ids.get(&(sk, Box::from(external))).copied()
                });
                for event in new_events(&appended) {
                    if let Some(external) = &event.external_event_id {
                        lookups.external_ids.insert((sk, external.clone()), event.sequence);
                    }
                    if event.kind.is_patch() {
                        lookups.note_patch(sk, event);
                    }
                }
                judged.description = cold.description.or(judged.description.take());
                if judged.appended.is_empty() {
                    judged.appended = appended;
                } else {
                    judged.appended.extend(appended);
                }
            }
            Write::Update(update) => {
                update.apply(head, now);
                if update.description.is_some() {
                    judged.description = None;
                }
            }
            Write::Talk(talk) => {
                let mut talk = talk.clone();
                talk.land(&judged.appended, now);
                judged.talk = Some(talk);
            }
            Write::Delete => judged.deleted = true,
        }
    }
    Ok(judged)
}
