//! Who has which response: the callers who come through the gate of a view, what their link reaches in the store, and
//! the responses that are theirs or that they may read.

use super::super::Engine;
use super::super::views::known;
use crate::access::{self, Actor, Role, Verb};
use crate::definitions::{StoredDefinition, View};
use crate::error::{Conflict, Error, Result};
use crate::ids::SessionId;
use crate::people::LinkReach;
use crate::response::decide::{self, NewRespondent, NewResponse, OpenOutcome};
use crate::response::{RespondentHistory, ResponseRow, ResponseState, StoredResponse};
use crate::session::SessionType;
use crate::view::respondent::{Admission, CookieClaims, Respondent, RespondentKind, admit};

/// A caller who was let through the gate of a view.
pub(super) struct AdmittedRespondent {
    pub(super) who: Respondent,
    /// The respondent's name for the view.
    pub(super) name: String,
    /// Whether the caller may be shown what the respondent has opened before. Giving an address is no proof of being
    /// the person who opened a response under that address.
    pub(super) is_proven: bool,
}

impl AdmittedRespondent {
    pub(super) fn as_new(&self, ordinal: u64) -> NewRespondent<'_> {
        NewRespondent { who: &self.who, name: &self.name, ordinal }
    }

    /// Refuses to show what another person may have opened under the same address.
    pub(super) fn check_proven(&self, history: &RespondentHistory) -> Result<()> {
        let is_open = history.standing.as_ref().is_some_and(|row| row.state == ResponseState::Open);
        if is_open && !self.is_proven {
            return Err(Conflict::AlreadyAnswered.into());
        }
        Ok(())
    }
}

/// A response that a caller works on.
pub(in super::super) struct ResponseTarget {
    pub(in super::super) view: StoredDefinition<View>,
    pub(in super::super) response: StoredResponse,
    /// Set if it is not stored yet.
    pub(super) new: Option<Box<NewResponse>>,
}

impl Engine {
    /// Whether a respondent has submitted all that a view takes of them.
    pub(in super::super) async fn has_responded(
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
    pub(in super::super) async fn draft_of(
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

    pub(super) async fn history_of(
        &self,
        actor: &Actor,
        view: &StoredDefinition<View>,
        respondent: &AdmittedRespondent,
    ) -> Result<RespondentHistory> {
        self.sessions.respondent_history(&actor.tenant, &view.id, &respondent.name).await
    }

    /// The response that the caller is the respondent of.
    pub(super) async fn own_response(
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

    /// Refuses what a link does not reach in the store: what a link reads and writes is found under its own rights
    /// first, a response that is `stored` as well as the view to one that is not. A personal link names its user, whose
    /// responses are those of a member.
    pub(in super::super) async fn check_reach(
        &self,
        actor: &Actor,
        view: &StoredDefinition<View>,
        respondent_name: &str,
        stored: Option<&ResponseRow>,
    ) -> Result<()> {
        let Some(hash) = actor.link.filter(|_| actor.shared.is_none()) else { return Ok(()) };
        let stored = stored.filter(|row| row.is_anonymous).map(|row| &row.session);
        let needed = if stored.is_some() { LinkReach::Response } else { LinkReach::View };
        let reach = self.sessions.link_reach(&actor.tenant, hash, &view.id, respondent_name, stored);
        match reach.await? >= needed {
            true => Ok(()),
            false => Err(Error::NotFound),
        }
    }

    /// A response that the caller may read, and whether it is the caller's own. To any other caller it does not exist.
    pub(in super::super) async fn readable(
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
                        let is_own = admitted.is_proven && admitted.who == response.row.respondent;
                        if is_own {
                            self.check_reach(actor, &view, &admitted.name, Some(&response.row)).await?;
                        }
                        is_own
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
        self.check_reach(actor, &view, &admitted.name, None).await?;
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
pub(super) fn admitted(
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
