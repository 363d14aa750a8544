use crate::world::World;

#[test]
fn there_are_completions_for_every_shell() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = world.ok(&["completions", shell]);
        assert!(script.contains("sederunt") && script.contains("doctor"), "{shell}");
    }
}

#[test]
fn the_printed_description_is_the_checked_in_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../api/openapi.json");
    let checked_in = std::fs::read_to_string(path).unwrap();
    assert_eq!(World::new().ok(&["openapi"]), checked_in);
}
