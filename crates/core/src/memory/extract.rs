//! Reads candidates for the memory out of one user message by rules: the way that works without a
//! model. Careful rather than thorough: questions, suppositions, other people's opinions, feelings
//! and what holds for a moment are left alone.

use serde::Deserialize;

use super::candidate::{Candidate, CandidateContent, KeepCondition};
use super::forms::{
    ARTICLES, BREAKS, FACTS, FLEETING, Form, LASTING, LOW, PASSING, RULES, SUPPOSED, TRAILERS,
};
use super::phrase::{PhraseMatch, TextWords};
use super::{Category, SELF, clip, unfenced, words};
use crate::limits;

/// What one message says that may be worth keeping.
pub fn extract(message: &str, sequence: u64) -> Vec<Candidate> {
    let head = message.char_indices().nth(limits::EXTRACT_CHARS_MAX).map_or(message.len(), |(at, _)| at);
    let spoken = TextWords::of(&message[..head]);
    let mut found: Vec<Candidate> = Vec::new();
    let mut from = 0;
    while from < spoken.words.len() && found.len() < limits::EXTRACTED_MAX {
        let end = spoken.sentence_end(from);
        for candidate in sentence(&spoken, from, end, sequence) {
            if !found.iter().any(|known| known.what == candidate.what) {
                found.push(candidate);
            }
        }
        from = end;
    }
    found.truncate(limits::EXTRACTED_MAX);
    found
}

/// Reads what a model found in a message: a JSON list of `{kind: "fact", subject, predicate, object}` and `{kind:
/// "rule", text}`, each with optional `quote`, `category` and `confidence`. A finding that does not quote the message
/// is dropped, and the rules about passing wishes and low moods apply to a model too. An answer that is no such list
/// yields nothing.
pub fn read(model_text: &str, message: &str, sequence: u64) -> Vec<Candidate> {
    #[derive(Deserialize)]
    struct Found {
        kind: String,
        #[serde(default)]
        subject: String,
        #[serde(default)]
        predicate: String,
        #[serde(default)]
        object: String,
        #[serde(default)]
        text: String,
        #[serde(default)]
        quote: String,
        #[serde(default)]
        category: Category,
        confidence: Option<f32>,
    }
    let found: Vec<Found> = serde_json::from_str(unfenced(model_text)).unwrap_or_default();
    let mut kept: Vec<Candidate> = Vec::new();
    for one in found {
        let what = match one.kind.as_str() {
            "fact" => CandidateContent::Fact {
                subject: plain(
                    if one.subject.trim().is_empty() { SELF } else { &one.subject },
                    limits::MOOD_CHARS_MAX,
                ),
                predicate: predicate(&one.predicate),
                object: plain(&one.object, limits::OBJECT_CHARS_MAX),
                category: one.category,
            },
            "rule" => CandidateContent::Rule { text: plain(&one.text, limits::RULE_CHARS_MAX) },
            _ => continue,
        };
        let quote = if one.quote.trim().is_empty() { message } else { one.quote.trim() };
        let empty = match &what {
            CandidateContent::Fact { predicate, object, .. } => predicate.is_empty() || object.is_empty(),
            CandidateContent::Rule { text } => text.is_empty(),
        };
        if empty
            || !message.contains(quote)
            || is_passing(quote)
            || kept.iter().any(|known| known.what == what)
        {
            continue;
        }
        let fragile = one.category == Category::Belief || !LOW.find(&TextWords::of(quote)).is_empty();
        kept.push(Candidate {
            what,
            quote: clip(quote, limits::QUOTE_CHARS_MAX),
            confidence: one.confidence.filter(|sure| sure.is_finite()).unwrap_or(0.5).clamp(0.0, 1.0),
            sequence,
            hold: if fragile { KeepCondition::NeedsRepetition } else { KeepCondition::AtEnd },
        });
    }
    kept.truncate(limits::EXTRACTED_MAX);
    kept
}

fn plain(text: &str, chars_max: usize) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clip(&text.split_whitespace().collect::<Vec<_>>().join(" "), chars_max)
}

