//! The slash commands of a chat: their table, and how a line is parsed. Pure.

/// The command in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatCommand {
    Help,
    Status,
    Doctor,
    History(usize),
    Context,
    Search { scope: Scope, text: String },
    Summary(Length),
    Export { format: &'static str, all: bool, file: Option<String> },
    Keys,
    Memory(MemoryRequest),
    Feedback(FeedbackRequest),
    Threads(usize),
    Resume(String),
    New(Option<String>),
    Clear,
    Mode,
    Tier(Option<Tier>),
    Verbosity(Option<Verbosity>),
    Trace(Option<bool>),
    DebugState,
    End(Afterwards),
    Exit,
}

/// How much of earlier sittings is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// The summary of each.
    Short,
    /// Its themes, moods and what was left open, too.
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    History,
    Memory,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryRequest {
    Status,
    /// Without a kind: all of them.
    List(Option<MemoryKind>),
    Recall(Option<bool>),
    /// By position in the list that was shown last, from 1.
    Forget(MemoryKind, usize),
    /// Without a kind: all of them.
    Clear(Option<MemoryKind>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedbackRequest {
    /// Without words, the person is asked for them.
    Give(Signal, Option<String>),
    /// Added to the last feedback.
    More(String),
}

/// A thumb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Up,
    Down,
}

impl Signal {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// The kinds of memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    Fact,
    Arc,
    Rule,
}

impl MemoryKind {
    pub const ALL: [Self; 3] = [Self::Fact, Self::Arc, Self::Rule];

    pub const fn one(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Arc => "arc",
            Self::Rule => "rule",
        }
    }

    /// Also its name in paths.
    pub const fn many(self) -> &'static str {
        match self {
            Self::Fact => "facts",
            Self::Arc => "arcs",
            Self::Rule => "rules",
        }
    }
}

/// Which model answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Tier {
    #[default]
    Fast,
    Quality,
}

impl Tier {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Quality => "quality",
        }
    }
}

/// How much is shown beside the reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Nothing but the reply.
    Quiet,
    #[default]
    Normal,
    /// The kind of answer, too.
    Full,
}

impl Verbosity {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Normal => "normal",
            Self::Full => "full",
        }
    }
}

/// Where the chat goes on after the end of a sitting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Afterwards {
    Leave,
    /// In a new conversation, of this name or a random one.
    New(Option<String>),
}

/// One command as `/help` shows it.
#[derive(Debug)]
pub struct Entry {
    pub name: &'static str,
    pub alias: Option<&'static str>,
    pub usage: &'static str,
    pub about: &'static str,
    /// The words that can follow, for completion.
    pub phrases: &'static [&'static str],
}

const fn entry(
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    phrases: &'static [&'static str],
) -> Entry {
    Entry { name, alias: None, usage, about, phrases }
}

const fn short(alias: &'static str, of: Entry) -> Entry {
    Entry { alias: Some(alias), ..of }
}

/// Every command there is, in the order of `/help`.
pub const COMMANDS: &[Entry] = &[
    short("h", entry("help", "/help", "show this list", &[])),
    short("k", entry("keys", "/keys", "show what the keys do", &[])),
    entry("history", "/history [N]", "show the last N messages (6)", &[]),
    short("s", entry("status", "/status", "show where this conversation stands", &[])),
    entry("context", "/context", "show what the conversation carries along", &[]),
    entry("summary", "/summary [short|full]", "show what earlier sittings came to", &["short", "full"]),
    entry(
        "search",
        "/search history|memory|all TEXT",
        "find words in this conversation, in what is remembered, or everywhere",
        &["history", "memory", "all"],
    ),
    entry(
        "export",
        "/export md|json|txt [--all] [FILE]",
        "write what was said to a file, or here; with --all the whole log",
        &["md", "json", "txt", "md --all", "txt --all"],
    ),
    short(
        "m",
        entry(
            "memory",
            "/memory [status | list [facts|arcs|rules] | recall [on|off] | forget fact|arc|rule N | clear facts|arcs|rules|all]",
            "see and delete what is remembered",
            &[
                "status", "list facts", "list arcs", "list rules", "recall on", "recall off", "forget fact",
                "forget arc", "forget rule", "clear facts", "clear arcs", "clear rules", "clear all",
            ],
        ),
    ),
    entry(
        "feedback",
        "/feedback up|down [WORDS] | more WORDS",
        "say what was good or bad, so that it is learned from; add to what you said",
        &["up", "down", "more"],
    ),
    short("t", entry("threads", "/threads [N]", "show the last N conversations (12)", &[])),
    entry("resume", "/resume ID", "go on with another conversation", &[]),
    entry("new", "/new [ID]", "go on in a new conversation; this one stays open", &[]),
    entry("mode", "/mode", "show whether anything is kept", &[]),
    entry("tier", "/tier [fast|quality]", "choose which model answers", &["fast", "quality"]),
    entry(
        "verbosity",
        "/verbosity [quiet|normal|full]",
        "choose how much is shown beside the words",
        &["quiet", "normal", "full"],
    ),
    entry("trace", "/trace [on|off]", "show how long each stage of a reply took", &["on", "off"]),
    entry("debug", "/debug state", "show the state of the conversation as JSON", &["state"]),
    entry("doctor", "/doctor", "check the way to the server", &[]),
    short("c", entry("clear", "/clear", "clear the screen; nothing is forgotten", &[])),
    entry(
        "end",
        "/end [new [ID]]",
        "end this sitting, and go on in a new conversation if you like",
        &["new"],
    ),
    short("q", entry("exit", "/exit", "leave, and say whether this sitting is kept", &[])),
    entry("quit", "/quit", "the same as /exit", &[]),
];

