//! Answers from the store that was opened here: one engine call each, shown as the interface
//! shows it.

use sederunt::{
    Actor, ClaimRequest, CredentialId, Error, Identity, ListCursor, NewKey, NewUser, Role, Sederunt,
    SessionId, SessionQuery, SessionType, Status, StatusSet, TenantId, Types, UserId, UserPatch,
};
use sederunt_core::approval::decide::{Decide, Decision};
use sederunt_core::approval::{ApprovalQuery, State};
use sederunt_core::library::Bundle;
use sederunt_core::work::queue::Bucket;
use sederunt_server::wire::Count;
use sederunt_server::wire::crisis::{HoldCrises, HoldDone};
use sederunt_server::wire::{approval, library as wire_library, people, session, task, today, view, work};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Ask, SessionFilter, feedback, library};
use crate::config::Config;
use crate::exit::{Failure, Result};

pub async fn answer(store: &Sederunt, actor: &Actor, config: &Config, ask: Ask) -> Result<Value> {
    match ask {
        Ask::Sessions(filter) => {
            if filter.text.is_some() {
                // The index follows a moment behind, and this process may not live that long.
                store.store().index_now().await?;
            }
            let page = store.sessions(actor, query(filter)?).await?;
            shown(&session::SessionList::from(page))
        }
        Ask::Session { id } => {
            let session = store.session(actor, &SessionId::parse(&id)?).await?;
            shown(&session::Session::from(session))
        }
        Ask::Retry { id } => {
            let session = store.retry(actor, &SessionId::parse(&id)?, None).await?;
            shown(&session::Session::from(session))
        }
        Ask::Stop { id } => {
            let session = store.stop(actor, &SessionId::parse(&id)?, None).await?;
            shown(&session::Session::from(session))
        }
        Ask::Delete { id, force } => {
            let id = SessionId::parse(&id)?;
            match force {
                true => store.delete_by_force(actor, &id).await?,
                false => store.delete(actor, &id).await?,
            }
            Ok(Value::Null)
        }
        Ask::Claim { worker, session_types, agent_slugs, limit, lease, wait } => {
            let request = ClaimRequest {
                worker,
                session_types: session_types
                    .iter()
                    .map(|text| SessionType::parse(text))
                    .collect::<Result<_, Error>>()?,
                agent_slugs,
                limit: usize::try_from(limit).unwrap_or(usize::MAX),
                lease: lease.unwrap_or(store.settings().lease),
                wait,
            };
            let claimed = store.claim(actor, request, None).await?;
            shown(&work::Claims::briefed(store, claimed).await?)
        }
        Ask::Reply { id, reply } => {
            let session = store.reply(actor, &SessionId::parse(&id)?, reply, None).await?;
            shown(&session::Session::from(session))
        }
        Ask::HumanComplete { id, result, text } => {
            let session = store.human_complete(actor, &SessionId::parse(&id)?, result, text, None).await?;
            shown(&session::Session::from(session))
        }
        Ask::Definitions { noun, filters, limit, cursor } => {
            library::list(store, actor, noun, filters, rows(limit), row(cursor)?).await
        }
        Ask::Definition { noun, name } => library::show(store, actor, noun, &name).await,
        Ask::Define { noun, body } => library::define(store, actor, noun, &body).await,
        Ask::Redefine { noun, name, patch } => library::redefine(store, actor, noun, &name, &patch).await,
        Ask::Answers { view, limit, cursor } => {
            let after = row(cursor)?.unwrap_or(0).max(0).cast_unsigned();
            shown(&view::AnswerList::from(store.answers(actor, &view, after, rows(limit)).await?))
        }
        Ask::Trigger { task, input } => {
            shown(&session::Session::from(store.trigger(actor, &task, input, None).await?))
        }
        Ask::TaskStatus { task } => {
            shown(&task::TaskStanding::from(store.task_standing(actor, &task).await?))
        }
        Ask::ExportBundle => shown(&store.bundle(actor).await?),
        Ask::ImportBundle { bundle } => {
            let imported = store.import(actor, Bundle::read(&bundle)?, None).await?;
            shown(&wire_library::Imported { imported })
        }
        Ask::Approvals { state, limit, cursor } => {
            let query = ApprovalQuery {
                state: state.and_then(State::parse),
                after: row(cursor)?,
                limit: rows(limit),
                ..ApprovalQuery::default()
            };
            shown(&approval::ApprovalList::from(store.approvals(actor, false, query).await?))
        }
        Ask::Approval { id } => shown(&approval::Approval::from(store.approval(actor, &id).await?)),
        Ask::Decide { id, decision } => {
            let wish = Decide {
                decision: if decision.approve { Decision::Approve } else { Decision::Deny },
                modified_args: decision.modified_args,
                modified_output: decision.modified_output,
                reason: decision.reason,
                digest: decision.digest,
            };
            shown(&approval::Approval::from(store.decide(actor, &id, wish, None).await?))
        }
        Ask::QueueCounts { zone } => {
            shown(&today::QueueCounts::from(store.queue_counts(actor, zone.as_deref()).await?))
        }
        Ask::Queue { bucket, zone, limit, cursor } => {
            let bucket = Bucket::parse(&bucket).ok_or(Error::NotFound)?;
            let page = store.queue(actor, bucket, zone.as_deref(), row(cursor)?, rows(limit)).await?;
            shown(&today::QueueList::from(page))
        }
        Ask::Feedback(ask) => feedback::here(store, actor, config, ask).await,
        Ask::Lessons(ask) => feedback::lessons_here(store, actor, config, ask).await,
        Ask::Audit { limit, cursor } => {
            shown(&people::AuditList::from(store.audit(actor, row(cursor)?, rows(limit)).await?))
        }
        Ask::Keys => {
            let items: Vec<people::Key> = store.keys(actor).await?.into_iter().map(Into::into).collect();
            shown(&people::KeyList { items, next_cursor: None })
        }
        Ask::CreateKey { user, role, prefix, act_as, expires_in } => {
            let wish = NewKey { role: Some(Role::parse(&role)?), user, prefix, act_as, expires_in };
            shown(&people::CreatedKey::from(store.create_key(actor, wish, None).await?))
        }
        Ask::RevokeKey { id } => {
            store.revoke_key(actor, &CredentialId::parse(&id)?).await?;
            Ok(Value::Null)
        }
        Ask::Users { after } => {
            let limit = sederunt::limits::PAGE_ROWS_MAX;
            let users = store.users(actor, after.as_deref(), limit).await?;
            let next = (users.len() == limit).then(|| users.last().map(|user| user.id.to_string()));
            let items: Vec<people::User> = users.into_iter().map(Into::into).collect();
            shown(&people::UserList { items, next_cursor: next.flatten() })
        }
        Ask::CreateUser { id, name, role } => {
            let wish = NewUser { id, name, role: Some(Role::parse_person(&role)?) };
            shown(&people::User::from(store.create_user(actor, wish, None).await?))
        }
        Ask::SetRole { id, role } => {
            let wish = UserPatch { role: Some(Role::parse_person(&role)?), ..UserPatch::default() };
            shown(&people::User::from(store.update_user(actor, &UserId::parse(&id)?, wish).await?))
        }
        Ask::Link { id, platform, external_id } => {
            let identity = Identity { platform, external_id };
            let user = store.link_identity(actor, &UserId::parse(&id)?, identity, None).await?;
            shown(&people::User::from(user))
        }
        Ask::Merge { from, into } => {
            let user = store.merge_users(actor, &UserId::parse(&from)?, &UserId::parse(&into)?, None).await?;
            shown(&people::User::from(user))
        }
        Ask::Purge { ratings_days, crisis_days, preview } => {
            let span =
                |days: Option<u32>| days.map(|days| std::time::Duration::from_secs(u64::from(days) * 86_400));
            let (ratings, crises) = (span(ratings_days), span(crisis_days));
            let counted = if preview {
                store.purgeable_records(ratings, crises).await?
            } else {
                store.purge_records(ratings, crises).await?
            };
            shown(&people::Purged::from(counted))
        }
        Ask::HoldCrises { until, thread, reason } => {
            let hold = HoldCrises { until, thread_id: thread, reason }.try_into()?;
            shown(&HoldDone { held: Count(store.hold_crises(actor, &hold).await?) })
        }
        Ask::Tenants => {
            let tenants = store.operator().tenants().await?;
            let items: Vec<people::Tenant> = tenants.into_iter().map(Into::into).collect();
            shown(&people::TenantList { items, next_cursor: None })
        }
        Ask::CreateTenant { id } => {
            let made = store.operator().create_tenant(&TenantId::parse(&id)?).await?;
            shown(&people::Tenant::from(made))
        }
        Ask::SuspendTenant { id, suspended } => {
            let changed = store.operator().suspend_tenant(&TenantId::parse(&id)?, suspended).await?;
            shown(&people::Tenant::from(changed))
        }
        Ask::DeleteTenant { id } => {
            store.operator().delete_tenant(&TenantId::parse(&id)?).await?;
            Ok(json!({ "id": id, "deleted": true }))
        }
    }
}

