//! How an answer is found: the strongest keyword, the first pattern that fits, the pronouns turned round.

use sederunt_core::memory::words as memory_words;

use super::rules::{FALLBACKS, KEYWORDS, Keyword, REFLECTIONS};

/// The reply to a message, given how often it has replied before.
pub fn reply(said: &str, spoken: usize) -> String {
    let said = said.replace(['’', '‘'], "'");
    let clauses = said.split(['.', ',', ';', '!', '?', '\n']).map(words).filter(|words| !words.is_empty());
    let mut strongest: Option<(&Keyword, Vec<&str>)> = None;
    for clause in clauses {
        for keyword in KEYWORDS {
            let is_stronger = strongest.as_ref().is_none_or(|(found, _)| keyword.rank > found.rank);
            if is_stronger && clause.iter().any(|word| word.eq_ignore_ascii_case(keyword.word)) {
                strongest = Some((keyword, clause.clone()));
            }
        }
    }
    strongest
        .and_then(|(keyword, clause)| {
            keyword.rules.iter().find_map(|(pattern, answers)| {
                let parts = take_apart(pattern, &clause)?;
                Some(put_together(answers[spoken % answers.len()], &parts))
            })
        })
        .unwrap_or_else(|| FALLBACKS[spoken % FALLBACKS.len()].to_owned())
}

/// The share of a question's words that a memory must contain to answer it.
const ANSWERED_MIN: f32 = 0.6;

/// The answer to a question from a memory that contains nearly all of its words.
pub fn from_memory(said: &str, remembered: &[String]) -> Option<String> {
    let said = said.trim();
    if !said.ends_with('?') {
        return None;
    }
    let asked = memory_words::set(said);
    let overlap = |text: &String| memory_words::overlap(&asked, &memory_words::set(text));
    let best = remembered.iter().max_by(|a, b| overlap(a).total_cmp(&overlap(b)))?;
    let answers = !asked.is_empty() && overlap(best) >= ANSWERED_MIN;
    answers.then(|| format!("You told me: {}.", best.trim().trim_end_matches(['.', '!'])))
}

fn words(clause: &str) -> Vec<&str> {
    let edge = |c: char| !c.is_alphanumeric() && c != '\'';
    clause.split_whitespace().map(|word| word.trim_matches(edge)).filter(|word| !word.is_empty()).collect()
}

/// The parts that the stars of a pattern match, or `None` where it does not fit. A star takes as little as it can;
/// `a|b` is either word.
fn take_apart<'a>(pattern: &str, clause: &[&'a str]) -> Option<Vec<Vec<&'a str>>> {
    let pattern: Vec<&str> = pattern.split(' ').collect();
    fit(&pattern, clause)
}

fn fit<'a>(pattern: &[&str], clause: &[&'a str]) -> Option<Vec<Vec<&'a str>>> {
    let Some((first, rest)) = pattern.split_first() else {
        return clause.is_empty().then(Vec::new);
    };
    if *first != "*" {
        let (word, later) = clause.split_first()?;
        return first.split('|').any(|either| word.eq_ignore_ascii_case(either)).then(|| fit(rest, later))?;
    }
    // The last star takes all that is left.
    let lengths = if rest.is_empty() { clause.len()..=clause.len() } else { 0..=clause.len() };
    lengths.into_iter().find_map(|taken| {
        let mut parts = fit(rest, &clause[taken..])?;
        parts.insert(0, clause[..taken].to_vec());
        Some(parts)
    })
}

/// An answer with its `{1}`, `{2}`… filled in; `{noun 1}` takes only the thing that the part begins with.
fn put_together(answer: &str, parts: &[Vec<&str>]) -> String {
    let mut text = answer.to_owned();
    for (number, part) in parts.iter().enumerate() {
        let noun = format!("{{noun {}}}", number + 1);
        if text.contains(&noun) {
            let part = noun_phrase(part);
            let part = if part.is_empty() { "that".to_owned() } else { turned_round(&part) };
            text = text.replace(&noun, &part);
        }
        let place = format!("{{{}}}", number + 1);
        if text.contains(&place) {
            let part = if part.is_empty() { "that".to_owned() } else { turned_round(part) };
            text = text.replace(&place, &part);
        }
    }
    text
}

/// Words that end the name of a thing: what comes after them is said of it.
const NAME_ENDS: &[&str] = &[
    "is", "are", "was", "were", "am", "be", "has", "have", "had", "does", "do", "did", "will", "would",
    "can", "could", "should", "shall", "may", "might", "must", "isn't", "aren't", "wasn't", "won't",
    "doesn't", "didn't", "hasn't", "said", "says", "told", "tells", "called", "named", "likes", "loves",
    "hates", "wants", "needs", "thinks", "knows", "feels", "felt", "lives", "lived", "works", "worked",
    "died", "left", "went", "goes", "came", "comes", "got", "gets", "makes", "made", "keeps", "kept",
    "never", "always", "still", "just", "and", "but", "because", "so", "who", "that", "which", "when",
    "where", "if", "about", "at", "by", "for", "from", "in", "into", "on", "to", "with", "without", "since",
    "again", "today", "tomorrow", "yesterday", "now",
];

/// The name of the thing that a part of a sentence begins with: "sister is called Mona" is about a sister.
fn noun_phrase<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let ends_name = |word: &&str| NAME_ENDS.iter().any(|end| word.eq_ignore_ascii_case(end));
    let end = words.iter().position(ends_name).unwrap_or(words.len());
    words[..if end == 0 { words.len() } else { end }].to_vec()
}

