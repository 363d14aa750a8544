//! Summarises a sitting from its transcript by rules: the way that works without a model. A model's own summary is
//! read here too, strictly, and cut to the same shape.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use super::phrase::TextWords;
use super::themes::{ARTICLES, MOODS, NEUTRAL, RELIEVED, RESOLVED, SOFTENED, THEMES, TO_DO};
use super::{MemorySource, StoryArc, clip, words};
use crate::limits;
use crate::time::Timestamp;

/// One line of the transcript: whether the user said it, and what was said.
pub type Line<'a> = (bool, &'a str);

/// The content of an arc, apart from when and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub themes: Vec<String>,
    pub summary: String,
    pub mood_opened: String,
    pub mood_closed: String,
    pub open_loops: Vec<String>,
    pub resolved_threads: Vec<String>,
}

/// The facts about the sitting that only the server knows.
#[derive(Clone, Debug)]
pub struct SittingFacts {
    pub session: String,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub turn_count: u32,
    pub approach: Option<String>,
    pub crisis_level_max: u8,
    pub mentioned: Vec<String>,
    pub sequences: Vec<u64>,
}

impl Summary {
    pub fn into_arc(self, frame: SittingFacts) -> StoryArc {
        let mut sources = Vec::new();
        MemorySource::add(&mut sources, &frame.session, frame.sequences);
        StoryArc {
            session: frame.session,
            started_at: frame.started_at,
            ended_at: frame.ended_at,
            turn_count: frame.turn_count,
            themes: self.themes,
            summary: self.summary,
            mood_opened: self.mood_opened,
            mood_closed: self.mood_closed,
            open_loops: self.open_loops,
            resolved_threads: self.resolved_threads,
            approach: frame.approach,
            crisis_level_max: frame.crisis_level_max,
            mentioned: frame.mentioned,
            sources,
        }
    }
}

/// A sitting of fewer user turns is not worth an arc.
const TURNS_MIN: usize = 2;

/// Summarises a sitting; `None` for a short one.
pub fn summarise(transcript: &[Line<'_>]) -> Option<Summary> {
    let said: Vec<&str> = transcript.iter().filter(|(is_user, _)| *is_user).map(|(_, text)| *text).collect();
    let said: Vec<&str> = said.into_iter().filter(|text| text.chars().any(char::is_alphanumeric)).collect();
    if said.len() < TURNS_MIN {
        return None;
    }
    let themes = themes(&said);
    let (mood_opened, mood_closed) = moods(&said);
    let (open_loops, resolved_threads) = threads(transcript);
    let about = if themes.is_empty() { "several things".to_owned() } else { listed(&themes) };
    let mut summary = format!("Talked about {about} over {} turns.", said.len());
    if (mood_opened, mood_closed) != (NEUTRAL, NEUTRAL) {
        summary.push_str(&format!(" The mood was {mood_opened} at first and {mood_closed} at the end."));
    }
    if let Some(sentence) = telling_sentence(&said, &themes) {
        summary.push_str(&format!(" In their words: “{}”", clip(sentence, limits::QUOTE_CHARS_MAX)));
    }
    Some(Summary {
        themes,
        summary: clip(&summary, limits::SUMMARY_CHARS_MAX),
        mood_opened: mood_opened.to_owned(),
        mood_closed: mood_closed.to_owned(),
        open_loops,
        resolved_threads,
    })
}

/// A model's answer when it was asked to summarise a sitting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SummaryAnswer {
    Told(Summary),
    /// It found nothing to summarise.
    Declined,
    Unreadable,
}

