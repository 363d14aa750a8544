//! A person at a terminal: types, and reads what appears.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};
use rustix::process::{Pid, Signal};

use crate::PATIENCE;

pub const ENTER: &str = "\r";
pub const ALT_ENTER: &str = "\x1b\r";
pub const CTRL_C: &str = "\x03";
pub const CTRL_D: &str = "\x04";
pub const TAB: &str = "\t";
pub const UP: &str = "\x1b[A";
pub const PROMPT: &str = "› ";

pub struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    screen: Arc<Screen>,
    /// How much of the screen was read.
    read: usize,
}

#[derive(Default)]
struct Screen {
    /// Everything that was written, and whether more can come.
    written: Mutex<(Vec<u8>, bool)>,
    changed: Condvar,
}

/// A home to run in.
pub struct Home(tempfile::TempDir);

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn history(&self) -> PathBuf {
        self.path().join("state/sederunt/chat_history")
    }

    /// Every file under it.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![self.path().to_owned()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() { open.push(path) } else { found.push(path) }
            }
        }
        found
    }

    /// Starts a chat at a terminal of its own.
    pub fn chat(&self, args: &[&str]) -> Terminal {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(40, 100)).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_sederunt"))
            .arg("chat")
            .args(args)
            .current_dir(self.path())
            .env_clear()
            .env("HOME", self.path())
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("TERM", "xterm")
            .spawn(pts)
            .unwrap();
        let pty = Arc::new(pty);
        let screen = Arc::new(Screen::default());
        let (from, to) = (pty.clone(), screen.clone());
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            loop {
                // A terminal whose program has ended gives an error instead of an end.
                let length = (&*from).read(&mut piece).unwrap_or(0);
                let mut written = to.written.lock().unwrap();
                written.0.extend_from_slice(&piece[..length]);
                written.1 = length == 0;
                to.changed.notify_all();
                if length == 0 {
                    return;
                }
            }
        });
        Terminal { pty, child, screen, read: 0 }
    }
}

impl Terminal {
    pub fn send(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line and sends it.
    pub fn line(&self, text: &str) {
        self.send(text);
        self.send(ENTER);
    }

    /// Reads on until this appears; gives everything up to its end.
    pub fn expect(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut written = self.screen.written.lock().unwrap();
        loop {
            let whole = plain(&written.0);
            let fresh = whole.get(self.read..).unwrap_or_default();
            if let Some(at) = fresh.find(text) {
                let end = at + text.len();
                self.read += end;
                return fresh[..end].to_owned();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!written.1 && !left.is_zero(), "{text:?} did not appear after {fresh:?} in {whole}");
            written = self.screen.changed.wait_timeout(written, left).unwrap().0;
        }
    }

    /// Waits for the end of the program; gives what it still wrote.
    pub fn ended(&mut self) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut written = self.screen.written.lock().unwrap();
        while !written.1 {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it goes on: {}", plain(&written.0));
            written = self.screen.changed.wait_timeout(written, left).unwrap().0;
        }
        let rest = plain(&written.0).get(self.read..).unwrap_or_default().to_owned();
        drop(written);
        let code = self.child.wait().unwrap();
        assert!(code.success(), "{code}: {rest}");
        rest
    }

    /// Sends the program a signal and waits for its end.
    pub fn is_told(&mut self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "it goes on after {signal:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What was written to the terminal so far, with everything that steers it.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.screen.written.lock().unwrap().0).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What stands on the screen, without what steers it.
fn plain(bytes: &[u8]) -> String {
    console::strip_ansi_codes(&String::from_utf8_lossy(bytes)).replace('\r', "")
}
