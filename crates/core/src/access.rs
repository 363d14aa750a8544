//! Who may do what: the rights table as data, and the one function that reads it.
//!
//! Owns rules, not tokens: how a caller proved who it is belongs to the surface. A stranger gets
//! the answer of a missing id; only a caller who may read a session learns that it may not do more.

use crate::error::{Error, Result};
use crate::event::{Event, MESSAGE_TYPES};
use crate::ids::{CredentialId, SessionId, TenantId, UserId};
use crate::people::SecretHash;
use crate::session::{Head, Session, SourceKind};
use crate::talk::route::ChannelRules;

/// The credential of callers on a server without authentication.
const LOCAL: &str = "local";
/// The credential of the operator. Keys have ids of their own, so neither name can be a key's.
pub(crate) const OPERATOR: &str = "operator";

/// A caller, as its credential says. Never built from a request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    pub tenant: TenantId,
    pub credential: CredentialId,
    pub role: Role,
    pub user: Option<UserId>,
    /// The session-id prefix that a channel credential is bound to.
    pub prefix: Option<Box<str>>,
    /// The session a share link was made for. A link to a view alone has none, and so reaches no session.
    pub shared: Option<(SessionId, ShareAccess)>,
    /// The one view that a share link opens, and then nothing else of its session.
    pub view: Option<Box<str>>,
    /// The hash of a share link's token: what the reads of the link are bound to in the store.
    pub link: Option<SecretHash>,
    /// The surface that the call came through: sets the source of what it opens.
    pub surface: SourceKind,
    /// Who is answered in the channel of a channel credential.
    pub rules: ChannelRules,
}

impl Actor {
    /// The caller of a server that has no authentication: the owner of the default tenant.
    pub fn local(surface: SourceKind) -> Self {
        Self {
            tenant: TenantId::stored("default"),
            credential: CredentialId::stored(LOCAL),
            role: Role::Owner,
            user: None,
            prefix: None,
            shared: None,
            view: None,
            link: None,
            surface,
            rules: ChannelRules::default(),
        }
    }

    /// Whether this caller may name the user that it speaks for: a caller in local mode, or the operator. Every
    /// other credential names its user itself.
    pub fn names_users(&self) -> bool {
        self.user.is_none() && matches!(self.credential.as_str(), LOCAL | OPERATOR)
    }

    /// Whether this is the caller of a server without authentication, who names no user: one person.
    pub fn is_local(&self) -> bool {
        self.user.is_none() && self.credential.as_str() == LOCAL
    }

    /// Whether a human bridge is this caller's own. The bridge of the one person of an installation without
    /// authentication has no holder.
    pub fn holds_bridge(&self, head: &Head) -> bool {
        head.is_bridge && head.holder == self.user && (self.user.is_some() || self.names_users())
    }

    /// The user id recorded as the author of what this caller writes; `None` without a user.
    pub fn author(&self) -> Option<Box<str>> {
        self.user.as_ref().map(|user| user.as_str().into())
    }
}

/// The user in whose name a store reads or changes rows that belong to people. A database with row-level security
/// enforces it, so that a mistake above the store does not show one user's rows to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActingUser {
    /// Rows of this user.
    User(UserId),
    /// Rows of every user in the tenant.
    Owner,
    /// No rows: the credential has no user.
    Nobody,
}

impl ActingUser {
    pub fn of(actor: &Actor) -> Self {
        match (actor.role, &actor.user) {
            (Role::Owner, _) => Self::Owner,
            (_, Some(user)) => Self::User(user.clone()),
            (_, None) => Self::Nobody,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    Owner,
    Member,
    Guest,
    Worker,
    Channel,
    Share,
}

impl Role {
    pub const ALL: [Self; 6] =
        [Self::Owner, Self::Member, Self::Guest, Self::Worker, Self::Channel, Self::Share];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Member => "member",
            Self::Guest => "guest",
            Self::Worker => "worker",
            Self::Channel => "channel",
            Self::Share => "share",
        }
    }

