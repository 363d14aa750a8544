//! What a change writes beside sessions and their logs.

use crate::access::{ActingUser, Role};
use crate::approval::{self, Approval};
use crate::channel::{ChannelStateChange, ConversationKey, Delivery, DeliveryNote};
use crate::definitions::{self, DefinitionDoc};
use crate::document::{DocumentKey, DocumentOrigin, SharedDocument};
use crate::feedback::Rating;
use crate::feedback::capture::FeedbackEvent;
use crate::feedback::session::FeedbackSession;
use crate::ids::{CredentialId, SessionId, UserId};
use crate::lesson::{self, Lesson};
use crate::memory::{Memory, Owner};
use crate::people::{BrowserSession, Identity, Key, KnownBy, LinkCode, SecretHash, Share, User};
use crate::response::{ResponseRow, ResponseState};
use crate::safety::codes::HoldReason;
use crate::safety::record::CrisisRecord;
use crate::time::Timestamp;

/// Rows beside sessions.
#[derive(Clone, Debug)]
pub enum Record {
    /// Writes a document; its times are set by the store. `expects` is the version that was looked
    /// at: another one, or one where none was, is `Stale`. A taken slug is `AlreadyExists`.
    PutDoc {
        doc: Box<DefinitionDoc>,
        expects: Option<u64>,
    },
    /// One that is not there is no error. The links to a view alone are deleted with the view, so that they do not open
    /// another view that is given its id later.
    DropDoc {
        kind: definitions::DefinitionKind,
        id: Box<str>,
    },
    /// Its session must exist, or be made by the same change.
    AddApproval(Box<Approval>),
    /// Closes a pending approval; one that is not pending any more is `Stale`.
    CloseApproval {
        id: Box<str>,
        state: approval::ApprovalState,
        decided_by: Option<Box<str>>,
        /// `None` leaves what was staged as it is.
        body: Option<Box<approval::ApprovalBody>>,
    },
    /// Its session must exist, or be made by the same change. Another response of the same respondent in the way is
    /// `Stale`.
    AddResponse(Box<ResponseRow>),
    /// Moves a response, or says that it was saved again. The guard of its session's part keeps it consistent. One that
    /// is not there is no error.
    SetResponse {
        session: SessionId,
        state: ResponseState,
    },
    /// A document that is opened; one of that name is `AlreadyExists`. Its session must exist, or be made by the same
    /// change. [`super::Change::landed`] sets the sequences of the opening.
    OpenDocument(Box<SharedDocument>),
    /// Writes down the value of a document after the patches of the same change. The guard of its session's part keeps
    /// it consistent.
    SnapshotDocument(Box<SharedDocument>),
    /// What a document has last seen of its row. One that is not there is no error.
    SetDocumentOrigin {
        session: SessionId,
        key: DocumentKey,
        origin: Box<DocumentOrigin>,
    },
    /// Writes a memory whole, new or not: the last word stands.
    PutMemory(Box<Memory>),
    /// One that is not there is no error.
    DropMemory {
        id: Box<str>,
    },
    /// Forgets everything of an owner.
    DropMemories {
        owner: Owner,
    },
    /// Hands facts and arcs of one owner to another. A profile is one per owner, and stays.
    MoveMemories {
        from: Owner,
        into: Owner,
    },
    /// Kept apart from what was said, and with no word of it. One whose id is there already stays as it is.
    AddRating(Box<Rating>),
    /// As a rating is.
    AddCrisis(Box<CrisisRecord>),
    /// Keeps a crisis from being purged until then at least; one that is not there is `NotFound`.
    HoldCrisis {
        id: Box<str>,
        until: Timestamp,
        reason: HoldReason,
    },
    /// One whose id is there already is `AlreadyExists`; [`FeedbackEvent::land`] first, with what the change has done.
    AddFeedback(Box<FeedbackEvent>),
    /// Writes a feedback session; `expects` is as with documents, and its version becomes the next.
    PutFeedbackSession {
        session: Box<FeedbackSession>,
        expects: Option<u64>,
    },
    /// Writes a lesson, but for its effect; `expects` is as with documents, and its version becomes the next.
    PutLesson {
        lesson: Box<Lesson>,
        expects: Option<u64>,
    },
    /// Counts something of these lessons; one that is not there is no error. Thumbs count only once it was shown.
    CountLessons {
        ids: Vec<String>,
        count: lesson::EffectCounter,
    },
    AddKey {
        key: Key,
        hash: SecretHash,
    },
    RevokeKey {
        id: CredentialId,
    },
    AddBrowserSession {
        session: BrowserSession,
        hash: SecretHash,
    },
    /// Says that it was used now; one that is not there is no error.
    TouchBrowserSession {
        id: Box<str>,
    },
    /// One that is not there is no error.
    DropBrowserSession {
        id: Box<str>,
    },
    /// Its session must exist; if it has none, its view must.
    AddShare {
        share: Share,
        hash: SecretHash,
    },
    RevokeShare {
        id: String,
        by: ActingUser,
    },
    /// Keeps that a channel was told this; what it was told before is `AlreadyExists`.
    AddChannelUpdate {
        channel: Box<str>,
        update_key: Box<str>,
    },
    /// Makes a session the one that a conversation is held in. The conversation must be held in the session that was
    /// looked at, or in none; otherwise the change is `Stale`. The session must exist, or be made by the same change.
    BindConversation {
        key: ConversationKey,
        session: SessionId,
        instead_of: Option<SessionId>,
    },
    /// Files something to be sent; what is filed already stays as it is. Its session must exist, or be made by the same
    /// change. [`super::Change::landed`] sets its times.
    AddDelivery(Box<Delivery>),
    /// Notes something of a delivery, by whoever holds its channel under this epoch; another one is `Stale`. A delivery
    /// that is not there is no error.
    NoteDelivery {
        id: Box<str>,
        channel: Box<str>,
        epoch: u64,
        note: DeliveryNote,
    },
    /// Changes the row of a channel; one that is not there is made.
    PutChannel {
        channel: Box<str>,
        change: ChannelStateChange,
    },
    AddUser(User),
    /// A guest of whom a channel tells for the first time; if somebody has the identity meanwhile, it is `Stale`.
    AddGuest(Box<User>),
    /// Says how an owner got to know a user.
    KnowUser {
        id: UserId,
        known_by: KnownBy,
    },
    /// Notes that a stranger is told now that nobody answers them; one that is not there is no error.
    NoteStrangerTold {
        id: UserId,
    },
    /// The code of an account takes the place of an earlier one. Those that have expired are removed.
    PutLinkCode {
        code: Box<LinkCode>,
        hash: Box<str>,
    },
    /// Removes a code; one that is not there is `NotFound`.
    UseLinkCode {
        hash: Box<str>,
    },
    UpdateUser {
        id: UserId,
        role: Option<Role>,
        name: Option<String>,
        suspended: Option<bool>,
    },
    /// Refused with `AlreadyExists` if another user has it.
    AddIdentity {
        user: UserId,
        identity: Identity,
    },
    /// Moves identities, participations and held sessions of one user to another, and suspends the
    /// first.
    MergeUser {
        from: UserId,
        into: UserId,
    },
}

