//! Commands on responses: opening one for a respondent, saving, submitting and abandoning it, and showing it.
//!
//! A response of a stranger who has given nothing yet is not stored. Its id is derived, so that the first save, or the
//! submit, makes the session under the id that the stranger was told.

use smallvec::smallvec;

use super::views::{clearance, known};
use super::{CommandOutcome, Decided, Engine};
use crate::access::{self, Actor, Role, Verb};
use crate::approval::promotion::{self, PromotionOutcome, PromotionRequest};
use crate::definitions::{DefinitionKind, Entity, StoredDefinition, View};
use crate::engine::{Submission, SubmitResult};
use crate::error::{Conflict, Error, Result};
use crate::event::AppendOutcome;
use crate::ids::SessionId;
use crate::json::Json;
use crate::limits;
use crate::response::decide::{self, NewRespondent, NewResponse, OpenOutcome, SaveOutcome, SubmitCheck};
use crate::response::{
    PromotionMode, RespondentHistory, ResponseFilter, ResponseQuery, ResponseRow, ResponseState,
    StoredResponse,
};
use crate::session::decide::{SessionStep, created_event};
use crate::session::query::Page;
use crate::session::{SessionType, Status};
use crate::store::{Change, ChangePart, CommitResult, Guard, IdemKey, PartTarget, Record, Write};
use crate::view::answer::SUBMIT;
use crate::view::respondent::{Admission, CookieClaims, Respondent, RespondentKind, admit};

/// Anonymous drafts that one new draft may end: more than one only if concurrent commits went past the limit.
const DRAFTS_ENDED_MAX: usize = 4;

/// A response that a caller has opened.
#[derive(Clone, Debug)]
pub struct OpenedResponse {
    pub response: StoredResponse,
    /// It was not there before.
    pub is_new: bool,
    /// The cookie by which the respondent is recognised next time.
    pub cookie: Option<String>,
}

/// A submitted response.
#[derive(Clone, Debug)]
pub struct SubmittedResponse {
    pub response: StoredResponse,
    /// The same was submitted before: nothing was written now.
    pub repeated: bool,
}

/// A caller who was let through the gate of a view.
pub(super) struct AdmittedRespondent {
    who: Respondent,
    /// The respondent's name for the view.
    name: String,
    /// Whether the caller may be shown what the respondent has opened before. Giving an address is no proof of being
    /// the person who opened a response under that address.
    is_proven: bool,
}

impl AdmittedRespondent {
    fn as_new(&self, ordinal: u64) -> NewRespondent<'_> {
        NewRespondent { who: &self.who, name: &self.name, ordinal }
    }

    /// Refuses to show what another person may have opened under the same address.
    fn check_proven(&self, history: &RespondentHistory) -> Result<()> {
        let is_open = history.standing.as_ref().is_some_and(|row| row.state == ResponseState::Open);
        if is_open && !self.is_proven {
            return Err(Conflict::AlreadyAnswered.into());
        }
        Ok(())
    }
}

/// A response that a caller works on.
pub(super) struct ResponseTarget {
    pub(super) view: StoredDefinition<View>,
    pub(super) response: StoredResponse,
    /// Set if it is not stored yet.
    new: Option<Box<NewResponse>>,
}

