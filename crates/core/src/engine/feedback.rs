//! Commands on feedback: capturing a thumb with words, adding to it, and closing it with its lesson.

use std::collections::HashMap;

use uuid::Uuid;

use super::{CommandOutcome, Decided, Engine};
use crate::access::{self, Actor, Right, Role, Verb, right};
use crate::definitions::Task;
use crate::error::{Error, Result};
use crate::event::EventQuery;
use crate::feedback::capture::{
    self, Capture, CaptureJudgement, Clarification, EventBody, FeedbackEvent, Signal, Speaker,
};
use crate::feedback::session::{
    self, AdditionOutcome, ClosingReason, FeedbackClosure, FeedbackSession, FeedbackState, SessionBody,
};
use crate::feedback::stats::{self, Stats};
use crate::feedback::{Rating, RatingCounts, secret};
use crate::ids::{SessionId, TenantId, UserId, check_text};
use crate::lesson::infer::{LessonMaterial, SourceMessage};
use crate::lesson::merge::{LessonDraft, MergeOutcome, merge};
use crate::lesson::{self, Lesson, LessonQuery};
use crate::limits;
use crate::session::query::Page;
use crate::session::{MemoryMode, Session};
use crate::store::{
    Change, FailureQuery, FeedbackDue, FeedbackQuery, IdemKey, KeyNote, Record, RecordsOf, Refusal,
};
use crate::time::Timestamp;

use super::sessions::check_limit;

/// The outcome of capturing feedback.
#[derive(Clone, Debug, PartialEq)]
pub enum CaptureOutcome {
    Accepted {
        event: Box<FeedbackEvent>,
        /// The feedback session that was opened for further messages.
        session: Box<FeedbackSession>,
        /// Known lessons about the same subject.
        suggestions: Vec<Lesson>,
    },
    /// Stored as a thumb; it holds nothing to learn from yet.
    ClarificationRequired { event: String, asked: Clarification },
    /// It holds a secret. Nothing was stored.
    Blocked(secret::SecretKind),
}

/// The outcome of opening a feedback session.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedbackOpening {
    Open(Box<FeedbackSession>),
    Blocked(secret::SecretKind),
}

/// The outcome of closing a feedback session.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedbackEnding {
    Finalized { session: Box<FeedbackSession>, matter: Box<LessonMaterial>, merged: Option<MergeOutcome> },
    NotFound,
    Already(Box<FeedbackSession>),
}

/// Lessons that are returned with a thumb down.
const SUGGESTIONS_MAX: usize = 3;
/// Prompts of a session that are searched for the lessons in them.
const INJECTIONS_READ_MAX: usize = 100;
/// Every lost round means that another caller added a message or closed the session.
const ADD_ROUNDS_MAX: usize = limits::FEEDBACK_MESSAGES_MAX + limits::DECIDE_ROUNDS_MAX;

impl Engine {
    /// Captures a thumb with its words, and opens a feedback session for more.
    pub async fn capture_feedback(
        &self,
        actor: &Actor,
        wish: Capture,
        key: Option<IdemKey>,
    ) -> Result<CaptureOutcome> {
        access::check_general(actor, Verb::Feedback)?;
        let about = match &wish.session {
            Some(id) => Some(self.judged_session(actor, id, &wish.sequences).await?),
            None => None,
        };
        if let Some(related) = &wish.related
            && !self.feedback_of(actor, related).await.is_ok_and(|found| found.is_some())
        {
            return Err(Error::invalid("related_feedback_id", "there is no such feedback"));
        }
        let agent = about.and_then(|session| session.details.agent_slug.map(String::from));
        let session = wish.session.clone();
        let (signal, judged) = capture::judge(actor, wish, agent)?;
        let (body, asked) = match judged {
            CaptureJudgement::Blocked(kind) => return Ok(CaptureOutcome::Blocked(kind)),
            CaptureJudgement::Accepted(body) => (body, None),
            CaptureJudgement::Vague(body, asked) => (body, Some(asked)),
        };
        let now = self.tenant.now().await?;
        let drawn = self.ids.unordered();
        let event = FeedbackEvent {
            id: event_id(drawn),
            at: now,
            signal,
            author: actor.user.clone(),
            session,
            body: *body,
        };
        let opened = asked.is_none().then(|| self.fresh(actor, &event, first_words(&event.body), drawn, now));
        let mut change = Change::new(actor.tenant.clone())
            .record(Record::AddFeedback(Box::new(event.clone())))
            .keyed(key.map(|key| IdemKey { note: Some(KeyNote(drawn)), ..key }));
        if let Some(session) = &opened {
            change = change
                .record(Record::PutFeedbackSession { session: Box::new(session.clone()), expects: None });
        }
        let note = self.commit(change).await?.replay.and_then(|replay| replay.note);
        let drawn = note.map_or(drawn, |note| note.0);
        match asked {
            Some(asked) => Ok(CaptureOutcome::ClarificationRequired { event: event_id(drawn), asked }),
            None => {
                let event = self.feedback_of(actor, &event_id(drawn)).await?.ok_or(Error::NotFound)?;
                let session =
                    self.feedback_session_of(actor, &session_id(drawn)).await?.ok_or(Error::NotFound)?;
                let suggestions = match signal {
                    Signal::Down => self.known_about(actor, &event.body, SUGGESTIONS_MAX).await?,
                    Signal::Up => Vec::new(),
                };
                Ok(CaptureOutcome::Accepted {
                    event: Box::new(event),
                    session: Box::new(session),
                    suggestions,
                })
            }
        }
    }

