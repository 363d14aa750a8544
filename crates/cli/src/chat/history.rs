//! The history of typed lines, in a file that only its owner can read. An incognito chat has none.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Lines that are kept.
pub const LINES_MAX: usize = 1000;
/// A larger file is shortened when it is read.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A file with one JSON string per line, so that an entry may have several lines.
#[derive(Clone, Debug)]
pub struct History {
    path: PathBuf,
}

impl History {
    /// The person's state directory, by the rules of their desktop.
    pub fn place(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
        let absolute = |text: String| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
        let state = variable("XDG_STATE_HOME").and_then(absolute);
        let state = state.or_else(|| Some(variable("HOME").and_then(absolute)?.join(".local/state")))?;
        Some(state.join("sederunt").join("chat_history"))
    }

    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The history, oldest first. An unreadable line is skipped.
    pub fn lines(&self) -> Vec<String> {
        let Ok(text) = self.read() else { return Vec::new() };
        let lines: Vec<String> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let kept = lines[lines.len().saturating_sub(LINES_MAX)..].to_vec();
        if lines.len() > 2 * LINES_MAX {
            // Failing to shorten it loses nothing.
            let _ = self.shorten(&kept);
        }
        kept
    }

    /// Keeps one more line.
    pub fn add(&self, line: &str) -> io::Result<()> {
        if let Some(directory) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        private(&self.path)?.write_all(encoded(line).as_bytes())
    }

    fn read(&self) -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(&self.path)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn shorten(&self, lines: &[String]) -> io::Result<()> {
        let fresh = self.path.with_extension(format!("{}.new", std::process::id()));
        let text: String = lines.iter().map(|line| encoded(line)).collect();
        private(&fresh)?.write_all(text.as_bytes())?;
        fs::rename(&fresh, &self.path)
    }
}

fn encoded(line: &str) -> String {
    format!("{}\n", serde_json::Value::from(line))
}

/// Opens a file for appending that only its owner can read.
fn private(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn it_lies_where_the_desktop_keeps_state() {
        let place = |pairs: &[(&str, &str)]| {
            History::place(|name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(place(&[("HOME", "/h")]), path("/h/.local/state/sederunt/chat_history"));
        assert_eq!(place(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]), path("/s/sederunt/chat_history"));
        assert_eq!(
            place(&[("HOME", "/h"), ("XDG_STATE_HOME", "relative")]),
            path("/h/.local/state/sederunt/chat_history")
        );
        assert_eq!(place(&[]), None);
    }

    #[test]
    fn lines_come_back_whole_and_only_to_their_owner() {
        let directory = tempfile::tempdir().unwrap();
        let history = History::at(directory.path().join("state/chat_history"));
        assert!(history.lines().is_empty());
        for line in ["one", "two\nlines", "quoted \"three\""] {
            history.add(line).unwrap();
        }
        assert_eq!(history.lines(), ["one", "two\nlines", "quoted \"three\""]);
        assert_eq!(mode(&history.path), 0o600);
        assert_eq!(mode(history.path.parent().unwrap()), 0o700);
        fs::set_permissions(&history.path, fs::Permissions::from_mode(0o644)).unwrap();
        history.add("four").unwrap();
        assert_eq!(mode(&history.path), 0o600);
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let history = History::at(directory.path().join("chat_history"));
        let text: String = (0..=2 * LINES_MAX).map(|n| format!("\"{n}\"\n")).collect();
        fs::write(&history.path, format!("not json\n{text}")).unwrap();
        assert_eq!(history.lines().len(), LINES_MAX);
        assert_eq!(fs::read_to_string(&history.path).unwrap().lines().count(), LINES_MAX);
        assert_eq!(history.lines().last().unwrap(), &(2 * LINES_MAX).to_string());
        assert_eq!(mode(&history.path), 0o600);
    }
}
