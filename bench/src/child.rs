//! Child processes: each ends when its handle is dropped, and with this process however that ends.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::probe::{self, Usage};

const LISTEN_WITHIN: Duration = Duration::from_secs(60);
const END_WITHIN: Duration = Duration::from_secs(20);

/// A command that the kernel ends when this process dies without having ended it.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).stdin(Stdio::null());
    command
}

/// A server that printed where it listens.
pub struct Listening {
    child: Child,
    pub addr: SocketAddr,
    /// From the start of the process to the line with its address.
    pub after: Duration,
}

impl Listening {
    /// Starts it with its log in a file, as an operator would.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        command.stderr(log);
        let start = Instant::now();
        let mut child = command.stdout(Stdio::piped()).spawn().context("the server did not start")?;
        let lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        let (said, hears) = mpsc::channel();
        // Keeps reading after the address, so that the server never blocks on its own output.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((_, addr)) = line.split_once("listening on http://") {
                    let addr = addr.split_whitespace().next().unwrap_or_default().trim_end_matches('/');
                    let _ = said.send(addr.to_owned());
                }
            }
        });
        match hears.recv_timeout(LISTEN_WITHIN) {
            Ok(addr) => {
                let after = start.elapsed();
                let addr = addr.parse().with_context(|| format!("{addr} is no address"))?;
                Ok(Self { child, addr, after })
            }
            Err(_) => {
                let _ = child.kill();
                bail!("the server never said where it listens ({:?})", child.wait());
            }
        }
    }

    pub fn usage(&self) -> Result<Usage> {
        probe::usage(self.child.id())
    }

    /// Asks it to end, and waits for that: its store can then be opened again.
    pub fn end(mut self) -> Result<()> {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        let start = Instant::now();
        while start.elapsed() < END_WITHIN {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("the server did not end when asked to")
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This very program, for what must run as a process of its own.
pub fn this_program() -> Result<PathBuf> {
    Ok(std::env::current_exe()?)
}