/// The other's words from the listener's side: `I` becomes `you`.
fn turned_round(words: &[&str]) -> String {
    let turned = words.iter().enumerate().map(|(at, word)| {
        let before = at.checked_sub(1).map(|before| words[before]).unwrap_or_default();
        let is_last = at + 1 == words.len();
        if word.eq_ignore_ascii_case("you") {
            return if is_last && at > 0 { "me" } else { "I" };
        }
        if word.eq_ignore_ascii_case("are") && before.eq_ignore_ascii_case("you") {
            return "am";
        }
        let found = REFLECTIONS.iter().find(|(from, _)| word.eq_ignore_ascii_case(from));
        found.map_or(*word, |(_, to)| to)
    });
    turned.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_take_sentences_apart() {
        let cases: [(&str, &str, Option<&[&str]>); 8] = [
            ("* i feel *", "today I feel very tired", Some(&["today", "very tired"])),
            ("* i feel *", "I feel", Some(&["", ""])),
            ("* i am|feel *", "I am late", Some(&["", "late"])),
            ("i *", "you", None),
            ("*", "", Some(&[""])),
            ("yes", "yes indeed", None),
            ("* my *", "all my days and my nights", Some(&["all", "days and my nights"])),
            ("* a * b", "x a y b z b", Some(&["x", "y b z"])),
        ];
        for (pattern, said, expected) in cases {
            let parts = take_apart(pattern, &words(said));
            let parts = parts.map(|parts| parts.iter().map(|part| part.join(" ")).collect::<Vec<_>>());
            let expected =
                expected.map(|parts| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>());
            assert_eq!(parts, expected, "{pattern} / {said}");
        }
    }

    #[test]
    fn pronouns_are_turned_round() {
        let cases = [
            ("I lost my keys", "you lost your keys"),
            ("you are late", "I am late"),
            ("they laugh at you", "they laugh at me"),
            ("you", "I"),
            ("I am myself with Anna", "you are yourself with Anna"),
            ("your plan and mine", "my plan and yours"),
        ];
        for (said, expected) in cases {
            assert_eq!(turned_round(&words(said)), expected, "{said}");
        }
    }

    #[test]
    fn the_strongest_keyword_is_answered_and_the_answers_take_turns() {
        let said = "Hello, I dream of my mother";
        assert!(reply(said, 0).contains("dream"), "{}", reply(said, 0));
        assert_ne!(reply("I feel lost", 0), reply("I feel lost", 1));
        assert_eq!(reply("I feel lost", 0), reply("I feel lost", 0));
        assert!(reply("I feel lost without you", 0).contains("lost without me"));
        assert_eq!(reply("xyzzy", 0), FALLBACKS[0]);
        assert_eq!(reply("", FALLBACKS.len()), FALLBACKS[0]);
    }

    #[test]
    fn a_sentence_about_a_thing_is_answered_by_the_name_of_the_thing() {
        for said in [
            "My sister is called Mona", "my dog Rex is still ill", "My dog is called Rex",
            "my boss never listens",
        ] {
            for spoken in 0..3 {
                let answer = reply(said, spoken);
                for left in [" is ", "called", " never ", "still"] {
                    assert!(!answer.contains(left), "{said}: {answer}");
                }
            }
        }
        assert_eq!(reply("My dog Rex is still ill", 1), "What else does your dog Rex bring to mind?");
        assert_eq!(reply("My sister is called Mona", 0), "Tell me more about your sister.");
        assert_eq!(reply("I told my boss about the project", 0), "Your boss?");
        assert_eq!(reply("My fear of heights", 0), "Your fear of heights?");
    }

    #[test]
    fn a_goodbye_promises_nothing_about_what_is_kept() {
        for said in ["bye", "Goodbye for now"] {
            for spoken in 0..2 {
                assert!(!reply(said, spoken).contains("kept"), "an incognito conversation keeps nothing");
            }
        }
    }

    #[test]
    fn a_question_is_answered_with_the_memory_that_answers_it() {
        let known = ["my sister is called Mona".to_owned(), "I keep bees in Graz".to_owned()];
        let table = [
            ("What is my sister called?", Some("You told me: my sister is called Mona.")),
            ("Where do I keep bees?", Some("You told me: I keep bees in Graz.")),
            ("How are you?", None),
            ("My sister is called Mona", None),
            ("What is my brother called?", None),
        ];
        for (said, expected) in table {
            assert_eq!(from_memory(said, &known).as_deref(), expected, "{said}");
        }
    }

    #[test]
    fn every_keyword_has_a_pattern_that_always_fits_and_answers_that_can_be_filled() {
        for keyword in KEYWORDS {
            let (last, _) = keyword.rules.last().unwrap();
            assert!(take_apart(last, &[keyword.word]).is_some(), "{}", keyword.word);
            for (pattern, answers) in keyword.rules {
                let stars = pattern.split(' ').filter(|word| *word == "*").count();
                assert!(!answers.is_empty());
                for answer in *answers {
                    for number in stars + 1..9 {
                        assert!(!answer.contains(&format!("{{{number}}}")), "{pattern}: {answer}");
                        assert!(!answer.contains(&format!("{{noun {number}}}")), "{pattern}: {answer}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn there_is_always_an_answer(said in ".{0,200}", spoken in 0_usize..1000) {
            let answer = reply(&said, spoken);
            prop_assert!(!answer.is_empty());
        }
    }
}
