//! The guides say what happens: their commands are run as they stand, against a real server.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::world::{World, ran};

/// The commands of a guide, in their order.
fn commands(guide: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides").join(guide);
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_first_task_runs_as_the_guide_says() {
    let world = World::new();
    let server = world.serve(&[]);
    let guide = commands("first-task.md").replace("http://localhost:7070", &server.url);
    assert!(guide.contains("post claims") && guide.contains("/decide"), "{guide}");
    let script = format!("set -eu\n{guide}");
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(world.directory.path()).stdin(Stdio::null());
    let ran = ran(shell.output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let last = ran.stdout.trim().lines().last().unwrap_or_default();
    let entity: serde_json::Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{}", ran.stdout));
    assert_eq!(entity["fields"], serde_json::json!({"rain": true, "summary": "Rain until five, then sun."}));
}