/// Reads a model's answer: one JSON object of the arc's fields, alone or in a code fence, or `null`. Lists and texts
/// that are too long are cut; what only the server knows is never taken from it.
pub fn read(model_text: &str) -> SummaryAnswer {
    #[derive(Deserialize)]
    struct SummaryFields {
        #[serde(default)]
        thin: bool,
        #[serde(default)]
        themes: Vec<String>,
        #[serde(default)]
        summary: String,
        #[serde(default)]
        mood_opened: String,
        #[serde(default)]
        mood_closed: String,
        #[serde(default)]
        open_loops: Vec<String>,
        #[serde(default)]
        resolved_threads: Vec<String>,
    }
    let told = match serde_json::from_str::<Option<SummaryFields>>(super::unfenced(model_text)) {
        Ok(Some(told)) if !told.thin => told,
        Ok(_) => return SummaryAnswer::Declined,
        Err(_) => return SummaryAnswer::Unreadable,
    };
    let summary = tidy(&told.summary, limits::SUMMARY_CHARS_MAX);
    if summary.is_empty() {
        return SummaryAnswer::Unreadable;
    }
    let mood = |text: &str| {
        let mood = tidy(text, limits::MOOD_CHARS_MAX);
        if mood.is_empty() { NEUTRAL.to_owned() } else { mood }
    };
    SummaryAnswer::Told(Summary {
        themes: tidy_list(&told.themes, limits::THEMES_MAX, limits::MOOD_CHARS_MAX),
        summary,
        mood_opened: mood(&told.mood_opened),
        mood_closed: mood(&told.mood_closed),
        open_loops: tidy_list(&told.open_loops, limits::THREADS_MAX, limits::THREAD_CHARS_MAX),
        resolved_threads: tidy_list(&told.resolved_threads, limits::THREADS_MAX, limits::THREAD_CHARS_MAX),
    })
}

fn tidy(text: &str, chars_max: usize) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clip(&plain.split_whitespace().collect::<Vec<_>>().join(" "), chars_max)
}

fn tidy_list(list: &[String], max: usize, chars_max: usize) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for text in list.iter().map(|text| tidy(text, chars_max)) {
        if kept.len() < max && !text.is_empty() && !kept.contains(&text) {
            kept.push(text);
        }
    }
    kept
}

/// The themes that were mentioned most; where none is known, the words that came up again.
fn themes(said: &[&str]) -> Vec<String> {
    let mut counts: HashMap<String, (usize, usize)> = HashMap::new();
    let all: Vec<String> = said.iter().flat_map(|text| words::meaningful(text)).collect();
    for (place, word) in all.iter().enumerate() {
        if let Some(theme) = THEMES.get(word.as_str()) {
            counts.entry((*theme).to_owned()).or_insert((0, place)).0 += 1;
        }
    }
    let mut themes = most_frequent(counts, 1);
    let mut again: HashMap<String, (usize, usize)> = HashMap::new();
    let named = things_named(said);
    for (place, word) in all.into_iter().enumerate() {
        let usable = (4..=limits::MOOD_CHARS_MAX).contains(&word.chars().count())
            && named.contains(&word)
            && !THEMES.contains_key(word.as_str())
            && !MOODS.contains_key(word.as_str());
        if usable {
            again.entry(word).or_insert((0, place)).0 += 1;
        }
    }
    themes.extend(most_frequent(again, 2));
    themes.truncate(limits::THEMES_MAX);
    themes
}

/// Nouns, as far as their place tells: after an article or the like, or written as a name is. Verbs such as "called"
/// or "feel" occur in neither place.
fn things_named(said: &[&str]) -> HashSet<String> {
    let mut named = HashSet::new();
    for text in said {
        let spoken = TextWords::of(text);
        for pair in spoken.words.windows(2) {
            let [before, word] = pair else { continue };
            if before.sentence != word.sentence {
                continue;
            }
            let is_name = text[word.start..].chars().next().is_some_and(char::is_uppercase);
            if is_name || ARTICLES.contains(&before.text.as_str()) {
                named.extend(words::meaningful(&word.text));
            }
        }
    }
    named
}

/// By count, then by first occurrence.
fn most_frequent(counts: HashMap<String, (usize, usize)>, min: usize) -> Vec<String> {
    let mut counted: Vec<_> = counts.into_iter().filter(|(_, (count, _))| *count >= min).collect();
    counted.sort_by_key(|(_, (count, place))| (std::cmp::Reverse(*count), *place));
    counted.into_iter().map(|(word, _)| word).collect()
}

/// The first mood and the last one in these messages.
fn moods(said: &[&str]) -> (&'static str, &'static str) {
    let voiced: Vec<(usize, &'static str)> =
        said.iter().enumerate().filter_map(|(turn, text)| Some((turn, mood(text)?))).collect();
    let half = said.len().div_ceil(2);
    let opened = voiced.first().filter(|(turn, _)| *turn < half).map_or(NEUTRAL, |(_, mood)| mood);
    let closed = voiced.last().filter(|(turn, _)| *turn >= half).map_or(opened, |(_, mood)| mood);
    (opened, closed)
}

/// The last mood in a message. "Not sad" is none, "less sad" is relief.
fn mood(text: &str) -> Option<&'static str> {
    let spoken = TextWords::of(text);
    let mut found = None;
    for (at, word) in spoken.words.iter().enumerate() {
        let Some(mood) = MOODS.get(word.text.as_str()) else { continue };
        let before: Vec<&str> = spoken.slice(at.saturating_sub(2), at).collect();
        if before.iter().any(|word| words::is_negation(word)) {
            continue;
        }
        let softened = before.last().is_some_and(|word| SOFTENED.contains(word));
        found = Some(if softened { RELIEVED } else { *mood });
    }
    found
}

