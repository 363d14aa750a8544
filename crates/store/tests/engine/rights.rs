//! The rights table, cell by cell, against the engine; and that "missing" and "not yours" look the same.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::access::{Actor, RIGHTS, Right, ShareAccess, Verb, right};
use sederunt_core::event::EventQuery;
use sederunt_core::session::SessionType;
use sederunt_core::session::decide::{OpenSession, PatchSession};
use sederunt_core::work::Settle;
use sederunt_core::{Role, SessionId};

use crate::harness::{World, says, wish};
use crate::on_both_stores;

on_both_stores!(
    every_cell_of_the_rights_table_holds,
    a_stranger_cannot_tell_missing_from_not_yours,
    tenants_see_nothing_of_each_other,
    a_merged_persons_sessions_become_the_others,
);

/// The relation of a caller to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    Stranger,
    Participant,
    Holder,
}

/// Whether a cell of the table covers a session with this relation.
fn reaches(right: Right, stands: Stands, tied: bool) -> bool {
    match right {
        Right::No => false,
        Right::All => true,
        Right::Participant | Right::OwnOrAssigned | Right::Assignee => stands != Stands::Stranger,
        Right::Holder | Right::HolderOrOpener => stands == Stands::Holder,
        Right::Claimed | Right::Prefix | Right::Shared => tied,
        Right::SharedForSubmit => false,
    }
}

async fn every_cell_of_the_rights_table_holds(world: &World) {
    let mut cells = 0;
    for role in Role::ALL {
        for stands in [Stands::Stranger, Stands::Participant, Stands::Holder] {
            for tied in [false, true] {
                let person = matches!(role, Role::Owner | Role::Member | Role::Guest);
                if (person && tied) || (!person && stands != Stands::Stranger) {
                    continue;
                }
                for (verb, _) in RIGHTS {
                    let Some(answer) = attempt(world, role, stands, tied, *verb, cells).await else {
                        continue;
                    };
                    cells += 1;
                    let may_read = reaches(right(role, Verb::Read), stands, tied);
                    let may = may_read && reaches(right(role, *verb), stands, tied);
                    let want = if may {
                        "ok"
                    } else if may_read {
                        "denied"
                    } else {
                        "not_found"
                    };
                    assert_eq!(answer, want, "{role:?} {stands:?} tied={tied} {verb:?}");
                }
            }
        }
    }
    assert!(cells > 40, "only {cells} cells were tried");
}

/// Tries a verb on a fresh session. `None` for verbs that have no command on a session yet.
async fn attempt(
    world: &World,
    role: Role,
    stands: Stands,
    tied: bool,
    verb: Verb,
    n: usize,
) -> Option<&'static str> {
    if !matches!(verb, Verb::Read | Verb::Edit | Verb::Share | Verb::Steer | Verb::Delete) {
        return None;
    }
    let engine = &world.engine;
    let name = format!("{role:?}-{n}");
    let prefix = format!("chan{n}-");
    let id = if tied && role == Role::Channel { format!("{prefix}x") } else { format!("room{n}") };
    let mut actor = (*world.actor(role, if role == Role::Channel { &prefix } else { &name })).clone();
    let holder = if stands == Stands::Holder { actor.clone() } else { (*world.owner()).clone() };
    let participants = if stands == Stands::Participant { vec![name.clone()] } else { Vec::new() };
    let opener = if holder.role == Role::Guest { Actor { role: Role::Member, ..holder } } else { holder };
    let session = if tied && role == Role::Worker {
        let wish = OpenSession {
            status: Some(sederunt_core::session::Status::Pending),
            agent_slug: Some(id.clone()),
            ..wish(&id, SessionType::Agent)
        };
        world.open(&world.owner(), wish).await;
        let only =
            sederunt_core::work::ClaimRequest { agent_slugs: vec![id.clone()], ..crate::harness::request() };
        engine.claim(&actor, only, None).await.unwrap().pop().unwrap().session
    } else {
        world.open(&opener, OpenSession { participants, ..wish(&id, SessionType::Mixed) }).await
    };
    if role == Role::Share {
        let shared = if tied { session.id.clone() } else { SessionId::stored("elsewhere") };
        actor.shared = Some((shared, ShareAccess::Read));
    }
    let actor = Arc::new(actor);
    let id = &session.id;
    let answer = match verb {
        Verb::Read => engine.session(&actor, id).await.map(drop),
        Verb::Edit => {
            let patch = PatchSession { title: Some(Some("t".into())), ..PatchSession::default() };
            engine.patch(&actor, id, patch, None).await.map(drop)
        }
        Verb::Share => engine.fork(&actor, id, 1, None).await.map(drop),
        Verb::Steer => engine.stop(&actor, id, None).await.map(drop),
        _ => engine.delete(&actor, id).await,
    };
    Some(answer.map_or_else(|error| error.code(), |()| "ok"))
}

