//! Answers to views that a run has published: taking one, listing them, handing them to the run.

use smallvec::smallvec;

use super::super::work::fence;
use super::super::{CommandOutcome, Decided, Engine};
use super::{Submission, SubmitResult, clearance, known};
use crate::access::{self, Actor, Verb};
use crate::approval::asked_by;
use crate::definitions::{DefinitionKind, StoredDefinition, View};
use crate::error::{Conflict, Error, Result};
use crate::event::{AppendOutcome, EventQuery};
use crate::ids::SessionId;
use crate::json::Json;
use crate::limits;
use crate::session::Session;
use crate::session::query::Page;
use crate::store::{Change, ChangePart, Guard, IdemKey, PartTarget, Write};
use crate::view::answer::{self, ViewAnswer};
use crate::view::decide::{self, SubmitOutcome, SubmitRequest};
use crate::view::respondent::{self, Admission, Respondent, RespondentKind, admit};
use crate::work::run::Run;
use crate::work::{Pause, Settle};

impl Engine {
    /// Takes an answer: the event, the closed question, the session's return to the queue, and the new lead are one
    /// commit. The same answer of the same respondent again changes nothing; a repeat under the same key is answered as the
    /// first request was.
    pub async fn submit(
        &self,
        actor: &Actor,
        id: &str,
        cookie: Option<&str>,
        wish: &Submission,
        key: Option<IdemKey>,
    ) -> Result<SubmitResult> {
        let secret = self.tenant.installation_key().await?;
        // A stranger without a cookie gets a name once, before the first round.
        let stranger = &Respondent::cookie(self.ids.hex());
        if self.found_view(actor, id).await?.value.response.is_some() {
            return self.submit_as_response(actor, id, cookie, wish, stranger, key).await;
        }
        let done = self
            .decide_within(limits::ANSWER_ROUNDS_MAX, || {
                Box::pin(async {
                    let view = self.found_view(actor, id).await?;
                    let now = self.tenant.now().await?;
                    let cleared = known(&secret, actor, &view, cookie, now);
                    let admitted = admit(&view, actor, cleared.map(|cleared| cleared.who))?;
                    let (who, lead, sets_cookie) = match (admitted, &wish.lead) {
                        (Admission::As(who), _) => {
                            let is_lead = who.kind == RespondentKind::Lead;
                            (who, None, is_lead)
                        }
                        (Admission::Anyone, _) => (stranger.clone(), None, true),
                        (Admission::AsLead, None) => {
                            return Err(Error::invalid("lead", "say who you are first: name and e-mail"));
                        }
                        (Admission::AsLead, Some(lead)) => {
                            let entity = self.lead_id(&actor.tenant, &secret, lead).await?;
                            let record = self.new_lead(&actor.tenant, &entity, lead).await?;
                            (Respondent::lead(&entity), record, true)
                        }
                    };
                    let session = self.session_of(&actor.tenant, &view).await?;
                    let before = self.answer_of(&secret, &view, &session, &who).await?;
                    let cookie =
                        sets_cookie.then(|| clearance(&secret, &actor.tenant, &view, who.clone(), true, now));
                    let name = who.answer_name(&secret, &actor.tenant, &view.id);
                    let submit = SubmitRequest {
                        respondent: &who,
                        name: &name,
                        values: &wish.values,
                        before: before.as_ref().map(|before| &before.values),
                    };
                    let asked = self.pending_of(&session).await?;
                    let taken = match decide::submit(&view, &session, asked.as_ref(), submit, now)? {
                        SubmitOutcome::Stands => {
                            let sequence = before.map(|before| before.sequence);
                            return Ok(Decided::Nothing((who, sequence, cookie)));
                        }
                        SubmitOutcome::Taken(taken) => *taken,
                    };
                    let mut change = self.change_for(&session, taken.step).await?;
                    change.records.extend(taken.record);
                    change.records.extend(lead);
                    Ok(Decided::Change(Box::new(change.keyed(key)), Some((who, cookie))))
                })
            })
            .await;
        let (respondent, sequence, cookie, repeated) = match self.or_replayed(actor, key, done).await? {
            CommandOutcome::Nothing((who, sequence, cookie)) => {
                let first = match key {
                    Some(key) => self.sessions.recall(&actor.tenant, key).await?,
                    None => None,
                };
                (who, sequence, cookie, first.is_none())
            }
            CommandOutcome::Done(done, taken) => match (&done.replay, taken) {
                (None, Some((who, cookie))) => {
                    let first = done.parts.first().and_then(|part| part.appended.first());
                    (who, first.map(AppendOutcome::sequence), cookie, false)
                }
                (Some(_), _) | (None, None) => {
                    let (who, sequence) = self.answered_before(actor, id, cookie, &secret).await?;
                    (who, sequence, None, false)
                }
            },
        };
        let sequence = sequence.ok_or_else(|| Error::internal("an answer has no place"))?;
        Ok(SubmitResult { respondent, sequence, repeated, cookie })
    }

