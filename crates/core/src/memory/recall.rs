//! What of the memory belongs in a prompt: the owner's rules always, then the few facts and arcs that the person's
//! own words touch. Rankings by words and by embedding similarity are fused by rank, so that neither needs the
//! other's scale.
//!
//! With recall off the agent does not forget, but stays discreet: the memories then follow a line that says so, and
//! [`RecalledMemories::may_bring_up`] is false.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;
use std::time::Duration;

use super::phrase::{Phrases, TextWords};
use super::words::{self, WordSet};
use super::{Memory, Profile, ProfileRule, clip};
use crate::limits;
use crate::time::Timestamp;

/// The turn for which something is recalled.
#[derive(Clone, Copy, Debug)]
pub struct RecallOccasion<'a> {
    pub message: &'a str,
    /// The first turn of a sitting is also given the last sitting's arc, however old.
    pub first_turn: bool,
    pub now: Timestamp,
}

/// What goes into the prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecalledMemories {
    pub rules: Vec<ProfileRule>,
    pub facts: Vec<Memory>,
    pub arcs: Vec<Memory>,
    /// The last sitting, on the first turn of a new one.
    pub catch_up: Option<Memory>,
    /// Whether the agent may mention these unasked: recall is on, or the person asked.
    pub may_bring_up: bool,
}

/// Picks from the memories that a store found for this message, with the owner's profile and latest arc among them.
/// `dense` ranks ids by embedding similarity, the best first; it is empty where there are no embeddings.
pub fn recall(occasion: &RecallOccasion<'_>, memories: &[Memory], dense: &[String]) -> RecalledMemories {
    let active = || memories.iter().filter(|memory| memory.is_active());
    let profile = active().find_map(Memory::profile);
    let latest = active().filter(|memory| memory.arc().is_some()).max_by_key(|memory| ended_at(memory));
    let catch_up = latest.filter(|_| occasion.first_turn);
    let lexical = rank(occasion.message, active().filter(|memory| memory.profile().is_none()));
    let by_id: HashMap<&str, &Memory> = active().map(|memory| (memory.id.as_str(), memory)).collect();
    let dense = dense.iter().map(String::as_str).filter(|id| by_id.contains_key(id));
    let fused = fuse([lexical.into_iter().map(|memory| memory.id.as_str()).collect(), dense.collect()]);
    let ranked = || fused.iter().filter_map(|id| by_id.get(id).copied());
    let since = occasion.now.minus(ARC_AGE_MAX);
    let recent = |memory: &&Memory| ended_at(memory) >= Some(since);
    let repeated = |memory: &&Memory| catch_up.is_some_and(|last| last.id == memory.id);
    RecalledMemories {
        rules: profile.map(|profile| profile.rules.clone()).unwrap_or_default(),
        facts: ranked()
            .filter(|memory| memory.fact().is_some())
            .take(limits::RECALLED_FACTS_MAX)
            .cloned()
            .collect(),
        arcs: ranked()
            .filter(|memory| memory.arc().is_some())
            .filter(recent)
            .filter(|memory| !repeated(memory))
            .take(limits::RECALLED_ARCS_MAX)
            .cloned()
            .collect(),
        catch_up: catch_up.cloned(),
        may_bring_up: profile.is_some_and(|profile| profile.recall_enabled)
            || asks_for_the_past(occasion.message),
    }
}

/// Older arcs are not recalled, except for the last one.
const ARC_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// The share of a query's words that a hit must contain.
const HIT_OVERLAP_MIN: f32 = 0.33;
/// Softens how much a first place outweighs a second.
const RRF_K: f32 = 60.0;

/// Whether a text matches a query by its words.
pub fn is_hit(query: &WordSet, text: &WordSet) -> bool {
    !query.is_empty() && words::overlap(query, text) >= HIT_OVERLAP_MIN
}

/// The rules for a spoken conversation, within the characters that it is given.
pub fn voice_rules(profile: &Profile) -> String {
    let picked = RecalledMemories { rules: profile.rules.clone(), ..RecalledMemories::default() };
    let mut text = picked.text(limits::VOICE_MEMORY_CHARS_MAX);
    if !profile.recall_enabled && !text.is_empty() {
        let note = "\nDo not bring up the past unless the person does.";
        if text.chars().count() + note.chars().count() <= limits::VOICE_MEMORY_CHARS_MAX {
            text.push_str(note);
        }
    }
    text
}

