//! The examples do what they say.

#[path = "../examples/approval.rs"]
mod approval;
#[path = "../examples/embed.rs"]
mod embed;

#[test]
fn the_example_of_sessions_runs_to_its_end() {
    embed::main().unwrap();
}

#[test]
fn the_example_of_an_approval_runs_to_its_end() {
    approval::main().unwrap();
}
