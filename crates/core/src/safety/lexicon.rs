//! The check that needs no model: phrases of several languages, weighed by the words around them. A denial, a distant
//! memory, a figure of speech and another person's trouble weigh less than the words alone; "tonight" weighs more. In
//! doubt the check asks rather than ignores.

use std::sync::LazyLock;

use super::around::{AGAIN, BRIDGES, DOUBLE, FICTION, FIRST, IMMINENT, LIGHT, NEGATORS, OTHERS, PAST, SAYS};
use super::codes::{CrisisFlag, ReasonCode};
use super::phrases::{DUTCH, ENGLISH, FRENCH, GERMAN, IDIOMS, ITALIAN, PORTUGUESE, SPANISH};
use super::{ExtraPhrase, Level};
use crate::limits;
use crate::memory::phrase::{Phrases, TextWords};

/// The result of weighing a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub level: Level,
    pub confidence: f32,
    pub reason_code: ReasonCode,
    pub flags: Vec<CrisisFlag>,
}

/// Whom a phrase is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhraseSubject {
    /// The speaker, by the phrase's own grammar.
    Me,
    Other,
    /// The person whom the sentence names before it.
    Open,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    level: Level,
    code: ReasonCode,
    who: PhraseSubject,
    ends_clause: bool,
}

/// Weighs a message. `extra` are phrases of the installation's own; words in `allowed` are passed over.
pub fn weigh(text: &str, extra: &[ExtraPhrase], allowed: &[String]) -> Finding {
    let spoken = TextWords::of(text);
    let mut flags: Vec<CrisisFlag> = Vec::new();
    let idioms = spans(&IDIOM, &spoken);
    let passed = spans(&Phrases::new(allowed.iter().map(|text| (text.as_str(), ()))), &spoken);
    let own = Phrases::new(extra.iter().map(|phrase| {
        let code = phrase.reason_code.unwrap_or(ReasonCode::Configured);
        (
            phrase.text.as_str(),
            Entry { level: phrase.level, code, who: PhraseSubject::Open, ends_clause: false },
        )
    }));
    let mut hits: Vec<_> = LEXICON.find(&spoken).into_iter().chain(own.find(&spoken)).collect();
    hits.retain(|hit| !hit.what.ends_clause || ends_clause(&spoken, hit.end));
    hits.sort_by_key(|hit| (hit.at, std::cmp::Reverse(hit.end)));
    let mut widest = (0, 0);
    hits.retain(|hit| {
        // A phrase inside a longer matched phrase is not counted again.
        let inside = hit.end < widest.1 || (hit.end == widest.1 && hit.at > widest.0);
        if hit.end > widest.1 {
            widest = (hit.at, hit.end);
        }
        !inside
    });
    // The gravest first, so that many lesser hits cannot crowd it out.
    hits.sort_by_key(|hit| std::cmp::Reverse(hit.what.level));
    let mut best: Option<(Level, ReasonCode)> = None;
    let mut signals: Vec<(usize, usize)> = Vec::new();
    for hit in hits.into_iter().take(limits::CRISIS_HITS_MAX) {
        if covered(&passed, hit.at, hit.end, 0) {
            note(&mut flags, CrisisFlag::Allowed);
            continue;
        }
        if covered(&idioms, hit.at, hit.end, hit.end - hit.at) {
            note(&mut flags, CrisisFlag::Idiom);
            continue;
        }
        let (level, code) = in_context(&spoken, hit.at, hit.end, *hit.what, &mut flags);
        if level == Level::Calm {
            continue;
        }
        if signals.len() < 2 && !signals.iter().any(|(at, end)| hit.at < *end && *at < hit.end) {
            signals.push((hit.at, hit.end));
        }
        if best.is_none_or(|(known, _)| level > known) {
            best = Some((level, code));
        }
    }
    if signals.len() > 1 {
        note(&mut flags, CrisisFlag::SeveralSignals);
    }
    flags.sort_unstable();
    let (level, reason_code) = best.unwrap_or((Level::Calm, ReasonCode::NoSignal));
    Finding { level, confidence: confidence(level, &flags), reason_code, flags }
}

