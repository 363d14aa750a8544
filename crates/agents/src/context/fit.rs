//! Cuts a prompt to its budget: what is shortened or dropped first, and down to what.

use super::estimate::{self, MESSAGE_OVERHEAD, tokens};
use super::transcript::Turn;
use super::untrusted::{self, BlockKind};
use crate::model::Message;

/// Texts are not cut below this: a few words say more than none.
const CHARS_MIN: usize = 64;
/// Marks a text whose end was cut.
const CUT_MARK: &str = " … [cut]";
/// The line about left-out steps.
const STEPS_NOTE_TOKENS: usize = 16;

/// A part of what surrounds the transcript. Its text is neutralised already, so it can be cut anywhere.
pub(super) struct Part {
    voice: Voice,
    text: String,
}

/// Whose words a part holds.
#[derive(Clone, Copy)]
enum Voice {
    /// The author of the task.
    Task,
    /// The reviewers of earlier results of this run.
    Reviewer,
    /// Data from outside.
    Untrusted(BlockKind),
    /// The block of a person's recent activity: it has its own border, so it is shown whole or not at all.
    Activity,
}

/// Introduces the words of reviewers. The model follows them, but they widen no right: what a run may do is checked
/// where it is done.
const REVIEWED: &str = "Reviewers turned earlier results of yours down. Follow what they say in this attempt, as far as \
                        your task, your tools and your limits allow; it gives you no further rights.";

impl Part {
    pub fn shown(kind: BlockKind, data: &str) -> Self {
        Self { voice: Voice::Untrusted(kind), text: untrusted::neutral(data).into_owned() }
    }

    /// The task is an instruction, not data; it only must not forge a border.
    pub fn task(text: &str) -> Self {
        Self { voice: Voice::Task, text: untrusted::neutral(text).into_owned() }
    }

    /// What reviewers said is an instruction, within the task.
    pub fn reviews(text: &str) -> Self {
        Self { voice: Voice::Reviewer, text: untrusted::neutral(text).into_owned() }
    }

    /// A block of recent activity, as [`sederunt_core::activity::block`] wrote it.
    pub fn activity(block: &str) -> Self {
        Self { voice: Voice::Activity, text: block.to_owned() }
    }

    const fn kind(&self) -> Option<BlockKind> {
        match self.voice {
            Voice::Task | Voice::Reviewer | Voice::Activity => None,
            Voice::Untrusted(kind) => Some(kind),
        }
    }

    fn written(&self) -> String {
        match self.voice {
            Voice::Task => format!("<task>\n{}\n</task>", self.text),
            Voice::Reviewer => format!("<reviewer>\n{REVIEWED}\n{}\n</reviewer>", self.text),
            Voice::Untrusted(kind) => untrusted::wrap(kind, &self.text),
            Voice::Activity => self.text.clone(),
        }
    }

    /// Cuts about this many tokens off the part. `false` when it has to be dropped instead.
    fn shorten(&mut self, over: usize) -> bool {
        !matches!(self.voice, Voice::Activity) && shorten(&mut self.text, over)
    }

    /// The part with the smallest number is given up first.
    fn worth(&self) -> u8 {
        match self.voice {
            Voice::Activity => 0,
            Voice::Untrusted(BlockKind::Lessons) => 1,
            Voice::Untrusted(BlockKind::Memory) => 2,
            Voice::Untrusted(BlockKind::Entity) => 3,
            Voice::Untrusted(BlockKind::Input) => 4,
            Voice::Untrusted(_) => 5,
            Voice::Reviewer => 6,
            Voice::Task => 7,
        }
    }
}

/// What surrounds the transcript.
#[derive(Default)]
pub(super) struct Surroundings {
    pub text: Option<String>,
    /// The kinds of untrusted parts in it.
    pub kinds: Vec<BlockKind>,
    pub has_activity: bool,
}

/// The parts as one text within `room` tokens: the part worth least is shortened first, and dropped when little is left
/// of it.
pub(super) fn surroundings(mut parts: Vec<Part>, room: usize) -> Surroundings {
    loop {
        let text = parts.iter().map(Part::written).collect::<Vec<_>>().join("\n\n");
        let over = (MESSAGE_OVERHEAD + tokens(&text)).saturating_sub(room);
        let least = (0..parts.len()).min_by_key(|at| parts[*at].worth());
        match least {
            None => return Surroundings::default(),
            Some(_) if over == 0 => {
                return Surroundings {
                    text: Some(text),
                    kinds: parts.iter().filter_map(Part::kind).collect(),
                    has_activity: parts.iter().any(|part| matches!(part.voice, Voice::Activity)),
                };
            }
            Some(least) if !parts[least].shorten(over) => drop(parts.remove(least)),
            Some(_) => {}
        }
    }
}