impl Engine {
    /// Opens a view for the caller: the response that the caller has open, or a new one.
    pub async fn open_response(
        &self,
        actor: &Actor,
        view_id: &str,
        cookie: Option<&str>,
        entity_id: Option<&str>,
    ) -> Result<OpenedResponse> {
        if actor.role == Role::Share && entity_id.is_some() {
            return Err(Error::invalid("entity_id", "is for members; a link does not choose an entity"));
        }
        let secret = self.tenant.installation_key().await?;
        let (stranger, drawn) = (Respondent::cookie(self.ids.hex()), SessionId::drawn(&*self.ids));
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let view = self.found_view(actor, view_id).await?;
                    let now = self.tenant.now().await?;
                    let claims = known(&secret, actor, &view, cookie, now);
                    let (who, is_fresh) = match admit(&view, actor, claims.clone().map(|claims| claims.who))?
                    {
                        Admission::As(who) => (who, false),
                        Admission::Anyone => (stranger.clone(), true),
                        Admission::AsLead => {
                            return Err(Error::invalid("lead", "say who you are first: name and e-mail"));
                        }
                    };
                    let is_lead = who.kind == RespondentKind::Lead;
                    let cookie = (is_fresh || is_lead)
                        .then(|| clearance(&secret, &actor.tenant, &view, who.clone(), is_lead, now));
                    let admitted = admitted(&secret, actor, &view, who, claims.as_ref());
                    let history = self.history_of(actor, &view, &admitted).await?;
                    admitted.check_proven(&history)?;
                    let ordinal = match decide::open(&view.value, &history, now)? {
                        OpenOutcome::Standing(row) => {
                            self.check_found_by_link(actor, &admitted, &row).await?;
                            return Ok(Decided::Nothing((row.session, None, cookie)));
                        }
                        OpenOutcome::New { ordinal } => ordinal,
                    };
                    let entity = self.entity_of(actor, entity_id).await?;
                    decide::check_entity(decide::config(&view.value)?, entity.as_ref())?;
                    let entity_id = entity.as_ref().map(|entity| &*entity.id);
                    let respondent = admitted.as_new(ordinal);
                    if admitted.who.kind == RespondentKind::Cookie {
                        let id =
                            decide::derived_id(&secret, &actor.tenant, &view.id, &admitted.name, ordinal);
                        let new = decide::new(actor, id.clone(), &view, respondent, entity_id, &*self.ids)?;
                        let shown = Box::new(new.shown(actor.tenant.clone(), now));
                        return Ok(Decided::Nothing((id, Some(shown), cookie)));
                    }
                    let new = decide::new(actor, drawn.clone(), &view, respondent, entity_id, &*self.ids)?;
                    let mut change = Change::new(actor.tenant.clone());
                    self.make(&mut change, new, None).await?;
                    Ok(Decided::Change(Box::new(change), (drawn.clone(), cookie)))
                })
            })
            .await?;
        let (id, is_new, cookie) = match done {
            CommandOutcome::Nothing((_, Some(shown), cookie)) => {
                return Ok(OpenedResponse { response: *shown, is_new: true, cookie });
            }
            CommandOutcome::Nothing((id, None, cookie)) => (id, false, cookie),
            CommandOutcome::Done(_, (id, cookie)) => (id, true, cookie),
        };
        Ok(OpenedResponse { response: self.stored_response(actor, &id).await?, is_new, cookie })
    }

    /// A response, for its respondent, owners, the view's maker and the assignee.
    pub async fn response(
        &self,
        actor: &Actor,
        id: &SessionId,
        cookie: Option<&str>,
    ) -> Result<StoredResponse> {
        self.readable(actor, id, cookie).await.map(|(target, _)| target.response)
    }

    /// The responses to a view, newest first, for owners, the view's maker and the assignee.
    pub async fn responses(
        &self,
        actor: &Actor,
        view_id: &str,
        filter: ResponseFilter,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Page<StoredResponse, i64>> {
        super::sessions::check_limit(limit)?;
        if !matches!(actor.role, Role::Owner | Role::Member) {
            return Err(Error::denied("owners, the maker of a view and its assignee read its responses"));
        }
        let view: StoredDefinition<View> = self.definition(actor, view_id).await?;
        let query = ResponseQuery { view_id: view.id, filter, after, limit };
        self.sessions.responses(&actor.tenant, query).await
    }

    /// Saves values into the caller's own response.
    pub async fn save_response(
        &self,
        actor: &Actor,
        id: &SessionId,
        cookie: Option<&str>,
        values: &Json,
        version: Option<u64>,
    ) -> Result<StoredResponse> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let target = self.own_response(actor, id, cookie).await?;
                    let step = match decide::save(&target.response, values, version)? {
                        SaveOutcome::Unchanged => return Ok(Decided::Nothing(Box::new(target.response))),
                        SaveOutcome::Saved(step) => *step,
                    };
                    decide::check_open(&target.view.value, self.tenant.now().await?)?;
                    Ok(Decided::change(self.response_change(target, step).await?))
                })
            })
            .await?;
        match done {
            CommandOutcome::Nothing(response) => Ok(*response),
            CommandOutcome::Done(..) => self.stored_response(actor, id).await,
        }
    }

    /// Submits the caller's own response: these values over the draft. The event, the end of the session and its result
    /// are one commit. The same again changes nothing.
    pub async fn submit_response(
        &self,
        actor: &Actor,
        id: &SessionId,
        cookie: Option<&str>,
        values: Option<&Json>,
    ) -> Result<SubmittedResponse> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let target = self.own_response(actor, id, cookie).await?;
                    match self.submission_of(target, values).await? {
                        Some(change) => Ok(Decided::change(change)),
                        None => Ok(Decided::Nothing(())),
                    }
                })
            })
            .await?;
        let repeated = matches!(done, CommandOutcome::Nothing(()));
        Ok(SubmittedResponse { response: self.stored_response(actor, id).await?, repeated })
    }

    /// Gives up an open response: its respondent or an owner does.
    pub async fn abandon_response(
        &self,
        actor: &Actor,
        id: &SessionId,
        cookie: Option<&str>,
        key: Option<IdemKey>,
    ) -> Result<StoredResponse> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let (target, is_own) = self.readable(actor, id, cookie).await?;
                    if !is_own && actor.role != Role::Owner {
                        return Err(Error::denied("only its respondent or an owner abandons a response"));
                    }
                    let step = decide::abandon(&target.response.session, "abandoned")?;
                    if target.new.is_some() {
                        // Nothing was stored, so there is nothing to end.
                        let mut gone = target.response;
                        gone.session.head.status = Status::Abandoned;
                        return Ok(Decided::Nothing(Box::new(gone)));
                    }
                    Ok(Decided::change(self.response_change(target, step).await?.keyed(key)))
                })
            })
            .await;
        match self.or_replayed(actor, key, done).await? {
            CommandOutcome::Nothing(gone) => Ok(*gone),
            // Read as the caller may read it now, also if the key is that of an earlier request.
            CommandOutcome::Done(..) => self.response(actor, id, cookie).await,
        }
    }

    /// Takes a whole answer to a view that takes responses: opens one and submits it, in one commit. A draft that the
    /// respondent has open is submitted with these values over it.
    pub(super) async fn submit_as_response(
        &self,
        actor: &Actor,
        view_id: &str,
        cookie: Option<&str>,
        wish: &Submission,
        stranger: &Respondent,
    ) -> Result<SubmitResult> {
        let secret = self.tenant.installation_key().await?;
        let drawn = SessionId::drawn(&*self.ids);
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let view = self.found_view(actor, view_id).await?;
                    let now = self.tenant.now().await?;
                    let claims = known(&secret, actor, &view, cookie, now);
                    let let_in = admit(&view, actor, claims.clone().map(|claims| claims.who))?;
                    let (who, lead) = match (let_in, &wish.lead) {
                        (Admission::As(who), _) => (who, None),
                        (Admission::Anyone, _) => (stranger.clone(), None),
                        (Admission::AsLead, None) => {
                            return Err(Error::invalid("lead", "say who you are first: name and e-mail"));
                        }
                        (Admission::AsLead, Some(lead)) => {
                            let entity = self.lead_id(&actor.tenant, &secret, lead).await?;
                            let record = self.new_lead(&actor.tenant, &entity, lead).await?;
                            (Respondent::lead(&entity), record)
                        }
                    };
                    let is_known = claims.as_ref().is_some_and(|claims| claims.who == who);
                    let sets_cookie = match who.kind {
                        RespondentKind::Cookie => !is_known,
                        RespondentKind::Lead => true,
                        RespondentKind::User | RespondentKind::Credential => false,
                    };
                    let cookie =
                        sets_cookie.then(|| clearance(&secret, &actor.tenant, &view, who.clone(), true, now));
                    let admitted = admitted(&secret, actor, &view, who, claims.as_ref());
                    let history = self.history_of(actor, &view, &admitted).await?;
                    admitted.check_proven(&history)?;
                    let target = match decide::open(&view.value, &history, now) {
                        Ok(OpenOutcome::Standing(row)) => {
                            self.check_found_by_link(actor, &admitted, &row).await?;
                            let response = self.stored_response(actor, &row.session).await?;
                            ResponseTarget { view, response, new: None }
                        }
                        Ok(OpenOutcome::New { ordinal }) => {
                            decide::check_entity(decide::config(&view.value)?, None)?;
                            let id = match admitted.who.kind {
                                RespondentKind::Cookie => {
                                    let name = &admitted.name;
                                    decide::derived_id(&secret, &actor.tenant, &view.id, name, ordinal)
                                }
                                _ => drawn.clone(),
                            };
                            let respondent = admitted.as_new(ordinal);
                            let new = decide::new(actor, id, &view, respondent, None, &*self.ids)?;
                            let response = new.clone().shown(actor.tenant.clone(), now);
                            ResponseTarget { view, response, new: Some(Box::new(new)) }
                        }
                        // The same answer again changes nothing.
                        Err(refused @ Error::Conflict(Conflict::AlreadyAnswered)) => match history.standing {
                            Some(row) if admitted.is_proven => {
                                let response = self.stored_response(actor, &row.session).await?;
                                ResponseTarget { view, response, new: None }
                            }
                            _ => return Err(refused),
                        },
                        Err(refused) => return Err(refused),
                    };
                    let (who, sequence) = (admitted.who, target.response.session.head.last_sequence);
                    match self.submission_of(target, Some(&wish.values)).await? {
                        Some(mut change) => {
                            change.records.extend(lead);
                            Ok(Decided::Change(Box::new(change), (who, cookie)))
                        }
                        // A repeat proves nothing, so it gets no cookie that would.
                        None => Ok(Decided::Nothing((who, sequence))),
                    }
                })
            })
            .await?;
        Ok(match done {
            CommandOutcome::Nothing((respondent, sequence)) => {
                SubmitResult { respondent, sequence, repeated: true, cookie: None }
            }
            CommandOutcome::Done(done, (respondent, cookie)) => {
                let sequence = submitted_at(&done)?;
                SubmitResult { respondent, sequence, repeated: false, cookie }
            }
        })
    }

    /// Whether a respondent has submitted all that a view takes of them.
    pub(super) async fn has_responded(
        &self,
        actor: &Actor,
        view: &StoredDefinition<View>,
        secret: &[u8; 32],
        who: &Respondent,
    ) -> Result<bool> {
        let admitted = admitted(secret, actor, view, who.clone(), None);
        let standing = self.history_of(actor, view, &admitted).await?.standing;
        let once = view.value.response.as_ref().is_some_and(|config| config.once);
        Ok(standing.is_some_and(|row| row.state == ResponseState::Submitted && (once || row.once)))
    }

    /// The response that a respondent has open, if the caller is proved to be that respondent.
    pub(super) async fn draft_of(
        &self,
        actor: &Actor,
        view: &StoredDefinition<View>,
        secret: &[u8; 32],
        who: &Respondent,
        claims: Option<&CookieClaims>,
    ) -> Result<Option<StoredResponse>> {
        let admitted = admitted(secret, actor, view, who.clone(), claims);
        let standing = match admitted.is_proven {
            true => self.history_of(actor, view, &admitted).await?.standing,
            false => None,
        };
        match standing.filter(|row| row.state == ResponseState::Open) {
            Some(row) => self.sessions.response(&actor.tenant, &row.session).await,
            None => Ok(None),
        }
    }

    /// The change that submits a response; `None` if the same was submitted before.
    async fn submission_of(&self, target: ResponseTarget, values: Option<&Json>) -> Result<Option<Change>> {
        let values = match decide::submit(&target.response, values)? {
            SubmitCheck::Repeated => return Ok(None),
            SubmitCheck::Complete(values) => values,
        };
        let now = self.tenant.now().await?;
        decide::check_open(&target.view.value, now)?;
        let StoredResponse { row, session, .. } = &target.response;
        let form = &row.form;
        let is_promoted = form.response.promote == PromotionMode::Approval;
        let sources = self.promotion_sources(&session.tenant, form).await?;
        let mut verdict = promotion::judge(form, &values, &sources);
        // Nothing is blocked where nothing was to be written.
        verdict.blocked = verdict.blocked.filter(|_| is_promoted);
        let mut step = decide::finish(&target.response, &values, &verdict)?;
        if is_promoted {
            let request = PromotionRequest {
                session: &session.id,
                respondent: session.head.holder.as_ref(),
                form,
                values: &values,
                assigned_to: None,
                sources: &sources,
            };
            if let PromotionOutcome::Staged(approval) = promotion::stage(&request, now, &*self.ids)? {
                step.records.push(Record::AddApproval(approval));
            }
        }
        self.response_change(target, step).await.map(Some)
    }

    /// The change that carries out a step of a response; makes one that is not stored yet.
    async fn response_change(&self, target: ResponseTarget, step: SessionStep) -> Result<Change> {
        match target.new {
            None => self.change_for(&target.response.session, step).await,
            Some(new) => {
                let mut change = Change::new(target.response.session.tenant);
                self.make(&mut change, *new, Some(step)).await?;
                Ok(change)
            }
        }
    }

    /// Adds a new response to a change, with its first step. Where a view has as many open anonymous drafts as it may,
    /// the longest silent one makes room.
    async fn make(&self, change: &mut Change, new: NewResponse, step: Option<SessionStep>) -> Result<()> {
        let NewResponse { session, mut row } = new;
        let mut events = vec![created_event(&session)?];
        let mut part = ChangePart {
            on: PartTarget::New(Box::new(session)),
            guard: Guard::default(),
            writes: smallvec![],
        };
        let mut records = Vec::new();
        let mut update = None;
        if let Some(mut step) = step {
            events.append(&mut step.events);
            if step.update.status == Some(Status::Completed) {
                row.state = ResponseState::Submitted;
            }
            records = step.records;
            update = Some(step.update);
        }
        part.writes.push(Write::Append(events));
        part.writes.extend(update.map(|update| Write::Update(Box::new(update))));
        change.parts.push(part);
        let takes_room = row.is_anonymous && row.state == ResponseState::Open;
        let view_id = row.view_id.clone();
        change.records.push(Record::AddResponse(Box::new(row)));
        change.records.append(&mut records);
        if takes_room {
            let (kept, tenant) = (limits::ANONYMOUS_DRAFTS_MAX - 1, change.tenant.clone());
            for id in self.sessions.silent_drafts(&tenant, &view_id, kept, DRAFTS_ENDED_MAX).await? {
                let Some(silent) = self.sessions.session(&tenant, &id).await? else { continue };
                let step = decide::abandon(&silent, "made_room")?;
                let ended = self.change_for(&silent, step).await?;
                change.parts.extend(ended.parts);
                change.records.extend(ended.records);
            }
        }
        Ok(())
    }

    async fn stored_response(&self, actor: &Actor, id: &SessionId) -> Result<StoredResponse> {
        self.sessions.response(&actor.tenant, id).await?.ok_or(Error::NotFound)
    }

    async fn history_of(
        &self,
        actor: &Actor,
        view: &StoredDefinition<View>,
        respondent: &AdmittedRespondent,
    ) -> Result<RespondentHistory> {
        self.sessions.respondent_history(&actor.tenant, &view.id, &respondent.name).await
    }

    /// The entity that a member names for a new response.
    async fn entity_of(&self, actor: &Actor, id: Option<&str>) -> Result<Option<StoredDefinition<Entity>>> {
        let Some(id) = id else { return Ok(None) };
        let doc = self.tenant.doc(&actor.tenant, DefinitionKind::Entity, id).await?.ok_or(Error::NotFound)?;
        StoredDefinition::of(&doc).map(Some)
    }

    /// The response that the caller is the respondent of.
    async fn own_response(
        &self,
        actor: &Actor,
        id: &SessionId,
        cookie: Option<&str>,
    ) -> Result<ResponseTarget> {
        match self.readable(actor, id, cookie).await? {
            (target, true) => Ok(target),
            (_, false) => Err(Error::denied("only its respondent changes or submits a response")),
        }
    }

    /// Whether the store finds an anonymous response by the link through which it is asked for: what a link reads and
    /// changes is found by the link first. A personal link and the link of a lead name their respondent otherwise.
    async fn is_found_by_link(
        &self,
        actor: &Actor,
        respondent: &AdmittedRespondent,
        row: &ResponseRow,
    ) -> Result<bool> {
        match actor.link {
            Some(hash) if row.is_anonymous && actor.shared.is_none() => {
                let (tenant, name) = (&actor.tenant, &respondent.name);
                self.sessions.has_shared_response(tenant, hash, name, &row.session).await
            }
            _ => Ok(true),
        }
    }

    async fn check_found_by_link(
        &self,
        actor: &Actor,
        respondent: &AdmittedRespondent,
        row: &ResponseRow,
    ) -> Result<()> {
        match self.is_found_by_link(actor, respondent, row).await? {
            true => Ok(()),
            false => Err(Error::NotFound),
        }
    }

    /// A response that the caller may read, and whether it is the caller's own. To any other caller it does not exist.
    pub(super) async fn readable(
        &self,
        actor: &Actor,
        id: &SessionId,
        cookie: Option<&str>,
    ) -> Result<(ResponseTarget, bool)> {
        let Some(response) = self.sessions.response(&actor.tenant, id).await? else {
            return self.unstored(actor, id, cookie).await.map(|target| (target, true));
        };
        let view = self.found_view(actor, &response.row.view_id).await?;
        let is_own = match actor.role {
            Role::Owner | Role::Member => {
                let holds = actor.user.is_some() && response.session.head.holder == actor.user;
                holds || response.row.respondent == Respondent::of(actor)
            }
            Role::Share => {
                let secret = self.tenant.installation_key().await?;
                let claims = known(&secret, actor, &view, cookie, self.tenant.now().await?);
                match admit(&view, actor, claims.clone().map(|claims| claims.who))? {
                    Admission::As(who) => {
                        let admitted = admitted(&secret, actor, &view, who, claims.as_ref());
                        admitted.is_proven
                            && admitted.who == response.row.respondent
                            && self.is_found_by_link(actor, &admitted, &response.row).await?
                    }
                    Admission::Anyone | Admission::AsLead => false,
                }
            }
            Role::Guest | Role::Worker | Role::Channel => false,
        };
        if !is_own && !reads_responses(actor, &view, &response.row) {
            return Err(Error::NotFound);
        }
        Ok((ResponseTarget { view, response, new: None }, is_own))
    }

    /// The response that a stranger was told of, and that nothing was saved into yet.
    async fn unstored(&self, actor: &Actor, id: &SessionId, cookie: Option<&str>) -> Result<ResponseTarget> {
        let Some(view_id) = actor.view.as_deref().filter(|_| actor.role == Role::Share) else {
            return Err(self.without_form(actor, id).await?);
        };
        let view = self.found_view(actor, view_id).await?;
        let secret = self.tenant.installation_key().await?;
        let now = self.tenant.now().await?;
        let claims = known(&secret, actor, &view, cookie, now);
        let who = match admit(&view, actor, claims.clone().map(|claims| claims.who))? {
            Admission::As(who) if who.kind == RespondentKind::Cookie => who,
            Admission::As(_) | Admission::Anyone | Admission::AsLead => return Err(Error::NotFound),
        };
        let admitted = admitted(&secret, actor, &view, who, claims.as_ref());
        let history = self.history_of(actor, &view, &admitted).await?;
        let ordinal = history.last_ordinal + 1;
        if *id != decide::derived_id(&secret, &actor.tenant, &view.id, &admitted.name, ordinal) {
            return Err(Error::NotFound);
        }
        let OpenOutcome::New { ordinal } = decide::open(&view.value, &history, now)? else {
            return Err(Error::NotFound);
        };
        let respondent = admitted.as_new(ordinal);
        let new = decide::new(actor, id.clone(), &view, respondent, None, &*self.ids)?;
        let response = new.clone().shown(actor.tenant.clone(), now);
        Ok(ResponseTarget { view, response, new: Some(Box::new(new)) })
    }

    /// The refusal for a session that is no response: one of this type without a form has none of these verbs.
    async fn without_form(&self, actor: &Actor, id: &SessionId) -> Result<Error> {
        let found = self.sessions.session(&actor.tenant, id).await?;
        let is_formless = found.is_some_and(|session| {
            session.head.session_type == SessionType::Response
                && access::check(actor, Verb::Read, &session).is_ok()
        });
        Ok(if is_formless { Conflict::TypeMismatch { field: "response" }.into() } else { Error::NotFound })
    }
}

