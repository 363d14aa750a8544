//! Checks a store of SQLite files: the files, their permissions, the free space, and their contents.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use sederunt::Timestamp;
use sederunt_core::clock::{Clock, SystemClock};
use sederunt_store::sqlite::inspect::{self, SIDE_FILES, SideFile, SqliteInspection};

use super::{Finding, schema_finding};
use crate::api::server_file::{self, StoreUser};
use crate::exit::Failure;

/// With less free space a commit may fail soon.
const ROOM_FAIL_BYTES: u64 = 100 * 1024 * 1024;
const ROOM_WARN_BYTES: u64 = 1024 * 1024 * 1024;
/// The write-ahead log is checkpointed at about 64 MB; several times that means that something blocks it.
const WAL_WARN_BYTES: u64 = 512 * 1024 * 1024;
/// Records on their way to other files; many times a busy moment's worth.
const OUTBOX_WARN: i64 = 10_000;
/// Older versions can corrupt a write-ahead log.
const SQLITE_MIN: i32 = 3_051_003;
/// The newest time in the store may be ahead of this machine's clock by this much, unless the clock was set back.
const AHEAD_MAX: Duration = Duration::from_secs(2);

pub async fn look(directory: &Path, known: u32) -> Vec<Finding> {
    if !directory.join("threads.sqlite3").exists() {
        let says = format!("there is none in {}", directory.display());
        return vec![Finding::fail(
            "store",
            says,
            "name it with --store, or start one with `sederunt serve`",
        )];
    }
    let mut findings = vec![sqlite_version(), server(directory).await];
    findings.push(rights("directory", directory));
    let names = ["threads.sqlite3", "search.sqlite3", "operator.key"];
    for name in names.into_iter().chain(SIDE_FILES.map(|file| file.name)) {
        let path = directory.join(name);
        if path.exists() {
            findings.push(rights(name, &path));
        }
    }
    findings.push(room(directory));
    findings.push(write_ahead_log(directory));
    findings.extend(inside(directory, known));
    findings.extend(SIDE_FILES.into_iter().filter_map(|file| side_file(file, directory)));
    findings
}

/// `None` if it does not exist yet.
fn side_file(file: SideFile, directory: &Path) -> Option<Finding> {
    match file.records(directory) {
        Ok(records) => records.map(|records| Finding::ok(file.holds, records.to_string())),
        Err(error) => {
            let says = format!("{}: {}", file.name, Failure::from(error).sentence());
            Some(Finding::fail(file.holds, says, "restore it from a backup if it is damaged"))
        }
    }
}

fn sqlite_version() -> Finding {
    let (says, number) = inspect::sqlite_version();
    if number < SQLITE_MIN {
        return Finding::fail("sqlite", says, "use a build with SQLite 3.51.3 or newer");
    }
    Finding::ok("sqlite", says)
}

/// Whether the store can be opened, or the server that has it open answers.
async fn server(directory: &Path) -> Finding {
    let running = match server_file::holder(directory).await {
        StoreUser::None => return Finding::ok("server", "none is running here"),
        StoreUser::OtherProcess => {
            return Finding::warn("server", "another process has the store open", "wait for it to finish");
        }
        StoreUser::Server(running) => running,
    };
    let says = format!("{} (process {})", running.url, running.pid);
    let answers = sederunt_api::client::Client::new(&running.url, None);
    let ready = match answers {
        Ok(client) => client.pieces("/readyz").await.map(drop),
        Err(error) => Err(error),
    };
    match ready {
        Ok(()) => Finding::ok("server", says),
        Err(error) => Finding::fail("server", format!("{says}: {error}"), "look at its log; start it again"),
    }
}

fn rights(what: &'static str, path: &Path) -> Finding {
    match fs::metadata(path) {
        Ok(found) => {
            let mode = found.permissions().mode() & 0o777;
            let says = format!("{mode:03o} {}", path.display());
            if mode & 0o077 == 0 {
                return Finding::ok(what, says);
            }
            if what == "operator.key" {
                return Finding::fail(
                    what,
                    says,
                    "others may act as the operator: chmod 600, and make a new key",
                );
            }
            Finding::warn(what, says, "others may read what is in it: take their rights away with chmod go=")
        }
        Err(error) => {
            Finding::fail(what, format!("{}: {error}", path.display()), "give its owner the right to read it")
        }
    }
}

fn room(directory: &Path) -> Finding {
    let Ok(found) = rustix::fs::statvfs(directory) else {
        return Finding::warn("disk", "the room left is unknown", "look with df");
    };
    let bytes = found.f_bavail.saturating_mul(found.f_frsize);
    let says = format!("{} free", size(bytes));
    match bytes {
        0..ROOM_FAIL_BYTES => Finding::fail("disk", says, "make room: writes are about to be refused"),
        ROOM_FAIL_BYTES..ROOM_WARN_BYTES => Finding::warn("disk", says, "make room"),
        _ => Finding::ok("disk", says),
    }
}

fn write_ahead_log(directory: &Path) -> Finding {
    let bytes = fs::metadata(directory.join("threads.sqlite3-wal")).map_or(0, |found| found.len());
    if bytes > WAL_WARN_BYTES {
        return Finding::warn(
            "write-ahead log",
            size(bytes),
            "end long-running readers, or restart the server",
        );
    }
    Finding::ok("write-ahead log", size(bytes))
}

/// The findings inside the database.
fn inside(directory: &Path, known: u32) -> Vec<Finding> {
    match inspect::inspect(directory) {
        Ok(SqliteInspection { schema_version, contents }) => {
            let mut findings = vec![schema_finding(schema_version, known)];
            if let Some(contents) = contents {
                findings.push(Finding::ok("sessions", contents.sessions.to_string()));
                findings.push(outbox(contents.outbox));
                findings.push(clock(contents.newest, SystemClock::default().now()));
            }
            findings
        }
        Err(error) => {
            let says = Failure::from(error).sentence().to_owned();
            vec![Finding::fail("store", says, "restore it from a backup if it is damaged")]
        }
    }
}

/// Records that were committed for other files and are not in them yet. They move within moments, or when the store
/// is opened.
fn outbox(waiting: i64) -> Finding {
    if waiting > OUTBOX_WARN {
        let says = format!("{waiting} records wait to be written to other files");
        return Finding::warn(
            "outbox",
            says,
            "look at the server's log for what keeps them from being written",
        );
    }
    Finding::ok("outbox", format!("{waiting} waiting"))
}

/// This machine's clock against the newest time in the store.
fn clock(newest: Timestamp, now: Timestamp) -> Finding {
    if newest > now.plus(AHEAD_MAX) {
        let says = format!("{now}, and the store holds {newest}");
        return Finding::warn("clock", says, "it was set back: leases last longer until it has caught up");
    }
    Finding::ok("clock", now.to_string())
}

fn size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}