fn in_context(
    spoken: &TextWords<'_>,
    at: usize,
    end: usize,
    entry: Entry,
    flags: &mut Vec<CrisisFlag>,
) -> (Level, ReasonCode) {
    let ideation = matches!(
        entry.code,
        ReasonCode::PassiveIdeation
            | ReasonCode::ActiveIdeation
            | ReasonCode::PlanOrMeans
            | ReasonCode::ThirdParty
    );
    let imminent = ideation && in_sentence(&IMMINENT, spoken, at);
    let others = match entry.who {
        PhraseSubject::Me => is_reported(spoken, at),
        PhraseSubject::Other => true,
        PhraseSubject::Open => is_reported(spoken, at) || is_about_others(spoken, at),
    };
    let light = is_light(spoken, at);
    if others {
        note(flags, CrisisFlag::ThirdPerson);
        if in_sentence(&FICTION, spoken, at) {
            note(flags, CrisisFlag::Idiom);
            return (Level::Calm, ReasonCode::NoSignal);
        }
        let code = if entry.code == ReasonCode::HarmToOthers { entry.code } else { ReasonCode::ThirdParty };
        if imminent {
            note(flags, CrisisFlag::Imminent);
            return (Level::Serious, code);
        }
        return (Level::Concern.min(entry.level), code);
    }
    if is_negated(spoken, at) {
        note(flags, CrisisFlag::Negated);
        let grave = entry.level.is_crisis() && !light;
        return (if grave { Level::Concern } else { Level::Calm }, entry.code);
    }
    if imminent {
        note(flags, CrisisFlag::Imminent);
        return (if entry.level.is_crisis() { Level::Acute } else { entry.level }, entry.code);
    }
    if in_sentence(&PAST, spoken, at) && !in_sentence(&AGAIN, spoken, end - 1) {
        note(flags, CrisisFlag::Past);
        return (entry.level.min(Level::Concern), entry.code);
    }
    if light {
        note(flags, CrisisFlag::Idiom);
        return (Level::of(entry.level.number().saturating_sub(1)).unwrap_or_default(), entry.code);
    }
    (entry.level, entry.code)
}

fn confidence(level: Level, flags: &[CrisisFlag]) -> f32 {
    let base: f32 = match level {
        Level::Calm => 0.5,
        Level::Concern => 0.5,
        Level::Serious => 0.75,
        Level::Acute => 0.9,
    };
    let surer = flags.contains(&CrisisFlag::Imminent) || flags.contains(&CrisisFlag::SeveralSignals);
    if surer && level.is_crisis() { base + 0.05 } else { base }
}

fn note(flags: &mut Vec<CrisisFlag>, flag: CrisisFlag) {
    if !flags.contains(&flag) {
        flags.push(flag);
    }
}

/// Whether the clause ends before this word.
fn ends_clause(spoken: &TextWords<'_>, end: usize) -> bool {
    spoken.words.get(end).is_none_or(|next| next.clause != spoken.words[end - 1].clause)
}

fn spans(phrases: &Phrases<()>, spoken: &TextWords<'_>) -> Vec<(usize, usize)> {
    phrases.find(spoken).iter().map(|hit| (hit.at, hit.end)).collect()
}

/// Whether words lie within a span, or overlap one of at least `long` words. Spans are in order.
fn covered(spans: &[(usize, usize)], at: usize, end: usize, long: usize) -> bool {
    let first = spans.partition_point(|(from, _)| from + REACH <= at);
    spans[first..].iter().take_while(|(from, _)| *from < end).any(|(from, to)| {
        let inside = *from <= at && end <= *to;
        inside || (long > 0 && at < *to && to - from >= long)
    })
}

/// Whether a phrase occurs in the sentence of this word, within [`REACH`] words.
fn in_sentence(phrases: &Phrases<()>, spoken: &TextWords<'_>, at: usize) -> bool {
    let sentence = spoken.words[at].sentence;
    let around = at.saturating_sub(REACH)..(at + REACH).min(spoken.words.len());
    around
        .into_iter()
        .any(|near| spoken.words[near].sentence == sentence && !phrases.find_at(spoken, near).is_empty())
}

/// How many words on either side are looked at.
const REACH: usize = 20;

/// The words before this one in its sentence, nearest first.
fn before<'s>(spoken: &'s TextWords<'_>, at: usize, count: usize) -> impl Iterator<Item = (usize, &'s str)> {
    let sentence = spoken.words[at].sentence;
    (at.saturating_sub(count)..at)
        .rev()
        .map(|near| &spoken.words[near])
        .take_while(move |word| word.sentence == sentence)
        .map(|word| (word.clause, word.text.as_str()))
}

