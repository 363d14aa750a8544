//! Commands on views: publishing one, showing it to respondents, taking an answer, handing answers to runs.

use std::time::Duration;

use smallvec::smallvec;
use uuid::Uuid;

use super::people::{INSTALLATION_TENANT, NewShare, audit, check_share_life};
use super::work::{fence, without_a_claim};
use super::{CommandOutcome, Decided, Engine};
use crate::access::{self, Actor, Role, ShareAccess, Verb};
use crate::approval::{Approval, asked_by};
use crate::definitions::entity::{EMAIL, Entity, LEAD};
use crate::definitions::{Agent, DefinitionKind, DocQuery, StoredDefinition, Task, View};
use crate::error::{Conflict, Error, Result};
use crate::event::{AppendOutcome, EventQuery};
use crate::ids::{SessionId, TenantId, UserId, check_name};
use crate::json::Json;
use crate::limits;
use crate::people::{SecretHash, Share};
use crate::response;
use crate::session::query::Page;
use crate::session::{MemoryMode, Session};
use crate::store::{Change, ChangePart, Guard, IdemKey, PartTarget, Record, Write};
use crate::time::Timestamp;
use crate::view::answer::{self, ViewAnswer};
use crate::view::decide::{self, SubmitOutcome, SubmitRequest};
use crate::view::respondent::{self, Admission, CookieClaims, Lead, Respondent, RespondentKind, admit};
use crate::view::{SESSION_FACET, ViewAudience};
use crate::work::run::Run;
use crate::work::{Pause, Settle};

/// A view that a session has published, with the link that opens it.
#[derive(Clone, Debug)]
pub struct PublishedView {
    pub view: StoredDefinition<View>,
    pub token: String,
}

impl PublishedView {
    /// The link that opens it to strangers. Members authenticate themselves and need no token.
    pub fn url(&self, base_url: &str) -> String {
        let address = self.address(base_url);
        match self.view.value.publish_config.gate {
            ViewAudience::Member => address,
            ViewAudience::None | ViewAudience::Lead => respondent::link(&address, &self.token),
        }
    }

    /// Its address on a server, without the token that opens it to strangers. This is what may be stored: in logs, in
    /// the results of tools and in pending questions.
    pub fn address(&self, base_url: &str) -> String {
        let mut url = format!("{base_url}/views/");
        for byte in self.view.id.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    url.push(char::from(byte))
                }
                _ => url.push_str(&format!("%{byte:02X}")),
            }
        }
        url
    }
}

/// A view as a caller sees it.
#[derive(Clone, Debug)]
pub enum ViewDisplay {
    /// To its maker, owners and workers: whole; with its link if it is published, and as a respondent sees it if the
    /// caller may answer.
    Whole {
        view: Box<StoredDefinition<View>>,
        published: Option<Box<PublishedView>>,
        asked: Option<Box<OpenedView>>,
    },
    /// To a respondent: the questions, and nothing of the session.
    Asked(Box<OpenedView>),
}

/// What a respondent sees.
#[derive(Clone, Debug)]
pub struct OpenedView {
    pub id: Box<str>,
    pub title: String,
    pub description: Option<String>,
    pub asked_by: Asker,
    pub gate: ViewAudience,
    /// `None` until the gate is passed.
    pub view: Option<View>,
    /// What the respondent has saved of a response that is still open.
    pub saved: Option<Json>,
    pub open: bool,
    pub answered: bool,
    /// The cookie by which the respondent is recognised next time.
    pub cookie: Option<String>,
}

/// Who asks, as every respondent sees it: names, and nothing else of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// The agent's name, or the task's where the agent has none.
    pub name: Option<String>,
    /// `None` for the tenant of the installation, which has no name of its own.
    pub tenant: Option<String>,
}

/// A submitted answer.
#[derive(Clone, Debug)]
pub struct Submission {
    pub values: Json,
    pub lead: Option<Lead>,
}

/// A stored answer.
#[derive(Clone, Debug)]
pub struct SubmitResult {
    pub respondent: Respondent,
    pub sequence: u64,
    /// The same answer was given before: nothing was written now.
    pub repeated: bool,
    pub cookie: Option<String>,
}