    /// The session that feedback is about, if the caller may read it and it may be written about.
    async fn judged_session(&self, actor: &Actor, id: &SessionId, sequences: &[u64]) -> Result<Session> {
        let session = match self.load_log(actor, id).await {
            Err(Error::NotFound) => {
                return Err(Error::invalid(
                    "session_id",
                    "there is no such session, or it is not yours to see",
                ));
            }
            found => found?,
        };
        if session.details.memory_mode == MemoryMode::Incognito {
            return Err(Error::invalid(
                "session_id",
                "this session is incognito; give feedback without `session_id`",
            ));
        }
        if sequences.iter().any(|at| *at == 0 || *at > session.head.last_sequence) {
            return Err(Error::invalid("sequences", "must be sequences of the session's log"));
        }
        Ok(session)
    }

    /// Opens a feedback session on a feedback event.
    pub async fn open_feedback(
        &self,
        actor: &Actor,
        event: &str,
        signal: Signal,
        initial_context: Option<String>,
        key: Option<IdemKey>,
    ) -> Result<FeedbackOpening> {
        access::check_general(actor, Verb::Feedback)?;
        let event = self.feedback_of(actor, event).await?.ok_or(Error::NotFound)?;
        if event.body.failure.is_some() {
            // A failure record has no author: no lesson is drawn from words that a caller adds to it.
            return Err(Error::invalid(
                "feedback_event_id",
                "is what a failed run has left; give feedback on its session instead",
            ));
        }
        if event.signal != signal {
            return Err(Error::invalid(
                "signal",
                format!("this feedback is a thumb {}", event.signal.as_str()),
            ));
        }
        if let Some(context) = &initial_context {
            check_text("initial_context", context, limits::FEEDBACK_TEXT_CHARS_MAX)?;
            if let Some(kind) = secret::found(context) {
                return Ok(FeedbackOpening::Blocked(kind));
            }
        }
        let drawn = self.ids.unordered();
        let context = initial_context.filter(|context| !context.trim().is_empty());
        let session = self.fresh(actor, &event, context, drawn, self.tenant.now().await?);
        let change = Change::new(actor.tenant.clone())
            .record(Record::PutFeedbackSession { session: Box::new(session), expects: None })
            .keyed(key.map(|key| IdemKey { note: Some(KeyNote(drawn)), ..key }));
        let note = self.commit(change).await?.replay.and_then(|replay| replay.note);
        let id = session_id(note.map_or(drawn, |note| note.0));
        let session = self.feedback_session_of(actor, &id).await?.ok_or(Error::NotFound)?;
        Ok(FeedbackOpening::Open(Box::new(session)))
    }

    fn fresh(
        &self,
        actor: &Actor,
        event: &FeedbackEvent,
        context: Option<String>,
        drawn: Uuid,
        now: Timestamp,
    ) -> FeedbackSession {
        FeedbackSession {
            id: session_id(drawn),
            event: event.id.clone(),
            signal: event.signal,
            state: FeedbackState::Open,
            opened_at: now,
            expires_at: now.plus(self.settings.feedback_silence),
            author: actor.user.clone(),
            version: 0,
            body: SessionBody { initial_context: context, ..SessionBody::default() },
        }
    }