/// "I don't want to …": a denial reaches over words such as *want* and *going to*, not over *know why*.
fn is_negated(spoken: &TextWords<'_>, at: usize) -> bool {
    let clause = spoken.words[at].clause;
    let words: Vec<&str> =
        before(spoken, at, 9).take_while(|(near, _)| *near == clause).map(|(_, word)| word).collect();
    let Some(first) = words.iter().position(|word| !BRIDGES.contains(word)) else { return false };
    if !NEGATORS.contains(&words[first]) {
        return false;
    }
    let rest = &words[first + 1..];
    let asks = rest.first().is_some_and(|word| *word == "why" || *word == "warum");
    let twice = rest.iter().take(3).any(|word| DOUBLE.contains(word));
    !asks && !twice
}

/// Whether the last person named before these words is another than the speaker.
fn is_about_others(spoken: &TextWords<'_>, at: usize) -> bool {
    before(spoken, at, 7)
        .find_map(|(_, word)| {
            if FIRST.contains(&word) {
                Some(false)
            } else if OTHERS.contains(&word) {
                Some(true)
            } else {
                None
            }
        })
        .unwrap_or(false)
}

/// "She said I …": another person's words.
fn is_reported(spoken: &TextWords<'_>, at: usize) -> bool {
    let words: Vec<&str> = before(spoken, at, 9).map(|(_, word)| word).collect();
    words.windows(2).any(|pair| SAYS.contains(&pair[0]) && OTHERS.contains(&pair[1]))
}

fn is_light(spoken: &TextWords<'_>, at: usize) -> bool {
    const LAUGHTER: &[char] = &['😂', '🤣', '😆', '😹'];
    let reach = at.saturating_sub(REACH)..(at + REACH).min(spoken.words.len());
    let from = spoken.words[reach.start].start;
    let to = spoken.words.get(reach.end).map_or(spoken.text.len(), |word| word.start);
    spoken.text[from..to].contains(LAUGHTER)
        || reach.into_iter().any(|near| {
            let word = spoken.words[near].text.as_str();
            LIGHT.contains(&word) || word.starts_with("haha")
        })
}

static LEXICON: LazyLock<Phrases<Entry>> = LazyLock::new(|| {
    let tables = [ENGLISH, GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE, DUTCH];
    Phrases::new(tables.into_iter().flatten().flat_map(|(level, code, who, texts)| {
        texts.iter().map(move |text| {
            let level = Level::of(*level).unwrap_or_default();
            let entry = Entry { level, code: *code, who: *who, ends_clause: text.ends_with('$') };
            (text.trim_end_matches('$'), entry)
        })
    }))
});

/// The languages of the lexicon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    #[default]
    English,
    German,
    French,
    Spanish,
    Italian,
    Portuguese,
    Dutch,
}

/// The language of the longest lexicon phrase in a message; English without one.
pub fn language_of(text: &str) -> Language {
    let spoken = TextWords::of(text);
    let hits = LANGUAGES.find(&spoken);
    // Among equally long phrases the first table wins, so that a word of two languages counts as English.
    let longest = hits.iter().max_by_key(|hit| (hit.end - hit.at, std::cmp::Reverse(*hit.what as u8)));
    longest.map(|hit| *hit.what).unwrap_or_default()
}

static LANGUAGES: LazyLock<Phrases<Language>> = LazyLock::new(|| {
    let tables = [
        (ENGLISH, Language::English),
        (GERMAN, Language::German),
        (FRENCH, Language::French),
        (SPANISH, Language::Spanish),
        (ITALIAN, Language::Italian),
        (PORTUGUESE, Language::Portuguese),
        (DUTCH, Language::Dutch),
    ];
    Phrases::new(tables.into_iter().flat_map(|(table, language)| {
        let texts = table.iter().flat_map(|(.., texts)| texts.iter());
        texts.map(move |text| (text.trim_end_matches('$'), language))
    }))
});

static IDIOM: LazyLock<Phrases<()>> = LazyLock::new(|| Phrases::new(IDIOMS.iter().map(|text| (*text, ()))));

#[cfg(test)]
mod tests {
    use super::*;

    fn level(text: &str) -> u8 {
        weigh(text, &[], &[]).level.number()
    }

