//! A full disk under SQLite: writes are told to come back, reads go on, and once there is room again
//! so do writes, without a restart.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{Client, Node, Place, started_by};
use crate::ledger::{self, Writer};
use crate::load::{Doubt, Load};

const WRITERS: usize = 8;
const SESSIONS: [&str; 2] = ["cli:a", "cli:b"];
const REFUSALS_MIN: usize = 60;
/// Room that is left when the disk begins to be full: some commits still fit, and one is torn.
const ROOM_BYTES: u64 = 96 * 1024;
/// A small file system that nobody but the server sees, and that goes with it.
const MOUNT: &str = r#"mount -t tmpfs -o size=12m tmpfs "$0""#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_until_there_is_room_again() {
    let place = Place::sqlite();
    // A file that may not grow is a signal by default; a full disk is an error.
    let command = started_by("trap '' XFSZ; exec \"$@\"");
    let node = Node::launch(command, &place, "local").listening().await.unwrap();
    let limit = |bytes: &str| {
        let limit = format!("--fsize={bytes}:");
        let set = Command::new("prlimit").args(["--pid", &node.id().to_string(), &limit]).output().unwrap();
        assert!(set.status.success(), "prlimit: {}", String::from_utf8_lossy(&set.stderr));
    };
    let largest = || {
        let files = std::fs::read_dir(&place.store).unwrap().flatten();
        files.map(|file| file.metadata().unwrap().len()).max().unwrap()
    };
    let fill = || limit(&(largest() + ROOM_BYTES).to_string());
    let writers = write_through_a_full_disk(&node.client(), fill, || limit("unlimited")).await;

    // And with not a byte to spare.
    let writers =
        [writers, write_through_a_full_disk(&node.client(), || limit("1"), || limit("unlimited")).await];
    node.kill_9();
    let node = Node::start(&place).await;
    for crew in &writers {
        ledger::check(&node.client(), crew).await;
        ledger::check_refused_left_no_trace(&node.client(), crew).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_filesystem_refuses_writes_until_there_is_room_again() {
    let directory = tempfile::TempDir::with_prefix("sederunt-faults-").unwrap();
    let directory = directory.path().to_str().unwrap();
    let tried = Command::new("unshare").args(["--mount", "sh", "-c", MOUNT, directory]).status();
    if !tried.is_ok_and(|tried| tried.success()) {
        eprintln!("this account may not mount: only the limit on a file's size was tried");
        return;
    }
    let place = Place::at(format!("{directory}/store"));
    let script = format!(r#"exec unshare --mount sh -c '{MOUNT} && exec "$@"' '{directory}' "$@""#);
    let node = Node::launch(started_by(&script), &place, "local").listening().await.unwrap();
    let filler: PathBuf = format!("/proc/{}/root{directory}/filler", node.id()).into();
    let fill = || {
        let mut file = std::fs::File::create(&filler).unwrap();
        while file.write_all(&[7; 4096]).is_ok() {}
    };
    write_through_a_full_disk(&node.client(), fill, || std::fs::remove_file(&filler).unwrap()).await;
}

/// Writes before, while and after there is no room, and checks what each was told.
async fn write_through_a_full_disk(client: &Client, fill: impl Fn(), free: impl Fn()) -> Vec<Writer> {
    for session in SESSIONS {
        client.open(session).await;
    }
    static CREWS: AtomicUsize = AtomicUsize::new(0);
    let crew = Writer::crew_named(&format!("c{}", CREWS.fetch_add(1, Ordering::Relaxed)), WRITERS, &SESSIONS);
    let load = Load::start(client, crew, Doubt::GiveUp);

    load.proceeds(80).await;
    fill();
    load.is_refused(REFUSALS_MIN).await;
    for path in ["", "/cli:a", "/cli:b/events?limit=10"] {
        client.get(&format!("/api/sessions{path}")).await.expect(200);
    }
    assert_eq!(client.get("/healthz").await.status, 200);
    free();
    load.proceeds(80).await;

    let writers = load.stop().await;
    assert!(ledger::check(client, &writers).await >= 160);
    assert!(ledger::check_refused_left_no_trace(client, &writers).await >= REFUSALS_MIN);
    writers
}
