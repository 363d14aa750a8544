//! Reads complaints from a message by fixed phrases: nine kinds, at most one of each per message.
//!
//! Phrases are compared word by word, in lower case, without accents and apostrophes, so that no phrase is found
//! inside a word and one at the very end counts. Single words that mean something else in another language, or under
//! a "not", are weighed by the words around them.

use serde::{Deserialize, Serialize};

use crate::memory::{clip, words};
use crate::safety::codes::codes;
use crate::time::Timestamp;

codes!(
    /// Kinds of complaint, the ones that teach most first.
    ComplaintKind {
        Constraint = "constraint",
        IgnoredInstruction = "ignored-instruction",
        MissedExpectation = "missed-expectation",
        Omission = "omission",
        Damage = "damage",
        Dishonesty = "dishonesty",
        Performance = "performance",
        Quality = "quality",
        /// Nothing more definite was found.
        GeneralFrustration = "general-frustration",
    }
);

/// One complaint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complaint {
    #[serde(rename = "type")]
    pub kind: ComplaintKind,
    /// What follows the phrase, up to the end of its clause; the phrase itself where nothing does.
    pub detail: String,
    /// The beginning of the message.
    pub source: String,
    pub at: Timestamp,
}

const DETAIL_CHARS_MAX: usize = 200;
const SOURCE_CHARS_MAX: usize = 100;

/// The complaints of one message.
pub fn complaints(message: &str, at: Timestamp) -> Vec<Complaint> {
    let words = PlacedWord::all(message);
    let complaint = |kind, detail: &str| Complaint {
        kind,
        detail: clip(detail.trim(), DETAIL_CHARS_MAX),
        source: clip(message.trim(), SOURCE_CHARS_MAX),
        at,
    };
    let mut found: Vec<Complaint> = ComplaintKind::ALL
        .iter()
        .filter_map(|kind| hit(*kind, &words).map(|hit| complaint(*kind, detail(message, &words, hit))))
        .collect();
    if found.is_empty() && is_frustrated(message, &words) {
        found.push(complaint(ComplaintKind::GeneralFrustration, message));
    }
    found
}

/// A word as it is compared, and its place in the message.
struct PlacedWord {
    folded: String,
    start: usize,
    end: usize,
    /// Begins a clause.
    first: bool,
}

impl PlacedWord {
    fn all(text: &str) -> Vec<Self> {
        let mut words: Vec<Self> = Vec::new();
        let mut open: Option<Self> = None;
        let mut first = true;
        for (at, c) in text.char_indices() {
            if c.is_alphanumeric() || words::is_combining(c) {
                let word =
                    open.get_or_insert_with(|| Self { folded: String::new(), start: at, end: at, first });
                words::fold(c, &mut word.folded);
                word.end = at + c.len_utf8();
                first = false;
            } else if !(is_apostrophe(c) && open.is_some()) {
                words.extend(open.take());
                first = first || is_clause_end(c);
            }
        }
        words.extend(open);
        words
    }
}

const fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’' | '‘' | 'ʼ' | '`')
}

const fn is_clause_end(c: char) -> bool {
    matches!(
        c,
        '.' | '!' | '?' | ';' | ':' | ',' | '\n' | '。' | '！' | '？' | '¡' | '¿' | '—' | '–' | '"' | '('
    )
}

/// The range of words that a phrase matched: from, to.
type WordRange = (usize, usize);

fn hit(kind: ComplaintKind, words: &[PlacedWord]) -> Option<WordRange> {
    let phrases: &[&str] = match kind {
        ComplaintKind::Constraint => return (0..words.len()).find_map(|at| forbids(words, at)),
        ComplaintKind::Quality => return (0..words.len()).find_map(|at| belittles(words, at)),
        ComplaintKind::Performance => {
            return said(words, TOO_SLOW).or_else(|| (0..words.len()).find_map(|at| took_long(words, at)));
        }
        ComplaintKind::GeneralFrustration => return None,
        ComplaintKind::IgnoredInstruction => TOLD,
        ComplaintKind::MissedExpectation => EXPECTED,
        ComplaintKind::Omission => LEFT_OUT,
        ComplaintKind::Damage => BROKE,
        ComplaintKind::Dishonesty => LIED,
    };
    said(words, phrases)
}

/// The first match of one of these phrases.
fn said(words: &[PlacedWord], phrases: &[&str]) -> Option<WordRange> {
    (0..words.len()).find_map(|at| stands(words, at, phrases))
}

/// The phrase among these that matches at this word.
fn stands(words: &[PlacedWord], at: usize, phrases: &[&str]) -> Option<WordRange> {
    phrases.iter().find_map(|phrase| {
        let to = at + phrase.split(' ').count();
        let here = words.get(at..to)?.iter().map(|word| word.folded.as_str());
        here.eq(phrase.split(' ')).then_some((at, to))
    })
}

/// An order not to do something: it begins its clause, or follows a word that lets an order follow.
fn forbids(words: &[PlacedWord], at: usize) -> Option<WordRange> {
    let before = at.checked_sub(1).map(|at| words[at].folded.as_str());
    let orders = words[at].first || before.is_some_and(|before| LETS_AN_ORDER_FOLLOW.contains(&before));
    let (_, to) = stands(words, at, FORBID)?;
    let idiom = words.get(to).is_some_and(|next| next.folded == "get")
        && words.get(to + 1).is_some_and(|next| next.folded == "me");
    // "Stop" and "never" alone are orders too, in English.
    (orders && !idiom && (to < words.len() || reads_english(words))).then_some((at, to))
}

/// A word that calls something bad, unless it is taken back ("not bad") or means something else.
fn belittles(words: &[PlacedWord], at: usize) -> Option<WordRange> {
    let word = words[at].folded.as_str();
    let english = BAD.contains(&word) && reads_english(words);
    if !english && !BAD_ELSEWHERE.contains(&word) {
        return None;
    }
    let before = |back: usize| at.checked_sub(back).map_or("", |at| words[at].folded.as_str());
    let taken_back = (1..=3).any(|back| words::is_negation(before(back)) || NOTHING.contains(&before(back)));
    let idiom = before(1) == "my" || (before(1) == "me" && before(2) == "get");
    (!taken_back && !idiom).then_some((at, at + 1))
}

/// "Took 5 minutes".
fn took_long(words: &[PlacedWord], at: usize) -> Option<WordRange> {
    let unit = UNITS.contains(&words[at].folded.as_str());
    let number = at >= 2 && words[at - 1].folded.chars().all(|c| c.is_ascii_digit());
    let took =
        (2..=4).any(|back| at.checked_sub(back).is_some_and(|at| TOOK.contains(&words[at].folded.as_str())));
    (unit && number && took).then(|| (at - 1, at + 1))
}

/// Whether single words may be read as English: there are next to none, or grammar of that language is among them.
fn reads_english(words: &[PlacedWord]) -> bool {
    words.len() <= 2 || words.iter().any(|word| ENGLISH.contains(&word.folded.as_str()))
}

fn is_frustrated(message: &str, words: &[PlacedWord]) -> bool {
    ["!!", "！！", "!?", "?!"].iter().any(|mark| message.contains(mark))
        || words.iter().any(|word| FRUSTRATED.contains(&word.folded.as_str()))
}

fn detail<'a>(message: &'a str, words: &[PlacedWord], (from, to): WordRange) -> &'a str {
    let after = &message[words[to - 1].end..];
    let clause = after
        .find(|c| is_clause_end(c) && c != ',' && c != '"' && c != ':')
        .map_or(after, |end| &after[..end]);
    let clause = clause.trim_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ':' | '"'));
    if clause.is_empty() { &message[words[from].start..words[to - 1].end] } else { clause }
}

// Folded as words are: lower case, no accents, no apostrophes.
const LIED: &[&str] = &[
    "you lied", "you lie", "you were lying", "you are lying", "youre lying", "you lying", "you made that up",
    "you made it up", "you invented", "du hast gelogen", "du lugst", "tu as menti", "vous avez menti",
    "mentiste", "me mentiste", "hai mentito",
];
const LEFT_OUT: &[&str] = &[
    "you didnt", "you did not", "you forgot", "you have forgotten", "you failed to", "you never",
    "you missed", "you left out", "you skipped", "du hast vergessen", "hast du vergessen", "du hast nicht",
    "tu as oublie", "vous avez oublie", "tu nas pas", "vous navez pas", "olvidaste", "te olvidaste",
    "hai dimenticato",
];
const BROKE: &[&str] = &[
    "you broke", "you have broken", "youve broken", "you ruined", "you messed up", "you screwed up",
    "you destroyed", "you corrupted", "du hast kaputt gemacht", "tu as casse", "vous avez casse", "rompiste",
    "hai rotto",
];
const TOLD: &[&str] = &[
    "i said", "i told you", "i asked you", "i asked for", "i already said", "i already told you",
    "as i said", "ich habe gesagt", "ich sagte", "ich habe dir gesagt", "je tai dit", "javais dit",
    "je vous ai dit", "te dije", "ya te dije", "ti ho detto",
];
const EXPECTED: &[&str] = &[
    "should have", "shouldve", "should not have", "shouldnt have", "why didnt you", "why did you not",
    "i expected", "was supposed to", "were supposed to", "you were meant to", "hattest du", "du hattest",
    "warum hast du nicht", "tu aurais du", "vous auriez du", "deberias haber", "por que no",
    "avresti dovuto",
];
const TOO_SLOW: &[&str] = &[
    "too slow", "so slow", "took too long", "takes too long", "taking too long", "took forever",
    "takes forever", "waste of time", "wasted my time", "zu langsam", "zu lange gedauert", "trop lent",
    "trop long", "demasiado lento", "troppo lento",
];
const FORBID: &[&str] = &[
    "dont", "do not", "never", "stop", "no more", "bitte nicht", "niemals", "ne fais pas", "arrete de",
    "no hagas", "deja de",
];
const LETS_AN_ORDER_FOLLOW: &[&str] = &[
    "please", "and", "so", "just", "but", "to", "again", "then", "now", "bitte", "und", "por", "favor", "et",
    "y",
];
const BAD: &[&str] = &["wrong", "incorrect", "bad", "terrible", "stupid", "awful", "useless", "horrible"];
const BAD_ELSEWHERE: &[&str] = &[
    "falsch", "schlecht", "schrecklich", "furchtbar", "unbrauchbar", "mauvais", "mauvaise", "faux", "nul",
    "incorrecto", "terrible", "malo", "mala", "sbagliato", "pessimo",
];
const NOTHING: &[&str] =
    &["nothing", "hardly", "nichts", "rien", "nada", "niente", "kaum", "aint", "wasnt", "werent"];
const UNITS: &[&str] = &[
    "minutes", "minute", "mins", "min", "hours", "hour", "minuten", "stunden", "heures", "minutos", "horas",
];
const TOOK: &[&str] = &[
    "took", "takes", "taking", "waited", "waiting", "wasted", "gedauert", "dauerte", "gewartet", "pris",
    "tardo",
];
const FRUSTRATED: &[&str] = &[
    "lied", "ugh", "argh", "wtf", "annoying", "frustrating", "fuck", "fucking", "shit", "damn", "crap",
    "scheisse", "merde", "mierda", "nervig", "stupid",
];
/// Grammar words that only English has.
const ENGLISH: &[&str] = &[
    "the", "is", "it", "its", "this", "that", "you", "your", "i", "and", "to", "of", "not", "very", "are",
    "were", "what", "with", "for", "have", "has", "my", "really", "just", "totally", "completely", "answer",
    "output", "code",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(message: &str) -> Vec<(&'static str, String)> {
        let at = Timestamp::from_micros(0);
        complaints(message, at).into_iter().map(|one| (one.kind.as_str(), one.detail)).collect()
    }

    #[test]
    fn every_kind_is_found_by_its_phrases() {
        let table: &[(&str, &[(&str, &str)])] = &[
            ("You lied about the tests", &[("dishonesty", "about the tests")]),
            ("You didn't run the tests. Sad.", &[("omission", "run the tests")]),
            ("You forgot to commit", &[("omission", "to commit")]),
            ("you broke the build", &[("damage", "the build")]),
            ("That answer is wrong", &[("quality", "wrong")]),
            ("I told you to use tabs", &[("ignored-instruction", "to use tabs")]),
            ("Don't touch the lock file", &[("constraint", "touch the lock file")]),
            ("please stop rewriting my tests", &[("constraint", "rewriting my tests")]),
            ("You should have asked first", &[("missed-expectation", "asked first")]),
            ("This took too long", &[("performance", "took too long")]),
            ("it took 5 minutes", &[("performance", "5 minutes")]),
            ("ugh", &[("general-frustration", "ugh")]),
            ("Again!!", &[("general-frustration", "Again!!")]),
            ("Du hast vergessen, die Tests zu starten", &[("omission", "die Tests zu starten")]),
            ("Das ist falsch", &[("quality", "falsch")]),
            ("Tu as oublié les tests", &[("omission", "les tests")]),
        ];
        for (message, expected) in table {
            let expected: Vec<_> =
                expected.iter().map(|(kind, detail)| (*kind, (*detail).to_owned())).collect();
            assert_eq!(found(message), expected, "{message}");
        }
    }

    #[test]
    fn what_only_looks_like_a_complaint_is_none() {
        for message in [
            "not bad", "Not bad at all", "not a bad idea", "there is nothing wrong with it",
            "it isn't wrong", "my bad", "don't get me wrong, I like it", "embadded wrongful badge",
            "We stay in Bad Ischl tomorrow", "Das Bad ist sauber geworden", "I never said so before today",
            "we don't know yet", "let us meet in 5 minutes", "it doesn't stop there", "", "   ", "谢谢",
            "どうもありがとう", "\u{1f44d}",
        ] {
            let found = found(message);
            let expected: &[(&str, String)] = &[];
            assert_eq!(found, expected, "{message}");
        }
    }

    #[test]
    fn a_phrase_at_the_end_counts_and_a_kind_counts_once_a_message() {
        assert_eq!(found("you forgot"), [("omission", "you forgot".to_owned())]);
        assert_eq!(found("it is all wrong"), [("quality", "wrong".to_owned())]);
        assert_eq!(found("Stop"), [("constraint", "Stop".to_owned())]);
        assert_eq!(found("wrong, wrong and bad, that is terrible").len(), 1);
        assert_eq!(found("you never commit"), [("omission", "commit".to_owned())]);
    }

    #[test]
    fn curly_apostrophes_accents_and_long_texts_are_cut_at_characters() {
        assert_eq!(found("You didn’t listen"), [("omission", "listen".to_owned())]);
        let long = format!("you broke {}", "ä".repeat(1_000));
        assert_eq!(found(&long)[0].1.chars().count(), DETAIL_CHARS_MAX);
        let one = &complaints(&long, Timestamp::from_micros(3))[0];
        assert_eq!((one.source.chars().count(), one.at.as_micros()), (SOURCE_CHARS_MAX, 3));
    }
}
