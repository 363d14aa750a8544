//! Sessions whose agent runs outside: their holder writes for the agent.

use sederunt_core::Role;
use sederunt_core::definitions::Agent;
use sederunt_core::session::decide::{OpenSession, Transition};
use sederunt_core::session::{SessionType, Status};
use sederunt_core::strict;

use crate::harness::World;
use crate::on_both_stores;
use crate::tasks::{define_task, trigger};

on_both_stores!(a_session_is_external_when_the_model_of_its_agent_is);

async fn a_session_is_external_when_the_model_of_its_agent_is(world: &World) {
    for (slug, model) in [("extx", r#","model":"external""#), ("mine", r#","model":"eliza""#), ("plain", "")]
    {
        let text = format!(r#"{{"slug":"{slug}","name":"A"{model}}}"#);
        let agent: Agent = strict::read(&text).unwrap();
        world.engine.define(&world.owner(), None, agent, None).await.unwrap();
        define_task(world, &format!(r#"{{"slug":"t-{slug}","name":"T","agent_slug":"{slug}"}}"#)).await;
    }
    let ada = world.actor(Role::Owner, "ada");
    for (slug, external) in
        [("extx", true), ("external", true), ("mine", false), ("plain", false), ("unknown", false)]
    {
        let wish = OpenSession {
            session_type: Some(SessionType::Mixed),
            agent_slug: Some(slug.to_owned()),
            ..OpenSession::default()
        };
        let session = world.engine.open(&ada, wish, None).await.unwrap().session;
        assert_eq!(session.head.is_external, external, "{slug}");
        let to = Transition { to: Status::Running, expected: None, reason: None };
        let moved = world.engine.transition(&ada, &session.id, to, None).await;
        assert_eq!(moved.is_ok(), external, "{slug}: {moved:?}");
    }
    assert!(trigger(world, "t-extx").await.head.is_external);
    assert!(!trigger(world, "t-mine").await.head.is_external);
}
