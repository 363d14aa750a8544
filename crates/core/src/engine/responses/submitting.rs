//! Submitting responses: one that was opened before, or a whole answer that opens one and submits it in one commit.

use super::super::views::{clearance, known};
use super::super::{CommandOutcome, Decided, Engine, Submission, SubmitResult};
use super::finding::{ResponseTarget, admitted};
use super::{noted_by, noting};
use crate::access::Actor;
use crate::approval::promotion::{self, PromotionOutcome, PromotionRequest};
use crate::error::{Conflict, Error, Result};
use crate::event::AppendOutcome;
use crate::ids::SessionId;
use crate::json::Json;
use crate::response::decide::{self, OpenOutcome, SubmitCheck};
use crate::response::{PromotionMode, ResponseRow, StoredResponse};
use crate::store::{Change, CommitResult, IdemKey, Record};
use crate::view::answer::SUBMIT;
use crate::view::respondent::{Admission, Respondent, RespondentKind, admit};

/// A submitted response.
#[derive(Clone, Debug)]
pub struct SubmittedResponse {
    pub response: StoredResponse,
    /// The same was submitted before: nothing was written now.
    pub repeated: bool,
}

impl Engine {
    /// Submits the caller's own response: these values over the draft. The event, the end of the session and its result
    /// are one commit. The same again changes nothing. A repeat under the same key is answered as the first request was.
    pub async fn submit_response(
        &self,
        actor: &Actor,
        id: &SessionId,
        cookie: Option<&str>,
        values: Option<&Json>,
        key: Option<IdemKey>,
    ) -> Result<SubmittedResponse> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let target = self.own_response(actor, id, cookie).await?;
                    match self.submission_of(target, values).await? {
                        Some(change) => Ok(Decided::change(change.keyed(noting(key, id)))),
                        None => Ok(Decided::Nothing(())),
                    }
                })
            })
            .await;
        let repeated = match self.or_replayed(actor, key, done).await? {
            CommandOutcome::Nothing(()) => self.first_noted(actor, key).await?.is_none(),
            CommandOutcome::Done(..) => false,
        };
        Ok(SubmittedResponse { response: self.response(actor, id, cookie).await?, repeated })
    }

    /// Takes a whole answer to a view that takes responses: opens one and submits it, in one commit. A draft that the
    /// respondent has open is submitted with these values over it.
    pub(in super::super) async fn submit_as_response(
        &self,
        actor: &Actor,
        view_id: &str,
        cookie: Option<&str>,
        wish: &Submission,
        stranger: &Respondent,
        key: Option<IdemKey>,
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
                    self.check_reach(actor, &view, &admitted.name, history.standing.as_ref()).await?;
                    let target = match decide::open(&view.value, &history, now) {
                        Ok(OpenOutcome::Standing(row)) => {
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
                    let row = Box::new(target.response.row.clone());
                    match self.submission_of(target, Some(&wish.values)).await? {
                        Some(mut change) => {
                            change.records.extend(lead);
                            let change = Box::new(change.keyed(noting(key, &row.session)));
                            Ok(Decided::Change(change, Some((admitted.who, cookie))))
                        }
                        // A repeat proves nothing, so it gets no cookie that would.
                        None => Ok(Decided::Nothing(row)),
                    }
                })
            })
            .await;
        match self.or_replayed(actor, key, done).await? {
            CommandOutcome::Nothing(row) => {
                let repeated = self.first_noted(actor, key).await?.is_none();
                self.submitted_before(actor, *row, repeated).await
            }
            CommandOutcome::Done(done, submitted) => match (&done.replay, submitted) {
                (Some(replay), _) => {
                    let first =
                        noted_by(replay).ok_or_else(|| Error::internal("a key that notes no response"))?;
                    self.submitted_before(actor, self.stored_response(actor, &first).await?.row, false).await
                }
                (None, Some((respondent, cookie))) => {
                    let sequence = submitted_at(&done)?;
                    Ok(SubmitResult { respondent, sequence, repeated: false, cookie })
                }
                (None, None) => Err(Error::internal("a response that nobody submitted")),
            },
        }
    }

    /// The answer to a submit that was written before.
    async fn submitted_before(
        &self,
        actor: &Actor,
        row: ResponseRow,
        repeated: bool,
    ) -> Result<SubmitResult> {
        let found = self.sessions.sequence_of(&actor.tenant, &row.session, &row.respondent_name).await?;
        let sequence = found.ok_or_else(|| Error::internal("a submitted response has no event"))?;
        Ok(SubmitResult { respondent: row.respondent, sequence, repeated, cookie: None })
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
