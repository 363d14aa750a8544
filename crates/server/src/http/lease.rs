//! Counts a stream for as long as it is open: server-sent events and WebSockets alike.

use axum::extract::FromRequestParts;
use http::request::Parts;
use sederunt_core::live::budget::{StreamAccount, StreamLease};

use super::auth::Caller;
use super::error::RequestError;
use super::{App, Peer, rate};

/// The lease of a stream that is about to open. A caller that has too many open is answered 429.
#[derive(Debug)]
pub struct Leased(pub StreamLease);

impl FromRequestParts<App> for Leased {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, RequestError> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let peer = parts.extensions.get::<Peer>().copied();
        let quotas = app.engine.quotas_of(&caller.actor.tenant);
        Ok(Self(app.stream_budget.open(accounts(&caller, peer), &quotas)?))
    }
}

/// The accounts that a caller's streams are counted in. Those of the local owner and the operator count only in the
/// total.
fn accounts(caller: &Caller, peer: Option<Peer>) -> Vec<StreamAccount> {
    let mut accounts = vec![StreamAccount::InAll];
    if !caller.can_be_revoked() {
        return accounts;
    }
    let (tenant, credential) = (caller.actor.tenant.clone(), caller.actor.credential.clone());
    let address = peer.map(|Peer(address)| rate::block(address));
    accounts.extend(address.map(StreamAccount::Address));
    if caller.is_share() {
        let here = address.map(|at| StreamAccount::LinkAndAddress(tenant.clone(), credential.clone(), at));
        accounts.extend(here);
        accounts.push(StreamAccount::Link(tenant.clone(), credential));
    } else {
        accounts.push(StreamAccount::Credential(tenant.clone(), credential));
    }
    accounts.push(StreamAccount::Tenant(tenant));
    accounts
}