/// Cuts about this many tokens off the end. `false` when that would leave next to nothing.
fn shorten(text: &mut String, over: usize) -> bool {
    let length = text.chars().count();
    let keep = length.saturating_sub((over + 1) * 4 + CUT_MARK.chars().count());
    if keep < CHARS_MIN {
        return false;
    }
    *text = text.chars().take(keep).collect::<String>() + CUT_MARK;
    true
}

/// Neutralises what tools have said. The border itself is added last ([`wrapped`]), so that no cut can take its end
/// away.
pub(super) fn neutralise(turn: &mut Turn) {
    for message in &mut turn.messages {
        if let Message::ToolResult { content, .. } = message {
            *content = untrusted::neutral(content).into_owned();
        }
    }
}

pub(super) fn wrapped(message: Message) -> Message {
    match message {
        Message::ToolResult { call_id, name, content, is_error } => {
            let content = untrusted::wrap(BlockKind::ToolResult, &content);
            Message::ToolResult { call_id, name, content, is_error }
        }
        other => other,
    }
}

/// The tokens of a turn with its borders.
pub(super) fn cost(turn: &Turn) -> usize {
    turn.messages.iter().map(cost_of).sum()
}

fn cost_of(message: &Message) -> usize {
    let border = matches!(message, Message::ToolResult { .. });
    estimate::message(message) + if border { untrusted::WRAP_CHARS_MAX.div_ceil(4) } else { 0 }
}

/// What was left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    pub turns: usize,
    pub messages: usize,
    pub replies: usize,
}

impl Cut {
    fn count(&mut self, messages: &[Message]) {
        self.messages += messages.len();
        self.replies +=
            messages.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
    }
}

/// Keeps the newest turns that fit, and of the newest one as much as fits.
pub(super) fn turns(turns: &mut Vec<Turn>, room: usize) -> Cut {
    let mut cut = Cut::default();
    let Some(newest) = turns.last_mut() else { return cut };
    newest_turn(newest, room, &mut cut);
    let mut left = room - cost(newest).min(room);
    let mut keep = turns.len() - 1;
    while keep > 0 && cost(&turns[keep - 1]) <= left {
        keep -= 1;
        left -= cost(&turns[keep]);
    }
    for gone in turns.drain(..keep) {
        cut.turns += 1;
        cut.count(&gone.messages);
    }
    cut
}

/// Makes one turn fit: first its oldest steps are dropped, then its longest texts are shortened, then its last step
/// is dropped.
fn newest_turn(turn: &mut Turn, room: usize, cut: &mut Cut) {
    if cost(turn) <= room {
        return;
    }
    let room = room.saturating_sub(STEPS_NOTE_TOKENS);
    let has_head = matches!(turn.messages.first(), Some(Message::User { .. }));
    let head = usize::from(has_head);
    let mut dropped = 0;
    while cost(turn) > room {
        let Some(end) = step_end(&turn.messages, head).filter(|end| *end < turn.messages.len()) else {
            break;
        };
        cut.count(&turn.messages[head..end]);
        dropped += end - head;
        turn.messages.drain(head..end);
    }
    loop {
        let over = cost(turn).saturating_sub(room);
        if over == 0 || !shorten_longest(&mut turn.messages, over) {
            break;
        }
    }
    if cost(turn) > room && turn.messages.len() > head {
        cut.count(&turn.messages[head..]);
        dropped += turn.messages.len() - head;
        turn.messages.truncate(head);
    }
    if let (true, Some(Message::User { text })) = (dropped > 0, turn.messages.first_mut()) {
        text.push_str(&format!("\n[{dropped} earlier messages of this turn were left out.]"));
    }
}

/// The end of the step that begins here: a reply with the results of its calls, or one message of the user.
fn step_end(messages: &[Message], start: usize) -> Option<usize> {
    messages.get(start)?;
    let results =
        messages[start + 1..].iter().take_while(|message| matches!(message, Message::ToolResult { .. }));
    Some(start + 1 + results.count())
}

fn shorten_longest(messages: &mut [Message], over: usize) -> bool {
    let longest = messages.iter_mut().map(|message| match message {
        Message::User { text } | Message::Assistant { text, .. } => text,
        Message::ToolResult { content, .. } => content,
    });
    let Some(text) = longest.max_by_key(|text| text.chars().count()) else { return false };
    let length = text.chars().count();
    if length <= CHARS_MIN + CUT_MARK.chars().count() {
        return false;
    }
    if !shorten(text, over) {
        *text = text.chars().take(CHARS_MIN).collect::<String>() + CUT_MARK;
    }
    true
}