/// A model's predicate in the form of ours.
fn predicate(text: &str) -> String {
    let words: Vec<String> =
        TextWords::of(&text.replace('_', " ")).words.into_iter().map(|word| word.text).collect();
    words.join("_").chars().take(limits::MOOD_CHARS_MAX).collect()
}

fn is_passing(text: &str) -> bool {
    let spoken = TextWords::of(text);
    !PASSING.find(&spoken).is_empty() && LASTING.find(&spoken).is_empty()
}

fn sentence(spoken: &TextWords<'_>, from: usize, end: usize, sequence: u64) -> Vec<Candidate> {
    let asks = spoken.text[spoken.words[end - 1].end..].trim_start().starts_with('?');
    let requested = REQUESTS.contains(&&*spoken.words[from].text);
    if (asks && !requested) || (stands(&PASSING, spoken, from, end) && !stands(&LASTING, spoken, from, end)) {
        return Vec::new();
    }
    let quote = clip(spoken.sentence_around(from), limits::QUOTE_CHARS_MAX);
    let candidate =
        |what, confidence, hold| Candidate { what, quote: quote.clone(), confidence, sequence, hold };
    if let Some((text, confidence)) = rule(spoken, from, end) {
        return vec![candidate(CandidateContent::Rule { text }, confidence, KeepCondition::AtEnd)];
    }
    if asks {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut at = from;
    while at < end {
        let supposed = at > from && SUPPOSED.contains(&&*spoken.words[at - 1].text);
        if let Some(low) = LOW.find_at(spoken, at).first() {
            if !supposed {
                let what = fact(SELF, "believes_of_self", (*low.what).to_owned(), Category::Belief);
                found.push(candidate(what, LOW_CONFIDENCE, KeepCondition::NeedsRepetition));
            }
            at = low.end;
        } else if let Some(hit) = fact_form(spoken, at) {
            if let Some(object) = object(spoken, &hit).filter(|_| !supposed) {
                let Form { subject, predicate, category, confidence, .. } = *hit.what;
                let what = fact(subject.unwrap_or(SELF), predicate, object, category);
                found.push(candidate(what, confidence, KeepCondition::AtEnd));
            }
            at = hit.end;
        } else if let Some((what, next)) = favourite(spoken, at, end) {
            found.push(candidate(what, FAVOURITE_CONFIDENCE, KeepCondition::AtEnd));
            at = next;
        } else if let Some((what, next)) = age(spoken, at, end) {
            found.push(candidate(what, AGE_CONFIDENCE, KeepCondition::AtEnd));
            at = next;
        } else {
            at += 1;
        }
    }
    found
}

/// Openings that make a question a request.
const REQUESTS: &[&str] =
    &["can", "could", "would", "will", "kannst", "konntest", "peux", "pourrais", "puedes", "podrias", "puoi"];
const LOW_CONFIDENCE: f32 = 0.4;
const FAVOURITE_CONFIDENCE: f32 = 0.8;
const AGE_CONFIDENCE: f32 = 0.85;

fn fact(subject: &str, predicate: &str, object: String, category: Category) -> CandidateContent {
    CandidateContent::Fact { subject: subject.to_owned(), predicate: predicate.to_owned(), object, category }
}

fn stands(phrases: &super::phrase::Phrases<()>, spoken: &TextWords<'_>, from: usize, end: usize) -> bool {
    (from..end).any(|at| !phrases.find_at(spoken, at).is_empty())
}

/// A rule opens its sentence; all of the sentence is what it says.
fn rule(spoken: &TextWords<'_>, from: usize, end: usize) -> Option<(String, f32)> {
    const POLITE: &[&str] = &[
        "please", "and", "also", "ok", "okay", "but", "so", "hey", "just", "could", "can", "would", "you",
        "bitte", "und", "kannst", "du", "sil", "te", "plait", "et", "por", "favor", "y", "per", "favore",
        "alsjeblieft",
    ];
    let start = (from..end).find(|at| !POLITE.contains(&&*spoken.words[*at].text))?;
    let hit = RULES.find_at(spoken, start).into_iter().next()?;
    // "Never mind", "always a pleasure", "call me later" sound like rules and ask for nothing.
    const TALK: &[&str] = &[
        "mind", "again", "a", "an", "the", "my", "i", "later", "back", "tomorrow", "when", "if", "crazy",
        "at", "on", "tonight", "had", "been", "happens", "wieder", "mehr", "ich", "mein", "je", "yo", "io",
        "ik",
    ];
    let next = spoken.words.get(hit.end).filter(|_| hit.end < end);
    let ambiguous = hit.end - hit.at == 1 || spoken.words[hit.at].text == "call";
    let standalone = hit.end - hit.at >= 2 && *hit.what <= 0.7;
    match next {
        Some(word) if ambiguous && TALK.contains(&&*word.text) => return None,
        None if !standalone => return None,
        _ => {}
    }
    Some((clip(spoken.between(start, end), limits::RULE_CHARS_MAX), *hit.what))
}

/// The words after a pattern that are its object, or nothing worth a fact.
fn object(spoken: &TextWords<'_>, hit: &PhraseMatch<'_, Form>) -> Option<String> {
    let limit = spoken.clause_end(hit.end).min(hit.end + hit.what.words_max + 1);
    let in_clause =
        spoken.words.get(hit.end).is_some_and(|word| word.clause == spoken.words[hit.end - 1].clause);
    if !in_clause {
        // A pattern that holds its object itself, such as "I'm vegan".
        let last = &spoken.words[hit.end - 1];
        let own = matches!(hit.what.predicate, "is") && !ARTICLES.contains(&&*last.text);
        return own.then(|| spoken.text[last.start..last.end].to_owned());
    }
    // "Two" in "I have two" is part of what one has.
    let counts = COUNTS.contains(&&*spoken.words[hit.end - 1].text);
    let mut from = hit.end - usize::from(counts);
    while from < limit && ARTICLES.contains(&&*spoken.words[from].text) {
        from += 1;
    }
    let mut to = from;
    while to < limit && to < from + hit.what.words_max && !BREAKS.contains(&&*spoken.words[to].text) {
        to += 1;
    }
    if hit.what.predicate == "works_as" {
        let place =
            spoken.slice(from, to).position(|word| matches!(word, "at" | "in" | "for" | "bei" | "chez"));
        to = place.map_or(to, |n| from + n);
    }
    while to > from && TRAILERS.contains(&&*spoken.words[to - 1].text) {
        to -= 1;
    }
    let said = spoken.between(from, to);
    // "Moved to" needs a name: one also moves to the back of a queue.
    let moved = spoken.slice(hit.at, hit.end).any(|word| word == "moved");
    let unnamed = moved && !said.starts_with(char::is_uppercase);
    if unnamed || spoken.slice(from, to).next().is_some_and(words::is_negation) {
        return None;
    }
    let meaning = words::set(said);
    let fleeting = meaning.iter().any(|word| FLEETING.contains(&&**word));
    (!meaning.is_empty() && !fleeting).then(|| clip(said, limits::OBJECT_CHARS_MAX))
}

/// The longest form that opens here; a comma inside it makes it another sentence ("no, como …").
fn fact_form<'t>(spoken: &TextWords<'_>, at: usize) -> Option<PhraseMatch<'t, Form>> {
    let whole = |hit: &PhraseMatch<'_, Form>| spoken.words[hit.at].clause == spoken.words[hit.end - 1].clause;
    FACTS.find_at(spoken, at).into_iter().find(whole)
}