/// The hits of a query by words, the best first, and the latest first among equals.
pub fn rank<'m>(query: &str, memories: impl IntoIterator<Item = &'m Memory>) -> Vec<&'m Memory> {
    let query = words::set(query);
    if query.is_empty() {
        return Vec::new();
    }
    let scored = memories.into_iter().filter_map(|memory| {
        let text = words::set(&memory.text());
        is_hit(&query, &text).then(|| (words::shared(&query, &text), memory))
    });
    let mut scored: Vec<_> = scored.collect();
    scored.sort_by_key(|(shared, memory)| std::cmp::Reverse((*shared, memory.last_referenced_at)));
    scored.into_iter().map(|(_, memory)| memory).collect()
}

/// Reciprocal rank fusion: each list gives a place 1/(60 + place).
pub fn fuse<'i>(lists: impl IntoIterator<Item = Vec<&'i str>>) -> Vec<&'i str> {
    let mut order: Vec<&'i str> = Vec::new();
    let mut scores: HashMap<&'i str, f32> = HashMap::new();
    for list in lists {
        let mut seen = HashSet::new();
        for (place, id) in list.into_iter().filter(|id| seen.insert(*id)).enumerate() {
            let score = scores.entry(id).or_insert_with(|| {
                order.push(id);
                0.0
            });
            *score += 1.0 / (RRF_K + place as f32 + 1.0);
        }
    }
    order.sort_by(|a, b| scores[b].total_cmp(&scores[a]));
    order
}

/// Whether the message itself speaks of what was said before, or asks about the person who asks.
pub fn asks_for_the_past(message: &str) -> bool {
    let spoken = TextWords::of(message);
    if !PAST.find(&spoken).is_empty() {
        return true;
    }
    let of_oneself = |word: &str| OWN.contains(&word);
    let wh = spoken.words.iter().position(|word| WH.contains(&&*word.text));
    message.contains('?') && wh.is_some_and(|at| spoken.slice(at, spoken.sentence_end(at)).any(of_oneself))
}

const WH: &[&str] = &[
    "what", "whats", "where", "wheres", "who", "whos", "when", "which", "how", "was", "wo", "wer", "wann",
    "wie", "welche", "welchen", "ou", "qui", "quand", "quel", "quelle", "comment", "que", "donde", "quien",
    "cuando", "cual", "como", "cosa", "dove", "chi", "quando", "quale",
];
const OWN: &[&str] = &[
    "i", "my", "me", "mine", "ich", "mein", "meine", "meinen", "mir", "mich", "je", "jhabite", "mon", "ma",
    "mes", "moi", "mi", "mis", "yo", "vivo", "io", "mio", "mia",
];

static PAST: LazyLock<Phrases<()>> = LazyLock::new(|| {
    let texts = [
        "do you remember", "remember when", "last time", "last session", "did i tell you", "did i say",
        "have i told you", "i told you", "we talked about", "we spoke about", "what do you know about me",
        "our last", "weißt du noch", "erinnerst du dich", "letztes mal", "habe ich dir gesagt",
        "habe ich dir erzählt", "tu te souviens", "te souviens-tu", "la dernière fois", "je t'ai dit",
        "te acuerdas", "recuerdas", "la última vez", "te dije", "ti ricordi", "l'ultima volta",
        "ti ho detto", "você lembra", "da última vez", "weet je nog", "vorige keer",
    ];
    Phrases::new(texts.map(|text| (text, ())))
});

fn ended_at(memory: &Memory) -> Option<Timestamp> {
    memory.arc().map(|arc| arc.ended_at)
}