    #[test]
    fn what_is_said_of_oneself_is_weighed() {
        let table = [
            (3, "I want to kill myself"),
            (3, "I'm going to end my life tonight."),
            (3, "i cant stop thinking about killing myself"),
            (3, "I don't know why I want to kill myself"),
            (3, "I have no reason not to kill myself"),
            (3, "I want to die tonight"),
            (3, "I wrote a suicide note"),
            (3, "I took all my pills"),
            (3, "I am going to commit suicide"),
            (3, "I will hang myself"),
            (2, "I want to kill myself lol"),
            (2, "I was just kidding about killing myself"),
            (2, "I want to go to sleep and never wake up"),
            (2, "Nobody would miss me"),
            (2, "Everyone would be better off if I were dead"),
            (1, "what is the lethal dose of paracetamol"),
            (1, "There's no point anymore"),
            (2, "I don't want to live"),
            (2, "I don’t want to live anymore"),
            (2, "I do not want to live in this world anymore... I don't want to live"),
            (2, "I don't want to live in this world"),
            (2, "I just want to die"),
            (2, "Everyone would be better off without me"),
            (2, "I wish I was dead"),
            (2, "I feel suicidal"),
            (2, "There is no reason to live"),
            (2, "I keep cutting myself"),
            (2, "I want to hurt myself"),
            (2, "I want to kill him"),
            (1, "I feel so hopeless"),
            (1, "I can't take it anymore"),
            (1, "I can't go on"),
            (1, "I had a panic attack"),
            (1, "I hate my life"),
            (1, "I'm not going to kill myself"),
            (1, "I would never kill myself"),
            (1, "I don't want to die"),
            (1, "When I was 15 I tried to kill myself"),
            (1, "I used to cut myself"),
            (3, "Years ago I tried, and now I want to kill myself again"),
        ];
        for (expected, text) in table {
            assert_eq!(level(text), expected, "{text}: {:?}", weigh(text, &[], &[]));
        }
    }

    #[test]
    fn the_language_is_that_of_the_words_that_were_recognised() {
        let table = [
            (Language::English, "I want to kill myself"),
            (Language::German, "Ich will nicht mehr leben"),
            (Language::French, "je veux me tuer"),
            (Language::Spanish, "quiero morir"),
            (Language::Italian, "voglio uccidermi"),
            (Language::Portuguese, "quero me matar"),
            (Language::Dutch, "ik wil niet meer leven"),
            (Language::English, "Guten Tag, wie geht es?"),
        ];
        for (language, text) in table {
            assert_eq!(language_of(text), language, "{text}");
        }
    }

    #[test]
    fn the_lexicon_speaks_seven_languages() {
        let table = [
            (3, "Ich will mich umbringen"),
            (3, "Ich bringe mich um"),
            (3, "Ich denke daran, mir das Leben zu nehmen"),
            (2, "Ich will nicht mehr leben"),
            (2, "ich moechte sterben, ich möchte sterben"),
            (2, "Ich habe Selbstmordgedanken"),
            (1, "Ich kann nicht mehr."),
            (1, "Ich will mich nicht umbringen"),
            (3, "Je veux me tuer"),
            (3, "J'ai envie de me suicider"),
            (2, "Je veux mourir"),
            (2, "je ne veux plus vivre"),
            (1, "Je n'en peux plus"),
            (1, "Je ne veux pas me tuer"),
            (3, "Quiero matarme"),
            (3, "Me voy a suicidar"),
            (2, "Quiero morir"),
            (2, "No quiero vivir más"),
            (2, "Ya no quiero vivir"),
            (1, "No quiero matarme"),
            (3, "Voglio uccidermi"),
            (3, "Mi voglio uccidere"),
            (2, "Je pense au suicide"),
            (2, "Ich bin des Lebens müde"),
            (2, "Ich habe keine Lust mehr zu leben"),
            (1, "Quiero desaparecer"),
            (1, "Ik zie het niet meer zitten"),
            (1, "Ich bringe ihn um"),
            (2, "Voglio morire"),
            (2, "Non voglio più vivere"),
            (3, "Quero me matar"),
            (2, "Não quero mais viver"),
            (3, "Ik ga zelfmoord plegen"),
            (2, "Ik wil dood"),
            (2, "Ik wil niet meer leven"),
        ];
        for (expected, text) in table {
            assert_eq!(level(text), expected, "{text}: {:?}", weigh(text, &[], &[]));
        }
    }