impl Engine {
    /// Publishes a view for a session that the caller has claimed, with a link that opens it to strangers. A repeat
    /// changes nothing, and returns the same link.
    pub async fn publish(
        &self,
        actor: &Actor,
        session: &SessionId,
        epoch: u64,
        id: Option<&str>,
        wish: View,
        key: Option<IdemKey>,
    ) -> Result<PublishedView> {
        access::check_general(actor, Verb::Work)?;
        let id: Box<str> = match (id, key) {
            (Some(id), _) => {
                check_name("id", id)?;
                id.into()
            }
            // A repeat of the call is about the view that the first one made.
            (None, Some(key)) => Uuid::from_bytes(key.scope).to_string().into(),
            (None, None) => self.ids.ordered().to_string().into(),
        };
        let view = View { session_id: Some(session.to_string()), ..wish };
        let secret = self.tenant.installation_key().await?;
        self.decide_and_commit(|| {
            let (id, view) = (id.clone(), view.clone());
            Box::pin(async move {
                if key.is_none()
                    && let Some(doc) = self.tenant.doc(&actor.tenant, DefinitionKind::View, &id).await?
                {
                    let before: StoredDefinition<View> = StoredDefinition::of(&doc)?;
                    return if before.value == view {
                        Ok(Decided::Nothing(()))
                    } else {
                        Err(Conflict::AlreadyExists.into())
                    };
                }
                let found = self.sessions.session(&actor.tenant, session).await?;
                let session = found.ok_or_else(|| without_a_claim(actor, Error::NotFound))?;
                let change = self.publication(actor, &session, epoch, &id, view, &secret).await?;
                Ok(Decided::change(change.keyed(key)))
            })
        })
        .await?;
        let doc = self.tenant.doc(&actor.tenant, DefinitionKind::View, &id).await?.ok_or(Error::NotFound)?;
        let token = respondent::link_token(&secret, &actor.tenant, &id);
        Ok(PublishedView { view: StoredDefinition::of(&doc)?, token })
    }

    async fn publication(
        &self,
        actor: &Actor,
        session: &Session,
        epoch: u64,
        id: &str,
        view: View,
        secret: &[u8; 32],
    ) -> Result<Change> {
        let now = self.tenant.now().await?;
        if !session.head.holds(&actor.credential, epoch, now) {
            return Err(Conflict::Fenced.into());
        }
        if session.head.is_talk || session.details.memory_mode == MemoryMode::Incognito {
            return Err(Error::invalid(
                SESSION_FACET,
                "only work publishes views; talk asks in its own words",
            ));
        }
        let ends = match view.publish_config.expires_at {
            None => now.plus(limits::VIEW_LINK_LIFE),
            Some(end) if end > now && end <= now.plus(limits::SHARE_LIFE_MAX) => end,
            Some(_) => {
                return Err(Error::invalid("publish_config.expires_at", "must lie ahead, within a year"));
            }
        };
        let share = Share {
            id: respondent::link_id(secret, &actor.tenant, id),
            tenant: actor.tenant.clone(),
            session: Some(session.id.clone()),
            access: ShareAccess::Submit,
            view: Some(id.to_owned()),
            user: None,
            created_by: actor.user.clone(),
            created_at: now,
            expires_at: ends,
            revoked_at: None,
            tenant_suspended: false,
        };
        let hash = SecretHash::of(&respondent::link_token(secret, &actor.tenant, id));
        // The row is changed too, so that the session is not deleted concurrently without its views.
        let part = ChangePart {
            on: PartTarget::Session(session.id.clone()),
            guard: Guard { fence: Some(fence(actor, epoch)), ..Guard::default() },
            writes: smallvec![Write::Update(Box::default())],
        };
        let made_by = actor.user.clone().or_else(|| session.head.holder.clone());
        let doc = new_doc(id, view, made_by)?;
        Ok(Change::new(actor.tenant.clone())
            .part(part)
            .record(doc)
            .record(Record::AddShare { share, hash })
            .audited(audit(actor, "view.publish", id)))
    }