impl RecalledMemories {
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.memories().next().is_none()
    }

    /// The memories that enter the prompt, for the event that says so.
    pub fn memories(&self) -> impl Iterator<Item = &Memory> {
        self.facts.iter().chain(&self.arcs).chain(&self.catch_up)
    }

    /// The lines for the prompt, each memory on one line. They are a person's words: the caller must mark them as
    /// untrusted.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.rules.is_empty() {
            lines.push("How this person wants to be talked to:".to_owned());
            lines.extend(self.rules.iter().map(|rule| format!("- {}", one_line(&rule.text))));
        }
        if self.memories().next().is_some() && !self.may_bring_up {
            lines.push("The rest is background. Do not bring it up unless the person does.".to_owned());
        }
        if !self.facts.is_empty() {
            lines.push("What is known about this person:".to_owned());
            let facts = self.facts.iter().filter_map(Memory::fact);
            lines.extend(facts.map(|fact| format!("- {}", one_line(&fact.sentence()))));
        }
        if let Some(arc) = self.catch_up.as_ref().and_then(Memory::arc) {
            lines.push("The last sitting:".to_owned());
            lines.push(told(arc));
        }
        if !self.arcs.is_empty() {
            lines.push("Earlier sittings:".to_owned());
            lines.extend(self.arcs.iter().filter_map(Memory::arc).map(told));
        }
        lines
    }

    /// The same as one text of at most `chars_max` characters, cut after a whole line.
    pub fn text(&self, chars_max: usize) -> String {
        let mut text = String::new();
        let mut chars = 0;
        for line in self.lines() {
            chars += line.chars().count() + usize::from(!text.is_empty());
            if chars > chars_max {
                break;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&line);
        }
        text
    }
}

fn told(arc: &super::StoryArc) -> String {
    let day: String = arc.ended_at.to_string().chars().take(10).collect();
    let open = match arc.open_loops.as_slice() {
        [] => String::new(),
        loops => format!(" Open: {}.", loops.join("; ")),
    };
    format!("- {day}: {}", one_line(&format!("{}{open}", arc.summary)))
}