    /// Adds a message to a feedback session.
    pub async fn append_feedback(
        &self,
        actor: &Actor,
        id: &str,
        role: Speaker,
        message: &str,
        key: Option<IdemKey>,
    ) -> Result<AdditionOutcome> {
        access::check_general(actor, Verb::Feedback)?;
        let done = self
            .decide_within(ADD_ROUNDS_MAX, || {
                Box::pin(async {
                    let Some(found) = self.feedback_session_of(actor, id).await? else {
                        return Ok(Decided::Nothing(AdditionOutcome::NotFound));
                    };
                    let now = self.tenant.now().await?;
                    let added = session::add(&found, role, message, now, self.settings.feedback_silence);
                    let AdditionOutcome::Appended { session, truncated } = added else {
                        return self.or_added(actor, &found, added, key).await.map(Decided::Nothing);
                    };
                    let record =
                        Record::PutFeedbackSession { session: session.clone(), expects: Some(found.version) };
                    let change = Change::new(actor.tenant.clone()).record(record).keyed(key);
                    Ok(Decided::Change(Box::new(change), (found, session, truncated)))
                })
            })
            .await?;
        Ok(match done {
            CommandOutcome::Nothing(refused) => refused,
            CommandOutcome::Done(done, (found, added, truncated)) => {
                let session = if done.replay.is_some() { Box::new(found) } else { added };
                AdditionOutcome::Appended { session, truncated }
            }
        })
    }

    /// If a message cannot be added now, check its idempotency key: it may have been added before.
    async fn or_added(
        &self,
        actor: &Actor,
        found: &FeedbackSession,
        refused: AdditionOutcome,
        key: Option<IdemKey>,
    ) -> Result<AdditionOutcome> {
        let (Some(key), AdditionOutcome::Closed { .. } | AdditionOutcome::Full) = (key, &refused) else {
            return Ok(refused);
        };
        Ok(match self.sessions.recall(&actor.tenant, key).await? {
            Some(_) => AdditionOutcome::Appended { session: Box::new(found.clone()), truncated: false },
            None => refused,
        })
    }

    /// A feedback session, if the caller may see it.
    pub async fn feedback_session(&self, actor: &Actor, id: &str) -> Result<FeedbackSession> {
        access::check_general(actor, Verb::Feedback)?;
        self.feedback_session_of(actor, id).await?.ok_or(Error::NotFound)
    }