    /// A role that a credential may carry.
    pub fn parse(text: &str) -> Result<Self> {
        Self::ALL[..5]
            .iter()
            .copied()
            .find(|role| role.as_str() == text)
            .ok_or_else(|| Error::invalid("role", "must be owner, member, guest, worker or channel"))
    }

    /// A role that a person may have.
    pub fn parse_person(text: &str) -> Result<Self> {
        Self::ALL[..3]
            .iter()
            .copied()
            .find(|role| role.as_str() == text)
            .ok_or_else(|| Error::invalid("role", "must be owner, member or guest"))
    }

    /// The weaker of two people's roles.
    #[must_use]
    pub fn lower(self, other: Self) -> Self {
        self.max(other)
    }

    /// Whether this is the role of a person: workers, channels and share links are none.
    pub const fn is_person(self) -> bool {
        matches!(self, Self::Owner | Self::Member | Self::Guest)
    }
}

/// The role that a credential has now: the lower of the role that it was made with and the role in the row of its
/// user. A demoted user's keys and tokens are demoted with the user. A credential that names no user, or one that has
/// no row, keeps its own role; so do the keys of workers and channels, which are not persons.
pub fn effective_role(of_credential: Role, of_user: Option<Role>) -> Role {
    match of_user {
        Some(of_user) if of_credential.is_person() => of_credential.lower(of_user),
        _ => of_credential,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareAccess {
    Read,
    Submit,
}

impl ShareAccess {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Submit => "submit",
        }
    }

    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "read" => Ok(Self::Read),
            "submit" => Ok(Self::Submit),
            _ => Err(Error::invalid("access", "must be read or submit")),
        }
    }
}

/// What a caller wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    Read,
    /// Open a session.
    Open,
    /// Post a message, or append an event that people write.
    Talk,
    /// Change the row of a session (title, description, metadata, whether it is hidden) or cancel it.
    Edit,
    /// End, discard or rate a sitting, or have a conversation looked back over.
    Sit,
    /// Take oneself off the participants of a session, or come back after having left.
    Leave,
    /// Be shown to others as present in a session.
    Attend,
    /// Ask the model of conversations something that is not kept.
    Turn,
    /// Name another model than the one that conversations are configured with.
    ChooseModel,
    /// Say which task one is working on, and record what one does meanwhile.
    WorkOn,
    Trigger,
    Decide,
    /// Create or change tasks, agents, entities, criteria, schedules.
    Configure,
    /// Claim, settle, append `agent.*`.
    Work,
    /// Share, fork, participants.
    Share,
    /// Retry, stop.
    Steer,
    /// Human-complete, elicitation-reply.
    Answer,
    /// Delete a session with its log. A group's session is another matter: see
    /// [`crate::session::decide::check_deletable`].
    Delete,
    /// Give feedback, and add to it.
    Feedback,
    /// Be told what feedback has taught.
    Learn,
    /// Accept, reword and retire lessons.
    Teach,
    /// Bundle, keys and users of the tenant, webhooks, retention, erasure.
    Administer,
    /// Tenants, other tenants' keys, backups, migrations.
    Operate,
}

impl Verb {
    /// The word that callers are told for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Open => "open",
            Self::Talk => "talk",
            Self::Edit => "edit",
            Self::Sit => "sit",
            Self::Leave => "leave",
            Self::Attend => "attend",
            Self::Turn => "turn",
            Self::ChooseModel => "choose_model",
            Self::WorkOn => "work_on",
            Self::Trigger => "trigger",
            Self::Decide => "decide",
            Self::Configure => "configure",
            Self::Work => "work",
            Self::Share => "share",
            Self::Steer => "steer",
            Self::Answer => "answer",
            Self::Delete => "delete",
            Self::Feedback => "feedback",
            Self::Learn => "learn",
            Self::Teach => "teach",
            Self::Administer => "administer",
            Self::Operate => "operate",
        }
    }
}

