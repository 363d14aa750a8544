//! How a text is cut into words, the same for every store, for what is indexed and for what is asked.
//!
//! Cut here and not by a database, so that nothing in a text or a query is ever taken for syntax, and so that the same
//! question finds the same things everywhere.

use unicode_normalization::char::decompose_canonical;

/// A longer word is found by its beginning.
const WORD_CHARS_MAX: usize = 64;

/// The words of a text in their order, with a space after each: letters and digits in lower case, without accents.
pub(crate) fn words_of(text: &str) -> String {
    let mut words = Words { out: String::with_capacity(text.len() + 1), length: 0 };
    let mut left = text;
    while !left.is_empty() {
        // A word, what stands behind it, and what is neither.
        let word = left.bytes().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(left.len());
        words.push_ascii(&left[..word]);
        left = &left[word..];
        let gap = left.bytes().position(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
        let gap = gap.unwrap_or(left.len());
        if gap > 0 {
            words.end();
            left = &left[gap..];
            continue;
        }
        let mut chars = left.chars();
        if let Some(c) = chars.next() {
            words.push_folded(c);
        }
        left = chars.as_str();
    }
    words.end();
    words.out
}

struct Words {
    out: String,
    /// Characters of the word that is being written.
    length: usize,
}

impl Words {
    /// A word in plain letters, or a part of one.
    fn push_ascii(&mut self, part: &str) {
        let (start, room) = (self.out.len(), WORD_CHARS_MAX.saturating_sub(self.length));
        self.out.push_str(&part[..part.len().min(room)]);
        self.out[start..].make_ascii_lowercase();
        self.length += part.len();
    }

    fn push(&mut self, c: char) {
        if self.length < WORD_CHARS_MAX {
            self.out.push(c);
        }
        self.length += 1;
    }

    fn end(&mut self) {
        if self.length > 0 {
            self.out.push(' ');
            self.length = 0;
        }
    }

    fn push_folded(&mut self, c: char) {
        for c in c.to_lowercase() {
            match c {
                // An accent on its own.
                '\u{300}'..='\u{36f}' => {}
                // Only its place in the word makes it another letter.
                'ς' => self.push('σ'),
                // Latin, Greek and Cyrillic, where people leave accents out; elsewhere a mark makes another letter.
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
            (&format!("é{long} y"), &format!("e{} y ", &long[2..])),
        ];
        for (text, words) in table {
            assert_eq!(words_of(text), words, "{text:?}");
        }
    }
}
