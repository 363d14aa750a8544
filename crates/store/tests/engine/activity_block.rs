//! The recent-activity block, over the bridge that it is read from.

use std::time::Duration;

use sederunt_core::definitions::Entity;
use sederunt_core::{Role, limits};

use crate::activity::{human, marker, record, start, tasks, view, visit};
use crate::harness::World;
use crate::on_both_stores;
use crate::tasks::json;

on_both_stores!(
    a_block_tells_what_its_reader_works_on_and_did_last,
    a_block_is_its_readers_own,
    a_block_has_as_many_events_as_were_asked_for_after_the_suppression,
);

const ACME: &str = "0190d3c0-0000-7000-8000-00000000000a";
const GONE: &str = "0190d3c0-0000-7000-8000-00000000000b";

async fn define_entity(world: &World, id: &str, title: &str) {
    let text = format!(r#"{{"type_slug":"companies","title":"{title}","fields":{{}}}}"#);
    let entity: Entity = json(&text).read().unwrap();
    world.engine.define(&world.owner(), Some(id), entity, None).await.unwrap();
}

/// The lines between the borders and under the caution, without the times.
fn lines(block: &str) -> Vec<String> {
    let told = block.lines().skip(2).filter(|line| !line.starts_with("</"));
    told.map(|line| match line.strip_prefix("- ") {
        Some(event) => event[6..].to_owned(),
        None => line.split(" (started").next().unwrap().to_owned(),
    })
    .collect()
}

async fn a_block_tells_what_its_reader_works_on_and_did_last(world: &World) {
    tasks(world).await;
    define_entity(world, ACME, "Acme **Corp**").await;
    let ada = world.actor(Role::Member, "ada");
    assert_eq!(world.engine.activity_block(&ada, 20).await.unwrap(), None);
    let started = start(world, &ada, "q2").await;
    let bridge = &started.session.id;
    let activity = world.engine.activity_block(&ada, 20).await.unwrap().unwrap();
    assert_eq!(
        (&activity.bridge, lines(&activity.block)),
        (bridge, vec!["Working on: **Q2 review**".into()])
    );

    let path = format!("/entities/{ACME}");
    record(world, &ada, bridge, vec![visit(&path), view(ACME), marker("half way")]).await.unwrap();
    record(world, &ada, bridge, vec![visit(&path), view(ACME), view(GONE)]).await.unwrap();
    let switch = human("task_switch", r#"{"from_task_id":"q2","to_task_id":"q3"}"#);
    record(world, &ada, bridge, vec![switch, visit("/chat?secret=1")]).await.unwrap();
    let activity = world.engine.activity_block(&ada, 20).await.unwrap().unwrap();
    let expected = [
        "Working on: **Q3 planning**",
        "Recent events:",
        r"viewed **Acme \*\*Corp\*\*** (companies)",
        "marker \"half way\"",
        // The second view of the entity is no event, so the navigation to it stays.
        &format!("navigate {path}"),
        &format!("viewed /entities/{GONE}"),
        "switched to **Q3 planning**",
        "navigate /chat",
    ];
    assert_eq!(lines(&activity.block), expected);

    world.engine.stop_bridge(&ada, Some(bridge.as_str()), None).await.unwrap();
    assert_eq!(world.engine.activity_block(&ada, 20).await.unwrap(), None);
    start(world, &ada, "q2").await;
    assert!(world.engine.activity_block(&ada, 20).await.unwrap().is_some());
    world.clock.advance(limits::BRIDGE_DEADLINE + Duration::from_secs(1));
    assert_eq!(world.engine.activity_block(&ada, 20).await.unwrap(), None, "its time is over");
}

async fn a_block_is_its_readers_own(world: &World) {
    tasks(world).await;
    let (ada, owner) = (world.actor(Role::Member, "ada"), world.owner());
    let bridge = start(world, &ada, "q2").await.session.id;
    record(world, &ada, &bridge, vec![marker("mine alone")]).await.unwrap();
    assert_eq!(world.engine.activity_block(&owner, 20).await.unwrap(), None);
    let elsewhere = world.other_tenant().await;
    let ada_elsewhere = sederunt_core::Actor { tenant: elsewhere.tenant.clone(), ..(*ada).clone() };
    assert_eq!(world.engine.activity_block(&ada_elsewhere, 20).await.unwrap(), None);
    for (role, name) in [(Role::Guest, "ada"), (Role::Worker, "w"), (Role::Channel, "telegram:")] {
        let refused = world.engine.activity_block(&world.actor(role, name), 20).await.unwrap_err();
        assert_eq!(refused.code(), "denied", "{role:?}");
    }
    let nameless = sederunt_core::Actor { user: None, ..(*owner).clone() };
    assert_eq!(world.engine.activity_block(&nameless, 20).await.unwrap_err().code(), "denied");
    for limit in [0, limits::ACTIVITY_LINES_MAX + 1] {
        assert_eq!(world.engine.activity_block(&ada, limit).await.unwrap_err().code(), "invalid");
    }
    assert!(world.engine.activity_block(&ada, limits::ACTIVITY_LINES_MAX).await.unwrap().is_some());
}

async fn a_block_has_as_many_events_as_were_asked_for_after_the_suppression(world: &World) {
    tasks(world).await;
    let ada = world.actor(Role::Member, "ada");
    let bridge = start(world, &ada, "q2").await.session.id;
    let entity = |n: usize| format!("0190d3c0-0000-7000-8000-{n:012}");
    for batch in 0..3 {
        let visits = (0..45).flat_map(|n| {
            let id = entity(batch * 45 + n);
            [visit(&format!("/entities/{id}")), view(&id)]
        });
        record(world, &ada, &bridge, visits.collect()).await.unwrap();
    }
    for limit in [1, 2, 20, limits::ACTIVITY_LINES_MAX] {
        let block = world.engine.activity_block(&ada, limit).await.unwrap().unwrap().block;
        let expected: Vec<String> =
            (135 - limit..135).map(|n| format!("viewed /entities/{}", entity(n))).collect();
        assert_eq!(lines(&block)[2..], expected, "{limit}");
    }
}