/// The rights of a role, some of them only on what is the caller's own.
pub fn verbs_of(role: Role) -> impl Iterator<Item = Verb> {
    RIGHTS.iter().map(|(verb, _)| *verb).filter(move |verb| right(role, *verb) != Right::No)
}

/// How far a right reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    No,
    All,
    Participant,
    Holder,
    /// Sessions whose claim the credential holds.
    Claimed,
    /// Sessions under the credential's prefix.
    Prefix,
    /// Sessions that the caller holds, and sittings that the caller opened as a participant: see
    /// [`check_sitting`].
    HolderOrOpener,
    /// The session that the link was made for.
    Shared,
    /// The session that a `submit` link was made for.
    SharedForSubmit,
    /// What the caller made, or what is assigned to it.
    OwnOrAssigned,
    Assignee,
}

/// The rights table: owner, member, guest, worker, channel, share link. An unlisted verb is denied.
pub const RIGHTS: &[(Verb, [Right; 6])] = {
    use Right::{
        All, Assignee, Claimed, Holder, HolderOrOpener, No, OwnOrAssigned, Participant, Prefix, Shared,
        SharedForSubmit,
    };
    &[
        (Verb::Read, [All, Participant, Participant, Claimed, Prefix, Shared]),
        (Verb::Open, [All, All, No, No, Prefix, No]),
        (Verb::Talk, [All, Participant, Participant, No, Prefix, SharedForSubmit]),
        (Verb::Edit, [All, Participant, No, No, Prefix, No]),
        (Verb::Sit, [All, HolderOrOpener, HolderOrOpener, No, Prefix, No]),
        (Verb::Leave, [Participant, Participant, Participant, No, No, No]),
        (Verb::Attend, [All, Participant, Participant, No, No, No]),
        (Verb::Turn, [All, All, No, No, No, No]),
        (Verb::ChooseModel, [All, No, No, No, No, No]),
        (Verb::WorkOn, [All, All, No, No, No, No]),
        (Verb::Trigger, [All, OwnOrAssigned, No, No, No, No]),
        (Verb::Decide, [All, Assignee, No, No, Prefix, No]),
        (Verb::Configure, [All, OwnOrAssigned, No, No, No, No]),
        (Verb::Work, [All, No, No, All, No, No]),
        (Verb::Share, [All, Holder, No, No, No, No]),
        (Verb::Steer, [All, Participant, No, No, No, No]),
        (Verb::Answer, [All, Assignee, No, No, No, No]),
        (Verb::Delete, [All, Holder, No, No, No, No]),
        (Verb::Feedback, [All, OwnOrAssigned, OwnOrAssigned, All, No, No]),
        (Verb::Learn, [All, OwnOrAssigned, OwnOrAssigned, All, No, No]),
        (Verb::Teach, [All, OwnOrAssigned, No, No, No, No]),
        (Verb::Administer, [All, No, No, No, No, No]),
        (Verb::Operate, [No, No, No, No, No, No]),
    ]
};

/// What a reader is shown of a session that it may read, and beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadExtent {
    pub events: EventView,
    /// Every column of the session's row; otherwise its id, title, status, result and last sequence.
    pub whole_row: bool,
    /// Who is present in it; otherwise only how many.
    pub people: bool,
    /// How its sittings were rated.
    pub ratings: bool,
    /// Lists of sessions, search results and hints.
    pub lists: bool,
}

/// How much of an event its reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventView {
    Full,
    /// Messages, without their metadata, author and ids.
    Shared,
}

impl ReadExtent {
    /// A share link is for readers outside the tenant: it shows what was said in its session, and nothing of the people
    /// and programs behind it.
    pub const fn of(role: Role) -> Self {
        match role {
            Role::Owner | Role::Member | Role::Guest | Role::Worker | Role::Channel => {
                Self { events: EventView::Full, whole_row: true, people: true, ratings: true, lists: true }
            }
            Role::Share => Self {
                events: EventView::Shared,
                whole_row: false,
                people: false,
                ratings: false,
                lists: false,
            },
        }
    }
}