fn one_line(text: &str) -> String {
    clip(&text.split_whitespace().collect::<Vec<_>>().join(" "), limits::RECALLED_LINE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::promote::remember;
    use crate::memory::reconcile::{with_recall, with_rules};
    use crate::memory::{MemoryBody, MemorySource, Owner, StoryArc};

    const DAY: Duration = Duration::from_secs(86_400);

    fn now() -> Timestamp {
        Timestamp::parse("2026-11-16T08:00:00Z").unwrap()
    }

    fn owner() -> Owner {
        Owner::stored("user:a")
    }

    fn memory(id: &str, body: MemoryBody) -> Memory {
        let at = now().minus(DAY);
        Memory {
            id: id.into(),
            owner: owner(),
            body,
            created_at: at,
            last_referenced_at: at,
            dormant_at: None,
        }
    }

    fn fact(id: &str, text: &str) -> Memory {
        memory(id, MemoryBody::Fact(remember(text, &owner(), "s", 1).facts.remove(0)))
    }

    fn arc(id: &str, summary: &str, days_ago: u32) -> Memory {
        let ended_at = now().minus(DAY * days_ago);
        memory(
            id,
            MemoryBody::Arc(StoryArc {
                session: "s".into(),
                started_at: ended_at,
                ended_at,
                turn_count: 3,
                themes: vec![],
                summary: summary.into(),
                mood_opened: "tense".into(),
                mood_closed: "calm".into(),
                open_loops: vec![],
                resolved_threads: vec![],
                approach: None,
                crisis_level_max: 0,
                mentioned: Vec::new(),
                sources: vec![MemorySource { session: "s".into(), sequences: vec![1] }],
            }),
        )
    }

    fn ids(memories: &[Memory]) -> Vec<&str> {
        memories.iter().map(|memory| memory.id.as_str()).collect()
    }

    fn on(message: &str) -> RecallOccasion<'_> {
        RecallOccasion { message, first_turn: false, now: now() }
    }

    #[test]
    fn a_third_of_the_words_make_a_hit() {
        let table = [
            ("Graz weather", "user lives in Graz", true),
            ("Graz summer weather", "user lives in Graz", true),
            ("Graz summer weather forecast", "user lives in Graz", false),
            ("hello", "user lives in Graz", false),
            ("", "user lives in Graz", false),
            ("the of", "the of", false),
        ];
        for (query, text, hit) in table {
            assert_eq!(is_hit(&words::set(query), &words::set(text)), hit, "{query}");
        }
    }

    #[test]
    fn ranks_are_fused_by_their_places() {
        assert_eq!(fuse([vec!["a", "b", "c"], vec!["c", "b", "d"]]), ["c", "b", "a", "d"]);
        assert_eq!(fuse([vec!["a", "b"], vec![]]), ["a", "b"]);
        assert_eq!(fuse([vec!["a", "a", "b"], vec!["b"]]), ["b", "a"]);
        assert!(fuse([vec![], vec![]]).is_empty());
    }

    #[test]
    fn at_most_five_facts_and_two_recent_arcs_are_picked() {
        let mut memories: Vec<_> =
            (0..=limits::RECALLED_FACTS_MAX).map(|n| fact(&format!("f{n}"), "I love green tea")).collect();
        memories.push(arc("old", "green tea all day", 31));
        memories.push(arc("edge", "green tea all day", 30));
        memories.push(arc("new", "green tea all day", 1));
        memories.push(arc("mid", "green tea all day", 2));
        let recalled = recall(&on("green tea"), &memories, &[]);
        assert_eq!(recalled.facts.len(), limits::RECALLED_FACTS_MAX);
        assert_eq!(recalled.arcs.len(), limits::RECALLED_ARCS_MAX);
        assert!(!ids(&recalled.arcs).contains(&"old"));
    }

    #[test]
    fn what_is_dormant_or_another_matter_stays_out() {
        let mut memories = vec![fact("tea", "I love green tea"), fact("town", "I live in Graz")];
        memories[0].dormant_at = Some(now());
        let recalled = recall(&on("green tea in Graz"), &memories, &["tea".into(), "gone".into()]);
        assert_eq!(ids(&recalled.facts), ["town"]);
    }

    #[test]
    fn likeness_of_meaning_adds_what_words_miss() {
        let memories = [fact("tea", "I love green tea"), fact("town", "I live in Graz")];
        let recalled = recall(&on("tea"), &memories, &["town".into(), "tea".into()]);
        assert_eq!(ids(&recalled.facts), ["tea", "town"]);
    }

    #[test]
    fn the_first_turn_hears_of_the_last_sitting_however_old() {
        let memories = [arc("a", "Talked about tea.", 400), arc("b", "Talked about work.", 300)];
        let hello = recall(&RecallOccasion { first_turn: true, ..on("Hey") }, &memories, &[]);
        assert_eq!(hello.catch_up.as_ref().map(|arc| arc.id.as_str()), Some("b"));
        assert_eq!(hello.lines()[1..], ["The last sitting:", "- 2026-01-20: Talked about work."]);
        assert!(recall(&on("Hey"), &memories, &[]).is_empty());
        let recent = [arc("a", "Talked about tea.", 1)];
        let tea = recall(&RecallOccasion { first_turn: true, ..on("tea") }, &recent, &[]);
        assert!(tea.catch_up.is_some() && tea.arcs.is_empty(), "told once");
    }

    #[test]
    fn with_recall_off_the_past_is_background_and_rules_always_apply() {
        let rules = remember("Always answer in German", &owner(), "s", 1).rules;
        let profile = with_rules(&owner(), None, rules, now()).unwrap();
        let on_profile = with_recall(&owner(), Some(&profile), true, now()).unwrap();
        let tea = fact("tea", "I love green tea");
        let caution = "The rest is background. Do not bring it up unless the person does.";
        for (profile, message, may) in [
            (&profile, "some tea", false),
            (&on_profile, "some tea", true),
            (&profile, "Do you remember my tea?", true),
            (&profile, "What tea do I love?", true),
        ] {
            let recalled = recall(&on(message), &[tea.clone(), profile.clone()], &[]);
            assert_eq!(recalled.rules.len(), 1, "{message}");
            assert_eq!(recalled.may_bring_up, may, "{message}");
            assert_eq!(recalled.lines().contains(&caution.to_owned()), !may, "{message}");
        }
    }

    #[test]
    fn the_past_is_asked_for_in_several_languages() {
        for (text, asked) in [
            ("Where do I live?", true),
            ("Wie heißt meine Schwester?", true),
            ("¿Te acuerdas de mi perro?", true),
            ("La dernière fois, je parlais de mon travail", true),
            ("How are you?", false),
            ("I live in Graz", false),
            ("Is it raining?", false),
        ] {
            assert_eq!(asks_for_the_past(text), asked, "{text}");
        }
    }

    #[test]
    fn the_block_keeps_each_memory_on_one_line_and_within_its_length() {
        let memories = [fact("a", "the\nkey\nis under the mat"), fact("b", "the key is blue")];
        let recalled = recall(&on("where is the key"), &memories, &[]);
        let text = recalled.text(2_000);
        assert_eq!(text.lines().count(), 4, "{text}");
        let cut = recalled.text(text.chars().count() - 1);
        assert_eq!(cut.lines().count(), 3);
        assert_eq!(recalled.text(0), "");
    }
}