/// What was left open, and what was settled. An unanswered question is open, and so is what the person means to do,
/// until they say that it is done.
fn threads(transcript: &[Line<'_>]) -> (Vec<String>, Vec<String>) {
    let mut open: Vec<String> = Vec::new();
    let mut resolved: Vec<String> = Vec::new();
    for (at, (is_user, text)) in transcript.iter().enumerate() {
        if !is_user {
            continue;
        }
        let answered = transcript[at + 1..].iter().any(|(is_user, _)| !is_user);
        for sentence in sentences(text) {
            let spoken = TextWords::of(sentence);
            let line = clip(sentence, limits::THREAD_CHARS_MAX);
            if !RESOLVED.find(&spoken).is_empty() {
                let done = words::set(sentence);
                open.retain(|thread| words::shared(&words::set(thread), &done) == 0);
                resolved.push(line);
            } else if (sentence.ends_with('?') && !answered)
                || (!sentence.ends_with('?') && !TO_DO.find(&spoken).is_empty())
            {
                open.push(line);
            }
        }
    }
    let latest = |mut list: Vec<String>| {
        list.dedup();
        list.split_off(list.len().saturating_sub(limits::THREADS_MAX))
    };
    (latest(open), latest(resolved))
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(['.', '!', '?', '\n', '。', '？', '！'])
        .map(str::trim)
        .filter(|sentence| sentence.chars().any(char::is_alphanumeric))
}

/// The sentence that says most about the themes.
fn telling_sentence<'a>(said: &[&'a str], themes: &[String]) -> Option<&'a str> {
    let score = |sentence: &str| {
        let words = words::meaningful(sentence);
        let on_theme = |word: &&String| {
            let theme = THEMES.get(word.as_str()).copied().unwrap_or(word.as_str());
            themes.iter().any(|known| known == theme)
        };
        words.iter().filter(on_theme).count()
    };
    let all = said.iter().flat_map(|text| sentences(text)).filter(|sentence| !sentence.ends_with('?'));
    let best = all.map(|sentence| (score(sentence), sentence)).filter(|(score, _)| *score > 0);
    best.reduce(|best, one| if one.0 > best.0 { one } else { best }).map(|(_, sentence)| sentence)
}

