//! Runs from trigger to settlement: what they leave in the log and write back, alone and beside each other.

use std::sync::Arc;

use sederunt_agents::model::{Delta, DeltaSink, Model, Request};
use sederunt_core::definitions::{Entity, Task};
use sederunt_core::engine::StreamItem;
use sederunt_core::session::Status;
use sederunt_core::strict;
use tokio::sync::watch;

use super::world::{LEASE, World, tool};
use crate::ground::json;
use crate::stand_ins::{Saying, spoken};
use crate::wire::{SOON, Server, ok};

#[tokio::test]
async fn a_run_calls_its_tools_and_writes_its_result_back() {
    let mut world = World::new();
    let server = Server::start(vec![ok(r#"{"sum":42}"#)]).await;
    world.script(
        "adder",
        r#"[{"think":"Let me add.","call":{"name":"add","args":{"a":40,"b":2}},
             "usage":{"input_tokens":10,"output_tokens":5,"cached_tokens":0}},
            {"expect":"42","say":["{\"sum\":","42}"],"usage":{"input_tokens":20,"output_tokens":5,"cached_tokens":0}}]"#,
    );
    world.agent("adder", &tool("add", &server.url("/add"), "")).await;
    let entity = Entity { type_slug: "sum".into(), title: None, fields: json(r#"{"sum":0}"#) };
    world.engine.define(&world.owner, Some("e1"), entity, None).await.unwrap();
    let more = r#","entity_id":"e1","output":{"type":"entity","schema":{"required":["sum"]}}"#;
    let id = world.trigger("adder", more).await;
    world.work().await;

    let session = world.session(&id).await;
    assert_eq!(session.head.status, Status::Completed, "{:?}", session.details.error_message);
    assert_eq!(
        world.story(&id).await,
        r#"thinking(Let me add.) tool_call(add) tool_result(add) message({"sum":42})"#
    );
    let entity = world.engine.definition::<Entity>(&world.owner, "e1").await.unwrap();
    assert_eq!(entity.value.fields.as_str(), r#"{"sum":42}"#);
    let usage = session.details.usage.unwrap().value();
    assert_eq!((usage["steps"].as_u64(), usage["input_tokens"].as_u64()), (Some(2), Some(30)));
    assert_eq!(usage["cost_micros"].as_u64(), Some(50));
    let asked = server.asked();
    assert_eq!((asked.len(), asked[0].body.as_str()), (1, r#"{"a":40,"b":2}"#));
    assert!(asked[0].head.to_lowercase().contains("idempotency-key: "));
}

#[tokio::test]
async fn everything_runs_with_no_key_at_all() {
    let world = World::new();
    let task: Task = strict::read(
        r#"{"slug":"t","name":"Say something","agent_slug":"eliza","output":{"type":"entity","entity_type":"note",
            "schema":{"type":"object","required":["text"],"properties":{"text":{"type":"string"}}}}}"#,
    )
    .unwrap();
    world.engine.define(&world.owner, None, task, None).await.unwrap();
    let id = world.engine.trigger(&world.owner, "t", None, None).await.unwrap().id;
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::Completed);
}

#[tokio::test]
async fn a_result_is_repaired_once() {
    let mut world = World::new();
    for (name, second, end) in
        [("good", r#"{\"n\":1}"#, Status::Completed), ("bad", "still nonsense", Status::Failed)]
    {
        world.script(
            name,
            &format!(
                r#"[{{"say":"nonsense"}},{{"expect":"does not fit","say":"{second}"}},{{"say":"too late"}}]"#
            ),
        );
        world.agent(name, "[]").await;
        let more =
            r#","output":{"type":"entity","entity_type":"n","schema":{"type":"object","required":["n"]}}"#;
        let id = world.trigger(name, more).await;
        world.work().await;
        let session = world.session(&id).await;
        assert_eq!(session.head.status, end, "{name}");
        if end == Status::Failed {
            assert_eq!(session.details.end_reason.as_deref(), Some("output_invalid"));
        }
    }
}

/// A model that stops in the middle of its reply until it is told to go on.
#[derive(Debug, Default)]
struct Slow {
    go_on: tokio::sync::Notify,
}

impl Model for Slow {
    fn run<'a>(&'a self, _: &'a Request, heard: DeltaSink<'a>) -> Saying<'a> {
        Box::pin(async move {
            heard(Delta::Text("One, ".to_owned()));
            self.go_on.notified().await;
            heard(Delta::Text("two.".to_owned()));
            Ok(spoken("One, two."))
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_being_said_is_streamed_before_it_is_logged() {
    let mut world = World::new();
    let model = Arc::new(Slow::default());
    world.scripts.insert("scripted:talker".to_owned(), model.clone());
    world.agent("talker", "[]").await;
    let id = world.trigger("talker", "").await;
    let mut stream = world.engine.stream(world.owner.clone(), &id, None).await.unwrap();
    let executor = world.executor(LEASE);
    let (leave, leaving) = watch::channel(false);
    let serving = tokio::spawn(async move { executor.serve(leaving).await });
    let said = tokio::time::timeout(SOON, async {
        loop {
            if let StreamItem::Reply(shown) = stream.next().await.unwrap() {
                return shown.text;
            }
        }
    })
    .await
    .unwrap();
    assert_eq!(said, "One, ");
    assert!(!world.story(&id).await.contains("message"), "it is not in the log yet");
    model.go_on.notify_one();
    world.until(&id, Status::Completed).await;
    assert_eq!(world.story(&id).await, "message(One, two.)");
    leave.send(true).unwrap();
    tokio::time::timeout(SOON, serving).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_executors_run_a_graph_and_every_step_once() {
    let mut world = World::new();
    world.script("stepper", r#"[{"say":"done"}]"#);
    world.agent("stepper", "[]").await;
    let steps: Vec<String> = (0..8)
        .map(|n| {
            let after = if n == 0 { String::new() } else { format!(r#","depends_on":["s{}"]"#, (n - 1) / 2) };
            format!(r#"{{"key":"s{n}","agent_slug":"stepper"{after}}}"#)
        })
        .collect();
    let text = format!(r#"{{"slug":"g","name":"G","steps":[{}]}}"#, steps.join(","));
    let task: Task = strict::read(&text).unwrap();
    world.engine.define(&world.owner, None, task, None).await.unwrap();
    let (leave, leaving) = watch::channel(false);
    let serving: Vec<_> = (0..3)
        .map(|_| {
            let (executor, leaving) = (world.executor(LEASE), leaving.clone());
            tokio::spawn(async move { executor.serve(leaving).await })
        })
        .collect();
    let parent = world.engine.trigger(&world.owner, "g", None, None).await.unwrap().id;
    world.until(&parent, Status::Completed).await;
    leave.send(true).unwrap();
    for one in serving {
        tokio::time::timeout(SOON, one).await.unwrap().unwrap();
    }
    let children = world.engine.children(&world.owner, &parent, 100, None).await.unwrap().items;
    assert_eq!(children.len(), 8);
    assert!(children.iter().all(|child| child.head.epoch == 1 && child.head.status == Status::Completed));
}
