//! Share links: who is shown which, and what they open.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::access::ShareAccess;
use sederunt_core::clock::SystemClock;
use sederunt_core::definitions::View;
use sederunt_core::engine::{Credential, Engine, Settings};
use sederunt_core::live::Hub;
use sederunt_core::session::decide::OpenSession;
use sederunt_core::session::{MemoryMode, SessionType};
use sederunt_core::store::Store;
use sederunt_core::{Actor, Result, Role, SessionId, strict};
use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};

use crate::harness::{World, wish};
use crate::on_both_stores;
use crate::tasks::json;

const DAY: Duration = Duration::from_secs(86_400);

on_both_stores!(
    owners_list_all_links_and_members_what_they_made_or_hold,
    owners_and_its_maker_share_a_view_that_takes_responses,
    a_link_to_a_view_opens_that_view_and_nothing_else,
    a_closed_view_keeps_its_links,
);

/// A view that takes responses.
async fn form(world: &World, maker: &Actor, id: &str) {
    let text = r#"{"title":"Which?","questions":[{"key":"a","label":"A"}],"publish_config":{"gate":"none"},
        "response":{}}"#;
    let view: View = strict::read(json(text).as_str()).unwrap();
    world.engine.define(maker, Some(id), view, None).await.unwrap();
}

