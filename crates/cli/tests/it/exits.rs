use crate::world::{Running, World, talk};

#[test]
fn every_way_to_fail_has_its_exit_code_and_one_line() {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 1).await));
    for (args, code, word) in [
        (&["sessions", "show", "nothing"][..], 3, "(not_found)"),
        (&["sessions", "show", "a/b"], 2, "(invalid)"),
        (&["sessions", "retry", "cli:main"], 4, "(invalid_transition)"),
        (&["sessions", "ls", "--server", "http://127.0.0.1:1"], 5, "(unavailable)"),
        (&["sessions", "ls", "--server", "127.0.0.1:1"], 2, "(usage)"),
        (&["sessions", "ls", "--store", "mysql://x"], 2, "(usage)"),
        (&["sessions", "ls", "--store", "elsewhere"], 3, "(not_found)"),
        (&["backup", "b", "--store", "postgres://localhost/x"], 2, "(usage)"),
    ] {
        let said = world.fails(args, code);
        assert!(said.starts_with("error: ") && !said.contains(word), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        let for_programs = world.fails(&[args, &["--json"]].concat(), code);
        assert!(for_programs.contains(word), "{args:?}: {for_programs}");
    }
    for args in [&[][..], &["dance"], &["sessions"], &["sessions", "show"], &["serve", "--auth", "open"]] {
        assert_eq!(world.run(args).code, 2, "{args:?}");
    }
    for args in [["--help"], ["--version"]] {
        assert_eq!(world.run(&args).code, 0);
    }
    assert!(!world.path("elsewhere").exists(), "looking makes no store");
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 2000).await));
    for args in [
        &["sessions", "ls"][..],
        &["sessions", "ls", "--json"],
        &["sessions", "tail", "cli:main"],
        &["sessions", "export", "cli:main"],
        &["openapi"],
        &["completions", "bash"],
        &["config", "show"],
        &["doctor"],
    ] {
        let mut process = Running::start(&mut world.command(args));
        drop(process.stdout());
        let stderr = process.child().stderr.take().unwrap();
        assert_eq!(process.wait(), 0, "{args:?}");
        let said = std::io::read_to_string(stderr).unwrap();
        assert!(!said.contains("panicked") && !said.contains("error"), "{args:?}: {said}");
    }
}
