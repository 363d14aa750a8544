//! Limits are tested: every constant of a `limits.rs` is named in a test, or in the table of those that only
//! tune the server.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Constants that no test goes past, each with the reason: periods, and sizes of the server's own work. No limit of
/// what a caller, worker, model or tool may send, keep or hold open belongs here.
const TUNING: &[(&str, &str)] = &[
    // How long the server waits for others before it goes on without them.
    ("CONNECT_MAX", "the wait for a host that does not answer"),
    ("MODEL_IDLE_MAX", "the default of a wait that is tested with shorter ones"),
    ("MCP_START_MAX", "the default of a wait that is tested with shorter ones"),
    ("EMBED_IDLE_MAX", "the wait for vectors that nobody waits for"),
    ("EMBED_MESSAGE_MAX", "the wait before a turn recalls by words alone"),
    ("CLIENT_SECRET_MAX", "the wait before a conversation starts without a secret"),
    ("LESSON_WAIT_MAX", "the wait before a lesson is worded by rules"),
    ("REPLY_WAIT_MAX", "the wait of a caller for a turn elsewhere"),
    ("TURN_WAIT_MAX", "the wait of a caller for a running turn"),
    ("UNREAD_BODY_DRAINED_FOR", "the wait for a refused body; its bytes are tested"),
    ("UNREAD_BODY_LINGER_FOR", "the wait for a refused body; its bytes are tested"),
    ("CALLED_TOOL_GRACE", "the wait for a call whose own time is tested"),
    ("PATCH_JUDGED_FOR", "the wait while other nodes write to the same document"),
    ("INPUT_DECLINED_GRACE", "the wait for a server that was declined"),
    ("TOOL_TRY_WAIT", "the wait between tries; their number is tested"),
    // How often the server looks again, and for how long it trusts what it saw.
    ("WORK_LOOK_AGAIN", "the period of a look"),
    ("TENANTS_LOOK_AGAIN", "the period of a look"),
    ("ROW_LOOK_AGAIN", "the period of a look"),
    ("STOP_LOOK_AFTER", "the time of a first look"),
    ("QUOTA_LOOK_AGAIN", "the period of a look"),
    ("QUOTA_LOOK_AGAIN_MIN", "the period of a look"),
    ("LESSONS_LOOK_AGAIN", "the period of a look"),
    ("AGENTS_KEPT", "the age of a copy"),
    ("REFERENCED_GRAIN", "the period of a write"),
    ("FIGURES_INTERVAL", "the period of a look; the tests set shorter ones"),
    ("FIGURES_REFRESHED", "the period of a look; the tests set shorter ones"),
    ("FIGURE_READS_MAX", "reads of the server's own work at a time"),
    // How much the server's own work takes at a time.
    ("CONVERSATION_SWEEP_ROWS_MAX", "rows of a sweep, which is followed by another"),
    ("FORGET_SESSIONS_MAX", "sessions of a commit, which is followed by another"),
    ("EMBED_TEXTS_MAX", "texts of a call, which is followed by another"),
    ("DELIVERIES_TAKEN_MAX", "deliveries of a look, which is followed by another"),
    ("LOG_EVENTS_READ", "events that a run reads back"),
    ("SITTING_MESSAGES_MAX", "messages that a summary reads"),
    ("SPEAKERS_NAMED_MAX", "names that a prompt reads; the others are called by their ids"),
    ("EARLIER_ARCS_MAX", "memories that are compared"),
    ("RECALL_CANDIDATES", "memories that are ranked; how many are recalled is tested"),
    ("KNOWN_LIKE_MAX", "memories that are compared"),
    ("LESSON_RIVALS_MAX", "lessons that are compared"),
    ("ANSWER_ROUNDS_MAX", "rounds that only a store that refuses each of them reaches"),
    ("DECIDE_ROUNDS_MAX", "rounds that only a store that refuses each of them reaches"),
    ("VECTOR_CACHE_BYTES_MAX", "the size of a cache"),
    // Defaults that a configuration or an agent replaces.
    ("CONTEXT_TOKENS_DEFAULT", "a default; the fitting of a context is tested with smaller ones"),
    ("SIMILARITY_MIN", "a default"),
    ("ACTIVITY_LINES_DEFAULT", "a default; the most is tested"),
    ("THREADS_DEFAULT", "a default; the largest page is tested"),
    ("ENTITY_SESSIONS_DEFAULT", "a default; the largest page is tested"),
];

#[test]
fn every_limit_is_named_in_a_test_or_only_tunes_the_server() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files: Vec<PathBuf> =
        ["crates", "bench"].iter().flat_map(|folder| rust_files(&workspace.join(folder))).collect();
    let mut limits = Vec::new();
    let mut tested: BTreeSet<String> = BTreeSet::new();
    for file in files.iter().filter(|file| !file.ends_with("sederunt/tests/limits.rs")) {
        let text = fs::read_to_string(file).unwrap();
        if file.ends_with("src/limits.rs") {
            limits.extend(constants(&text));
        }
        let is_test = file.components().any(|part| part.as_os_str() == "tests") || file.ends_with("tests.rs");
        tested.extend(names(if is_test { &text } else { tests_of(&text) }));
    }
    assert!(limits.len() > 200, "only {} limits were found", limits.len());

    let tuning: BTreeSet<&str> = TUNING.iter().map(|(name, _)| *name).collect();
    assert_eq!(tuning.len(), TUNING.len(), "the table names a constant twice");
    let is_tuning = |name: &str| tuning.contains(name);
    let untested: Vec<&String> =
        limits.iter().filter(|name| !tested.contains(*name) && !is_tuning(name)).collect();
    assert!(untested.is_empty(), "limits that no test names: {untested:?}");
    let stale: Vec<&&str> = tuning
        .iter()
        .filter(|name| tested.contains(**name) || !limits.iter().any(|one| one == **name))
        .collect();
    assert!(stale.is_empty(), "the table of tuning values names what is tested or is no limit: {stale:?}");
}

#[test]
fn tests_and_names_are_told_from_code_and_comments() {
    let text = "
pub const ONE_MAX: usize = 1;
const TWO: Duration = Duration::from_secs(2);
#[cfg(test)]
fn waiting() -> usize {
    ONE_MAX
}
#[cfg(test)]
pub(crate) mod tests {
    // THREE_MAX is no test.
    assert_eq!(limits::TWO + x, Y_MAX);
}
";
    assert_eq!(constants(text), ["ONE_MAX", "TWO"]);
    assert_eq!(names(tests_of(text)).collect::<Vec<_>>(), ["TWO", "Y_MAX"]);
    assert_eq!(tests_of("fn main() {}"), "");
}

/// The constants that a file defines.
fn constants(text: &str) -> Vec<String> {
    let defined = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("const ")?;
        Some(rest.split_once(':')?.0.to_owned())
    });
    defined.collect()
}

/// The part of a source file that is only compiled for tests, which stands at its end.
fn tests_of(text: &str) -> &str {
    let starts = text.match_indices("#[cfg(test)]\n").find(|(at, mark)| {
        let next = text[at + mark.len()..].lines().next().unwrap_or_default();
        next.split_whitespace().any(|word| word == "mod")
    });
    starts.map_or("", |(at, _)| &text[at..])
}

/// Every word of the code that is written as constants are.
fn names(text: &str) -> impl Iterator<Item = String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words = code.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    let is_name = |word: &&str| {
        word.len() > 1
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && !word.contains(|c: char| c.is_ascii_lowercase())
    };
    words.filter(is_name).map(str::to_owned)
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