    /// Makes a link that opens one view in a browser without signing in. With a user it is personal: that user answers
    /// the view, and only owners make such a link. Without one it lets strangers respond to a view that takes responses,
    /// and owners and the view's maker make it.
    pub async fn share_view(
        &self,
        actor: &Actor,
        id: &str,
        user: Option<&UserId>,
        expires_in: Duration,
        key: Option<IdemKey>,
    ) -> Result<NewShare> {
        access::check_general(actor, if user.is_some() { Verb::Administer } else { Verb::Configure })?;
        check_share_life(expires_in)?;
        let view = self.found_view(actor, id).await?;
        match user {
            Some(user) => {
                if !view.value.takes_answers() {
                    return Err(Error::invalid(
                        "id",
                        "this view is not published: nobody could answer it through a link",
                    ));
                }
                let found = self.tenant.user(&actor.tenant, user).await?;
                if !found.is_some_and(|found| found.is_active() && found.role != Role::Guest) {
                    return Err(Error::invalid(
                        "user_id",
                        "must be an active owner or member of this tenant",
                    ));
                }
            }
            None => {
                if actor.role != Role::Owner && (view.created_by.is_none() || view.created_by != actor.user) {
                    return Err(Error::denied("only an owner, or who made it, shares this view"));
                }
                if view.value.response.is_none() {
                    return Err(Error::invalid(
                        "id",
                        "this view takes no responses; the run that publishes a view makes its link",
                    ));
                }
            }
        }
        let now = self.tenant.now().await?;
        let drawn = self.ids.ordered();
        let share = Share {
            id: drawn.to_string(),
            tenant: actor.tenant.clone(),
            session: view.value.session_id.as_deref().map(SessionId::stored),
            access: ShareAccess::Submit,
            view: Some(view.id.to_string()),
            user: user.cloned(),
            created_by: actor.user.clone(),
            created_at: now,
            expires_at: now.plus(expires_in),
            revoked_at: None,
            tenant_suspended: false,
        };
        self.keep_share(actor, share, None, "view.share", drawn, key).await
    }

    /// A view: whole to its maker, owners and workers, its questions to respondents. `cookie` is the respondent's.
    pub async fn view(&self, actor: &Actor, id: &str, cookie: Option<&str>) -> Result<ViewDisplay> {
        let view = self.found_view(actor, id).await?;
        let secret = self.tenant.installation_key().await?;
        let keeps = match actor.role {
            Role::Owner | Role::Worker => true,
            Role::Member => actor.user.is_some() && view.created_by == actor.user,
            Role::Guest | Role::Channel | Role::Share => false,
        };
        if keeps {
            let published = view.value.session_id.is_some().then(|| {
                let token = respondent::link_token(&secret, &actor.tenant, &view.id);
                Box::new(PublishedView { view: view.clone(), token })
            });
            let asked = match view.value.takes_answers() {
                true => self.opened(actor, view.clone(), &secret, cookie).await.ok().map(Box::new),
                false => None,
            };
            return Ok(ViewDisplay::Whole { view: Box::new(view), published, asked });
        }
        self.opened(actor, view, &secret, cookie).await.map(|opened| ViewDisplay::Asked(Box::new(opened)))
    }

    /// A view as a respondent sees it.
    async fn opened(
        &self,
        actor: &Actor,
        view: StoredDefinition<View>,
        secret: &[u8; 32],
        cookie: Option<&str>,
    ) -> Result<OpenedView> {
        let now = self.tenant.now().await?;
        let cleared = known(secret, actor, &view, cookie, now);
        let has_answered = cleared.as_ref().is_some_and(|cleared| cleared.has_answered);
        let admitted = admit(&view, actor, cleared.clone().map(|cleared| cleared.who))?;
        let session = match &view.value.response {
            Some(_) => None,
            None => Some(self.session_of(&actor.tenant, &view).await?),
        };
        let open = check_takes_answers(&view.value, session.as_ref(), now).is_ok();
        let (who, cookie) = match admitted {
            Admission::As(who) => (Some(who), None),
            Admission::Anyone => {
                let who = Respondent::cookie(self.ids.hex());
                let cookie = clearance(secret, &actor.tenant, &view, who.clone(), false, now);
                (Some(who), Some(cookie))
            }
            Admission::AsLead => (None, None),
        };
        let answered = match &who {
            // A caller who only named an address is not told whether the person with that address has answered.
            Some(who) if who.kind == RespondentKind::Lead && !has_answered => false,
            Some(who) => match &session {
                Some(session) => self.answer_of(secret, &view, session, who).await?.is_some(),
                None => self.has_responded(actor, &view, secret, who).await?,
            },
            None => false,
        };
        let draft = match &who {
            Some(who) if view.value.response.is_some() && !answered => {
                self.draft_of(actor, &view, secret, who, cleared.as_ref()).await?
            }
            _ => None,
        };
        let asked_by = match &session {
            Some(session) => self.asker(session).await?,
            None => Asker { name: None, tenant: shown_tenant(&actor.tenant) },
        };
        // A response keeps the questions that it was opened with.
        let (questions, saved) = match draft {
            Some(draft) => (draft.row.form.questions, draft.session.details.draft_values),
            None => (view.value.questions, None),
        };
        let value = View { questions, ..view.value };
        Ok(OpenedView {
            id: view.id,
            title: value.title.clone(),
            description: value.description.clone(),
            asked_by,
            gate: value.publish_config.gate,
            view: who.is_some().then_some(value),
            saved,
            open,
            answered,
            cookie,
        })
    }