    /// The answer to a repeated submit: who gave the answer that stands, and its place in the log.
    async fn answered_before(
        &self,
        actor: &Actor,
        id: &str,
        cookie: Option<&str>,
        secret: &[u8; 32],
    ) -> Result<(Respondent, Option<u64>)> {
        let view = self.found_view(actor, id).await?;
        let cleared = known(secret, actor, &view, cookie, self.tenant.now().await?);
        let Admission::As(who) = admit(&view, actor, cleared.map(|cleared| cleared.who))? else {
            return Err(Conflict::AlreadyAnswered.into());
        };
        let session = self.session_of(&actor.tenant, &view).await?;
        let answer = self.answer_of(secret, &view, &session, &who).await?;
        Ok((who, answer.map(|answer| answer.sequence)))
    }

    /// The answers to a view, oldest first.
    pub async fn answers(
        &self,
        actor: &Actor,
        id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Page<ViewAnswer, u64>> {
        super::super::sessions::check_limit(limit)?;
        let view: StoredDefinition<View> = self.definition(actor, id).await?;
        if view.value.session_id.is_none() {
            // An unpublished view has no answers.
            return Ok(Page::default());
        }
        let session = self.session_of(&actor.tenant, &view).await?;
        access::check(actor, Verb::Read, &session)?;
        let types = vec![answer::SUBMIT.to_owned()];
        let query = EventQuery { after, types, limit, ..EventQuery::default() };
        let page = self.sessions.events(&actor.tenant, &session.id, query).await?;
        let given =
            page.events.iter().filter_map(ViewAnswer::of).filter(|answer| *answer.view_id == *view.id);
        Ok(Page { items: given.collect(), next: page.has_more.then_some(page.next_after) })
    }

    /// Records in the log that a run was given these answers: a run that takes over is given them too.
    pub async fn show_answers(
        &self,
        actor: &Actor,
        id: &SessionId,
        epoch: u64,
        answers: &[ViewAnswer],
    ) -> Result<()> {
        access::check_general(actor, Verb::Work)?;
        let names: Vec<String> = answers.iter().map(|answer| answer.name.clone()).collect();
        let part = ChangePart {
            on: PartTarget::Session(id.clone()),
            guard: Guard { fence: Some(fence(actor, epoch)), ..Guard::default() },
            writes: smallvec![Write::Append(vec![answer::injected(&names)?])],
        };
        self.commit(Change::new(actor.tenant.clone()).part(part)).await.map(drop)
    }

    /// The answers that a claim is handed.
    pub(in super::super) async fn handed(
        &self,
        session: &Session,
        epoch: u64,
        run: &Run,
    ) -> Result<Vec<ViewAnswer>> {
        let mut answers = Vec::new();
        for waiting in run.handed(epoch) {
            answers.extend(self.answer_named(session, &waiting.name).await?);
        }
        Ok(answers)
    }

    /// A settlement that pauses for a view, with the view and an earlier answer looked up.
    pub(in super::super) async fn with_view(&self, session: &Session, how: Settle) -> Result<Settle> {
        let Settle::Yield { pause: Pause::Human { question: Some(question) }, usage } = how else {
            return Ok(how);
        };
        let Some(id) = asked_by(&question) else {
            return Ok(Settle::Yield { pause: Pause::Human { question: Some(question) }, usage });
        };
        let doc = self.tenant.doc(&session.tenant, DefinitionKind::View, &id).await?;
        let view: Option<StoredDefinition<View>> = doc.as_ref().map(StoredDefinition::of).transpose()?;
        let published = view.filter(|view| view.value.session_id.as_deref() == Some(session.id.as_str()));
        let Some(view) = published else {
            return Err(Error::invalid("question.view_id", "names no view that this session has published"));
        };
        let mut fields = question.fields();
        if !fields.iter().any(|(key, _)| key == "text") {
            fields.insert(0, ("text".to_owned(), Json::of(&view.value.title)?));
        }
        let question = Json::object(fields.iter().map(|(key, value)| (key.as_str(), value)));
        let secret = self.tenant.installation_key().await?;
        let token = respondent::link_token(&secret, &session.tenant, &view.id);
        let question = Json::stored(respondent::without_token(question.as_str(), &token));
        let run = Run::of(session);
        let answer = match run.answers.iter().find(|waiting| waiting.view_id == *view.id) {
            Some(waiting) => self.answer_named(session, &waiting.name).await?,
            None => None,
        };
        Ok(Settle::Yield { pause: Pause::View { question, answer: answer.map(Box::new) }, usage })
    }

    pub(super) async fn answer_of(
        &self,
        secret: &[u8; 32],
        view: &StoredDefinition<View>,
        session: &Session,
        who: &Respondent,
    ) -> Result<Option<ViewAnswer>> {
        self.answer_named(session, &who.answer_name(secret, &session.tenant, &view.id)).await
    }

    async fn answer_named(&self, session: &Session, name: &str) -> Result<Option<ViewAnswer>> {
        let Some(sequence) = self.sessions.sequence_of(&session.tenant, &session.id, name).await? else {
            return Ok(None);
        };
        let query = EventQuery { after: sequence - 1, limit: 1, ..EventQuery::default() };
        let page = self.sessions.events(&session.tenant, &session.id, query).await?;
        Ok(page.events.first().and_then(ViewAnswer::of))
    }
}
