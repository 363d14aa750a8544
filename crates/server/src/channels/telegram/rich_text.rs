//! Text with formatting as Telegram takes it: plain text, and entities that say which stretch of it looks how. Owns the
//! way from Markdown to it, and how it is split. Offsets count UTF-16 units, because Telegram's do. With entities, nothing
//! in the text can be read as formatting, so nothing has to be escaped.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde::Serialize;

/// Entities that one message may have.
const ENTITIES_MAX: usize = 100;
/// What stands at the end of a reply that has more text than its messages can hold.
const CUT_NOTE: &str = "[The rest is too long for this chat.]";

/// A text with its formatting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RichText {
    pub text: String,
    pub entities: Vec<TextEntity>,
}

/// How a stretch of a text looks, as Telegram reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TextEntity {
    #[serde(flatten)]
    pub style: TextStyle,
    /// In UTF-16 units, as `length` is.
    pub offset: usize,
    pub length: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TextStyle {
    Bold,
    Italic,
    Strikethrough,
    Code,
    Pre {
        #[serde(skip_serializing_if = "Option::is_none")]
        language: Option<String>,
    },
    TextLink {
        url: String,
    },
    Blockquote,
}

impl TextStyle {
    /// Whether a stretch in this style can hold no other one.
    const fn is_alone(&self) -> bool {
        matches!(self, Self::Code | Self::Pre { .. })
    }
}

/// The number of UTF-16 units.
pub fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

impl RichText {
    /// A text without formatting.
    pub fn plain(text: &str) -> Self {
        Self { text: text.trim().to_owned(), entities: Vec::new() }
    }

    /// What a text in Markdown looks like.
    pub fn of_markdown(markdown: &str) -> Self {
        let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES;
        let mut writer = MarkdownWriter::default();
        for event in Parser::new_ext(markdown, options) {
            writer.take(event);
        }
        writer.finish()
    }

    /// Splits it into messages of at most `units_max`, where the text allows it best. Of a text that needs more than
    /// `parts_max` messages, the last one says that there is more.
    pub fn split(&self, units_max: usize, parts_max: usize) -> Vec<Self> {
        let mut parts = Vec::new();
        let mut rest = 0;
        while rest < self.text.len() {
            let left = &self.text[rest..];
            let start = rest + (left.len() - left.trim_start_matches('\n').len());
            if units(&self.text[start..]) <= units_max {
                parts.push(self.part(start..self.text.len()));
                break;
            }
            if parts.len() + 1 == parts_max {
                let room = units_max.saturating_sub(units(CUT_NOTE) + 2);
                let mut last = self.part(start..start + break_at(&self.text[start..], room));
                last.text.push_str("\n\n");
                last.text.push_str(CUT_NOTE);
                parts.push(last);
                break;
            }
            let end = start + break_at(&self.text[start..], units_max);
            parts.push(self.part(start..end));
            rest = end;
        }
        parts.retain(|part| !part.text.is_empty());
        parts
    }

    /// A stretch of it, by bytes, without the white space around it.
    fn part(&self, range: Range<usize>) -> Self {
        let stretch = &self.text[range.clone()];
        let text = stretch.trim();
        let from = units(&self.text[..range.start + (stretch.len() - stretch.trim_start().len())]);
        let length = units(text);
        let entities = self
            .entities
            .iter()
            .filter_map(|entity| {
                let start = entity.offset.max(from);
                let end = (entity.offset + entity.length).min(from + length);
                (start < end).then(|| TextEntity {
                    style: entity.style.clone(),
                    offset: start - from,
                    length: end - start,
                })
            })
            .take(ENTITIES_MAX)
            .collect();
        Self { text: text.to_owned(), entities }
    }
}