async fn owners_and_its_maker_share_a_view_that_takes_responses(world: &World) {
    let (owner, ann, bob) =
        (world.owner(), world.actor(Role::Member, "ann"), world.actor(Role::Member, "bob"));
    // Only owners define such a view; its maker may be a member by now.
    let as_owner = world.actor(Role::Owner, "ann");
    form(world, &as_owner, "form").await;
    let plain: View = strict::read(r#"{"title":"T","questions":[{"key":"a","label":"A"}]}"#).unwrap();
    world.engine.define(&as_owner, Some("plain"), plain, None).await.unwrap();
    let share =
        async |actor: &Actor, view: &str, life| world.engine.share_view(actor, view, None, life, None).await;
    let by_ann = share(&ann, "form", DAY).await.unwrap();
    let by_owner = share(&owner, "form", DAY).await.unwrap();
    assert_eq!((by_ann.share.session, by_ann.share.view.as_deref()), (None, Some("form")));
    assert_ne!(by_ann.token, by_owner.token);
    for (actor, view, life, code) in [
        (&bob, "form", DAY, "denied"),
        (&world.actor(Role::Guest, "gus"), "form", DAY, "denied"),
        (&world.worker("w"), "form", DAY, "denied"),
        (&ann, "plain", DAY, "invalid"),
        (&ann, "nothing", DAY, "not_found"),
        (&ann, "form", Duration::ZERO, "invalid"),
    ] {
        assert_eq!(share(actor, view, life).await.unwrap_err().code(), code, "{actor:?} {view}");
    }
    // Its maker sees and revokes the links of others to it; another member does not.
    assert_eq!(listed(world, &ann, None).await, [&*by_owner.share.id, &by_ann.share.id]);
    assert_eq!(listed(world, &bob, None).await, [""; 0]);
    assert_eq!(world.engine.revoke_share(&bob, &by_owner.share.id).await.unwrap_err().code(), "not_found");
    world.engine.revoke_share(&ann, &by_owner.share.id).await.unwrap();
    world.engine.revoke_share(&owner, &by_ann.share.id).await.unwrap();
    for token in [by_ann.token.unwrap(), by_owner.token.unwrap()] {
        let refused = world.engine.authenticate(Credential::Share(&token), None).await.unwrap_err();
        assert_eq!(refused.code(), "unauthenticated");
    }
}

async fn a_link_to_a_view_opens_that_view_and_nothing_else(world: &World) {
    let owner = world.owner();
    form(world, &owner, "form").await;
    form(world, &owner, "other").await;
    world.talk("s").await;
    let made = world.engine.share_view(&owner, "form", None, DAY, None).await.unwrap();
    let token = made.token.unwrap();
    let link = world.engine.authenticate(Credential::Share(&token), None).await.unwrap();
    assert_eq!((&link.shared, link.view.as_deref(), &link.user), (&None, Some("form"), &None));
    for code in [
        world.engine.session(&link, &SessionId::stored("s")).await.unwrap_err().code(),
        world.engine.view(&link, "other", None).await.unwrap_err().code(),
    ] {
        assert_eq!(code, "not_found");
    }
    assert_eq!(world.engine.shares(&link, None, None, None, 10).await.unwrap_err().code(), "denied");
    let again = world.engine.share_view(&link, "form", None, DAY, None).await.unwrap_err();
    assert_eq!(again.code(), "denied");
    let elsewhere = world.other_tenant().await;
    form(world, &elsewhere, "form").await;
    let made = world.engine.share_view(&elsewhere, "form", None, DAY, None).await.unwrap();
    let foreign = world.engine.authenticate(Credential::Share(&made.token.unwrap()), None).await.unwrap();
    assert_eq!(foreign.tenant, elsewhere.tenant, "a link opens the view of its own tenant");
    world.clock.advance(DAY);
    let expired = world.engine.authenticate(Credential::Share(&token), None).await.unwrap_err();
    let unknown = world.engine.authenticate(Credential::Share("x"), None).await.unwrap_err();
    assert_eq!((expired.code(), expired.to_string()), (unknown.code(), unknown.to_string()));
}

async fn a_closed_view_keeps_its_links(world: &World) {
    let owner = world.owner();
    form(world, &owner, "form").await;
    let made = world.engine.share_view(&owner, "form", None, DAY, None).await.unwrap();
    let token = made.token.unwrap();
    let past = json(r#"{"publish_config":{"gate":"none","expires_at":"2020-01-01T00:00:00Z"}}"#);
    world.engine.redefine::<View>(&owner, "form", &past, None).await.unwrap();
    let link = world.engine.authenticate(Credential::Share(&token), None).await.unwrap();
    assert_eq!(link.view.as_deref(), Some("form"), "closing a view revokes no link");
    assert_eq!(listed(world, &owner, None).await, [made.share.id]);
}

async fn share(world: &World, actor: &Actor, session: &str) -> String {
    let id = SessionId::stored(session);
    world.engine.share(actor, &id, ShareAccess::Read, DAY, None).await.unwrap().share.id
}

async fn listed(world: &World, actor: &Actor, session: Option<&str>) -> Vec<String> {
    let session = session.map(SessionId::stored);
    let page = world.engine.shares(actor, session, None, None, 10).await.unwrap();
    page.items.into_iter().map(|share| share.id).collect()
}

async fn owners_list_all_links_and_members_what_they_made_or_hold(world: &World) {
    let (owner, ann, bob) =
        (world.owner(), world.actor(Role::Member, "ann"), world.actor(Role::Member, "bob"));
    world.open(&ann, wish("of ann", SessionType::Mixed)).await;
    world.open(&owner, wish("of the owner", SessionType::Mixed)).await;
    let by_ann = share(world, &ann, "of ann").await;
    let by_owner = share(world, &owner, "of ann").await;
    let of_owner = share(world, &owner, "of the owner").await;
    assert_eq!(listed(world, &owner, None).await, [&*of_owner, &by_owner, &by_ann]);
    assert_eq!(listed(world, &ann, None).await, [&*by_owner, &by_ann]);
    assert_eq!(listed(world, &ann, Some("of the owner")).await, [""; 0]);
    assert_eq!(listed(world, &bob, None).await, [""; 0]);
    for role in [Role::Guest, Role::Worker, Role::Channel] {
        let refused = world.engine.shares(&world.actor(role, "x"), None, None, None, 10).await;
        assert_eq!(refused.unwrap_err().code(), "denied", "{role:?}");
    }
    let elsewhere = world.other_tenant().await;
    assert_eq!(listed(world, &elsewhere, None).await, [""; 0]);
    world.engine.revoke_share(&ann, &by_owner).await.unwrap();
    assert_eq!(world.engine.revoke_share(&bob, &by_ann).await.unwrap_err().code(), "not_found");
    let page = world.engine.shares(&owner, None, None, None, 10).await.unwrap();
    let revoked = page.items.iter().filter(|share| share.revoked_at.is_some()).map(|share| share.id.as_str());
    assert_eq!(revoked.collect::<Vec<_>>(), [by_owner]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_of_an_incognito_session_are_listed_only_where_it_is_named() {
    let (clock, hub) = (Arc::new(SystemClock::default()), Arc::new(Hub::default()));
    let (time, heard) = (clock.clone(), hub.clone());
    let open = move || -> Result<Arc<dyn Store>> {
        let options = SqliteOptions { place: Place::Memory, clock: time.clone(), hub: heard.clone() };
        Ok(SqliteStore::open(options)?)
    };
    let store = open().unwrap();
    let engine = Engine::new(store.clone(), hub, Settings::default()).with_private(open);
    let world = World::over(engine, store, clock, None).await;
    let ann = world.actor(Role::Member, "ann");
    let hidden =
        OpenSession { memory_mode: Some(MemoryMode::Incognito), ..wish("hidden", SessionType::Mixed) };
    world.open(&ann, hidden).await;
    world.open(&ann, wish("open", SessionType::Mixed)).await;
    let of_hidden = share(&world, &ann, "hidden").await;
    let of_open = share(&world, &ann, "open").await;
    for actor in [&ann, &world.owner()] {
        assert_eq!(listed(&world, actor, None).await, [&*of_open]);
        assert_eq!(listed(&world, actor, Some("hidden")).await, [&*of_hidden]);
    }
    assert_eq!(listed(&world, &world.actor(Role::Member, "bob"), Some("hidden")).await, [""; 0]);
    assert!(
        world.store.shares(&world.tenant, every(&ann)).await.unwrap().items.len() == 1,
        "nothing is on disk"
    );
    world.engine.revoke_share(&ann, &of_hidden).await.unwrap();
}

fn every(actor: &Actor) -> sederunt_core::people::ShareListQuery {
    let by = sederunt_core::access::ActingUser::of(actor);
    sederunt_core::people::ShareListQuery { session: None, view: None, by, after: None, limit: 10 }
}
