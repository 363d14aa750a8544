use std::io::{BufRead, BufReader, Read, Write};

use serde_json::Value;

use crate::world::{PATIENCE, Running, World, talk, until};

#[test]
fn a_demo_fills_an_empty_store_and_keeps_it_moving() {
    let world = World::new();
    let server = world.serve(&["--demo"]);
    let host = server.url.trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /api/stream?topics=sessions HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    // Every hint is a reason to look again; the demo gives some every second.
    let moving = BufReader::new(stream).lines().map(|line| line.unwrap()).any(|_| {
        let page = world.json(&["sessions", "ls", "--metadata", "demo=true", "--limit", "1000"]);
        let sessions = page["items"].as_array().unwrap();
        let is_moving = |session: &Value| {
            session["agent_slug"] == "demo-worker" && session["last_sequence"].as_u64().unwrap() > 4
        };
        sessions.len() > 15 && sessions.iter().any(is_moving)
    });
    assert!(moving);
    // The server's own workers have run the demo's tasks up to where a person is needed.
    until("two questions to people", || world.json(&["inbox"])["items"].get(1).cloned());
    let list = world.json(&["documents", "show", "demo:picnic", "scratch/list"]);
    assert_eq!(list["value"]["bring"], serde_json::json!(["bread", "cheese", "plums"]));
    until("the demo's tool has run", || {
        let history = world.json(&["tools", "history", "demo-plan", "--status", "completed"]);
        history["items"].get(0).cloned()
    });
    assert_eq!(server.stop("-TERM"), 0);
}

#[test]
fn a_demo_prints_a_link_by_which_anyone_answers_its_form() {
    let world = World::new();
    let mut command = world.command(&["serve", "--demo", "--listen", "127.0.0.1:0", "--workers", "0"]);
    let mut server = Running::start(&mut command);
    let said = BufReader::new(server.child().stderr.take().unwrap())
        .lines()
        .map(|line| line.unwrap())
        .find_map(|line| {
            line.split_once("http://")
                .filter(|(_, rest)| rest.contains("?share="))
                .map(|(_, rest)| rest.to_owned())
        })
        .expect("a line with the link");
    let link: String =
        said.chars().take_while(|c| !c.is_whitespace() && *c != '"' && !c.is_control()).collect();
    let (host, path) = link.split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("picnic"), "{page}");
    let listed = world.json(&["shares", "ls", "--view", "demo-picnic"]);
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    let statuses = ["draft", "submitted", "promoted"].map(|status| {
        let page = world.json(&["responses", "ls", "demo-picnic", "--status", status]);
        page["items"].as_array().unwrap().len()
    });
    assert_eq!(statuses, [1, 2, 1]);
    assert!(world.ok(&["human", "block"]).contains("Plan the trip to Mull"));
}

#[test]
fn a_demo_leaves_a_real_store_alone() {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 1).await));
    let mut server = Running::start(&mut world.command(&["serve", "--demo", "--listen", "127.0.0.1:0"]));
    let said = BufReader::new(server.child().stderr.take().unwrap())
        .lines()
        .map(|line| line.unwrap())
        .find(|line| line.contains("the demo was not started"));
    assert!(said.is_some());
    assert_eq!(world.json(&["sessions", "ls"])["items"].as_array().unwrap().len(), 1);
}