impl EventView {
    /// The event types that are shown. `None`: all of them.
    pub const fn types(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Full => None,
            Self::Shared => Some(&MESSAGE_TYPES),
        }
    }

    /// Whether an event is shown at all.
    pub fn shows(self, event: &Event) -> bool {
        self.types().is_none_or(|types| types.contains(&event.kind.as_str()))
    }
}

/// Checks that the caller is shown lists.
pub fn check_lists(actor: &Actor) -> Result<()> {
    match ReadExtent::of(actor.role).lists {
        true => Ok(()),
        false => Err(Error::denied("a share link opens one session, not lists")),
    }
}

/// Checks that the caller is shown the ratings of a session that it may read.
pub fn check_ratings(actor: &Actor) -> Result<()> {
    match ReadExtent::of(actor.role).ratings {
        true => Ok(()),
        false => Err(Error::denied("a share link shows no ratings")),
    }
}

/// The cell of the rights table.
pub fn right(role: Role, verb: Verb) -> Right {
    RIGHTS.iter().find(|(listed, _)| *listed == verb).map_or(Right::No, |(_, rights)| rights[role as usize])
}

/// Checks a right that concerns no particular session.
pub fn check_general(actor: &Actor, verb: Verb) -> Result<()> {
    match right(actor.role, verb) {
        Right::No | Right::Shared | Right::SharedForSubmit => Err(denied(verb)),
        _ => Ok(()),
    }
}

/// Checks a right on a session that was found. A caller that may not read it is told `not_found`.
pub fn check(actor: &Actor, verb: Verb, session: &Session) -> Result<()> {
    if !reaches(right(actor.role, Verb::Read), actor, session) {
        return Err(Error::NotFound);
    }
    if !reaches(right(actor.role, verb), actor, session) {
        return Err(denied(verb));
    }
    Ok(())
}

/// Checks that the caller may read what a session's log holds. What a person records in a human bridge is theirs;
/// owners read it where the operator lets them.
pub fn check_log(actor: &Actor, session: &Session, owners_read: bool) -> Result<()> {
    let of_another = session.head.is_bridge && !actor.holds_bridge(&session.head);
    if of_another && !(owners_read && actor.role == Role::Owner) {
        return Err(Error::denied("only its holder reads what a human session records"));
    }
    Ok(())
}

/// Checks that the caller may end, discard or rate a sitting: the holder of the session and an owner may, and so may
/// the participant who opened this sitting.
pub fn check_sitting(actor: &Actor, session: &Session, opened_by: Option<&str>) -> Result<()> {
    let opened = right(actor.role, Verb::Sit) == Right::HolderOrOpener
        && actor.user.as_ref().is_some_and(|user| opened_by == Some(user.as_str()));
    if opened { check(actor, Verb::Read, session) } else { check(actor, Verb::Sit, session) }
}

/// Checks that the caller of a repeated request may be shown the session that the first request made or changed. The
/// idempotency key proves that the caller sent the same request before, not that the session is still the caller's to
/// read. A worker is the exception: settling a run ends the claim by which the worker could read it, and the key
/// belongs to the worker's own credential.
pub fn check_replay(actor: &Actor, session: &Session) -> Result<()> {
    if actor.role == Role::Worker { Ok(()) } else { check(actor, Verb::Read, session) }
}

