use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::world::{World, talk, wait};

#[test]
fn a_demo_fills_an_empty_store_and_keeps_it_moving() {
    let world = World::new();
    let server = world.serve(&["--demo"]);
    let mut hints =
        BufReader::new(std::net::TcpStream::connect(server.url.trim_start_matches("http://")).unwrap());
    let host = server.url.trim_start_matches("http://");
    std::io::Write::write_all(
        hints.get_mut(),
        format!("GET /api/stream?topics=sessions HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes(),
    )
    .unwrap();
    hints.get_ref().set_read_timeout(Some(crate::world::PATIENCE)).unwrap();
    let moved = hints.lines().map(|line| line.unwrap()).find(|line| line.contains("running")).unwrap();
    assert!(moved.contains("running"), "{moved}");
    let page = world.json(&["sessions", "ls", "--metadata", "demo=true", "--limit", "1000"]);
    assert!(page["items"].as_array().unwrap().len() > 10);
    assert_eq!(server.stop("-TERM"), 0);
}

#[test]
fn a_demo_leaves_a_real_store_alone() {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 1).await));
    let mut child = world
        .command(&["serve", "--demo", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(|line| line.unwrap())
        .find(|line| line.contains("no demo"));
    assert!(said.is_some());
    assert_eq!(world.json(&["sessions", "ls"])["items"].as_array().unwrap().len(), 1);
    child.kill().unwrap();
    wait(child);
}