    /// The web origins that may show a view in a frame. For a view that does not exist: none.
    pub async fn embed_origins(&self, tenant: &TenantId, view_id: &str) -> Result<Vec<String>> {
        let Some(doc) = self.tenant.doc(tenant, DefinitionKind::View, view_id).await? else {
            return Ok(Vec::new());
        };
        let view: StoredDefinition<View> = StoredDefinition::of(&doc)?;
        Ok(view.value.response.map_or_else(Vec::new, |response| response.embed_origins))
    }

    /// The respondent of a view that a cookie proves, whatever the gate of the view asks for.
    pub async fn proven_respondent(
        &self,
        tenant: &TenantId,
        view_id: &str,
        cookie: &str,
    ) -> Result<Option<Respondent>> {
        let secret = self.tenant.installation_key().await?;
        let now = self.tenant.now().await?;
        Ok(respondent::unseal(&secret, tenant, view_id, cookie, now).map(|claims| claims.who))
    }

    /// Registers a person who wants to answer a view, as an entity (a lead). The returned cookie proves it.
    pub async fn clear_lead(&self, actor: &Actor, id: &str, lead: &Lead) -> Result<String> {
        let secret = self.tenant.installation_key().await?;
        let view = self.found_view(actor, id).await?;
        if !matches!(admit(&view, actor, None)?, Admission::AsLead) {
            return Err(Error::invalid("lead", "this view does not ask who you are"));
        }
        let now = self.tenant.now().await?;
        let session = match &view.value.response {
            Some(_) => {
                self.check_reach(actor, &view, "", None).await?;
                None
            }
            None => Some(self.session_of(&actor.tenant, &view).await?),
        };
        check_takes_answers(&view.value, session.as_ref(), now)?;
        let entity = self.lead_id(&actor.tenant, &secret, lead).await?;
        self.decide_and_commit(|| {
            Box::pin(async {
                let Some(record) = self.new_lead(&actor.tenant, &entity, lead).await? else {
                    return Ok(Decided::Nothing(()));
                };
                Ok(Decided::change(Change::new(actor.tenant.clone()).record(record)))
            })
        })
        .await?;
        Ok(clearance(&secret, &actor.tenant, &view, Respondent::lead(&entity), false, now))
    }

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
        super::sessions::check_limit(limit)?;
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
    pub(super) async fn handed(&self, session: &Session, epoch: u64, run: &Run) -> Result<Vec<ViewAnswer>> {
        let mut answers = Vec::new();
        for waiting in run.handed(epoch) {
            answers.extend(self.answer_named(session, &waiting.name).await?);
        }
        Ok(answers)
    }