    #[test]
    fn somebody_else_s_trouble_is_asked_about() {
        let table = [
            (1, "My friend wants to kill himself"),
            (1, "My sister is suicidal"),
            (1, "I think my brother is suicidal"),
            (1, "She said she wants to die"),
            (1, "She said I should kill myself"),
            (1, "My therapist asked if I am suicidal"),
            (1, "My uncle committed suicide"),
            (1, "Er will sich umbringen"),
            (1, "Mein Bruder will nicht mehr leben"),
            (1, "Ma mère veut mourir"),
            (1, "Mi hermano quiere suicidarse"),
            (1, "Hij wil dood"),
            (2, "My friend is going to kill himself tonight"),
            (0, "In the movie he kills himself at the end"),
            (0, "I'm writing a novel where the hero commits suicide"),
            (0, "The character in this book wants to die"),
        ];
        for (expected, text) in table {
            let found = weigh(text, &[], &[]);
            assert_eq!(found.level.number(), expected, "{text}: {found:?}");
            assert!(found.flags.contains(&CrisisFlag::ThirdPerson), "{text}");
        }
    }

    #[test]
    fn false_friends_are_let_pass() {
        for text in [
            "I'm dying to see you",
            "This is killing me 😂",
            "My back is killing me",
            "My mom is going to kill me",
            "I would kill for a coffee",
            "That cake is to die for",
            "I almost died laughing",
            "I was killing myself laughing",
            "I want to die of embarrassment",
            "I was bored to death",
            "We watched Suicide Squad",
            "That would be career suicide",
            "I cut myself shaving",
            "I should cut myself some slack",
            "I hurt myself playing football",
            "I don't want to live in Berlin",
            "I don't want to live with my parents anymore",
            "I'm hopeless at maths",
            "I can't go on holiday this year",
            "Kill the process with signal 9",
            "How do I kill a child process?",
            "The deadline is killing me",
            "I overdosed on chocolate",
            "I shot myself in the foot with that commit, don't let me shoot myself in the foot again",
            "skill myself up",
            "Ich lache mich tot",
            "Ich kann nicht mehr warten",
            "Ohne Kaffee kann ich nicht mehr leben",
            "Die Hitze bringt mich um",
            "C'est à mourir de rire",
            "Ma mère va me tuer",
            "Je ne veux plus vivre à Paris",
            "J'ai envie de vivre",
            "Mi madre va a matarme",
            "Me muero de hambre",
            "Me quiero morir de la vergüenza",
            "I want to kill this bug",
            "I'm dead tired",
            "I could die of happiness",
            "I'd rather die than eat that",
            "Tengo que cortarme el pelo",
            "No quiero vivir en Madrid",
            "Muoio di fame",
            "Estou morrendo de rir",
            "Ik lach me dood",
            "I live for this",
            "Hello!",
            "",
        ] {
            assert_eq!(level(text), 0, "{text}: {:?}", weigh(text, &[], &[]));
        }
    }

    #[test]
    fn a_finding_says_why_and_no_more() {
        let found = weigh("I want to die tonight. I will kill myself.", &[], &[]);
        assert_eq!(found.flags, [CrisisFlag::Imminent, CrisisFlag::SeveralSignals]);
        assert_eq!(found.level, Level::Acute);
        assert!(found.confidence > 0.9);
        assert_eq!(weigh("I took an overdose", &[], &[]).reason_code, ReasonCode::Overdose);
        assert_eq!(weigh("nice day", &[], &[]).reason_code, ReasonCode::NoSignal);
    }

    #[test]
    fn an_installation_adds_its_own_phrases_and_passes_over_others() {
        let extra = [ExtraPhrase { text: "go to the lake".into(), level: Level::Serious, reason_code: None }];
        let found = weigh("I will go to the lake", &extra, &[]);
        assert_eq!((found.level, found.reason_code), (Level::Serious, ReasonCode::Configured));
        let allowed = ["kill myself in the game".to_owned()];
        let passed = weigh("I had to kill myself in the game", &[], &allowed);
        assert_eq!((passed.level, passed.flags.as_slice()), (Level::Calm, &[CrisisFlag::Allowed][..]));
        assert_eq!(weigh("I will kill myself", &[], &allowed).level, Level::Acute);
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_weighed(text in "\\PC{0,200}", glue in "[ .,!?'’\n]{0,3}") {
            let mixed = format!("{text}{glue}I don't want to kill myself{glue}{text}");
            proptest::prop_assert!(weigh(&mixed, &[], &[]).confidence <= 1.0);
        }
    }

    #[test]
    fn a_message_of_any_length_is_weighed_to_its_end() {
        let text = format!("{} I want to kill myself", "and so on, ".repeat(20_000));
        assert_eq!(level(&text), 3);
        let flood = format!("{}I want to kill myself", "hopeless. ".repeat(limits::CRISIS_HITS_MAX + 1));
        assert_eq!(level(&flood), 3);
    }
}
