//! What a running server leaves in the directory of its store, so that commands beside it find it:
//! `server.json` with its address, and `operator.key`, which only the store's owner can read.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::exit::{Failure, Result};

/// A server that has a store open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub url: String,
    pub pid: u32,
}

/// A key is a line; anything longer is another file.
const KEY_BYTES_MAX: u64 = 4096;

pub fn key_path(directory: &Path) -> PathBuf {
    directory.join("operator.key")
}

fn running_path(directory: &Path) -> PathBuf {
    directory.join("server.json")
}

/// Who has a store open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUser {
    None,
    Server(Running),
    /// A process that does not say who it is, and did not finish while we waited.
    OtherProcess,
}

/// How long another command may hold the store before we give up on it.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Who has the store open. Waits a little for another command to finish, or a server to say so.
pub async fn holder(directory: &Path) -> StoreUser {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if !is_locked(directory) {
            return StoreUser::None;
        }
        if let Some(running) = announced(directory) {
            return StoreUser::Server(running);
        }
        if tokio::time::Instant::now() > deadline {
            return StoreUser::OtherProcess;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The refusal of a command that needs the store for itself.
pub fn in_use(directory: &Path, holder: &StoreUser) -> Failure {
    let failure = Failure::unavailable(format!("{} is open in another process", directory.display()));
    match holder {
        StoreUser::Server(running) => {
            failure.hint(format!("a server is running at {} (process {})", running.url, running.pid))
        }
        StoreUser::None | StoreUser::OtherProcess => failure.hint("wait for that process to finish"),
    }
}

/// Whether somebody has the store open, at this moment.
pub fn is_locked(directory: &Path) -> bool {
    let Ok(file) = File::open(directory.join("lock")) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

fn announced(directory: &Path) -> Option<Running> {
    let text = fs::read_to_string(running_path(directory)).ok()?;
    serde_json::from_str(&text).ok()
}

/// Tells commands beside this server where it is.
pub fn announce(directory: &Path, running: &Running) -> Result<()> {
    let path = running_path(directory);
    let text = serde_json::to_string(running).unwrap_or_default();
    // Renamed into place, so that nobody reads half of it.
    let fresh = path.with_extension("json.new");
    let _ = fs::remove_file(&fresh);
    let written = write_private(&fresh, &text).and_then(|()| fs::rename(&fresh, &path));
    written.map_err(|error| Failure::io(path.display(), &error))
}

/// Takes the announcement back.
pub fn forget(directory: &Path) {
    let _ = fs::remove_file(running_path(directory));
}

/// A key that nobody has yet.
pub fn fresh_key() -> String {
    format!("sdr_operator_{}", sederunt_core::ids::random_secret())
}

/// The operator's key of a store, made once.
pub fn operator_key(directory: &Path) -> Result<String> {
    let path = key_path(directory);
    match write_private(&path, &format!("{}\n", fresh_key())) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Failure::io(path.display(), &error)),
    }
    read_key(&path)
}

/// Reads a key from a file that nobody else may read.
pub fn read_key(path: &Path) -> Result<String> {
    let failed = |error: &io::Error| Failure::io(format!("cannot read the key in {}", path.display()), error);
    let file = File::open(path).map_err(|error| failed(&error))?;
    let mode = file.metadata().map_err(|error| failed(&error))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Failure::usage(format!("others may read the key in {}", path.display()))
            .hint(format!("run `chmod 600 {}`", path.display())));
    }
    let mut text = String::new();
    file.take(KEY_BYTES_MAX).read_to_string(&mut text).map_err(|error| failed(&error))?;
    let key = text.trim();
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(Failure::usage(format!("{} holds no key", path.display())));
    }
    Ok(key.to_owned())
}

/// Makes a file whole or not at all: a process that is killed on the way leaves none of that name.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let made = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_key_is_made_once_and_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let first = operator_key(directory.path()).unwrap();
        assert_eq!(operator_key(directory.path()).unwrap(), first);
        let mode = fs::metadata(key_path(directory.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(first.len() > 50);
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        operator_key(directory.path()).unwrap();
        let path = key_path(directory.path());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read_key(&path).unwrap_err().to_string().contains("chmod 600"));
    }

    #[tokio::test]
    async fn an_announcement_counts_only_while_the_store_is_held() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(holder(path).await, StoreUser::None);
        let lock = File::create(path.join("lock")).unwrap();
        let server = Running { url: "http://127.0.0.1:7070".into(), pid: 7 };
        announce(path, &server).unwrap();
        assert_eq!(holder(path).await, StoreUser::None, "what a dead server left says nothing");
        lock.lock().unwrap();
        assert_eq!(holder(path).await, StoreUser::Server(server.clone()));
        forget(path);
        assert_eq!(holder(path).await, StoreUser::OtherProcess);
        let waiting = tokio::spawn({
            let path = path.to_owned();
            async move { holder(&path).await }
        });
        announce(path, &server).unwrap();
        assert_eq!(waiting.await.unwrap(), StoreUser::Server(server));
    }
}