/// A caller who was let in as this respondent.
fn admitted(
    secret: &[u8; 32],
    actor: &Actor,
    view: &StoredDefinition<View>,
    who: Respondent,
    claims: Option<&CookieClaims>,
) -> AdmittedRespondent {
    let name = who.answer_name(secret, &actor.tenant, &view.id);
    let is_proven = who.kind != RespondentKind::Lead
        || claims.is_some_and(|claims| claims.has_answered && claims.who == who);
    AdmittedRespondent { who, name, is_proven }
}

/// Whether a caller reads the responses of others to a view.
fn reads_responses(actor: &Actor, view: &StoredDefinition<View>, row: &ResponseRow) -> bool {
    let Some(user) = &actor.user else { return actor.role == Role::Owner };
    let assignees = view.value.response.iter().chain([&row.form.response]);
    let is_assignee =
        assignees.filter_map(|config| config.assigned_to.as_deref()).any(|to| to == user.as_str());
    match actor.role {
        Role::Owner => true,
        Role::Member => is_assignee || view.created_by.as_ref() == Some(user),
        Role::Guest | Role::Worker | Role::Channel | Role::Share => false,
    }
}

/// The sequence of the event that submitted a response.
fn submitted_at(done: &CommitResult) -> Result<u64> {
    let appended = done.parts.iter().flat_map(|part| &part.appended);
    let mut submitted = appended.filter_map(|appended| match appended {
        AppendOutcome::New(event) if event.kind.as_str() == SUBMIT => Some(event.sequence),
        AppendOutcome::New(_) | AppendOutcome::Repeat(_) => None,
    });
    submitted.next().ok_or_else(|| Error::internal("a submitted response has no event"))
}