fn denied(verb: Verb) -> Error {
    Error::denied(match verb {
        Verb::Read => "your role may not read this",
        Verb::Open => "your role may not open sessions",
        Verb::Talk => "your role may not write here",
        Verb::Edit => {
            "only its holder, an owner, or a member who takes part changes a session; guests do not"
        }
        Verb::Sit => {
            "only the holder of the session, an owner, or the person who opened this sitting ends or rates it"
        }
        Verb::Leave => "only people who take part in a session leave it",
        Verb::Attend => "only people are present in a session; your role is not a person's",
        Verb::Turn => "only members and owners ask the model without a conversation",
        Verb::ChooseModel => "only an owner names another model than the configured one; leave `model` out",
        Verb::WorkOn => "only members and owners record what they are working on",
        Verb::Trigger => "you may not start this work; ask an owner to start it",
        Verb::Decide => "only the assignee or an owner decides this",
        Verb::Configure => "only an owner may change this",
        Verb::Work => "claims are for workers and owners",
        Verb::Share => "only the holder of the session or an owner may do this",
        Verb::Steer => "your role may not stop or retry sessions",
        Verb::Answer => "only the assignee or an owner answers this",
        Verb::Delete => "only the holder of the session or an owner deletes it",
        Verb::Feedback => "your role gives no feedback",
        Verb::Learn => "your role is told no lessons",
        Verb::Teach => "only members and owners change lessons",
        Verb::Administer => "only an owner of the tenant may do this",
        Verb::Operate => "only the operator of this installation may do this",
    })
}

fn reaches(right: Right, actor: &Actor, session: &Session) -> bool {
    let head = &session.head;
    let holds = actor.user.is_some() && head.holder == actor.user;
    let takes_part = || holds || actor.user.as_ref().is_some_and(|user| session.participants.contains(user));
    let shared = || actor.shared.as_ref().filter(|_| actor.view.is_none());
    match right {
        Right::No => false,
        Right::All => true,
        Right::Participant => takes_part(),
        // Who opened a sitting is not known here.
        Right::Holder | Right::HolderOrOpener => holds,
        Right::Claimed => head.claim.as_ref().is_some_and(|claim| claim.credential == actor.credential),
        Right::Prefix => within_prefix(actor, &session.id),
        Right::Shared => shared().is_some_and(|(id, _)| *id == session.id),
        Right::SharedForSubmit => shared() == Some(&(session.id.clone(), ShareAccess::Submit)),
        // Tasks and assignments reach a session through the people on it.
        Right::OwnOrAssigned | Right::Assignee => takes_part(),
    }
}

/// Which sessions of its tenant a caller may read, as something that sessions can be looked up by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReadScope {
    Everything,
    /// Those that the user holds or takes part in.
    User(UserId),
    /// Those that the credential has claimed.
    Claims(CredentialId),
    /// Those whose id starts like this.
    Prefix(Box<str>),
    Nothing,
}

/// The read scope of a caller. Agrees with [`check`] for [`Verb::Read`], except that a share link, which opens
/// one session, has none.
pub fn read_scope(actor: &Actor) -> ReadScope {
    match right(actor.role, Verb::Read) {
        Right::All => ReadScope::Everything,
        Right::Participant | Right::OwnOrAssigned | Right::Assignee => {
            actor.user.clone().map_or(ReadScope::Nothing, ReadScope::User)
        }
        Right::Claimed => ReadScope::Claims(actor.credential.clone()),
        Right::Prefix => match &actor.prefix {
            Some(prefix) if !prefix.is_empty() => ReadScope::Prefix(prefix.clone()),
            _ => ReadScope::Nothing,
        },
        Right::No | Right::Holder | Right::HolderOrOpener | Right::Shared | Right::SharedForSubmit => {
            ReadScope::Nothing
        }
    }
}

/// Who may read a session, beside those who read everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audience {
    users: Vec<UserId>,
    claimed_by: Option<CredentialId>,
}

impl Audience {
    pub fn of(session: &Session) -> Self {
        let users = session.head.holder.iter().chain(&session.participants).cloned().collect();
        Self { users, claimed_by: session.head.claim.as_ref().map(|claim| claim.credential.clone()) }
    }

