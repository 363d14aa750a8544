//! A peer in Python that runs its rounds on demand, so that they can be interleaved.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::child;
use crate::rounds::Sample;

/// The running script; it ends when this is dropped.
pub struct Peer {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

#[derive(serde::Deserialize)]
struct Tally {
    appends: u64,
    failures: u64,
    seconds: f64,
    #[serde(default)]
    last_failure: String,
}

impl Peer {
    /// Starts `script` in the environment that scripts/setup --bench makes, on a fresh file.
    pub fn start(root: &Path, script: &str, file: &Path) -> Result<Self> {
        let mut child = child::command(root.join(".venv-bench/bin/python"))
            .arg(root.join("bench/peers").join(script))
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the peer did not start; scripts/setup --bench installs it")?;
        let orders = child.stdin.take().context("no stdin")?;
        let answers = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut peer = Self { child, orders, answers };
        let said = peer.line()?;
        ensure!(said == "ready", "the peer said {said:?}");
        Ok(peer)
    }

    /// Lets it append for this long.
    pub fn append_for(&mut self, seconds: f64) -> Result<Sample> {
        self.round(&seconds.to_string())
    }

    /// Lets it carry out the command in the line.
    pub fn round(&mut self, line: &str) -> Result<Sample> {
        writeln!(self.orders, "{line}")?;
        let tally: Tally = serde_json::from_str(&self.line()?)?;
        if tally.failures > 0 {
            eprintln!("  the peer failed {} times: {}", tally.failures, tally.last_failure);
        }
        ensure!(tally.appends > 0, "the peer appended nothing");
        Ok(Sample { per_s: tally.appends as f64 / tally.seconds, ..Sample::default() })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the peer ended");
        Ok(line.trim().to_owned())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