const COUNTS: &[&str] = &["two", "three", "four", "zwei", "deux", "dos"];

/// "My favourite band is …": every kind of thing has its own favourite.
fn favourite(spoken: &TextWords<'_>, at: usize, end: usize) -> Option<(CandidateContent, usize)> {
    let words: Vec<&str> = spoken.slice(at, end).collect();
    let (kind, verb) = match words.as_slice() {
        ["my" | "mein" | "meine", adjective, kind, verb, ..] if adjective.starts_with("favo") => {
            (*kind, *verb)
        }
        ["mein" | "meine", compound, verb, ..] if compound.starts_with("lieblings") => {
            (compound.trim_start_matches("lieblings"), *verb)
        }
        ["mon" | "ma" | "mi", kind, adjective, verb, ..]
            if adjective.starts_with("favori") || adjective.starts_with("prefer") =>
        {
            (*kind, *verb)
        }
        _ => return None,
    };
    if !matches!(verb, "is" | "are" | "ist" | "sind" | "est" | "sont" | "es" | "son" | "e") || kind.is_empty()
    {
        return None;
    }
    let verb_at = at + words.iter().position(|word| *word == verb)?;
    let form = Form {
        subject: None,
        predicate: "favourite",
        category: Category::Preference,
        confidence: FAVOURITE_CONFIDENCE,
        words_max: 5,
    };
    let object = object(spoken, &PhraseMatch { at, end: verb_at + 1, what: &form })?;
    Some((fact(SELF, &format!("favourite_{kind}"), object, Category::Preference), verb_at + 1))
}