    /// The scopes that the session with this id lies in. `prefixes` are those that have listeners.
    pub fn scopes<'a>(
        &'a self,
        id: &'a SessionId,
        prefixes: impl Iterator<Item = &'a Box<str>> + 'a,
    ) -> impl Iterator<Item = ReadScope> + 'a {
        let users = self.users.iter().cloned().map(ReadScope::User);
        let claims = self.claimed_by.iter().cloned().map(ReadScope::Claims);
        let prefixes = prefixes.filter(|prefix| id.as_str().starts_with(&***prefix));
        users.chain(claims).chain(prefixes.cloned().map(ReadScope::Prefix))
    }
}

/// Whether a session id lies under the prefix of a channel's credential.
pub fn within_prefix(actor: &Actor, id: &SessionId) -> bool {
    actor.prefix.as_deref().is_some_and(|prefix| !prefix.is_empty() && id.as_str().starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rights_table_is_that_of_the_contract() {
        use Right::{All, No, Participant};
        let cell = right;
        assert_eq!(RIGHTS.len(), 23);
        for verb in [
            Verb::Open,
            Verb::Edit,
            Verb::Turn,
            Verb::ChooseModel,
            Verb::WorkOn,
            Verb::Configure,
            Verb::Share,
            Verb::Steer,
            Verb::Answer,
            Verb::Delete,
            Verb::Teach,
            Verb::Administer,
        ] {
            for role in [Role::Guest, Role::Worker, Role::Share] {
                assert_eq!(cell(role, verb), No, "{role:?} {verb:?}");
            }
        }
        for role in Role::ALL {
            assert_eq!(cell(role, Verb::Operate), No);
        }
        // Only participants can leave: an owner who takes no part has nothing to leave.
        for (verb, _) in RIGHTS.iter().filter(|(verb, _)| ![Verb::Operate, Verb::Leave].contains(verb)) {
            assert_eq!(cell(Role::Owner, *verb), All);
        }
        assert_eq!(cell(Role::Member, Verb::Read), Participant);
        assert_eq!(cell(Role::Worker, Verb::Read), Right::Claimed);
        assert_eq!(cell(Role::Worker, Verb::Work), All);
        assert_eq!(cell(Role::Member, Verb::Work), No);
        for verb in [Verb::Feedback, Verb::Learn] {
            assert_eq!(cell(Role::Guest, verb), Right::OwnOrAssigned);
            assert_eq!(cell(Role::Worker, verb), All);
            assert_eq!((cell(Role::Channel, verb), cell(Role::Share, verb)), (No, No));
        }
        assert_eq!(cell(Role::Channel, Verb::Talk), Right::Prefix);
    }

    #[test]
    fn a_credential_has_the_lower_of_its_own_role_and_its_users() {
        use Role::{Channel, Guest, Member, Owner, Worker};
        let table = [
            (Owner, None, Owner),
            (Owner, Some(Guest), Guest),
            (Owner, Some(Member), Member),
            (Guest, Some(Owner), Guest),
            (Member, Some(Member), Member),
            (Worker, Some(Guest), Worker),
            (Channel, Some(Guest), Channel),
        ];
        for (of_credential, of_user, expected) in table {
            assert_eq!(effective_role(of_credential, of_user), expected, "{of_credential:?} {of_user:?}");
        }
    }

    #[test]
    fn a_read_scope_holds_exactly_the_sessions_that_may_be_read() {
        let user = |name: &str| Some(UserId::stored(name));
        let session = |id: &str, holder: &str, participants: &[&str], claimed_by: Option<&str>| {
            let mut session = crate::session::decide::tests::session_in(crate::session::Status::Idle);
            session.id = SessionId::stored(id);
            session.head.holder = user(holder);
            session.participants = participants.iter().map(|name| UserId::stored(*name)).collect();
            session.head.claim = claimed_by.map(|credential| crate::session::Claim {
                worker: "w".into(),
                credential: CredentialId::stored(credential),
                lease_until: crate::time::Timestamp::from_micros(0),
            });
            session
        };
        let sessions = [
            session("tg:1", "ann", &[], None),
            session("tg:2", "bob", &["ann"], None),
            session("web", "bob", &[], Some("key")),
            session("web2", "bob", &["eve"], Some("other")),
        ];
        let mut compared = 0;
        for role in &Role::ALL[..5] {
            for named in [None, user("ann"), user("nobody")] {
                for prefix in [None, Some(""), Some("tg:")] {
                    let actor = Actor {
                        role: *role,
                        user: named.clone(),
                        prefix: prefix.map(Into::into),
                        credential: CredentialId::stored("key"),
                        ..Actor::local(SourceKind::Api)
                    };
                    let scope = read_scope(&actor);
                    let prefixes: Vec<Box<str>> = match &scope {
                        ReadScope::Prefix(prefix) => vec![prefix.clone()],
                        _ => Vec::new(),
                    };
                    for session in &sessions {
                        let audience = Audience::of(session);
                        let lies_in = scope == ReadScope::Everything
                            || audience.scopes(&session.id, prefixes.iter()).any(|other| other == scope);
                        let readable = check(&actor, Verb::Read, session).is_ok();
                        assert_eq!(lies_in, readable, "{role:?} {named:?} {prefix:?} {}", session.id);
                        compared += usize::from(readable);
                    }
                }
            }
        }
        assert!(compared > 20, "{compared}");
    }

    #[test]
    fn a_link_to_a_view_reaches_no_session() {
        let session = crate::session::decide::tests::session_in(crate::session::Status::Idle);
        let published = Some((session.id.clone(), ShareAccess::Submit));
        let link = |view: Option<&str>, shared| Actor {
            role: Role::Share,
            view: view.map(Into::into),
            shared,
            ..Actor::local(SourceKind::Web)
        };
        assert!(check(&link(None, published.clone()), Verb::Talk, &session).is_ok());
        for (verb, _) in RIGHTS {
            for shared in [None, published.clone()] {
                let refused = check(&link(Some("v"), shared), *verb, &session).unwrap_err();
                assert_eq!(refused.code(), "not_found", "{verb:?}");
            }
            assert_eq!(
                check_general(&link(Some("v"), None), *verb).unwrap_err().code(),
                "denied",
                "{verb:?}"
            );
        }
    }

    #[test]
    fn acting_for_another_never_raises_a_role() {
        assert_eq!(Role::Owner.lower(Role::Guest), Role::Guest);
        assert_eq!(Role::Guest.lower(Role::Owner), Role::Guest);
        assert_eq!(Role::Member.lower(Role::Member), Role::Member);
    }

    #[test]
    fn a_share_link_shows_messages_of_its_session_and_nothing_else() {
        let of = |kind: &str| Event {
            session_id: SessionId::stored("s"),
            sequence: 1,
            kind: crate::event::EventType::parse(kind).unwrap(),
            content: None,
            metadata: None,
            subthread_id: None,
            external_event_id: None,
            turn: None,
            author: None,
            at: crate::time::Timestamp::default(),
        };
        for role in Role::ALL {
            let extent = ReadExtent::of(role);
            let all = role != Role::Share;
            let shown = [extent.whole_row, extent.people, extent.ratings, extent.lists];
            assert_eq!(shown, [all; 4], "{role:?}");
            for (kind, is_message) in [
                ("user.message", true),
                ("agent.message", true),
                ("agent.thinking", false),
                ("session.created", false),
            ] {
                assert_eq!(extent.events.shows(&of(kind)), all || is_message, "{role:?} {kind}");
            }
            let mut actor = Actor::local(SourceKind::Api);
            actor.role = role;
            assert_eq!(check_lists(&actor).is_ok(), all);
            assert_eq!(check_ratings(&actor).is_ok(), all);
        }
    }
}
