//! The environment of a run: where it writes, how long it may take, and what several measures share.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::payload::Payloads;
use crate::probe::Probe;
use crate::subject::{self, Subject};

/// A disk on which a commit takes at most this long counts as fast.
const FAST_DISK_MS: f64 = 0.2;

/// What every measure is given.
pub struct Bench {
    pub quick: bool,
    pub rounds: usize,
    /// The longest time that a contestant's round may take.
    pub cap: Duration,
    pub root: PathBuf,
    /// On a real disk; removed at the end.
    pub dir: PathBuf,
    pub payloads: Arc<Payloads>,
    /// The disk's speed at the start.
    pub disk: Probe,
    postgres: Option<String>,
    large: OnceCell<Subject>,
}

/// The session of [`Bench::large`] with very many events.
pub const LONG: &str = "long";
/// The session of [`Bench::large`] with ten.
pub const SHORT: &str = "short";
/// A third session, made after both: appending behind all other rows of a table is cheaper than between them, and a
/// session's place must not be mistaken for an effect of its length.
const LAST: &str = "last";

impl Bench {
    pub fn new(quick: bool) -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace")?.to_owned();
        let home = root.join("target/bench");
        fs::create_dir_all(&home)?;
        remove_left_behind(&home)?;
        let dir = home.join(format!("run-{}", std::process::id()));
        fs::create_dir(&dir)?;
        let disk = crate::probe::fdatasync(&dir)?;
        Ok(Self {
            quick,
            rounds: if quick { 1 } else { 3 },
            cap: Duration::from_secs(if quick { 3 } else { 8 }),
            root,
            dir,
            payloads: Arc::new(Payloads::new()),
            disk,
            postgres: std::env::var("SEDERUNT_TEST_POSTGRES").ok(),
            large: OnceCell::new(),
        })
    }

    /// A count of work for one round; a quick run does a fifth.
    pub fn some(&self, count: u64) -> u64 {
        if self.quick { count / 5 } else { count }
    }

    /// A size of something stored; a quick run stores a tenth.
    pub fn stored(&self, count: u64) -> u64 {
        if self.quick { count / 10 } else { count }
    }

    pub fn postgres(&self) -> Result<&str> {
        self.postgres.as_deref().context("SEDERUNT_TEST_POSTGRES is not set: run under scripts/with-postgres")
    }

    /// What servers log; its end is shown when a measure fails.
    pub fn log(&self) -> PathBuf {
        self.dir.join("server.log")
    }

    pub fn has_fast_disk(&self) -> bool {
        self.disk.p50_ms <= FAST_DISK_MS
    }

    /// The events of the long session.
    pub fn long_events(&self) -> u64 {
        self.stored(1_000_000)
    }

    /// A store with a session of a million events and one of ten, made when it is first asked for.
    pub fn large(&self) -> Result<&Subject> {
        if let Some(made) = self.large.get() {
            return Ok(made);
        }
        eprintln!("  filling a store with {} events", self.long_events());
        let subject = Subject::on_disk(self)?;
        subject.with_engine(async |engine| {
            let wish = |nth: usize| sederunt_core::session::decide::OpenSession {
                id: Some([LONG, SHORT, LAST][nth].into()),
                ..subject::talk(nth)
            };
            subject::make_sessions(engine, 3, wish).await?;
            subject::grow(engine, &self.payloads, SHORT, 9).await?;
            subject::grow(engine, &self.payloads, LAST, 9).await?;
            subject::grow(engine, &self.payloads, LONG, self.long_events() - 1).await?;
            engine.index_now().await?;
            Ok(())
        })?;
        Ok(self.large.get_or_init(|| subject))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Removes the directories of killed runs; a directory is in use while the process that it names is alive.
fn remove_left_behind(home: &Path) -> Result<()> {
    for entry in fs::read_dir(home)? {
        let entry = entry?;
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix("run-")).and_then(|pid| pid.parse().ok());
        if owner.is_some_and(|pid: u32| !Path::new("/proc").join(pid.to_string()).exists()) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