/// Where a text is best broken so that at most `units_max` stand before the break: behind a blank line, a line, a
/// sentence or a word, and never inside a character as people see it. In bytes, and above 0.
fn break_at(text: &str, units_max: usize) -> usize {
    let mut used = 0;
    let mut limit = text.len();
    let mut last_seam = 0;
    let mut before = None;
    for (at, c) in text.char_indices() {
        if at > 0 && before.is_some_and(|before| is_seam(before, c)) {
            last_seam = at;
        }
        used += c.len_utf16();
        if used > units_max {
            limit = at;
            break;
        }
        before = Some(c);
    }
    let head = &text[..limit];
    let behind = |mark: &str| head.rfind(mark).map(|at| at + mark.len());
    let sentence = [". ", "! ", "? "].into_iter().filter_map(behind).max();
    // A break that leaves most of a message empty is worse than one at a lesser seam.
    let is_worth_it = |at: &usize| *at * 3 > limit;
    behind("\n\n")
        .filter(is_worth_it)
        .or_else(|| behind("\n").filter(is_worth_it))
        .or_else(|| sentence.filter(is_worth_it))
        .or_else(|| behind(" ").filter(is_worth_it))
        .unwrap_or(if last_seam > 0 {
            last_seam
        } else {
            limit.max(text.chars().next().map_or(1, char::len_utf8))
        })
}

/// Whether a text may be broken between these two. Marks, joiners and the halves of a flag stay with what they belong to.
fn is_seam(before: char, after: char) -> bool {
    let clings = |c: char| {
        matches!(u32::from(c),
            0x0300..=0x036F | 0x1AB0..=0x1AFF | 0x1DC0..=0x1DFF | 0x20D0..=0x20FF | 0xFE00..=0xFE0F | 0xFE20..=0xFE2F
            | 0x200D | 0x1F3FB..=0x1F3FF | 0xE0020..=0xE007F)
    };
    let is_flag_half = |c: char| matches!(u32::from(c), 0x1F1E6..=0x1F1FF);
    !clings(after) && before != '\u{200D}' && !(is_flag_half(before) && is_flag_half(after))
}

/// Writes the events of a Markdown tree as text and entities.
#[derive(Default)]
struct MarkdownWriter {
    text: String,
    units: usize,
    entities: Vec<TextEntity>,
    /// Styles that are open, and where each began.
    open: Vec<(TextStyle, usize)>,
    /// The lists around, each with the number of its next item.
    lists: Vec<Option<u64>>,
    quotes: usize,
    table: Option<Vec<Vec<String>>>,
    /// Nothing of the block that begins is written yet.
    is_fresh_item: bool,
}

impl MarkdownWriter {
    fn push(&mut self, text: &str) {
        if let Some(cell) =
            self.table.as_mut().and_then(|rows| rows.last_mut()).and_then(|row| row.last_mut())
        {
            cell.push_str(text);
            return;
        }
        self.units += units(text);
        self.text.push_str(text);
        self.is_fresh_item = false;
    }

    /// Begins a block: a blank line apart from what is before it, or a line within a list.
    fn begin_block(&mut self) {
        if self.text.is_empty() || self.is_fresh_item {
            return;
        }
        let wanted = if self.lists.is_empty() { 2 } else { 1 };
        let there = self.text.len() - self.text.trim_end_matches('\n').len();
        for _ in there..wanted {
            self.push("\n");
        }
    }

    fn open(&mut self, style: TextStyle) {
        if self.table.is_none() {
            self.open.push((style, self.units));
        }
    }