/// Where a record lies, if its change names no session; the records of a change that does lie where that session lies.
/// It decides whether something of an incognito session stays in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home<'r> {
    Session(&'r SessionId),
    /// Where the memories of this owner lie.
    Owner(&'r Owner),
    /// Where the approval of this id lies.
    Approval(&'r str),
    /// Where the memory of this id lies.
    Memory(&'r str),
    /// Where the share link of this id lies, as this user sees it.
    Share(&'r str, &'r ActingUser),
    /// In the durable store.
    Tenant,
}

/// A record that is kept apart from the log, with a retention of its own: in SQLite, in a file beside it.
#[derive(Clone, Copy, Debug)]
pub enum SideRecord<'r> {
    PutMemory(&'r Memory),
    DropMemory(&'r str),
    DropMemories(&'r Owner),
    MoveMemories(&'r Owner, &'r Owner),
    AddRating(&'r Rating),
    AddCrisis(&'r CrisisRecord),
    HoldCrisis { id: &'r str, until: Timestamp, reason: HoldReason },
}

impl Record {
    pub fn home(&self) -> Home<'_> {
        match self {
            Self::AddApproval(approval) => Home::Session(&approval.session),
            Self::AddResponse(row) => Home::Session(&row.session),
            Self::SetResponse { session, .. } | Self::SetDocumentOrigin { session, .. } => {
                Home::Session(session)
            }
            Self::OpenDocument(document) | Self::SnapshotDocument(document) => {
                Home::Session(&document.session)
            }
            Self::AddShare { share, .. } => share.session.as_ref().map_or(Home::Tenant, Home::Session),
            Self::CloseApproval { id, .. } => Home::Approval(id),
            Self::PutMemory(memory) => Home::Owner(&memory.owner),
            Self::DropMemories { owner } => Home::Owner(owner),
            Self::MoveMemories { from, .. } => Home::Owner(from),
            Self::DropMemory { id } => Home::Memory(id),
            Self::RevokeShare { id, by } => Home::Share(id, by),
            // Ratings and crises name their session by an opaque id, which leads nowhere.
            Self::AddRating(_)
            | Self::AddCrisis(_)
            | Self::HoldCrisis { .. }
            | Self::PutDoc { .. }
            | Self::DropDoc { .. }
            | Self::AddFeedback(_)
            | Self::PutFeedbackSession { .. }
            | Self::PutLesson { .. }
            | Self::CountLessons { .. }
            | Self::AddKey { .. }
            | Self::RevokeKey { .. }
            | Self::AddBrowserSession { .. }
            | Self::TouchBrowserSession { .. }
            | Self::DropBrowserSession { .. }
            | Self::AddChannelUpdate { .. }
            | Self::BindConversation { .. }
            | Self::AddDelivery(_)
            | Self::NoteDelivery { .. }
            | Self::PutChannel { .. }
            | Self::AddUser(_)
            | Self::AddGuest(_)
            | Self::KnowUser { .. }
            | Self::NoteStrangerTold { .. }
            | Self::PutLinkCode { .. }
            | Self::UseLinkCode { .. }
            | Self::UpdateUser { .. }
            | Self::AddIdentity { .. }
            | Self::MergeUser { .. } => Home::Tenant,
        }
    }

    /// The record as it is kept apart from the log; `None` if it lies with it.
    pub fn side(&self) -> Option<SideRecord<'_>> {
        match self {
            Self::PutMemory(memory) => Some(SideRecord::PutMemory(memory)),
            Self::DropMemory { id } => Some(SideRecord::DropMemory(id)),
            Self::DropMemories { owner } => Some(SideRecord::DropMemories(owner)),
            Self::MoveMemories { from, into } => Some(SideRecord::MoveMemories(from, into)),
            Self::AddRating(rating) => Some(SideRecord::AddRating(rating)),
            Self::AddCrisis(crisis) => Some(SideRecord::AddCrisis(crisis)),
            Self::HoldCrisis { id, until, reason } => {
                Some(SideRecord::HoldCrisis { id, until: *until, reason: *reason })
            }
            Self::PutDoc { .. }
            | Self::DropDoc { .. }
            | Self::AddApproval(_)
            | Self::CloseApproval { .. }
            | Self::AddResponse(_)
            | Self::SetResponse { .. }
            | Self::OpenDocument(_)
            | Self::SnapshotDocument(_)
            | Self::SetDocumentOrigin { .. }
            | Self::AddFeedback(_)
            | Self::PutFeedbackSession { .. }
            | Self::PutLesson { .. }
            | Self::CountLessons { .. }
            | Self::AddKey { .. }
            | Self::RevokeKey { .. }
            | Self::AddBrowserSession { .. }
            | Self::TouchBrowserSession { .. }
            | Self::DropBrowserSession { .. }
            | Self::AddShare { .. }
            | Self::RevokeShare { .. }
            | Self::AddChannelUpdate { .. }
            | Self::BindConversation { .. }
            | Self::AddDelivery(_)
            | Self::NoteDelivery { .. }
            | Self::PutChannel { .. }
            | Self::AddUser(_)
            | Self::AddGuest(_)
            | Self::KnowUser { .. }
            | Self::NoteStrangerTold { .. }
            | Self::PutLinkCode { .. }
            | Self::UseLinkCode { .. }
            | Self::UpdateUser { .. }
            | Self::AddIdentity { .. }
            | Self::MergeUser { .. } => None,
        }
    }
}