/// "a", "a and b", "a, b and c".
pub fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thin_sitting_has_no_arc() {
        assert_eq!(summarise(&[]), None);
        assert_eq!(summarise(&[(true, "Work is hard"), (false, "Tell me more"), (true, " … ")]), None);
        assert_eq!(summarise(&[(false, "Hello"), (false, "Are you there?")]), None);
        assert!(summarise(&[(true, "Hi"), (true, "Bye")]).is_some());
    }

    #[test]
    fn a_sitting_is_told_with_themes_moods_and_threads() {
        let told = summarise(&[
            (true, "I'm so anxious about my job. My boss shouts at me."),
            (false, "That sounds hard."),
            (true, "I need to call the landlord. I can't sleep before work."),
            (false, "What would help?"),
            (true, "I called the landlord, that is done. I will talk to my boss tomorrow."),
            (false, "Good."),
            (true, "I feel calmer now. Should I write to him first?"),
        ])
        .unwrap();
        assert_eq!(told.themes, ["work", "anxiety", "sleep"]);
        assert_eq!((told.mood_opened.as_str(), told.mood_closed.as_str()), ("anxious", "calm"));
        assert_eq!(told.open_loops, ["I will talk to my boss tomorrow.", "Should I write to him first?"]);
        assert_eq!(told.resolved_threads, ["I called the landlord, that is done."]);
        assert!(
            told.summary.starts_with("Talked about work, anxiety and sleep over 4 turns."),
            "{}",
            told.summary
        );
    }

    #[test]
    fn moods_are_read_with_their_negations_and_in_several_languages() {
        let table = [
            ("I am sad", Some("sad")),
            ("I'm not sad", None),
            ("I feel less anxious", Some(RELIEVED)),
            ("Ich bin so müde", Some("tired")),
            ("Ich bin nicht traurig", None),
            ("Je suis en colère", Some("angry")),
            ("Estoy triste", Some("sad")),
            ("It is raining", None),
        ];
        for (text, expected) in table {
            assert_eq!(mood(text), expected, "{text}");
        }
    }

    #[test]
    fn themes_are_things_and_not_what_is_said_of_them() {
        for (said, themes) in [
            (["My dog is called Rex", "He is called Rex by my aunt"], vec![]),
            (["I feel so odd", "I feel it again"], vec![]),
            (
                ["We painted the kitchen", "Then the kitchen was blue, and we painted it again"],
                vec!["kitchen"],
            ),
        ] {
            let told = summarise(&[(true, said[0]), (true, said[1])]).unwrap();
            assert_eq!(told.themes, themes, "{said:?}");
        }
    }

    #[test]
    fn themes_fall_back_to_words_that_come_up_again() {
        let told =
            summarise(&[(true, "The telescope is new"), (true, "I point the telescope at Saturn")]).unwrap();
        assert_eq!(told.themes, ["telescope"]);
        assert_eq!((told.mood_opened.as_str(), told.mood_closed.as_str()), (NEUTRAL, NEUTRAL));
    }

    #[test]
    fn every_part_of_a_summary_keeps_its_limit() {
        let long = format!("I need to work on {} and the job at work.", "x".repeat(5_000));
        let many: Vec<Line<'_>> = (0..20).map(|_| (true, long.as_str())).collect();
        let told = summarise(&many).unwrap();
        assert!((1..=limits::SUMMARY_CHARS_MAX).contains(&told.summary.chars().count()));
        assert!(told.themes.len() <= limits::THEMES_MAX && told.open_loops.len() <= limits::THREADS_MAX);
        assert!(told.open_loops.iter().all(|line| line.chars().count() <= limits::THREAD_CHARS_MAX));
    }

    proptest::proptest! {
        #[test]
        fn any_transcript_can_be_told(lines in proptest::collection::vec((proptest::bool::ANY, "\\PC{0,60}"), 0..6)) {
            let transcript: Vec<Line<'_>> = lines.iter().map(|(who, text)| (*who, text.as_str())).collect();
            if let Some(told) = summarise(&transcript) {
                proptest::prop_assert!((1..=limits::SUMMARY_CHARS_MAX).contains(&told.summary.chars().count()));
                proptest::prop_assert!(told.themes.len() <= limits::THEMES_MAX);
            }
        }
    }

    #[test]
    fn a_model_s_telling_is_cut_to_shape() {
        let full = format!(
            r#"```json
            {{"themes":["a","b","a","c","d"],"summary":"{}","mood_opened":"{}","open_loops":["x\n\u0000y",""],
              "crisis_level_max":3,"unknown":1}}
            ```"#,
            "s ".repeat(500),
            "m".repeat(50)
        );
        let SummaryAnswer::Told(told) = read(&full) else { panic!("{:?}", read(&full)) };
        assert_eq!(told.themes, ["a", "b", "c"]);
        assert!(told.summary.chars().count() <= limits::SUMMARY_CHARS_MAX);
        assert_eq!(told.mood_opened.chars().count(), limits::MOOD_CHARS_MAX);
        assert_eq!(
            (told.mood_closed.as_str(), told.open_loops.as_slice()),
            (NEUTRAL, &["x y".to_owned()][..])
        );
    }

    #[test]
    fn nonsense_of_a_model_is_unreadable_and_a_thin_sitting_is_declined() {
        let table = [
            ("null", SummaryAnswer::Declined),
            (r#"{"thin":true}"#, SummaryAnswer::Declined),
            ("", SummaryAnswer::Unreadable),
            ("Sure! Here is the summary", SummaryAnswer::Unreadable),
            ("{}", SummaryAnswer::Unreadable),
            (r#"{"summary":" "}"#, SummaryAnswer::Unreadable),
            (r#"{"summary":7}"#, SummaryAnswer::Unreadable),
            (r#"{"summary":"x","themes":"work"}"#, SummaryAnswer::Unreadable),
            (r#"{"summary":"x"} and more"#, SummaryAnswer::Unreadable),
            (r#"{"summary":"x""#, SummaryAnswer::Unreadable),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