fn query(filter: SessionFilter) -> Result<SessionQuery> {
    let invalid = |field: &'static str, message: &str| Failure::from(Error::invalid(field, message));
    let types = match filter.session_type {
        None => Types::All,
        Some(text) => Types::Only(SessionType::parse(&text)?),
    };
    Ok(SessionQuery {
        status: filter
            .status
            .map(|text| Status::parse(&text).ok_or_else(|| invalid("status", "is not a status")))
            .transpose()?,
        group: filter
            .group
            .map(|text| {
                StatusSet::group(&text)
                    .ok_or_else(|| invalid("group", "must be active, live, failing or terminal"))
            })
            .transpose()?,
        task_id: filter.task_id,
        agent_slug: filter.agent_slug,
        entity_id: filter.entity_id,
        user_id: filter.user_id.as_deref().map(UserId::parse).transpose()?,
        metadata: filter.metadata,
        text: filter.text,
        inactive: filter.all.then_some(false),
        parents_only: filter.parents_only,
        after: filter
            .cursor
            .map(|text| {
                ListCursor::parse(&text).ok_or_else(|| invalid("cursor", "is not a cursor of a list"))
            })
            .transpose()?,
        ..SessionQuery::of(types, usize::try_from(filter.limit).unwrap_or(usize::MAX))
    })
}

pub(super) fn rows(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Where a list that is counted through goes on.
pub(super) fn row(cursor: Option<String>) -> Result<Option<i64>> {
    let parse =
        |text: String| text.parse().map_err(|_| Error::invalid("cursor", "is not a cursor of a list"));
    Ok(cursor.map(parse).transpose()?)
}

pub(super) fn shown(what: &impl Serialize) -> Result<Value> {
    serde_json::to_value(what).map_err(|error| Error::internal(error).into())
}
