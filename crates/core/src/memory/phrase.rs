//! Finds fixed phrases in what a person wrote: by whole words, within one sentence, blind to case, accents and
//! apostrophes. In a pattern `*` matches up to two words of any kind.

use std::collections::HashMap;

use super::words::{fold, is_combining, stands_alone};

/// A text as a row of words.
#[derive(Debug)]
pub struct TextWords<'a> {
    pub text: &'a str,
    pub words: Vec<TextWord>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct TextWord {
    /// Folded: lower case, no accents, no apostrophes.
    pub text: String,
    /// Its byte offset in the text.
    pub start: usize,
    pub end: usize,
    /// Which sentence and which clause of the text it belongs to.
    pub sentence: usize,
    pub clause: usize,
}

impl<'a> TextWords<'a> {
    pub fn of(text: &'a str) -> Self {
        let mut words: Vec<TextWord> = Vec::new();
        let (mut sentence, mut clause) = (0, 0);
        let mut open: Option<(String, usize)> = None;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let lone = stands_alone(c);
            let inside = !lone && (c.is_alphanumeric() || is_combining(c));
            let next_is_letter = chars.peek().is_some_and(|(_, next)| next.is_alphanumeric());
            if inside {
                fold(c, &mut open.get_or_insert_with(|| (String::new(), at)).0);
                continue;
            }
            if matches!(c, '\'' | '’' | '`' | '´') && open.is_some() && next_is_letter {
                continue;
            }
            let mut close = |text: String, start: usize, end: usize| {
                words.push(TextWord { text, start, end, sentence, clause });
            };
            if let Some((text, start)) = open.take() {
                close(text, start, at);
            }
            if lone {
                close(c.to_string(), at, at + c.len_utf8());
            }
            // A dot between two letters or digits, as in `3.5` or `e.g`, ends nothing.
            if matches!(c, '!' | '?' | '\n' | '。' | '！' | '？') || (c == '.' && !next_is_letter) {
                sentence += 1;
                clause += 1;
            } else if matches!(c, ',' | ';' | ':' | '(' | ')' | '、' | '，') {
                clause += 1;
            }
        }
        if let Some((word, start)) = open {
            words.push(TextWord { text: word, start, end: text.len(), sentence, clause });
        }
        Self { text, words }
    }

    /// The sentence around a word, as written.
    pub fn sentence_around(&self, at: usize) -> &'a str {
        let sentence = self.words[at].sentence;
        let first = self.words.iter().position(|word| word.sentence == sentence).unwrap_or(at);
        let last = self.words.iter().rposition(|word| word.sentence == sentence).unwrap_or(at);
        let end = self.words[last].end;
        let close =
            self.text[end..].chars().take_while(|c| matches!(c, '.' | '!' | '?' | '。' | '！' | '？'));
        let close: usize = close.map(char::len_utf8).sum();
        self.text[self.words[first].start..end + close].trim()
    }

    /// The text from one word to before another, as written.
    pub fn between(&self, from: usize, to: usize) -> &'a str {
        match (self.words.get(from), to.checked_sub(1).and_then(|last| self.words.get(last))) {
            (Some(first), Some(last)) if from < to => &self.text[first.start..last.end],
            _ => "",
        }
    }

    /// The index after the last word of the clause that this word is in.
    pub fn clause_end(&self, from: usize) -> usize {
        let Some(first) = self.words.get(from) else { return from };
        let rest = self.words[from..].iter().position(|word| word.clause != first.clause);
        rest.map_or(self.words.len(), |n| from + n)
    }

    pub fn sentence_end(&self, from: usize) -> usize {
        let Some(first) = self.words.get(from) else { return from };
        let rest = self.words[from..].iter().position(|word| word.sentence != first.sentence);
        rest.map_or(self.words.len(), |n| from + n)
    }

    /// The folded words between two places.
    pub fn slice(&self, from: usize, to: usize) -> impl Iterator<Item = &str> {
        self.words.get(from..to).unwrap_or_default().iter().map(|word| word.text.as_str())
    }
}

/// Patterns, each with what it means.
#[derive(Debug)]
pub struct Phrases<T> {
    by_first: HashMap<String, Vec<(Vec<String>, T)>>,
}

/// Where a pattern was found: words `at..end`.
#[derive(Debug, PartialEq, Eq)]
pub struct PhraseMatch<'t, T> {
    pub at: usize,
    pub end: usize,
    pub what: &'t T,
}

/// How many words a `*` may match.
const GAP_WORDS_MAX: usize = 2;

