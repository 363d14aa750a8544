//! How a chat looks: colours, line breaks, and the waiting sign. Texts of others lose their control characters here,
//! so that no reply can control the terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::exit::Result;
use crate::output::Out;

/// Lines longer than this are hard to read, however wide the window.
const WIDTH_MAX: usize = 100;

/// Colours, where they are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    pub colour: bool,
}

impl Paint {
    pub fn prompt(self, text: &str) -> (String, String) {
        (text.to_owned(), self.with("1;36", text))
    }

    pub fn question(self, text: &str) -> (String, String) {
        (text.to_owned(), self.with("1", text))
    }

    /// Secondary text.
    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The width for text.
pub fn width() -> usize {
    usize::from(console::Term::stdout().size().1).clamp(20, WIDTH_MAX)
}

/// Breaks a text that arrives piece by piece into lines, between words.
#[derive(Debug)]
pub struct Flow {
    width: usize,
    /// What every line begins with.
    margin: &'static str,
    column: usize,
    spaces: usize,
    word: String,
    begun: bool,
}

impl Flow {
    pub fn new(width: usize, margin: &'static str) -> Self {
        let width = width.saturating_sub(margin.chars().count() + 1).max(1);
        Self { width, margin, column: 0, spaces: 0, word: String::new(), begun: false }
    }

    /// Whether anything was shown yet.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Takes a piece; returns what can be shown so far. A word is shown when it is complete.
    pub fn push(&mut self, piece: &str) -> String {
        let mut shown = String::new();
        for c in piece.chars() {
            match c {
                '\n' => {
                    self.place(&mut shown);
                    self.spaces = 0;
                    self.break_line(&mut shown);
                }
                ' ' | '\t' => {
                    self.place(&mut shown);
                    self.spaces += if c == '\t' { 4 } else { 1 };
                }
                c if c.is_control() => {}
                c => {
                    // Scripts without spaces break between any two characters.
                    let is_wide = wide(c);
                    if is_wide {
                        self.place(&mut shown);
                    }
                    self.word.push(c);
                    if is_wide {
                        self.place(&mut shown);
                    }
                }
            }
        }
        shown
    }

    /// The rest, and the end of the line.
    pub fn finish(&mut self) -> String {
        let mut shown = String::new();
        self.place(&mut shown);
        if self.begun {
            shown.push('\n');
        }
        shown
    }

    fn place(&mut self, shown: &mut String) {
        if self.word.is_empty() {
            return;
        }
        self.begin(shown);
        let needs = console::measure_text_width(&self.word);
        if self.column > 0 && self.column + self.spaces + needs > self.width {
            self.break_line(shown);
        } else {
            shown.extend(std::iter::repeat_n(' ', self.spaces));
            self.column += self.spaces;
        }
        self.spaces = 0;
        self.column += needs;
        shown.push_str(&self.word);
        self.word.clear();
    }

    fn break_line(&mut self, shown: &mut String) {
        self.begin(shown);
        shown.push('\n');
        shown.push_str(self.margin);
        self.column = 0;
    }

    fn begin(&mut self, shown: &mut String) {
        if !std::mem::replace(&mut self.begun, true) {
            shown.push_str(self.margin);
        }
    }
}

fn wide(c: char) -> bool {
    console::measure_text_width(c.encode_utf8(&mut [0; 4])) > 1
}

/// A text of others, wrapped.
pub fn wrapped(text: &str, width: usize, margin: &'static str) -> String {
    let mut flow = Flow::new(width, margin);
    flow.push(text) + &flow.finish()
}

/// A text of others on one line, cut to the width.
pub fn one_line(text: &str, width: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    console::truncate_str(&crate::output::visible(&line), width, "…").into_owned()
}

/// The waiting sign until the first word comes.
#[derive(Debug)]
pub struct Waiting(Option<ProgressBar>);

impl Waiting {
    pub fn start(is_shown: bool, what: &'static str) -> Self {
        if !is_shown {
            return Self(None);
        }
        let bar = ProgressBar::new_spinner().with_message(what);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(Some(bar))
    }

    pub fn stage(&self, stage: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(crate::output::visible(stage));
        }
    }

    /// Removes the sign.
    pub fn stop(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Clears the screen.
pub fn clear(out: &Out) -> Result<()> {
    out.raw(b"\x1b[2J\x1b[H")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_whatever_the_pieces() {
        let text = "The quick brown fox\n\n  jumps over the lazy dog";
        let expected = "The quick\nbrown fox\n\n  jumps over\nthe lazy dog\n";
        for size in [1, 2, 3, 7, 100] {
            let mut flow = Flow::new(13, "");
            let pieces: Vec<char> = text.chars().collect();
            let mut shown: String =
                pieces.chunks(size).map(|piece| flow.push(&piece.iter().collect::<String>())).collect();
            shown.push_str(&flow.finish());
            assert_eq!(shown, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn every_line_has_its_margin_and_long_words_stay_whole() {
        assert_eq!(wrapped("call 112 now", 11, "| "), "| call 112\n| now\n");
        assert_eq!(wrapped("https://example.org/long x", 12, ""), "https://example.org/long\nx\n");
        assert_eq!(wrapped("日本語日本語", 9, ""), "日本語日\n本語\n");
        assert_eq!(wrapped("", 10, "| "), "");
    }

    #[test]
    fn nothing_that_is_said_steers_the_terminal() {
        assert_eq!(wrapped("a\x1b[31mb\u{9b}2Jc\x07 d\r\n", 80, ""), "a[31mb2Jc d\n\n");
        assert_eq!(one_line("a\n b\x1b[2J", 80), "a b [2J");
        assert_eq!(one_line("a long line of words", 8), "a long …");
    }

    #[test]
    fn without_colours_there_are_none() {
        let (plain, painted) = Paint { colour: false }.prompt("> ");
        assert_eq!(plain, painted);
        assert_eq!(Paint { colour: true }.dim("x"), "\x1b[2mx\x1b[0m");
    }
}
