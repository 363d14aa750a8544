//! What a change writes beside sessions and their logs.

use crate::access::{ActingUser, Role};
use crate::approval::{self, Approval};
use crate::feedback::Rating;
use crate::feedback::capture::FeedbackEvent;
use crate::feedback::session::FeedbackSession;
use crate::ids::{CredentialId, UserId};
use crate::lesson::{self, Lesson};
use crate::library::{self, Doc};
use crate::memory::{Memory, Owner};
use crate::people::{Identity, Key, SecretHash, Share, User};
use crate::safety::codes::HoldReason;
use crate::safety::record::CrisisRecord;
use crate::time::Timestamp;

/// Rows beside sessions.
#[derive(Clone, Debug)]
pub enum Record {
    /// Writes a document; its times are set by the store. `expects` is the version that was looked
    /// at: another one, or one where none was, is `Stale`. A taken slug is `AlreadyExists`.
    PutDoc {
        doc: Box<Doc>,
        expects: Option<u64>,
    },
    /// One that is not there is no error.
    DropDoc {
        kind: library::Kind,
        id: Box<str>,
    },
    /// Its session must exist, or be made by the same change.
    AddApproval(Box<Approval>),
    /// Closes a pending approval; one that is not pending any more is `Stale`.
    CloseApproval {
        id: Box<str>,
        state: approval::State,
        decided_by: Option<Box<str>>,
        /// `None` leaves what was staged as it is.
        body: Option<Box<approval::Body>>,
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
        count: lesson::Count,
    },
    AddKey {
        key: Key,
        hash: SecretHash,
    },
    RevokeKey {
        id: CredentialId,
    },
    AddShare {
        share: Share,
        hash: SecretHash,
    },
    RevokeShare {
        id: String,
        by: ActingUser,
    },
    AddUser(User),
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
