use std::io::BufRead;

use crate::world::{Running, World, ran, talk};

#[test]
fn a_server_says_where_it_listens_and_ends_well_on_either_signal() {
    for signal in ["-TERM", "-INT"] {
        let world = World::new();
        let server = world.serve(&[]);
        assert!(server.url.starts_with("http://127.0.0.1:"), "{}", server.url);
        assert!(world.store().join("server.json").exists());
        assert_eq!(server.stop(signal), 0, "{signal}");
        assert!(!world.store().join("server.json").exists());
        assert!(world.store().join("operator.key").exists(), "the key outlives the server");
    }
}

#[test]
fn a_server_that_stops_ends_open_streams_and_does_not_wait_for_them() {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 1).await));
    let server = world.serve(&[]);
    let mut tail = Running::start(&mut world.command(&["sessions", "tail", "cli:main", "--json"]));
    // Held to the end: a reader whose output nobody takes ends at once, and well.
    let mut lines = tail.stdout().lines();
    for shown in ["session.created", "message 1"] {
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains(shown), "{line}");
    }
    assert_eq!(server.stop("-TERM"), 0);
    assert_eq!(tail.wait(), 5, "without its server a reader gives up");
    assert!(lines.next().is_none());
}

#[test]
fn a_store_is_served_once() {
    let world = World::new();
    let mut server = world.serve(&[]);
    let second = world.fails(&["serve", "--listen", "127.0.0.1:0"], 5);
    assert!(second.contains(&server.url) && second.contains(&server.pid().to_string()), "{second}");
}

#[test]
fn a_server_without_authentication_does_not_face_the_world() {
    let world = World::new();
    for args in [
        ["serve", "--listen", "0.0.0.0:0"],
        ["serve", "--public-url", "https://sessions.example"],
        ["serve", "--auth", "jwt"],
        ["serve", "--listen", "somewhere"],
    ] {
        world.fails(&args, 2);
    }
    assert!(!world.store().exists(), "nothing was made");
}

#[test]
fn a_taken_port_is_said_plainly() {
    let world = World::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = world.fails(&["serve", "--listen", &address], 1);
    assert!(refused.contains(&address) && refused.contains("--listen"), "{refused}");
    assert!(!world.store().join("server.json").exists());
}

#[test]
fn a_server_with_keys_refuses_strangers_and_takes_a_key() {
    let world = World::new();
    let key = world.json(&["keys", "create", "--role", "owner"]);
    let server = world.serve(&["--auth", "keys"]);
    let elsewhere = World::new();
    let stranger = elsewhere.fails(&["sessions", "ls", "--server", &server.url], 4);
    assert!(stranger.contains("authenticate with") && stranger.contains("--key-file"), "{stranger}");
    let path = elsewhere.path("key");
    write_key(&path, key["key"].as_str().unwrap());
    let args = ["sessions", "ls", "--server", &server.url, "--key-file", &path.to_string_lossy(), "--json"];
    let listed = ran(elsewhere.command(&args).output().unwrap());
    assert_eq!((listed.code, listed.stdout.contains("\"items\":[]")), (0, true), "{}", listed.stderr);
}

fn write_key(path: &std::path::Path, key: &str) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).unwrap();
    writeln!(file, "{key}").unwrap();
}