impl<T> Phrases<T> {
    pub fn new<'p>(patterns: impl IntoIterator<Item = (&'p str, T)>) -> Self {
        let mut by_first: HashMap<String, Vec<(Vec<String>, T)>> = HashMap::new();
        for (pattern, what) in patterns {
            let mut words = pattern.split_whitespace().flat_map(|part| match part {
                "*" => vec!["*".to_owned()],
                part => TextWords::of(part).words.into_iter().map(|word| word.text).collect(),
            });
            if let Some(first) = words.next().filter(|first| first != "*") {
                by_first.entry(first).or_default().push((words.collect(), what));
            }
        }
        Self { by_first }
    }

    /// Every match of a pattern, in order; the longest first where several begin.
    pub fn find<'t>(&'t self, spoken: &TextWords<'_>) -> Vec<PhraseMatch<'t, T>> {
        (0..spoken.words.len()).flat_map(|at| self.find_at(spoken, at)).collect()
    }

    /// The patterns that begin at one word, the longest first.
    pub fn find_at<'t>(&'t self, spoken: &TextWords<'_>, at: usize) -> Vec<PhraseMatch<'t, T>> {
        let Some(word) = spoken.words.get(at) else { return Vec::new() };
        let patterns = self.by_first.get(&word.text).into_iter().flatten();
        let ends = patterns.filter_map(|(rest, what)| {
            matched(rest, &spoken.words, at + 1, word.sentence).map(|end| PhraseMatch { at, end, what })
        });
        let mut hits: Vec<_> = ends.collect();
        hits.sort_by_key(|hit| std::cmp::Reverse(hit.end));
        hits
    }
}

/// The end of the pattern if it matches at `at`, in this sentence.
fn matched(pattern: &[String], words: &[TextWord], at: usize, sentence: usize) -> Option<usize> {
    match pattern.split_first() {
        None => Some(at),
        Some((gap, rest)) if gap == "*" => {
            (0..=GAP_WORDS_MAX).find_map(|skipped| matched(rest, words, at + skipped, sentence))
        }
        Some((text, rest)) => {
            let word = words.get(at).filter(|word| word.sentence == sentence && word.text == *text);
            word.and_then(|_| matched(rest, words, at + 1, sentence))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_into_folded_words_sentences_and_clauses() {
        let spoken = TextWords::of("Don’t go, Zoë. I'm at v1.5!  了解");
        let words: Vec<_> =
            spoken.words.iter().map(|word| (word.text.as_str(), word.sentence, word.clause)).collect();
        assert_eq!(
            words,
            [
                ("dont", 0, 0),
                ("go", 0, 0),
                ("zoe", 0, 1),
                ("im", 1, 2),
                ("at", 1, 2),
                ("v1", 1, 2),
                ("5", 1, 2),
                ("了", 2, 3),
                ("解", 2, 3),
            ]
        );
        assert_eq!(spoken.sentence_around(1), "Don’t go, Zoë.");
        assert_eq!(spoken.sentence_around(4), "I'm at v1.5!");
        assert_eq!(spoken.between(0, 2), "Don’t go");
        assert_eq!(spoken.between(2, 2), "");
        assert_eq!((spoken.clause_end(0), spoken.sentence_end(0)), (2, 3));
    }

    proptest::proptest! {
        #[test]
        fn every_word_stands_where_it_says_in_any_text(text in "\\PC{0,200}|[a-zé'’ .?!,了\n]{0,200}") {
            let spoken = TextWords::of(&text);
            for (at, word) in spoken.words.iter().enumerate() {
                proptest::prop_assert!(!text[word.start..word.end].is_empty());
                proptest::prop_assert!(spoken.sentence_around(at).contains(&text[word.start..word.end]));
                proptest::prop_assert!(spoken.clause_end(at) <= spoken.sentence_end(at));
            }
            proptest::prop_assert!(spoken.words.windows(2).all(|pair| pair[0].end <= pair[1].start));
        }
    }

    #[test]
    fn phrases_are_found_by_whole_words_within_a_sentence() {
        let phrases = Phrases::new([("kill me", 1), ("don't * like", 2), ("don't", 3)]);
        let table: [(&str, &[i32]); 7] = [
            ("Kill me", &[1]),
            ("skill me", &[]),
            ("kill. me", &[]),
            ("kill, me", &[1]),
            ("I dont really like it", &[2, 3]),
            ("I don't at all ever like it", &[3]),
            ("", &[]),
        ];
        for (text, expected) in table {
            let spoken = TextWords::of(text);
            let found: Vec<_> = phrases.find(&spoken).iter().map(|hit| *hit.what).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