    fn close(&mut self) {
        if self.table.is_some() {
            return;
        }
        if let Some((style, offset)) = self.open.pop() {
            let length = self.units - offset;
            self.entities.push(TextEntity { style, offset, length });
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.push(&text),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.push(&text)
            }
            Event::Code(code) => {
                self.open(TextStyle::Code);
                self.push(&code);
                self.close();
            }
            Event::SoftBreak | Event::HardBreak => self.push("\n"),
            Event::Rule => {
                self.begin_block();
                self.push("———");
            }
            Event::TaskListMarker(is_done) => self.push(if is_done { "☑ " } else { "☐ " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { .. } => {
                self.begin_block();
                self.open(TextStyle::Bold);
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.quotes += 1;
                if self.quotes == 1 {
                    self.open(TextStyle::Blockquote);
                }
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split_whitespace().next().filter(|word| !word.is_empty()).map(str::to_owned)
                    }
                    CodeBlockKind::Indented => None,
                };
                self.open(TextStyle::Pre { language });
            }
            Tag::List(first) => {
                self.begin_block();
                self.lists.push(first);
            }
            Tag::Item => {
                self.begin_block();
                let indent = "  ".repeat(self.lists.len().saturating_sub(1));
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let mark = format!("{indent}{number}. ");
                        *number += 1;
                        mark
                    }
                    _ => format!("{indent}• "),
                };
                self.push(&mark);
                self.is_fresh_item = true;
            }
            Tag::Emphasis => self.open(TextStyle::Italic),
            Tag::Strong => self.open(TextStyle::Bold),
            Tag::Strikethrough => self.open(TextStyle::Strikethrough),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.open(TextStyle::TextLink { url: dest_url.into_string() });
            }
            Tag::Table(_) => {
                self.begin_block();
                self.table = Some(Vec::new());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(rows) = &mut self.table {
                    rows.push(Vec::new());
                }
            }
            Tag::TableCell => {
                if let Some(row) = self.table.as_mut().and_then(|rows| rows.last_mut()) {
                    row.push(String::new());
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_)
            | TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Link
            | TagEnd::Image => self.close(),
            TagEnd::CodeBlock => {
                while self.text.ends_with('\n') {
                    self.text.pop();
                    self.units -= 1;
                }
                self.close();
            }
            TagEnd::BlockQuote(_) => {
                self.quotes = self.quotes.saturating_sub(1);
                if self.quotes == 0 {
                    self.close();
                }
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Item => self.is_fresh_item = false,
            TagEnd::Table => {
                let rows = self.table.take().unwrap_or_default();
                self.open(TextStyle::Pre { language: None });
                self.push(&aligned(&rows));
                self.close();
            }
            _ => {}
        }
    }

    fn finish(self) -> RichText {
        let whole = RichText { entities: drawn_apart(self.entities), text: self.text };
        let mut trimmed = whole.part(0..whole.text.len());
        trimmed.entities.sort_by_key(|entity| (entity.offset, std::cmp::Reverse(entity.length)));
        trimmed
    }
}

/// Takes code out of the stretches of all other styles, and drops links that no browser follows.
fn drawn_apart(entities: Vec<TextEntity>) -> Vec<TextEntity> {
    let alone: Vec<Range<usize>> = entities
        .iter()
        .filter(|entity| entity.style.is_alone())
        .map(|entity| entity.offset..entity.offset + entity.length)
        .collect();
    let mut apart = Vec::with_capacity(entities.len());
    for entity in entities {
        if matches!(&entity.style, TextStyle::TextLink { url } if !is_web_address(url)) {
            continue;
        }
        let end = entity.offset + entity.length;
        let mut from = entity.offset;
        if !entity.style.is_alone() {
            for code in alone.iter().filter(|code| code.start < end && code.end > entity.offset) {
                if from < code.start {
                    let length = code.start - from;
                    apart.push(TextEntity { style: entity.style.clone(), offset: from, length });
                }
                from = from.max(code.end);
            }
        }
        if from < end {
            apart.push(TextEntity { style: entity.style, offset: from, length: end - from });
        }
    }
    apart
}

fn is_web_address(url: &str) -> bool {
    ["https://", "http://", "mailto:", "tg://"].iter().any(|scheme| url.starts_with(scheme))
}

