//! The example of the documentation does what it says.

#[path = "../examples/embed.rs"]
mod embed;

#[test]
fn the_example_runs_to_its_end() {
    embed::main().unwrap();
}