async fn a_stranger_cannot_tell_missing_from_not_yours(world: &World) {
    world.talk("theirs").await;
    for role in [Role::Member, Role::Guest, Role::Worker, Role::Channel] {
        let stranger = world.actor(role, "stranger");
        let mut answers = Vec::new();
        for id in ["theirs", "missing"] {
            let id = SessionId::stored(id);
            let engine = &world.engine;
            let said = says("user.message", "hi");
            let day = Duration::from_secs(60);
            answers.push([
                text(engine.session(&stranger, &id).await.map(drop)),
                text(engine.read(&stranger, &id, EventQuery::default()).await.map(drop)),
                text(engine.stream(stranger.clone(), &id, None).await.map(drop)),
                text(engine.append(&stranger, &id, said, None).await.map(drop)),
                text(engine.patch(&stranger, &id, PatchSession::default(), None).await.map(drop)),
                text(engine.stop(&stranger, &id, None).await.map(drop)),
                text(engine.retry(&stranger, &id, None).await.map(drop)),
                text(engine.fork(&stranger, &id, 1, None).await.map(drop)),
                text(engine.delete(&stranger, &id).await),
                text(engine.share(&stranger, &id, ShareAccess::Read, day, None).await.map(drop)),
            ]);
        }
        assert_eq!(answers[0], answers[1], "{role:?}");
        assert!(answers[0].iter().all(|answer| answer.starts_with("not_found")), "{answers:?}");
    }
}

fn text(answer: sederunt_core::Result<()>) -> String {
    answer.map_or_else(|error| format!("{} {error}", error.code()), |()| "ok".into())
}

async fn tenants_see_nothing_of_each_other(world: &World) {
    let ours = world.talk("same").await;
    world.engine.append(&world.owner(), &ours.id, says("user.message", "secretword"), None).await.unwrap();
    let theirs = sederunt_core::TenantId::stored("rival");
    world.engine.operator().create_tenant(&theirs).await.unwrap();
    let rival = Arc::new(Actor { tenant: theirs, ..(*world.owner()).clone() });
    assert_eq!(world.engine.session(&rival, &ours.id).await.unwrap_err().code(), "not_found");
    assert_eq!(
        world.engine.append(&rival, &ours.id, says("user.message", "x"), None).await.unwrap_err().code(),
        "not_found"
    );
    let claim = world.claimed("work", &world.worker("w")).await;
    let done = Settle::Complete { result: None, text: None, usage: None };
    let foreign = Actor { tenant: rival.tenant.clone(), ..(*world.worker("w")).clone() };
    let answer = world.engine.settle(&foreign, &claim.session.id, claim.epoch, done, None).await;
    assert_eq!(
        answer.unwrap_err().code(),
        "fenced",
        "what a worker is told of any session that it does not hold"
    );
    let own = world.engine.open(&rival, wish("same", SessionType::Mixed), None).await.unwrap();
    assert!(own.created);
    world.engine.index_now().await.unwrap();
    assert!(world.engine.search(&rival, "secretword", None, 10).await.unwrap().items.is_empty());
    assert!(!world.engine.search(&world.owner(), "secretword", None, 10).await.unwrap().items.is_empty());
}

async fn a_merged_persons_sessions_become_the_others(world: &World) {
    let owner = world.owner();
    for name in ["old", "new"] {
        let user = sederunt_core::engine::NewUser { id: Some(name.into()), ..Default::default() };
        world.engine.create_user(&owner, user, None).await.unwrap();
    }
    let (old, new) = (world.actor(Role::Member, "old"), world.actor(Role::Member, "new"));
    let session = world.open(&old, wish("held", SessionType::Mixed)).await;
    assert_eq!(world.engine.session(&new, &session.id).await.unwrap_err().code(), "not_found");
    let (from, into) = (sederunt_core::UserId::stored("old"), sederunt_core::UserId::stored("new"));
    world.engine.merge_users(&owner, &from, &into, None).await.unwrap();
    assert_eq!(world.engine.session(&new, &session.id).await.unwrap().head.holder, Some(into));
    assert_eq!(world.engine.session(&old, &session.id).await.unwrap_err().code(), "not_found");
    world.engine.delete(&new, &session.id).await.unwrap();
}
