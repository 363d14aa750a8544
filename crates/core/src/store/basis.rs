//! What records rest on: rows beside sessions that must be there, or must not, or must be as they were when the change
//! was decided. A store finds those rows under its lock; what they mean is judged here, for every store alike.

use std::borrow::Cow;

use smallvec::{SmallVec, smallvec};

use super::{Change, PartTarget, Record, Refusal};
use crate::approval;
use crate::channel::{ConversationKey, EpochRule};
use crate::definitions::{self, DefinitionKind};
use crate::document::SharedDocument;
use crate::error::{Conflict, Error};
use crate::ids::{CredentialId, SessionId, UserId};
use crate::people::{Identity, User};
use crate::response::ResponseRow;

/// A row, by what it is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowKey<'r> {
    Session(&'r SessionId),
    Doc(definitions::DefinitionKind, &'r str),
    /// The document that has this slug.
    Slug(definitions::DefinitionKind, &'r str),
    Approval(&'r str),
    /// The response to a view that keeps the respondent of this name from opening another.
    StandingResponse {
        view_id: &'r str,
        respondent_name: &'r str,
    },
    /// A document of a session.
    SharedDocument(&'r SessionId, Cow<'r, str>),
    ApiKey(&'r CredentialId),
    BrowserSession(&'r str),
    Share(&'r str),
    User(&'r UserId),
    Identity(&'r Identity),
    /// By its hash.
    LinkCode(&'r str),
    Feedback(&'r str),
    FeedbackSession(&'r str),
    Lesson(&'r str),
    Crisis(Cow<'r, str>),
    /// Something that a channel was told.
    ChannelUpdate {
        channel: &'r str,
        update_key: &'r str,
    },
    Conversation {
        channel: &'r str,
        /// See [`ConversationKey::place`].
        place: Cow<'r, str>,
    },
    Channel(&'r str),
}

/// What of a row decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowState {
    Present,
    /// Of a document, a feedback session or a lesson; of a channel, its epoch.
    Version(u64),
    /// Of an approval.
    Approval(approval::ApprovalState),
    /// Of a slug, the id of its document; of an identity, its user; of a conversation, its session.
    Of(Box<str>),
}

/// What a record expects of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect<'r> {
    /// Otherwise it is `NotFound`.
    Present,
    /// Otherwise it is `AlreadyExists`.
    Absent,
    /// No row, or one of this document or user; otherwise it is `AlreadyExists`.
    AbsentOrOf(&'r str),
    /// The version that was looked at, `None` for no row; otherwise the change is `Stale`.
    Version(Option<u64>),
    /// The row of this session, which was looked at, `None` for no row; otherwise the change is `Stale`.
    StillOf(Option<&'r str>),
    /// An approval that waits; otherwise the change is `Stale`.
    Pending,
}

type RowExpectations<'r> = SmallVec<[(RowKey<'r>, Expect<'r>); 2]>;

/// Whether a row is what was expected of it.
pub fn judge(expect: Expect<'_>, found: Option<&RowState>) -> Result<(), Refusal> {
    let fits = match (expect, found) {
        (Expect::Present, found) => found.is_some(),
        (Expect::Absent, found) => found.is_none(),
        (Expect::AbsentOrOf(_), None) => true,
        (Expect::AbsentOrOf(id), Some(found)) => matches!(found, RowState::Of(of) if **of == *id),
        (Expect::StillOf(id), None) => id.is_none(),
        (Expect::StillOf(id), Some(found)) => matches!(found, RowState::Of(of) if Some(&**of) == id),
        (Expect::Version(version), None) => version.is_none(),
        (Expect::Version(version), Some(found)) => {
            matches!(found, RowState::Version(found) if Some(*found) == version)
        }
        (Expect::Pending, found) => found == Some(&RowState::Approval(approval::ApprovalState::Pending)),
    };
    match expect {
        _ if fits => Ok(()),
        Expect::Present => Err(Error::NotFound.into()),
        Expect::Absent | Expect::AbsentOrOf(_) => Err(Conflict::AlreadyExists.into()),
        Expect::Version(_) | Expect::StillOf(_) | Expect::Pending => Err(Refusal::Stale),
    }
}

/// The version of a row that was written over this one.
pub fn next_version(expects: Option<u64>) -> u64 {
    expects.map_or(1, |version| version + 1)
}

impl Record {
    /// The rows that it rests on, and what it expects of each.
    pub fn rests_on(&self) -> RowExpectations<'_> {
        match self {
            Self::PutDoc { doc, expects } => {
                let mut expected: RowExpectations<'_> =
                    smallvec![(RowKey::Doc(doc.kind, &doc.id), Expect::Version(*expects))];
                if let Some(slug) = doc.slug.as_deref() {
                    expected.push((RowKey::Slug(doc.kind, slug), Expect::AbsentOrOf(&doc.id)));
                }
                expected
            }
            Self::AddApproval(approval) => smallvec![
                (RowKey::Session(&approval.session), Expect::Present),
                (RowKey::Approval(&approval.id), Expect::Absent),
            ],
            Self::CloseApproval { id, .. } => smallvec![(RowKey::Approval(id), Expect::Pending)],
            // Another one is `Stale`: the decision is taken again and finds it.
            Self::AddResponse(row) => smallvec![
                (RowKey::Session(&row.session), Expect::Present),
                (standing(row), Expect::Version(None)),
            ],
            Self::OpenDocument(document) => smallvec![
                (RowKey::Session(&document.session), Expect::Present),
                (shared_document(document), Expect::Absent),
            ],
            Self::HoldCrisis { id, .. } => smallvec![(RowKey::Crisis(Cow::Borrowed(id)), Expect::Present)],
            Self::AddFeedback(event) => smallvec![(RowKey::Feedback(&event.id), Expect::Absent)],
            Self::PutFeedbackSession { session, expects } => {
                smallvec![(RowKey::FeedbackSession(&session.id), Expect::Version(*expects))]
            }
            Self::PutLesson { lesson, expects } => {
                smallvec![(RowKey::Lesson(&lesson.id), Expect::Version(*expects))]
            }
            Self::AddKey { key, .. } => smallvec![(RowKey::ApiKey(&key.id), Expect::Absent)],
            Self::RevokeKey { id } => smallvec![(RowKey::ApiKey(id), Expect::Present)],
            Self::AddBrowserSession { session, .. } => {
                smallvec![(RowKey::BrowserSession(&session.id), Expect::Absent)]
            }
            Self::AddShare { share, .. } => {
                let session = share.session.as_ref().map(RowKey::Session);
                let view = || share.view.as_deref().map(|view| RowKey::Doc(DefinitionKind::View, view));
                let opened = session.or_else(view).map(|opened| (opened, Expect::Present));
                opened.into_iter().chain([(RowKey::Share(&share.id), Expect::Absent)]).collect()
            }
            Self::RevokeShare { id, .. } => smallvec![(RowKey::Share(id), Expect::Present)],
            Self::AddUser(user) => std::iter::once((RowKey::User(&user.id), Expect::Absent))
                .chain(user.identities.iter().map(|identity| (RowKey::Identity(identity), Expect::Absent)))
                .collect(),
            Self::AddGuest(user) => std::iter::once((RowKey::User(&user.id), Expect::Absent))
                .chain(user.identities.iter().map(|one| (RowKey::Identity(one), Expect::Version(None))))
                .collect(),
            Self::UseLinkCode { hash } => smallvec![(RowKey::LinkCode(hash), Expect::Present)],
            Self::UpdateUser { id, .. } | Self::KnowUser { id, .. } => {
                smallvec![(RowKey::User(id), Expect::Present)]
            }
            Self::AddIdentity { user, identity } => smallvec![
                (RowKey::User(user), Expect::Present),
                (RowKey::Identity(identity), Expect::AbsentOrOf(user.as_str())),
            ],
            Self::MergeUser { from, into } => {
                smallvec![(RowKey::User(from), Expect::Present), (RowKey::User(into), Expect::Present)]
            }
            Self::AddChannelUpdate { channel, update_key } => {
                smallvec![(RowKey::ChannelUpdate { channel, update_key }, Expect::Absent)]
            }
            Self::BindConversation { key, session, instead_of } => smallvec![
                (RowKey::Session(session), Expect::Present),
                (conversation(key), Expect::StillOf(instead_of.as_ref().map(SessionId::as_str))),
            ],
            Self::AddDelivery(delivery) => {
                smallvec![(RowKey::Session(&delivery.session), Expect::Present)]
            }
            Self::NoteDelivery { channel, epoch, .. } => {
                smallvec![(RowKey::Channel(channel), Expect::Version(Some(*epoch)))]
            }
            Self::PutChannel { channel, change } => match change.epoch {
                EpochRule::Any => smallvec![],
                EpochRule::Seen(epoch) => smallvec![(RowKey::Channel(channel), Expect::Version(epoch))],
            },
            // The last word stands, or what is not there is no error.
            Self::DropDoc { .. }
            | Self::NoteStrangerTold { .. }
            | Self::PutLinkCode { .. }
            | Self::TouchBrowserSession { .. }
            | Self::DropBrowserSession { .. }
            | Self::SetResponse { .. }
            | Self::SnapshotDocument(_)
            | Self::SetDocumentOrigin { .. }
            | Self::PutMemory(_)
            | Self::DropMemory { .. }
            | Self::DropMemories { .. }
            | Self::MoveMemories { .. }
            | Self::AddRating(_)
            | Self::AddCrisis(_)
            | Self::CountLessons { .. } => smallvec![],
        }
    }

    /// The rows as it leaves them, for the records after it in the same change.
    fn leaves(&self) -> SmallVec<[(RowKey<'_>, Option<RowState>); 2]> {
        match self {
            Self::PutDoc { doc, expects } => {
                let version = RowState::Version(next_version(*expects));
                let slug = doc
                    .slug
                    .as_deref()
                    .map(|slug| (RowKey::Slug(doc.kind, slug), Some(RowState::Of(doc.id.as_ref().into()))));
                std::iter::once((RowKey::Doc(doc.kind, &doc.id), Some(version))).chain(slug).collect()
            }
            Self::DropDoc { kind, id } => smallvec![(RowKey::Doc(*kind, id), None)],
            Self::AddApproval(approval) => {
                smallvec![(RowKey::Approval(&approval.id), Some(RowState::Approval(approval.state)))]
            }
            Self::CloseApproval { id, state, .. } => {
                smallvec![(RowKey::Approval(id), Some(RowState::Approval(*state)))]
            }
            Self::AddResponse(row) if row.occupies() => smallvec![(standing(row), Some(RowState::Present))],
            Self::OpenDocument(document) => smallvec![(shared_document(document), Some(RowState::Present))],
            Self::AddCrisis(crisis) => {
                smallvec![(RowKey::Crisis(Cow::Owned(crisis.id.to_string())), Some(RowState::Present))]
            }
            Self::AddFeedback(event) => smallvec![(RowKey::Feedback(&event.id), Some(RowState::Present))],
            Self::PutFeedbackSession { session, expects } => {
                let version = RowState::Version(next_version(*expects));
                smallvec![(RowKey::FeedbackSession(&session.id), Some(version))]
            }
            Self::PutLesson { lesson, expects } => {
                let version = RowState::Version(next_version(*expects));
                smallvec![(RowKey::Lesson(&lesson.id), Some(version))]
            }
            Self::AddKey { key, .. } => smallvec![(RowKey::ApiKey(&key.id), Some(RowState::Present))],
            Self::AddShare { share, .. } => smallvec![(RowKey::Share(&share.id), Some(RowState::Present))],
            Self::AddUser(user) => user_left(user),
            Self::AddGuest(user) => user_left(user),
            Self::AddIdentity { user, identity } => {
                smallvec![(RowKey::Identity(identity), Some(RowState::Of(user.as_str().into())))]
            }
            Self::UseLinkCode { hash } => smallvec![(RowKey::LinkCode(hash), None)],
            Self::AddChannelUpdate { channel, update_key } => {
                smallvec![(RowKey::ChannelUpdate { channel, update_key }, Some(RowState::Present))]
            }
            Self::BindConversation { key, session, .. } => {
                smallvec![(conversation(key), Some(RowState::Of(session.as_str().into())))]
            }
            // Nothing that another record rests on: a change has one of a channel.
            Self::AddDelivery(_)
            | Self::NoteDelivery { .. }
            | Self::PutChannel { .. }
            | Self::AddResponse(_)
            | Self::SetResponse { .. }
            | Self::SnapshotDocument(_)
            | Self::SetDocumentOrigin { .. }
            | Self::PutMemory(_)
            | Self::DropMemory { .. }
            | Self::DropMemories { .. }
            | Self::MoveMemories { .. }
            | Self::AddRating(_)
            | Self::HoldCrisis { .. }
            | Self::CountLessons { .. }
            | Self::RevokeKey { .. }
            | Self::AddBrowserSession { .. }
            | Self::TouchBrowserSession { .. }
            | Self::DropBrowserSession { .. }
            | Self::RevokeShare { .. }
            | Self::UpdateUser { .. }
            | Self::KnowUser { .. }
            | Self::NoteStrangerTold { .. }
            | Self::PutLinkCode { .. }
            | Self::MergeUser { .. } => smallvec![],
        }
    }
}

/// A user who was written, and the user's identities.
fn user_left(user: &User) -> SmallVec<[(RowKey<'_>, Option<RowState>); 2]> {
    let of = |identity| (RowKey::Identity(identity), Some(RowState::Of(user.id.as_str().into())));
    std::iter::once((RowKey::User(&user.id), Some(RowState::Present)))
        .chain(user.identities.iter().map(of))
        .collect()
}

fn standing(row: &ResponseRow) -> RowKey<'_> {
    RowKey::StandingResponse { view_id: &row.view_id, respondent_name: &row.respondent_name }
}

fn conversation(key: &ConversationKey) -> RowKey<'_> {
    RowKey::Conversation { channel: &key.channel, place: Cow::Owned(key.place()) }
}

fn shared_document(document: &SharedDocument) -> RowKey<'_> {
    RowKey::SharedDocument(&document.session, Cow::Owned(document.key.joined()))
}

/// Rows as the records of a change have left them so far.
#[derive(Default)]
struct WrittenRows<'r> {
    rows: Vec<(RowKey<'r>, Option<RowState>)>,
}

impl<'r> WrittenRows<'r> {
    fn row(&self, key: &RowKey<'_>) -> Option<Option<&RowState>> {
        self.rows.iter().rev().find(|(left, _)| left == key).map(|(_, state)| state.as_ref())
    }

    fn add(&mut self, record: &'r Record) {
        for (key, state) in record.leaves() {
            if let RowKey::Doc(kind, id) = &key {
                // What it was called before is free.
                self.rows.retain(|(left, state)| {
                    let is_its_slug = matches!(state, Some(RowState::Of(of)) if **of == **id);
                    !(is_its_slug && matches!(left, RowKey::Slug(of, _) if of == kind))
                });
            }
            self.rows.push((key, state));
        }
    }

    /// A slug in the store says nothing any more if its document has been written since.
    fn frees(&self, key: &RowKey<'_>, found: &RowState) -> bool {
        match (key, found) {
            (RowKey::Slug(kind, _), RowState::Of(id)) => self.row(&RowKey::Doc(*kind, id)).is_some(),
            _ => false,
        }
    }
}

impl Change {
    /// The rows that its records rest on, each once: what a store has to find for [`Change::judge_records`].
    pub fn rests_on(&self) -> Vec<RowKey<'_>> {
        let mut keys = Vec::new();
        for (key, _) in self.records.iter().flat_map(Record::rests_on) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// Whether every record may be written, in their order: each sees what those before it do, and the sessions that
    /// the change makes. `find` says what the store has under a key.
    pub fn judge_records<E>(
        &self,
        mut find: impl FnMut(&RowKey<'_>) -> Result<Option<RowState>, E>,
    ) -> Result<Result<(), Refusal>, E> {
        let mut left = WrittenRows::default();
        left.rows.extend(self.parts.iter().filter_map(|part| match &part.on {
            PartTarget::New(new) => Some((RowKey::Session(&new.id), Some(RowState::Present))),
            PartTarget::Session(_) => None,
        }));
        for record in &self.records {
            for (key, expect) in record.rests_on() {
                let judged = match left.row(&key) {
                    Some(state) => judge(expect, state),
                    None => {
                        let found = find(&key)?.filter(|found| !left.frees(&key, found));
                        judge(expect, found.as_ref())
                    }
                };
                if let Err(refusal) = judged {
                    return Ok(Err(refusal));
                }
            }
            left.add(record);
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::access::Role;
    use crate::definitions::DefinitionDoc;
    use crate::ids::TenantId;
    use crate::json::Json;
    use crate::time::Timestamp;

    fn doc(id: &str, slug: &str, expects: Option<u64>) -> Record {
        let doc = DefinitionDoc {
            kind: DefinitionKind::Task,
            id: id.into(),
            slug: Some(slug.into()),
            body: Json::stored("{}"),
            facets: Vec::new(),
            version: 0,
            created_by: None,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        };
        Record::PutDoc { doc: Box::new(doc), expects }
    }

    fn close(state: approval::ApprovalState) -> Record {
        Record::CloseApproval { id: "a".into(), state, decided_by: None, body: None }
    }

    fn user(id: &str) -> Record {
        Record::AddUser(User {
            id: UserId::stored(id),
            name: None,
            role: Role::Member,
            suspended: false,
            merged_into: None,
            known_by: None,
            told_at: None,
            created_at: Timestamp::default(),
            identities: vec![identity()],
        })
    }

    fn identity() -> Identity {
        Identity { platform: "mail".into(), external_id: "x".into() }
    }

    /// `ok`, `stale`, or the code of the error, over a store that has the document `d` of version 3 under the slug
    /// `taken`, and the approval `a`, which waits.
    fn judged(records: Vec<Record>) -> &'static str {
        let change = Change { records, ..Change::new(TenantId::stored("t")) };
        let judged = change.judge_records(|key| {
            Ok::<_, Infallible>(match key {
                RowKey::Doc(DefinitionKind::Task, "d") => Some(RowState::Version(3)),
                RowKey::Slug(DefinitionKind::Task, "taken") => Some(RowState::Of("d".into())),
                RowKey::Approval("a") => Some(RowState::Approval(approval::ApprovalState::Pending)),
                _ => None,
            })
        });
        match judged.unwrap() {
            Ok(()) => "ok",
            Err(Refusal::Stale) => "stale",
            Err(Refusal::Rejected(error)) => error.code(),
        }
    }

    #[test]
    fn a_row_is_judged_by_what_is_expected_of_it() {
        let pending = RowState::Approval(approval::ApprovalState::Pending);
        let of = RowState::Of("d".into());
        let rows = [None, Some(&RowState::Present), Some(&RowState::Version(3)), Some(&pending), Some(&of)];
        let table = [
            (Expect::Present, ["not_found", "ok", "ok", "ok", "ok"]),
            (Expect::Absent, ["ok", "already_exists", "already_exists", "already_exists", "already_exists"]),
            (Expect::AbsentOrOf("d"), ["ok", "already_exists", "already_exists", "already_exists", "ok"]),
            (Expect::Version(None), ["ok", "stale", "stale", "stale", "stale"]),
            (Expect::Version(Some(3)), ["stale", "stale", "ok", "stale", "stale"]),
            (Expect::Version(Some(2)), ["stale", "stale", "stale", "stale", "stale"]),
            (Expect::StillOf(None), ["ok", "stale", "stale", "stale", "stale"]),
            (Expect::StillOf(Some("d")), ["stale", "stale", "stale", "stale", "ok"]),
            (Expect::StillOf(Some("e")), ["stale", "stale", "stale", "stale", "stale"]),
            (Expect::Pending, ["stale", "stale", "stale", "ok", "stale"]),
        ];
        for (expect, answers) in table {
            for (found, answer) in rows.iter().zip(answers) {
                let judged = match judge(expect, *found) {
                    Ok(()) => "ok",
                    Err(Refusal::Stale) => "stale",
                    Err(Refusal::Rejected(error)) => error.code(),
                };
                assert_eq!(judged, answer, "{expect:?} of {found:?}");
            }
        }
    }

    #[test]
    fn a_record_sees_what_those_before_it_in_the_change_have_done() {
        assert_eq!(judged(vec![doc("d", "taken", Some(3))]), "ok");
        assert_eq!(judged(vec![doc("d", "taken", Some(3)), doc("d", "taken", Some(4))]), "ok");
        assert_eq!(judged(vec![doc("d", "taken", Some(3)), doc("d", "taken", Some(3))]), "stale");
        assert_eq!(judged(vec![close(approval::ApprovalState::Approved)]), "ok");
        assert_eq!(
            judged(vec![close(approval::ApprovalState::Approved), close(approval::ApprovalState::Denied)]),
            "stale"
        );
        assert_eq!(judged(vec![user("ann"), user("bob")]), "already_exists", "one identity, two users");
        let again = Record::AddIdentity { user: UserId::stored("ann"), identity: identity() };
        assert_eq!(judged(vec![again.clone()]), "not_found");
        assert_eq!(judged(vec![user("ann"), again]), "ok");
    }

    #[test]
    fn a_slug_is_free_once_its_document_has_another_or_is_gone() {
        let new = || doc("e", "taken", None);
        assert_eq!(judged(vec![new()]), "already_exists");
        assert_eq!(judged(vec![doc("d", "other", Some(3)), new()]), "ok");
        assert_eq!(judged(vec![Record::DropDoc { kind: DefinitionKind::Task, id: "d".into() }, new()]), "ok");
        assert_eq!(judged(vec![doc("d", "taken", Some(3)), new()]), "already_exists");
        assert_eq!(judged(vec![doc("f", "s", None), doc("g", "s", None)]), "already_exists");
        assert_eq!(judged(vec![doc("f", "s", None), doc("f", "t", Some(1)), doc("g", "s", None)]), "ok");
    }
}