/// The cells of a table in columns of equal width.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join(" | ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stretches of a text with their styles, read back by UTF-16 units as Telegram does.
    fn shown(rich: &RichText) -> Vec<(String, String)> {
        let all: Vec<u16> = rich.text.encode_utf16().collect();
        rich.entities
            .iter()
            .map(|entity| {
                let stretch = &all[entity.offset..entity.offset + entity.length];
                let style = serde_json::to_value(&entity.style).unwrap()["type"].as_str().unwrap().to_owned();
                (style, String::from_utf16(stretch).unwrap())
            })
            .collect()
    }

    fn of(markdown: &str) -> (String, Vec<(String, String)>) {
        let rich = RichText::of_markdown(markdown);
        (rich.text.clone(), shown(&rich))
    }

    fn styles(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(style, text)| ((*style).to_owned(), (*text).to_owned())).collect()
    }

    /// Markdown, the text that it becomes, and its styles with the words that have them.
    type StyledCase = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

    #[test]
    fn markdown_becomes_text_with_entities() {
        let table: [StyledCase; 13] = [
            ("plain", "plain", &[]),
            (
                "**b** and *i* and ~~s~~",
                "b and i and s",
                &[("bold", "b"), ("italic", "i"), ("strikethrough", "s")],
            ),
            ("👩‍👩‍👧 **é👍** x", "👩‍👩‍👧 é👍 x", &[("bold", "é👍")]),
            ("# Title\ntext", "Title\n\ntext", &[("bold", "Title")]),
            ("- a\n- b\n  - c", "• a\n• b\n  • c", &[]),
            ("3. a\n4. b", "3. a\n4. b", &[]),
            ("`x < y`", "x < y", &[("code", "x < y")]),
            ("```rust\nfn a() {}\n```", "fn a() {}", &[("pre", "fn a() {}")]),
            ("[here](https://example.org)", "here", &[("text_link", "here")]),
            ("[here](javascript:alert(1))", "here", &[]),
            ("> said\n> twice", "said\ntwice", &[("blockquote", "said\ntwice")]),
            ("|a|b|\n|-|-|\n|long|c|", "a    | b\nlong | c", &[("pre", "a    | b\nlong | c")]),
            ("*not closed and <b>raw</b> @all", "*not closed and <b>raw</b> @all", &[]),
        ];
        for (markdown, text, expected) in table {
            assert_eq!(of(markdown), (text.to_owned(), styles(expected)), "{markdown}");
        }
    }

    #[test]
    fn code_stands_in_no_other_style() {
        let (text, found) = of("**bold `code` bold** and > no\n\n> quote\n>\n> ```\n> pre\n> ```\n>\n> more");
        assert!(text.starts_with("bold code bold"), "{text}");
        assert_eq!(
            found,
            styles(&[
                ("bold", "bold "),
                ("code", "code"),
                ("bold", " bold"),
                ("blockquote", "quote\n\n"),
                ("pre", "pre"),
                ("blockquote", "\n\nmore"),
            ])
        );
    }

    #[test]
    fn a_split_text_is_whole_and_no_part_is_too_long() {
        let words: String = (0..2_000).map(|n| format!("word{n} ")).collect();
        let rich = RichText::plain(&words);
        let parts = rich.split(4096, 10);
        assert!(parts.iter().all(|part| units(&part.text) <= 4096));
        let joined: Vec<&str> = parts.iter().flat_map(|part| part.text.split(' ')).collect();
        assert_eq!(joined, rich.text.split(' ').collect::<Vec<_>>());
    }

    #[test]
    fn emoji_are_counted_as_telegram_counts_them_and_never_broken() {
        let rich = RichText::plain(&"👍".repeat(2_049));
        let parts = rich.split(4096, 10);
        assert_eq!(parts.iter().map(|part| units(&part.text)).collect::<Vec<_>>(), [4096, 2]);
        let family = "👩‍👩‍👧".repeat(600);
        for part in RichText::plain(&family).split(4096, 10) {
            assert_eq!(part.text.replace("👩‍👩‍👧", ""), "");
        }
        let one = format!("e{}", "\u{301}".repeat(5_000));
        assert!(RichText::plain(&one).split(4096, 10).iter().all(|part| units(&part.text) <= 4096));
    }

    #[test]
    fn a_long_code_block_is_code_in_every_part_and_the_last_part_says_that_there_is_more() {
        let code: String = (0..10_000).map(|n| format!("line {n}\n")).collect();
        let parts = RichText::of_markdown(&format!("```py\n{code}```")).split(4096, 10);
        assert_eq!(parts.len(), 10);
        assert!(parts.iter().all(|part| units(&part.text) <= 4096));
        for part in &parts {
            assert_eq!(part.entities.len(), 1);
            assert_eq!(part.entities[0].style, TextStyle::Pre { language: Some("py".to_owned()) });
        }
        assert!(parts[9].text.ends_with(CUT_NOTE));
        assert!(!shown(&parts[9])[0].1.contains(CUT_NOTE));
    }

    #[test]
    fn breaks_prefer_blank_lines_then_lines_then_sentences_then_words() {
        let cut = |text: &str| RichText::plain(text).split(20, 10)[0].text.clone();
        assert_eq!(cut("one two\n\nthree four five six"), "one two");
        assert_eq!(cut("one two\nthree four five six"), "one two");
        assert_eq!(cut("One two. Three four five six"), "One two.");
        assert_eq!(cut("one two three four five six"), "one two three four");
    }

    #[test]
    fn a_message_has_at_most_a_hundred_entities() {
        let rich = RichText::of_markdown(&"**b** ".repeat(150));
        assert!(rich.split(4096, 10).iter().all(|part| part.entities.len() <= ENTITIES_MAX));
    }
}