/// "I'm 34", "ich bin 34 Jahre alt", "j'ai 34 ans", "tengo 34 años".
fn age(spoken: &TextWords<'_>, at: usize, end: usize) -> Option<(CandidateContent, usize)> {
    let words: Vec<&str> = spoken.slice(at, end.min(at + 5)).collect();
    let (number, next) = match words.as_slice() {
        ["i", "am", n, "years", "old", ..] => (*n, 5),
        ["im", n, "years", "old", ..] => (*n, 4),
        ["im", n] => (*n, 2),
        ["i", "am", n] => (*n, 3),
        ["ich", "bin", n, "jahre", ..] => (*n, 4),
        ["jai", n, "ans", ..] => (*n, 3),
        ["tengo", n, "anos", ..] => (*n, 3),
        ["ho", n, "anni", ..] => (*n, 3),
        _ => return None,
    };
    let years: u32 = number.parse().ok().filter(|years| (5..=120).contains(years))?;
    Some((fact(SELF, "age", years.to_string(), Category::Identity), at + next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(message: &str) -> Vec<(String, String, String)> {
        let read = |candidate: Candidate| match candidate.what {
            CandidateContent::Fact { subject, predicate, object, .. } => Some((subject, predicate, object)),
            CandidateContent::Rule { .. } => None,
        };
        extract(message, 1).into_iter().filter_map(read).collect()
    }

    fn rules(message: &str) -> Vec<String> {
        let read = |candidate: Candidate| match candidate.what {
            CandidateContent::Rule { text } => Some(text),
            CandidateContent::Fact { .. } => None,
        };
        extract(message, 1).into_iter().filter_map(read).collect()
    }

    #[test]
    fn facts_are_read_in_several_languages() {
        let table = [
            ("My name is Zoë.", SELF, "name", "Zoë"),
            ("Hi, my name's Sam and I am new here", SELF, "name", "Sam"),
            ("I live in Graz now", SELF, "lives_in", "Graz"),
            ("Since May I live in the old town", SELF, "lives_in", "old town"),
            ("I work as a nurse at the city hospital", SELF, "works_as", "nurse"),
            ("I work for a small bakery because I love bread", SELF, "works_at", "small bakery"),
            ("I love green tea.", SELF, "likes", "green tea"),
            ("I don't like coriander", SELF, "dislikes", "coriander"),
            ("I hate loud music, it hurts", SELF, "dislikes", "loud music"),
            ("I prefer tea to coffee", SELF, "prefers", "tea to coffee"),
            ("I'm allergic to peanuts.", SELF, "allergic_to", "peanuts"),
            ("My sister is called Ana", "sister", "name", "Ana"),
            ("my dog's name is Bello", "dog", "name", "Bello"),
            ("I have a cat named Momo", "cat", "name", "Momo"),
            ("My brother lives in Oslo", "brother", "lives_in", "Oslo"),
            ("My wife is a teacher", "wife", "is", "teacher"),
            ("I have a red bicycle", SELF, "has", "red bicycle"),
            ("I'm vegan.", SELF, "is", "vegan"),
            ("I'm a carpenter", SELF, "is", "carpenter"),
            ("I'm 34 years old", SELF, "age", "34"),
            ("My favourite band is Neu", SELF, "favourite_band", "Neu"),
            ("I don't eat meat", SELF, "avoids", "meat"),
            ("My friends call me Sam", SELF, "name", "Sam"),
            ("I work in a bank", SELF, "works_at", "bank"),
            ("I have two kids", SELF, "has", "two kids"),
            ("I've got a new car", SELF, "has", "new car"),
            ("I moved to Lisbon last year", SELF, "lives_in", "Lisbon"),
            ("My birthday is on 3 May", SELF, "birthday", "3 May"),
            ("Ich heiße Jörg", SELF, "name", "Jörg"),
            ("Seit drei Jahren wohne ich in Köln.", SELF, "lives_in", "Köln"),
            ("Ich arbeite als Köchin bei einer Schule", SELF, "works_as", "Köchin"),
            ("Ich mag keine Pilze", SELF, "dislikes", "Pilze"),
            ("Meine Schwester heißt Eva", "schwester", "name", "Eva"),
            ("Ich bin allergisch gegen Nüsse", SELF, "allergic_to", "Nüsse"),
            ("Je m'appelle Léa", SELF, "name", "Léa"),
            ("J’habite à Lyon depuis mai", SELF, "lives_in", "Lyon"),
            ("Je n'aime pas le café", SELF, "dislikes", "café"),
            ("Mon chien s'appelle Rex", "chien", "name", "Rex"),
            ("J'ai 40 ans", SELF, "age", "40"),
            ("Me llamo Inés", SELF, "name", "Inés"),
            ("Vivo en Lima", SELF, "lives_in", "Lima"),
            ("No me gusta el queso", SELF, "dislikes", "queso"),
            ("Mi hermana se llama Rosa", "hermana", "name", "Rosa"),
            ("Soy alérgica a las nueces", SELF, "allergic_to", "nueces"),
        ];
        for (text, subject, predicate, object) in table {
            let found = facts(text);
            let expected = (subject.to_owned(), predicate.to_owned(), object.to_owned());
            assert!(found.contains(&expected), "{text}: {found:?}");
        }
    }

    #[test]
    fn what_is_no_fact_is_left_alone() {
        for text in [
            "Do you think I live in Graz?", "If I live in Graz I will be happy", "He said I am a carpenter",
            "I don't live in Graz", "I used to live in Graz", "I wish I lived in Graz", "I love you",
            "I like that", "I like it when it rains", "I'd like a coffee", "I have a question",
            "I have a bad feeling about this", "I feel sad and tired", "I am a bit tired", "I am sad",
            "Ich habe eine Frage", "J'ai un problème", "Tengo una pregunta", "I hate my life",
            "Just for now I prefer tea", "Today I like tea", "What is my name?", "My name is not important",
            "I really like how you explain things", "I have a lot to do", "I moved to the back of the queue",
            "", "…",
        ] {
            assert_eq!(extract(text, 1), vec![], "{text}");
        }
    }

    #[test]
    fn rules_are_read_and_passing_wishes_are_not() {
        let table = [
            ("Please always answer briefly.", Some("always answer briefly")),
            ("Never use emojis", Some("Never use emojis")),
            ("From now on, speak plainly", Some("From now on, speak plainly")),
            ("Call me Sam", Some("Call me Sam")),
            ("Don't ask me about my mother", Some("Don't ask me about my mother")),
            ("Please answer in German", Some("answer in German")),
            ("Answer in a friendly tone", Some("Answer in a friendly tone")),
            ("Keep it short", Some("Keep it short")),
            ("Bitte immer auf Deutsch antworten", Some("immer auf Deutsch antworten")),
            ("Can you always answer in French?", Some("always answer in French")),
            ("Do you always answer in French?", None),
            ("Nenn mich Jo", Some("Nenn mich Jo")),
            ("Réponds-moi en français", Some("Réponds-moi en français")),
            ("Llámame Pepe, por favor", Some("Llámame Pepe, por favor")),
            ("No me preguntes por mi padre", Some("No me preguntes por mi padre")),
            ("Starting today, always answer in French", None),
            ("Always answer in French, starting today", Some("Always answer in French, starting today")),
            ("Just for now, answer in French", None),
            ("Answer in French this time", None),
            ("Antworte auf Englisch, nur diesmal", None),
            ("Never mind", None),
            ("Always a pleasure", None),
            ("Call me later", None),
            ("Never", None),
            ("I never eat fish", None),
            ("She told me: call me Sam", None),
        ];
        for (text, rule) in table {
            let expected: Vec<String> = rule.map(str::to_owned).into_iter().collect();
            assert_eq!(rules(text), expected, "{text}");
        }
    }

    #[test]
    fn a_low_view_of_oneself_has_to_be_repeated() {
        for text in [
            "I am such a failure", "I'm worthless.", "Nobody likes me", "Ich bin nicht gut genug",
            "Je suis un fardeau", "No valgo nada", "I hate myself",
        ] {
            let found = extract(text, 4);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert_eq!(found[0].hold, KeepCondition::NeedsRepetition, "{text}");
            assert!(
                matches!(&found[0].what, CandidateContent::Fact { category: Category::Belief, .. }),
                "{text}"
            );
        }
        assert_eq!(extract("She said I'm worthless", 4), vec![]);
    }

    #[test]
    fn every_finding_names_its_sentence_and_its_message() {
        let found = extract("Good morning! I live in Graz. My sister is called Ana.", 7);
        let quotes: Vec<_> = found.iter().map(|one| (one.quote.as_str(), one.sequence)).collect();
        assert_eq!(quotes, [("I live in Graz.", 7), ("My sister is called Ana.", 7)]);
        assert!(found.iter().all(|one| (0.0..=1.0).contains(&one.confidence)));
    }

    #[test]
    fn a_model_s_findings_are_held_to_the_same_rules() {
        let message = "I moved to Oslo. I'm worthless. Answer in French this time. Always use short words.";
        let answer = r#"```json
        [{"kind":"fact","subject":"","predicate":"Lives in","object":"Oslo","quote":"I moved to Oslo.","confidence":3},
         {"kind":"fact","predicate":"believes","object":"worthless","quote":"I'm worthless."},
         {"kind":"rule","text":"answer in French","quote":"Answer in French this time."},
         {"kind":"rule","text":"use short\u0000 words","quote":"Always use short words."},
         {"kind":"rule","text":"use short words","quote":"Always use short words."},
         {"kind":"fact","predicate":"owns","object":"a yacht","quote":"I own a yacht"},
         {"kind":"fact","predicate":"","object":"x"},
         {"kind":"opinion","text":"x"}]
        ```"#;
        let found = read(answer, message, 5);
        let seen: Vec<_> = found.iter().map(|one| (one.what.text(), one.hold, one.confidence)).collect();
        assert_eq!(
            seen,
            [
                ("user lives in Oslo".to_owned(), KeepCondition::AtEnd, 1.0),
                ("user believes worthless".to_owned(), KeepCondition::NeedsRepetition, 0.5),
                ("use short words".to_owned(), KeepCondition::AtEnd, 0.5),
            ]
        );
        for nonsense in ["", "null", "{}", "Sure!", r#"[{"kind":5}]"#, "[1]"] {
            assert_eq!(read(nonsense, message, 5), vec![], "{nonsense}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_read_for_candidates(before in "\\PC{0,60}", after in "\\PC{0,60}") {
            for middle in ["I live in", "my name is", "always", "my favourite band is", "I'm"] {
                let text = format!("{before} {middle} {after}");
                let found = extract(&text, 1);
                proptest::prop_assert!(found.len() <= limits::EXTRACTED_MAX);
                proptest::prop_assert!(found.iter().all(|one| !one.quote.is_empty()));
            }
        }
    }

    #[test]
    fn one_message_yields_a_bounded_number_of_findings_each_once() {
        let many: String = (0..=limits::EXTRACTED_MAX).map(|n| format!("I love thing{n}. ")).collect();
        assert_eq!(extract(&many, 1).len(), limits::EXTRACTED_MAX);
        assert_eq!(extract("I live in Graz. I live in Graz!", 1).len(), 1);
        let late = format!("{}. I live in Graz.", "x".repeat(limits::EXTRACT_CHARS_MAX));
        assert_eq!(extract(&late, 1), vec![]);
    }
}
