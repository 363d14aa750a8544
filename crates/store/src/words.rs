//! Cuts texts and queries into words, the same for every store. The databases do not cut, so nothing in a text or
//! query is taken for syntax, and the same query finds the same texts on both.

use unicode_normalization::char::decompose_canonical;

/// A longer word is found by its beginning.
const WORD_CHARS_MAX: usize = 64;

/// The words of a text in their order, with a space after each.
pub(crate) fn words_of(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1);
    each_word(text, |word| {
        out.push_str(word);
        out.push(' ');
    });
    out
}

/// Cuts a text into words, in their order: letters and digits in lower case, without accents.
pub(crate) fn each_word(text: &str, take: impl FnMut(&str)) {
    let mut words = WordCutter { word: String::new(), length: 0, take };
    let mut left = text;
    while !left.is_empty() {
        // ASCII letters, then a gap, then a character that is neither.
        let plain = left.bytes().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(left.len());
        let (word, rest) = left.split_at(plain);
        let gap = rest.bytes().position(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
        let gap = gap.unwrap_or(rest.len());
        left = &rest[gap..];
        if gap > 0 || left.is_empty() {
            words.end_with(word);
            continue;
        }
        words.push_ascii(word);
        let mut chars = left.chars();
        if let Some(c) = chars.next() {
            words.push_folded(c);
        }
        left = chars.as_str();
    }
    words.end();
}

struct WordCutter<T> {
    /// The word so far.
    word: String,
    /// Its characters, those beyond the limit included.
    length: usize,
    take: T,
}

impl<T: FnMut(&str)> WordCutter<T> {
    /// Adds ASCII letters: a word or a part of one.
    fn push_ascii(&mut self, part: &str) {
        let (start, room) = (self.word.len(), WORD_CHARS_MAX.saturating_sub(self.length));
        self.word.push_str(&part[..part.len().min(room)]);
        self.word[start..].make_ascii_lowercase();
        self.length += part.len();
    }

    fn push(&mut self, c: char) {
        if self.length < WORD_CHARS_MAX {
            self.word.push(c);
        }
        self.length += 1;
    }

    fn end(&mut self) {
        if self.length > 0 {
            (self.take)(&self.word);
            self.word.clear();
            self.length = 0;
        }
    }

    /// Ends a word with ASCII letters; as a rule they are the whole word.
    fn end_with(&mut self, part: &str) {
        let whole = self.length == 0 && (1..=WORD_CHARS_MAX).contains(&part.len());
        if whole && !part.bytes().any(|byte| byte.is_ascii_uppercase()) {
            (self.take)(part);
        } else {
            self.push_ascii(part);
            self.end();
        }
    }

    fn push_folded(&mut self, c: char) {
        for c in c.to_lowercase() {
            match c {
                // A combining accent.
                '\u{300}'..='\u{36f}' => {}
                // The same letter at the end of a word.
                'ς' => self.push('σ'),
                // Latin, Greek and Cyrillic, where people leave accents out; in other scripts a mark makes another
                // letter.
                '\u{80}'..='\u{52f}' | '\u{1e00}'..='\u{1fff}' if c.is_alphanumeric() => {
                    let without = |part| matches!(part, '\u{300}'..='\u{36f}');
                    decompose_canonical(c, |part| {
                        if !without(part) {
                            self.push(part);
                        }
                    });
                }
                c if c.is_alphanumeric() => self.push(c),
                _ => self.end(),
            }
        }
    }
}

/// The words of a search query. A text matches if it has each of them, at least as a prefix.
#[derive(Clone, Debug)]
pub(crate) struct SearchTerms {
    /// Sorted, and none is a prefix of another: a text with the longer one has both.
    words: Vec<String>,
    asked: Vec<String>,
}

impl SearchTerms {
    /// `None` if there is no word to look for.
    pub(crate) fn of(asked: &[String]) -> Option<Self> {
        let cut: String = asked.iter().map(|word| words_of(word)).collect();
        let mut words: Vec<String> = cut.split_ascii_whitespace().map(str::to_owned).collect();
        words.sort_unstable_by(|a, b| b.cmp(a));
        // The longer word comes before its prefixes.
        words.dedup_by(|beginning, word| word.starts_with(beginning.as_str()));
        words.reverse();
        (!words.is_empty()).then(|| Self { words, asked: asked.to_vec() })
    }

    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// The words as the caller wrote them.
    pub(crate) fn asked(&self) -> &[String] {
        &self.asked
    }

    /// Whether this text has all of them.
    pub(crate) fn match_text(&self, text: &str) -> bool {
        let mut missing: Vec<&str> = self.words.iter().map(String::as_str).collect();
        each_word(text, |word| {
            // None is a prefix of another, so only the last one that is not greater than the word can be its prefix.
            let at = missing.partition_point(|terms| *terms <= word);
            if at > 0 && word.starts_with(missing[at - 1]) {
                missing.remove(at - 1);
            }
        });
        missing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_letters_and_digits_in_lower_case_without_accents() {
        let long = "x".repeat(WORD_CHARS_MAX + 1);
        let table = [
            ("It's o'clock: ΑΒΓ-9 & | ! :*'", "it s o clock αβγ 9 "),
            ("Café CAFE\u{301} cafe", "cafe cafe cafe "),
            ("ΟΔΟΣ οδος", "οδοσ οδοσ "),
            ("İstanbul, ÅNGSTRÖM", "istanbul angstrom "),
            ("한국어 東京 हिन्दी", "한국어 東京 हिन दी "),
            ("§1 a\0b", "1 a b "),
            (" \n", ""),
            (&long, &format!("{} ", &long[1..])),
            ("naïveTÉA--9é!x", "naivetea 9e x "),
            ("Plain é PLAINé éplain plain", "plain e plaine eplain plain "),
            ("a\u{301} \u{301} b\u{301}", "a b "),
            (&format!("é{long} y"), &format!("e{} y ", &long[2..])),
        ];
        for (text, words) in table {
            assert_eq!(words_of(text), words, "{text:?}");
        }
    }

    fn terms(words: &str) -> Option<SearchTerms> {
        SearchTerms::of(&words.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_sought_are_words_of_which_none_is_the_beginning_of_another() {
        for (asked, words) in [
            ("b a", vec!["a", "b"]),
            ("al Alpha alp alpha", vec!["alpha"]),
            ("a ab abc b abd", vec!["abc", "abd", "b"]),
            ("it's", vec!["it", "s"]),
        ] {
            assert_eq!(terms(asked).unwrap().words(), words, "{asked}");
        }
        assert!(terms("!? -").is_none());
    }

    #[test]
    fn all_that_is_sought_must_stand_in_one_text_each_as_a_beginning() {
        for (asked, text, found) in [
            ("beta al", "Alpha, Beta!", true),
            ("beta al", "beta gamma", false),
            ("alpha", "alp", false),
            ("alp ba", "ba alpine", true),
            ("a b", "ab", false),
            ("a ab", "ab", true),
            ("abc abd", "abd abc", true),
            ("abc abd", "abc abc", false),
            ("cafe", "Café", true),
            ("x", "", false),
        ] {
            assert_eq!(terms(asked).unwrap().match_text(text), found, "{asked:?} in {text:?}");
        }
    }
}