/// Why a line with a slash is no command.
#[derive(Debug)]
pub enum BadLine {
    Unknown { word: String, nearest: Option<&'static str> },
    Usage(&'static Entry),
}

/// A parsed line.
#[derive(Debug)]
pub enum ChatLine {
    Nothing,
    /// A message to be answered.
    Message(String),
    Command(ChatCommand),
    Misread(BadLine),
}

/// Reads a line. Two slashes in front make a message that begins with one.
pub fn read(line: &str) -> ChatLine {
    let joined = line.replace("\\\n", "\n");
    let text = joined.trim();
    match text.strip_prefix('/') {
        None if text.is_empty() => ChatLine::Nothing,
        None => ChatLine::Message(text.to_owned()),
        Some(literal) if literal.starts_with('/') => ChatLine::Message(literal.to_owned()),
        Some(command) => match parse(command) {
            Ok(command) => ChatLine::Command(command),
            Err(misread) => ChatLine::Misread(misread),
        },
    }
}

/// The entry that goes by this name or alias.
pub fn find(word: &str) -> Option<&'static Entry> {
    COMMANDS.iter().find(|entry| entry.name == word || entry.alias == Some(word))
}

fn parse(text: &str) -> Result<ChatCommand, BadLine> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let word = word.to_lowercase();
    let Some(entry) = find(&word) else {
        let nearest = nearest(&word);
        return Err(BadLine::Unknown { word, nearest });
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    understood(entry.name, &words, rest.trim()).ok_or(BadLine::Usage(entry))
}

fn understood(name: &str, words: &[&str], rest: &str) -> Option<ChatCommand> {
    let id = |text: &str| Some(text.to_owned());
    Some(match (name, words) {
        ("help", _) => ChatCommand::Help,
        ("status", []) => ChatCommand::Status,
        ("doctor", []) => ChatCommand::Doctor,
        ("history", []) => ChatCommand::History(6),
        ("history", [n]) => ChatCommand::History(count(n)?),
        ("context", []) => ChatCommand::Context,
        ("search", [scope, _, ..]) => {
            let text = rest.strip_prefix(scope)?.trim().to_owned();
            ChatCommand::Search { scope: one_of(scope, &SCOPES)?, text }
        }
        ("summary", []) => ChatCommand::Summary(Length::Short),
        ("summary", [length]) => ChatCommand::Summary(one_of(length, &LENGTHS)?),
        ("export", [format, ..]) => {
            let rest = rest.strip_prefix(format)?.trim();
            let file = rest.strip_prefix("--all").filter(|rest| rest.is_empty() || rest.starts_with(' '));
            let (all, file) = (file.is_some(), file.unwrap_or(rest).trim());
            let file = (!file.is_empty()).then(|| file.to_owned());
            ChatCommand::Export { format: one_of(format, &FORMATS)?, all, file }
        }
        ("keys", []) => ChatCommand::Keys,
        ("memory", words) => ChatCommand::Memory(memory(words)?),
        ("feedback", ["more", _, ..]) => {
            ChatCommand::Feedback(FeedbackRequest::More(rest.strip_prefix("more")?.trim().to_owned()))
        }
        ("feedback", [signal, ..]) => {
            let words = rest.strip_prefix(signal)?.trim();
            let words = (!words.is_empty()).then(|| words.to_owned());
            ChatCommand::Feedback(FeedbackRequest::Give(one_of(signal, &SIGNALS)?, words))
        }
        ("threads", []) => ChatCommand::Threads(12),
        ("threads", [n]) => ChatCommand::Threads(count(n)?),
        ("resume", [thread]) => ChatCommand::Resume((*thread).to_owned()),
        ("new", []) => ChatCommand::New(None),
        ("new", [thread]) => ChatCommand::New(id(thread)),
        ("clear", []) => ChatCommand::Clear,
        ("mode", []) => ChatCommand::Mode,
        ("tier", []) => ChatCommand::Tier(None),
        ("tier", [tier]) => ChatCommand::Tier(Some(one_of(tier, &TIERS)?)),
        ("verbosity", []) => ChatCommand::Verbosity(None),
        ("verbosity", [much]) => ChatCommand::Verbosity(Some(one_of(much, &VERBOSITIES)?)),
        ("trace", []) => ChatCommand::Trace(None),
        ("trace", [on]) => ChatCommand::Trace(Some(one_of(on, &SWITCH)?)),
        ("debug", ["state"]) => ChatCommand::DebugState,
        ("end", []) => ChatCommand::End(Afterwards::Leave),
        ("end", ["new"]) => ChatCommand::End(Afterwards::New(None)),
        ("end", ["new", thread]) => ChatCommand::End(Afterwards::New(id(thread))),
        ("exit" | "quit", []) => ChatCommand::Exit,
        _ => return None,
    })
}

fn memory(words: &[&str]) -> Option<MemoryRequest> {
    Some(match words {
        [] | ["status"] => MemoryRequest::Status,
        ["list"] => MemoryRequest::List(None),
        ["list", kind] => MemoryRequest::List(Some(kind_of(kind)?)),
        ["recall"] => MemoryRequest::Recall(None),
        ["recall", on] => MemoryRequest::Recall(Some(one_of(on, &SWITCH)?)),
        ["forget", kind, n] => MemoryRequest::Forget(kind_of(kind)?, count(n)?),
        ["clear", "all"] => MemoryRequest::Clear(None),
        ["clear", kind] => MemoryRequest::Clear(Some(kind_of(kind)?)),
        _ => return None,
    })
}

const SCOPES: [(&str, Scope); 3] =
    [("history", Scope::History), ("memory", Scope::Memory), ("all", Scope::All)];
const FORMATS: [(&str, &str); 3] = [("md", "md"), ("json", "json"), ("txt", "txt")];
const LENGTHS: [(&str, Length); 2] = [("short", Length::Short), ("full", Length::Full)];
const TIERS: [(&str, Tier); 2] = [("fast", Tier::Fast), ("quality", Tier::Quality)];
const VERBOSITIES: [(&str, Verbosity); 3] =
    [("quiet", Verbosity::Quiet), ("normal", Verbosity::Normal), ("full", Verbosity::Full)];
const SIGNALS: [(&str, Signal); 2] = [("up", Signal::Up), ("down", Signal::Down)];
const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

fn one_of<T: Copy>(word: &str, choices: &[(&str, T)]) -> Option<T> {
    choices.iter().find(|(name, _)| *name == word).map(|(_, choice)| *choice)
}

fn kind_of(word: &str) -> Option<MemoryKind> {
    MemoryKind::ALL.into_iter().find(|kind| word == kind.one() || word == kind.many())
}

fn count(word: &str) -> Option<usize> {
    word.parse().ok().filter(|n| *n > 0)
}

/// Letters that may be wrong in a word that is still recognised.
const fn slips_max(name: &str) -> usize {
    if name.len() > 4 { 2 } else { 1 }
}

/// The command that was probably meant: the one it is the beginning of, or the one with the fewest letters wrong.
fn nearest(word: &str) -> Option<&'static str> {
    let begun = COMMANDS.iter().find(|entry| !word.is_empty() && entry.name.starts_with(word));
    let close = || {
        COMMANDS
            .iter()
            .map(|entry| (slips(word, entry.name), entry))
            .filter(|(slips, entry)| *slips <= slips_max(entry.name))
            .min_by_key(|(slips, _)| *slips)
            .map(|(_, entry)| entry)
    };
    begun.or_else(close).map(|entry| entry.name)
}

/// Letters to insert, leave out, change or swap to get from one word to the other.
fn slips(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut least = (rows[i][j + 1] + 1).min(row[j] + 1).min(rows[i][j] + usize::from(a != b));
            if i > 0 && j > 0 && from[i - 1] == *b && to[j - 1] == *a {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests;
