//! Commands on views: showing one to respondents, and letting them through its gate. Publishing one is in
//! `views/publishing.rs`, its answers are in `views/answering.rs`.

mod answering;
mod publishing;

use super::people::INSTALLATION_TENANT;
use super::{Decided, Engine};
use crate::access::{Actor, Role};
use crate::approval::Approval;
use crate::definitions::entity::{EMAIL, Entity, LEAD};
use crate::definitions::{Agent, DefinitionKind, DocQuery, StoredDefinition, Task, View};
use crate::error::{Conflict, Error, Result};
use crate::ids::{SessionId, TenantId};
use crate::json::Json;
use crate::limits;
use crate::response;
use crate::session::Session;
use crate::store::{Change, Record};
use crate::time::Timestamp;
use crate::view::ViewAudience;
use crate::view::decide;
use crate::view::respondent::{self, Admission, CookieClaims, Lead, Respondent, RespondentKind, admit};

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