    /// A page of feedback sessions, newest first.
    pub async fn feedback_sessions(
        &self,
        actor: &Actor,
        state: Option<FeedbackState>,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Page<FeedbackSession, i64>> {
        access::check_general(actor, Verb::Feedback)?;
        check_limit(limit)?;
        let query = FeedbackQuery { state, author: own(actor)?, after, limit };
        self.tenant.feedback_sessions(&actor.tenant, query).await
    }

    async fn feedback_session_of(&self, actor: &Actor, id: &str) -> Result<Option<FeedbackSession>> {
        let found = self.tenant.feedback_session(&actor.tenant, id).await?;
        Ok(found.filter(|session| is_own(actor, session.author.as_ref())))
    }

    async fn feedback_of(&self, actor: &Actor, id: &str) -> Result<Option<FeedbackEvent>> {
        let found = self.tenant.feedback(&actor.tenant, id).await?;
        // Failure records are the tenant's own: a worker, whose feedback has no author either, does not own them.
        let tenants = |event: &FeedbackEvent| event.body.failure.is_some() && actor.role != Role::Owner;
        Ok(found.filter(|event| is_own(actor, event.author.as_ref()) && !tenants(event)))
    }

    /// Failure records, newest first. Owners see all; other callers those of a session or a task that they name and
    /// may read.
    pub async fn failures(
        &self,
        actor: &Actor,
        task: Option<&str>,
        session: Option<SessionId>,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Page<FeedbackEvent, i64>> {
        access::check_general(actor, Verb::Feedback)?;
        check_limit(limit)?;
        if let Some(id) = &session {
            self.load(actor, Verb::Read, id).await?;
        }
        let task = match task {
            Some(name) => Some(self.definition::<Task>(actor, name).await?.id.to_string()),
            None => None,
        };
        let all = actor.role == Role::Owner;
        if !all && session.is_none() && task.is_none() {
            return Err(Error::denied("name a session or a task: only owners are told of all failures"));
        }
        let query = FailureQuery { task_id: task, session, after, limit };
        let mut page = self.tenant.failures(&actor.tenant, query).await?;
        if !all {
            let mut readable = HashMap::new();
            let mut kept = Vec::with_capacity(page.items.len());
            for event in page.items {
                if let Some(id) = &event.session
                    && self.may_read(actor, id, &mut readable).await?
                {
                    kept.push(event);
                }
            }
            page.items = kept;
        }
        Ok(page)
    }

    /// Statistics of the tenant's feedback, or of the caller's own.
    pub async fn feedback_stats(&self, actor: &Actor) -> Result<Stats> {
        Ok(self.figures(actor, stats::RECENT).await?.0)
    }

    /// How many sittings were rated, by label: the tenant's for callers who see all feedback, else those that name
    /// the caller. Ratings hold no words.
    pub async fn rating_counts(&self, actor: &Actor) -> Result<RatingCounts> {
        access::check_general(actor, Verb::Feedback)?;
        let of = own(actor)?.map_or(RecordsOf::Tenant, RecordsOf::User);
        self.sessions.rating_counts(&actor.tenant, of).await
    }

    /// The ratings of a conversation's sittings, oldest first, for those who may read it.
    pub async fn ratings(&self, actor: &Actor, id: &SessionId) -> Result<Vec<Rating>> {
        let session = self.load(actor, Verb::Read, id).await?;
        access::check_ratings(actor)?;
        let opaque = self.opaque().await?.of(&actor.tenant, session.id.as_str());
        self.sessions.ratings(&actor.tenant, opaque.as_str()).await
    }

    /// The statistics with the newest thumbs, as a page of Markdown.
    pub async fn feedback_summary(&self, actor: &Actor, recent: usize) -> Result<String> {
        check_limit(recent)?;
        let (stats, newest) = self.figures(actor, recent.max(stats::RECENT)).await?;
        Ok(stats::summary(&stats, &newest[..newest.len().min(recent)]))
    }

    async fn figures(&self, actor: &Actor, newest: usize) -> Result<(Stats, Vec<FeedbackEvent>)> {
        access::check_general(actor, Verb::Feedback)?;
        let author = own(actor)?;
        let now = self.tenant.now().await?;
        let tally = self.tenant.feedback_tally(&actor.tenant, author.as_ref(), now).await?;
        let newest = self.tenant.newest_feedback(&actor.tenant, author.as_ref(), newest).await?;
        let ratings = self.rating_counts(actor).await?;
        Ok((stats::stats(tally, ratings, &newest), newest))
    }

    /// Feedback sessions of all tenants that silence has closed.
    pub async fn silent_feedback(&self) -> Result<Vec<FeedbackDue>> {
        let now = self.tenant.now().await?;
        self.tenant.silent_feedback(now, limits::FEEDBACK_ROWS_MAX).await
    }

    /// What the lesson of an open feedback session is drawn from. `None`: the session does not exist or is closed.
    pub async fn feedback_matter(&self, due: &FeedbackDue) -> Result<Option<LessonMaterial>> {
        let Some(session) = self.tenant.feedback_session(&due.tenant, &due.id).await? else {
            return Ok(None);
        };
        if !session.is_open() {
            return Ok(None);
        }
        let event = self.tenant.feedback(&due.tenant, &session.event).await?;
        let event = event.ok_or_else(|| Error::internal("a feedback session without its feedback"))?;
        let prior = self.said_before_feedback(&due.tenant, &event).await?;
        Ok(Some(LessonMaterial { event, session, prior }))
    }

    /// The messages before the feedback: from the session's log, or those that were sent with it.
    async fn said_before_feedback(
        &self,
        tenant: &TenantId,
        event: &FeedbackEvent,
    ) -> Result<Vec<SourceMessage>> {
        let session = match &event.session {
            Some(id) => self.sessions.session(tenant, id).await?,
            None => None,
        };
        let Some(session) = session else {
            let told = event.body.history.iter();
            return Ok(told
                .map(|said| SourceMessage { role: said.role, text: said.text.clone(), sequence: None })
                .collect());
        };
        let last = event.body.sequences.iter().max().copied().unwrap_or(session.head.last_sequence);
        let said = self.said_before(&session, last + 1, limits::FEEDBACK_PRIOR_MAX).await?;
        Ok(said
            .into_iter()
            .filter(|message| event.body.sequences.contains(&message.sequence) || message.at <= event.at)
            .filter_map(|message| {
                let role =
                    if message.kind.as_str() == "user.message" { Speaker::User } else { Speaker::Assistant };
                Some(SourceMessage { role, text: message.text()?, sequence: Some(message.sequence) })
            })
            .collect())
    }

    /// Closes a feedback session with its lesson. `None`: it has changed since it was read; read it again.
    pub async fn conclude_feedback(
        &self,
        tenant: &TenantId,
        matter: &LessonMaterial,
        draft: Option<LessonDraft>,
        reason: ClosingReason,
    ) -> Result<Option<(FeedbackSession, Option<MergeOutcome>)>> {
        let now = self.tenant.now().await?;
        if reason == ClosingReason::Silence && matter.session.expires_at > now {
            return Ok(None);
        }
        let merged = match draft {
            Some(draft) => {
                let known = self.alike(tenant, &draft).await?;
                Some(merge(tenant, draft, &known))
            }
            None => None,
        };
        let closed = FeedbackClosure {
            at: now,
            reason,
            complaints: matter.complaints(),
            lesson: merged.as_ref().map(|merged| merged.lesson().id.clone()),
        };
        let session = matter.session.closed(closed);
        let mut change = Change::new(tenant.clone()).record(Record::PutFeedbackSession {
            session: Box::new(session.clone()),
            expects: Some(matter.session.version),
        });
        match &merged {
            Some(MergeOutcome::New(lesson)) => {
                change = change.record(Record::PutLesson { lesson: lesson.clone(), expects: None })
            }
            Some(MergeOutcome::Again(lesson)) => {
                change = change
                    .record(Record::PutLesson { lesson: lesson.clone(), expects: Some(lesson.version) });
            }
            Some(MergeOutcome::Counted(_)) | None => {}
        }
        let count = match matter.event.signal {
            Signal::Up => lesson::EffectCounter::Positive,
            Signal::Down => lesson::EffectCounter::Negative,
        };
        let touched = self.lessons_touched(tenant, matter, merged.as_ref()).await?;
        if !touched.is_empty() {
            change = change.record(Record::CountLessons { ids: touched, count });
        }
        match self.try_commit(change).await {
            Ok(_) => {
                self.untaught.forget(tenant);
                Ok(Some((session, merged)))
            }
            Err(Refusal::Stale) => Ok(None),
            Err(Refusal::Rejected(error)) => Err(error),
        }
    }

    /// Known lessons that a draft may repeat.
    async fn alike(&self, tenant: &TenantId, draft: &LessonDraft) -> Result<Vec<Lesson>> {
        let query = LessonQuery {
            words: vec![draft.body.text.clone()],
            polarity: Some(draft.polarity),
            limit: limits::LESSON_RIVALS_MAX,
            ..LessonQuery::default()
        };
        let mut known = self.tenant.lessons(tenant, query).await?.items;
        let id = lesson::id_of(tenant, draft.polarity, draft.body.agent.as_deref(), &draft.body.text);
        if known.iter().all(|lesson| lesson.id != id) {
            known.extend(self.tenant.lesson(tenant, &id).await?);
        }
        Ok(known)
    }

    /// The lessons that this feedback counts for: those that were shown for the work, and the one that came up again.
    /// Each feedback event counts once, with its first session.
    async fn lessons_touched(
        &self,
        tenant: &TenantId,
        matter: &LessonMaterial,
        merged: Option<&MergeOutcome>,
    ) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        if let Some(MergeOutcome::Again(lesson)) = merged {
            ids.push(lesson.id.clone());
        }
        if matches!(merged, Some(MergeOutcome::Counted(_))) {
            return Ok(ids);
        }
        if let Some(id) = &matter.event.session
            && self.sessions.session(tenant, id).await?.is_some()
        {
            let query = EventQuery {
                types: vec![lesson::shown::INJECTION.to_owned()],
                newest_first: true,
                limit: INJECTIONS_READ_MAX,
                ..EventQuery::default()
            };
            for event in self.sessions.events(tenant, id, query).await?.events {
                ids.extend(lesson::shown::ids_in(&event));
            }
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}

fn event_id(drawn: Uuid) -> String {
    format!("fb_{}", &drawn.simple().to_string()[..12])
}

fn session_id(drawn: Uuid) -> String {
    format!("fbs_{}", &drawn.simple().to_string()[20..])
}

fn first_words(body: &EventBody) -> Option<String> {
    let words = &body.words;
    words.context.clone().or_else(|| words.what_went_wrong.clone()).or_else(|| words.what_worked.clone())
}

/// Whose feedback the caller sees: `None` is the whole tenant's.
fn own(actor: &Actor) -> Result<Option<UserId>> {
    match right(actor.role, Verb::Feedback) {
        Right::All => Ok(None),
        _ => actor.user.clone().map(Some).ok_or_else(|| Error::denied("this credential names no user")),
    }
}

fn is_own(actor: &Actor, author: Option<&UserId>) -> bool {
    match actor.role {
        Role::Owner => true,
        // A worker's feedback has no author, or the user whom its key names.
        Role::Worker => author.is_none() || author == actor.user.as_ref(),
        _ => author.is_some() && author == actor.user.as_ref(),
    }
}