    /// A settlement that pauses for a view, with the view and an earlier answer looked up.
    pub(super) async fn with_view(&self, session: &Session, how: Settle) -> Result<Settle> {
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

    /// An approval as it is shown to a caller who may decide it. The stored question of a view holds the view's
    /// address; here the address becomes the link that opens it.
    pub(super) async fn with_link(&self, tenant: &TenantId, mut approval: Approval) -> Result<Approval> {
        let Some(id) = approval.view_id() else { return Ok(approval) };
        let Some(doc) = self.tenant.doc(tenant, DefinitionKind::View, &id).await? else {
            return Ok(approval);
        };
        let view: StoredDefinition<View> = StoredDefinition::of(&doc)?;
        let Some(staged) = &approval.body.staged else { return Ok(approval) };
        if view.value.publish_config.gate == ViewAudience::Member {
            return Ok(approval);
        }
        let secret = self.tenant.installation_key().await?;
        let token = respondent::link_token(&secret, tenant, &id);
        let mut fields = staged.fields();
        for (key, value) in &mut fields {
            if key == "url"
                && let Ok(address) = value.read::<String>()
            {
                *value = Json::of(&respondent::link(&address, &token))?;
            }
        }
        approval.body.staged = Some(Json::object(fields.iter().map(|(key, value)| (key.as_str(), value))));
        Ok(approval)
    }

    /// The records that delete a deleted session's views.
    pub(super) async fn views_to_drop(&self, session: &Session) -> Result<Vec<Record>> {
        let query = DocQuery {
            kind: DefinitionKind::View,
            facets: vec![(SESSION_FACET, session.id.to_string())],
            text: None,
            of_user: None,
            after: None,
            limit: limits::PAGE_ROWS_MAX,
        };
        let views = self.tenant.docs(&session.tenant, query).await?.items;
        Ok(views
            .into_iter()
            .map(|view| Record::DropDoc { kind: DefinitionKind::View, id: view.id })
            .collect())
    }

    pub(super) async fn found_view(&self, actor: &Actor, id: &str) -> Result<StoredDefinition<View>> {
        let doc = self.tenant.doc(&actor.tenant, DefinitionKind::View, id).await?.ok_or(Error::NotFound)?;
        StoredDefinition::of(&doc)
    }

    /// Who asks by the views of a session.
    async fn asker(&self, session: &Session) -> Result<Asker> {
        let Session { tenant, details, .. } = session;
        let mut name = match &details.agent_slug {
            Some(slug) => self.tenant.doc(tenant, DefinitionKind::Agent, slug).await?,
            None => None,
        }
        .map(|doc| doc.body.read::<Agent>().map(|agent| agent.name))
        .transpose()
        .map_err(Error::internal)?;
        if name.is_none()
            && let Some(task) = &details.task_id
            && let Some(doc) = self.tenant.doc(tenant, DefinitionKind::Task, task).await?
        {
            name = Some(doc.body.read::<Task>().map_err(Error::internal)?.name);
        }
        let name = name.filter(|name| !name.trim().is_empty());
        Ok(Asker { name, tenant: shown_tenant(tenant) })
    }

    /// The session that takes the answers of a view. An unpublished view has none.
    async fn session_of(&self, tenant: &TenantId, view: &StoredDefinition<View>) -> Result<Session> {
        let id = view.value.session_id.as_deref().ok_or(Conflict::ViewClosed)?;
        self.sessions.session(tenant, &SessionId::stored(id)).await?.ok_or(Error::NotFound)
    }

    async fn answer_of(
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

    /// The entity id of a lead: the existing one with this address, or a new one.
    pub(super) async fn lead_id(&self, tenant: &TenantId, secret: &[u8; 32], lead: &Lead) -> Result<String> {
        let facets = vec![("type_slug", LEAD.to_owned()), (EMAIL, lead.email.clone())];
        let query = DocQuery {
            kind: DefinitionKind::Entity,
            facets,
            text: None,
            of_user: None,
            after: None,
            limit: 1,
        };
        let known = self.tenant.docs(tenant, query).await?.items.pop();
        Ok(known.map_or_else(|| lead.entity_id(secret, tenant), |known| known.id.into()))
    }

    /// The record that makes a lead; `None` if it exists. A stranger cannot change what is known of a person.
    pub(super) async fn new_lead(&self, tenant: &TenantId, id: &str, lead: &Lead) -> Result<Option<Record>> {
        if self.tenant.doc(tenant, DefinitionKind::Entity, id).await?.is_some() {
            return Ok(None);
        }
        let (name, email) = (Json::of(&lead.name)?, Json::of(&lead.email)?);
        let fields = Json::object([("name", &name), (EMAIL, &email)]);
        let entity = Entity { type_slug: LEAD.to_owned(), title: Some(lead.name.clone()), fields };
        new_doc(id, entity, None).map(Some)
    }
}

fn new_doc<T: crate::definitions::Definition>(
    id: &str,
    value: T,
    created_by: Option<crate::ids::UserId>,
) -> Result<Record> {
    let made = StoredDefinition {
        id: id.into(),
        value,
        version: 0,
        created_by,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    };
    Ok(Record::PutDoc { doc: Box::new(made.to_doc()?), expects: None })
}

/// The name of a tenant as respondents see it; that of the installation has none of its own.
fn shown_tenant(tenant: &TenantId) -> Option<String> {
    (tenant.as_str() != INSTALLATION_TENANT).then(|| tenant.to_string())
}

/// Whether a view takes answers now: for the session that has published it, or as responses.
fn check_takes_answers(view: &View, session: Option<&Session>, now: Timestamp) -> Result<()> {
    match session {
        Some(session) => decide::check_open(view, session, now),
        None => response::decide::check_open(view, now),
    }
}

/// The respondent that a cookie proves to a view.
pub(super) fn known(
    secret: &[u8; 32],
    actor: &Actor,
    view: &StoredDefinition<View>,
    cookie: Option<&str>,
    now: Timestamp,
) -> Option<CookieClaims> {
    respondent::unseal(secret, &actor.tenant, &view.id, cookie?, now)
}

pub(super) fn clearance(
    secret: &[u8; 32],
    tenant: &TenantId,
    view: &StoredDefinition<View>,
    who: Respondent,
    has_answered: bool,
    now: Timestamp,
) -> String {
    let cleared = CookieClaims { who, has_answered };
    respondent::seal(secret, tenant, &view.id, &cleared, now.plus(limits::CLEARANCE_LIFE))
}
