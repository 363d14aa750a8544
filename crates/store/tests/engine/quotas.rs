//! Quotas of tenants and users: one past each is refused by its name, and what is deleted or has ended makes room.

use std::collections::HashMap;
use std::sync::Arc;

use sederunt_core::quota::{Amount, QuotaLimits, QuotaSettings};
use sederunt_core::session::decide::{OpenSession, SourceWish};
use sederunt_core::session::source::Company;
use sederunt_core::session::{SessionType, Status};
use sederunt_core::{Actor, Engine, Error, Result, Role, SessionId, TenantId};

use crate::harness::{World, says, wish};
use crate::on_both_stores;

on_both_stores!(
    sessions_of_a_user_and_of_a_tenant_are_counted,
    work_that_has_not_ended_is_counted,
    bytes_are_counted_across_nodes_and_restarts,
    an_owner_deletes_what_a_group_filled_by_force_and_the_audit_trail_says_so,
);

const PLENTY: Amount = Amount { sessions: 1_000, runs: 1_000, bytes: 1 << 30 };

fn limited(world: &World, tenant: Amount, user: Amount) -> Engine {
    let own = QuotaLimits { tenant, user, ..QuotaLimits::default() };
    let tenants = HashMap::from([(TenantId::stored("acme"), own)]);
    world.engine.clone().with_quotas(QuotaSettings { tenants, ..QuotaSettings::default() })
}

async fn open(engine: &Engine, actor: &Actor, id: &str, status: Option<Status>) -> Result<()> {
    let wish = OpenSession { status, ..wish(id, SessionType::Mixed) };
    engine.open(actor, wish, None).await.map(drop)
}

async fn say(engine: &Engine, actor: &Arc<Actor>, id: &str, bytes: usize) -> Result<()> {
    let words = says("user.message", &"x".repeat(bytes));
    engine.append(actor, &SessionId::stored(id), words, None).await.map(drop)
}

fn exceeded(done: Result<()>) -> Option<&'static str> {
    match done {
        Ok(()) => None,
        Err(Error::QuotaExceeded { quota, .. }) => Some(quota.name()),
        Err(other) => panic!("{other}"),
    }
}

async fn sessions_of_a_user_and_of_a_tenant_are_counted(world: &World) {
    let engine = limited(world, Amount { sessions: 3, ..PLENTY }, Amount { sessions: 2, ..PLENTY });
    let (ann, bob) = (world.actor(Role::Member, "ann"), world.actor(Role::Member, "bob"));
    for id in ["a1", "a2"] {
        open(&engine, &ann, id, None).await.unwrap();
    }
    assert_eq!(exceeded(open(&engine, &ann, "a3", None).await), Some("quotas.user_sessions"));
    open(&engine, &ann, "a1", None).await.unwrap();
    open(&engine, &bob, "b1", None).await.unwrap();
    assert_eq!(exceeded(open(&engine, &bob, "b2", None).await), Some("quotas.tenant_sessions"));
    engine.delete(&world.owner(), &SessionId::stored("a1")).await.unwrap();
    open(&engine, &bob, "b2", None).await.unwrap();
    assert_eq!(exceeded(open(&engine, &ann, "a3", None).await), Some("quotas.tenant_sessions"));
    let elsewhere = world.other_tenant().await;
    open(&engine, &elsewhere, "e1", None).await.unwrap();
}

async fn work_that_has_not_ended_is_counted(world: &World) {
    let engine = limited(world, PLENTY, Amount { runs: 1, ..PLENTY });
    let owner = world.owner();
    open(&engine, &owner, "first", Some(Status::Pending)).await.unwrap();
    let second = open(&engine, &owner, "second", Some(Status::Pending)).await;
    assert_eq!(exceeded(second), Some("quotas.user_runs"));
    open(&engine, &owner, "talk", None).await.unwrap();
    engine.stop(&owner, &SessionId::stored("first"), None).await.unwrap();
    open(&engine, &owner, "second", Some(Status::Pending)).await.unwrap();
}

async fn bytes_are_counted_across_nodes_and_restarts(world: &World) {
    let engine = limited(world, PLENTY, Amount { bytes: 10_000, ..PLENTY });
    let ann = world.actor(Role::Member, "ann");
    open(&engine, &ann, "s", None).await.unwrap();
    say(&engine, &ann, "s", 6_000).await.unwrap();
    say(&engine, &ann, "s", 6_000).await.unwrap();
    assert_eq!(exceeded(say(&engine, &ann, "s", 1).await), Some("quotas.user_bytes"));
    // Another node, or this one after a restart, knows it from the store.
    let other = limited(world, PLENTY, Amount { bytes: 10_000, ..PLENTY });
    open(&other, &ann, "t", None).await.unwrap();
    assert_eq!(exceeded(say(&other, &ann, "t", 1).await), Some("quotas.user_bytes"));
    engine.delete(&ann, &SessionId::stored("s")).await.unwrap();
    say(&engine, &ann, "t", 1).await.unwrap();
}

async fn an_owner_deletes_what_a_group_filled_by_force_and_the_audit_trail_says_so(world: &World) {
    let (ann, owner) = (world.actor(Role::Member, "ann"), world.owner());
    let source = Some(SourceWish { company: Some(Company::Group), ..SourceWish::default() });
    let group = OpenSession { source, ..wish("g", SessionType::Mixed) };
    world.engine.open(&ann, group, None).await.unwrap();
    let id = SessionId::stored("g");
    let eve = world.actor(Role::Member, "eve");
    for (actor, code) in [(&ann, "group_session"), (&owner, "group_session"), (&eve, "not_found")] {
        assert_eq!(world.engine.delete(actor, &id).await.unwrap_err().code(), code);
    }
    assert_eq!(world.engine.delete_by_force(&ann, &id).await.unwrap_err().code(), "denied");
    world.engine.delete_by_force(&owner, &id).await.unwrap();
    let trail = world.engine.audit(&owner, None, 1).await.unwrap().items;
    assert_eq!((trail[0].action.as_str(), trail[0].target.as_str()), ("session.delete_group", "g"));
}
