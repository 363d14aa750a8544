//! Decides at the end of a sitting which of its candidates become memories. Similar candidates count as one; what was
//! said once is kept only if an earlier sitting or memory holds it too; a person who asked not to be remembered is
//! not.

use super::candidate::{Buffer, Candidate, CandidateContent, KeepCondition};
use super::command;
use super::control::{Command, MemorySelector};
use super::extract::extract;
use super::phrase::TextWords;
use super::words::{self, WordSet};
use super::{Category, Fact, Memory, MemorySource, Owner, ProfileRule, SELF, clip, derived_id};
use crate::limits;

/// The input of the decision beside the buffer.
#[derive(Clone, Copy, Debug)]
pub struct SittingReview<'a> {
    pub owner: &'a Owner,
    pub session: &'a str,
    /// The user's messages of this sitting, in order.
    pub turns: &'a [ReviewedTurn<'a>],
    /// What the owner's memory holds from before.
    pub memories: &'a [Memory],
    /// What the user said in earlier sittings, as far as it was loaded.
    pub earlier: &'a [&'a str],
}

#[derive(Clone, Copy, Debug)]
pub struct ReviewedTurn<'a> {
    pub sequence: u64,
    pub text: &'a str,
}

/// The memories to be kept; [`super::reconcile`] merges them with the known ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Promotion {
    pub facts: Vec<Fact>,
    pub rules: Vec<ProfileRule>,
}

/// Two candidates are similar if half of their words are shared, or this many.
const ALIKE_JACCARD_MIN: f32 = 0.5;
const ALIKE_SHARED_MIN: usize = 3;
/// Turns that are enough for a memory, and for a rule to be certain.
const SUPPORT_MIN: usize = 2;
const SUPPORT_SURE: usize = 3;
const CONFIDENCE_SURE: f32 = 0.95;
const CONFIDENCE_PER_TURN: f32 = 0.05;

pub fn promote(buffer: &Buffer, sitting: &SittingReview<'_>) -> Promotion {
    let commands: Vec<Command> =
        sitting.turns.iter().filter_map(|turn| command::read(turn.text, None)).collect();
    if buffer.emptied || commands.contains(&Command::DontSave) {
        return Promotion::default();
    }
    let turns: Vec<WordSet> = sitting.turns.iter().map(|turn| words::set(turn.text)).collect();
    let mut promoted = Promotion::default();
    for cluster in clusters(&buffer.candidates) {
        if commands.iter().any(|command| cluster.is_unwanted(command)) {
            continue;
        }
        let stated = cluster.sequences().len();
        let mentioned = turns.iter().filter(|turn| mentions(turn, &cluster.object)).count();
        let known = || is_known_from_before(&cluster, sitting);
        match &cluster.best().what {
            CandidateContent::Fact { .. } => {
                // A low view of oneself counts only where it was stated, not where it was spoken of.
                let support = if cluster.needs_repetition() { stated } else { stated.max(mentioned) };
                if support >= SUPPORT_MIN || (support == 1 && known()) {
                    promoted.facts.extend(cluster.fact(sitting, support));
                }
            }
            CandidateContent::Rule { text } => {
                let support = stated.max(mentioned);
                if support >= SUPPORT_MIN {
                    promoted.rules.push(cluster.rule(sitting, text, support));
                }
            }
        }
    }
    let rules = &promoted.rules;
    promoted.facts.retain(|fact| !rules.iter().any(|rule| guides_the_same(fact, rule)));
    promoted
}

/// Sentences of a sitting that stated something and became no fact: if the person repeats one in a later sitting, it
/// counts as said before. The newest few, each once.
pub fn unkept(buffer: &Buffer, promoted: &Promotion) -> Vec<String> {
    let mut quotes: Vec<String> = Vec::new();
    for candidate in buffer.candidates.iter().rev() {
        let is_kept = promoted.facts.iter().any(|fact| fact.quote == candidate.quote);
        let is_fact =
            matches!(candidate.what, CandidateContent::Fact { .. }) && candidate.hold == KeepCondition::AtEnd;
        if is_fact && !is_kept && !quotes.contains(&candidate.quote) && quotes.len() < limits::MENTIONED_MAX {
            quotes.push(candidate.quote.clone());
        }
    }
    quotes
}

/// The memories of what a person asked to be remembered at once: the facts and rules that it states, or else the
/// words themselves.
pub fn remember(text: &str, owner: &Owner, session: &str, sequence: u64) -> Promotion {
    let mut candidates = extract(text, sequence);
    for candidate in &mut candidates {
        candidate.confidence = 1.0;
        candidate.hold = KeepCondition::AtEnd;
    }
    if candidates.is_empty() {
        candidates.push(Candidate {
            what: CandidateContent::Fact {
                subject: SELF.into(),
                predicate: NOTED.into(),
                object: clip(text, limits::OBJECT_CHARS_MAX),
                category: Category::Other,
            },
            quote: clip(text, limits::QUOTE_CHARS_MAX),
            confidence: 1.0,
            sequence,
            hold: KeepCondition::AtEnd,
        });
    }
    let sitting = SittingReview { owner, session, turns: &[], memories: &[], earlier: &[] };
    let mut promoted = Promotion::default();
    for cluster in clusters(&candidates) {
        match &cluster.best().what {
            CandidateContent::Fact { .. } => promoted.facts.extend(cluster.fact(&sitting, 1)),
            CandidateContent::Rule { text } => promoted.rules.push(cluster.rule(&sitting, text, 1)),
        }
    }
    promoted
}

/// The predicate of a remembered sentence in which no rule finds a fact.
const NOTED: &str = "noted";

/// Candidates that say the same.
struct Cluster<'a> {
    members: Vec<&'a Candidate>,
    all: WordSet,
    object: WordSet,
}

fn clusters(candidates: &[Candidate]) -> Vec<Cluster<'_>> {
    let mut clusters: Vec<Cluster<'_>> = Vec::new();
    for candidate in candidates {
        let (all, object) = (words::set(&candidate.what.text()), object_words(&candidate.what));
        let home = clusters.iter().position(|cluster| {
            same_matter(&cluster.members[0].what, &candidate.what) && cluster.is_alike(&all, &object)
        });
        match home {
            Some(at) => clusters[at].members.push(candidate),
            None => clusters.push(Cluster { members: vec![candidate], all, object }),
        }
    }
    clusters
}

fn same_matter(a: &CandidateContent, b: &CandidateContent) -> bool {
    match (a, b) {
        (CandidateContent::Fact { subject: a, .. }, CandidateContent::Fact { subject: b, .. }) => a == b,
        (CandidateContent::Rule { text: a }, CandidateContent::Rule { text: b }) => negates(a) == negates(b),
        (CandidateContent::Fact { .. }, CandidateContent::Rule { .. })
        | (CandidateContent::Rule { .. }, CandidateContent::Fact { .. }) => false,
    }
}

fn object_words(what: &CandidateContent) -> WordSet {
    match what {
        CandidateContent::Fact { object, .. } => words::set(object),
        CandidateContent::Rule { text } => words::set(text),
    }
}

/// Whether the words of a turn name all of an object, or two of its words.
fn mentions(turn: &WordSet, object: &WordSet) -> bool {
    !object.is_empty() && (object.is_subset(turn) || words::shared(turn, object) >= 2)
}

pub(super) fn alike(a: &WordSet, b: &WordSet) -> bool {
    words::jaccard(a, b) >= ALIKE_JACCARD_MIN || words::shared(a, b) >= ALIKE_SHARED_MIN
}

/// "Never" and "always" may differ in this one word alone.
pub(super) fn negates(text: &str) -> bool {
    TextWords::of(text).words.iter().any(|word| words::is_negation(&word.text))
}

fn is_known_from_before(cluster: &Cluster<'_>, sitting: &SittingReview<'_>) -> bool {
    let in_memory =
        sitting.memories.iter().any(|memory| mentions(&words::set(&memory.text()), &cluster.object));
    in_memory || sitting.earlier.iter().any(|text| mentions(&words::set(text), &cluster.object))
}

/// A preference about how to be answered is better kept as a rule.
fn guides_the_same(fact: &Fact, rule: &ProfileRule) -> bool {
    fact.category == Category::Preference && mentions(&words::set(&rule.text), &words::set(&fact.object))
}

impl<'a> Cluster<'a> {
    fn is_alike(&self, all: &WordSet, object: &WordSet) -> bool {
        alike(&self.all, all) && words::shared(&self.object, object) > 0
    }

    fn best(&self) -> &'a Candidate {
        let first = self.members[0];
        self.members
            .iter()
            .fold(first, |best, one| if one.confidence >= best.confidence { one } else { best })
    }

    fn needs_repetition(&self) -> bool {
        self.members.iter().any(|one| one.hold == KeepCondition::NeedsRepetition)
    }

    fn sequences(&self) -> Vec<u64> {
        let mut sequences: Vec<u64> = self.members.iter().map(|one| one.sequence).collect();
        sequences.sort_unstable();
        sequences.dedup();
        sequences
    }

    /// Whether the person asked, later on, to forget just this, or everything.
    fn is_unwanted(&self, command: &Command) -> bool {
        match command {
            Command::ForgetEverything(_) => true,
            Command::Forget(MemorySelector::Query(query)) => mentions(&words::set(query), &self.object),
            _ => false,
        }
    }

    fn sources(&self, sitting: &SittingReview<'_>) -> Vec<MemorySource> {
        let mut sources = Vec::new();
        MemorySource::add(&mut sources, sitting.session, self.sequences());
        sources
    }

    fn confidence(&self, support: usize) -> f32 {
        (self.best().confidence + CONFIDENCE_PER_TURN * (support.saturating_sub(1)) as f32).clamp(0.0, 1.0)
    }

    fn fact(&self, sitting: &SittingReview<'_>, support: usize) -> Option<Fact> {
        let best = self.best();
        let CandidateContent::Fact { subject, predicate, object, category } = &best.what else { return None };
        Some(Fact {
            subject: subject.clone(),
            predicate: predicate.clone(),
            object: object.clone(),
            quote: best.quote.clone(),
            category: *category,
            confidence: self.confidence(support),
            sources: self.sources(sitting),
            support: u32::try_from(support).unwrap_or(u32::MAX),
            superseded_by: None,
        })
    }

    fn rule(&self, sitting: &SittingReview<'_>, text: &str, support: usize) -> ProfileRule {
        let mut quotes: Vec<String> = Vec::new();
        for quote in self.members.iter().map(|one| &one.quote) {
            if quotes.len() < limits::RULE_QUOTES_MAX && !quotes.contains(quote) {
                quotes.push(quote.clone());
            }
        }
        let sure = support >= SUPPORT_SURE;
        let said: Vec<String> = words::set(text).into_iter().collect();
        ProfileRule {
            id: derived_id(&["rule", sitting.owner.as_str(), &said.join(" ")]),
            text: text.to_owned(),
            confidence: if sure { CONFIDENCE_SURE } else { self.confidence(support).min(CONFIDENCE_SURE) },
            quotes,
            sources: self.sources(sitting),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryBody;
    use crate::time::Timestamp;

    /// Ends a sitting of these turns: extracts, holds and promotes.
    fn end(turns: &[&str], memories: &[Memory], earlier: &[&str]) -> Promotion {
        let owner = Owner::stored("user:a");
        let turns: Vec<_> =
            turns.iter().enumerate().map(|(n, text)| ReviewedTurn { sequence: n as u64 + 1, text }).collect();
        let mut buffer = Buffer::default();
        for turn in &turns {
            buffer.hold(extract(turn.text, turn.sequence));
        }
        promote(&buffer, &SittingReview { owner: &owner, session: "s", turns: &turns, memories, earlier })
    }

    fn objects(promoted: &Promotion) -> Vec<&str> {
        promoted.facts.iter().map(|fact| fact.object.as_str()).collect()
    }

    fn fact(predicate: &str, object: &str) -> Memory {
        let fact = remember("x y z", &Owner::stored("user:a"), "old", 1).facts.remove(0);
        let fact = Fact { predicate: predicate.into(), object: object.into(), quote: String::new(), ..fact };
        Memory {
            id: "m".into(),
            owner: Owner::stored("user:a"),
            body: MemoryBody::Fact(fact),
            created_at: Timestamp::default(),
            last_referenced_at: Timestamp::default(),
            dormant_at: None,
        }
    }

    #[test]
    fn support_decides_what_is_kept() {
        type PromotionRow<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a [&'a str]);
        let table: [PromotionRow<'_>; 12] = [
            ("said once", &["I live in Graz", "Nice weather"], &[], &[]),
            ("said twice", &["I live in Graz", "As I said, I live in Graz"], &[], &["Graz"]),
            ("said twice in one turn", &["I live in Graz. Yes, I live in Graz."], &[], &[]),
            ("said and mentioned", &["I live in Graz", "Graz is so hot in summer"], &[], &["Graz"]),
            ("two of its words", &["I love old green tea", "green tea helps"], &[], &["old green tea"]),
            ("one of its words", &["I love old green tea", "a green door"], &[], &[]),
            ("known from before", &["I live in Graz"], &["How is Graz today?"], &["Graz"]),
            ("unknown from before", &["I live in Graz"], &["How is Wien today?"], &[]),
            ("a low said once", &["I am worthless", "I feel worthless you say"], &[], &[]),
            ("a low said twice", &["I am worthless", "Really, I'm useless"], &[], &["worthless"]),
            ("a low known before", &["I am worthless"], &["they call me worthless"], &["worthless"]),
            ("nothing said", &[], &["I live in Graz"], &[]),
        ];
        for (name, turns, earlier, kept) in table {
            assert_eq!(objects(&end(turns, &[], earlier)), kept, "{name}");
        }
    }

    #[test]
    fn an_existing_memory_is_support_from_an_earlier_sitting() {
        let known = [fact("likes", "green tea")];
        assert_eq!(objects(&end(&["I love green tea"], &known, &[])), ["green tea"]);
        assert!(end(&["I love black coffee"], &known, &[]).facts.is_empty());
    }

    #[test]
    fn rules_need_two_turns_and_are_sure_at_three() {
        let rule = "Please always answer in short sentences";
        assert!(end(&[rule, "ok"], &[], &[rule]).rules.is_empty());
        let twice = end(&[rule, "Always answer in short sentences!"], &[], &[]);
        assert_eq!(twice.rules.len(), 1);
        assert!(twice.rules[0].confidence < CONFIDENCE_SURE);
        assert_eq!(twice.rules[0].sources[0].sequences, [1, 2]);
        let often: Vec<_> = (0..5).map(|n| format!("{rule}{}", "!".repeat(n))).collect();
        let often = end(&often.iter().map(String::as_str).collect::<Vec<_>>(), &[], &[]);
        assert_eq!(often.rules[0].confidence, CONFIDENCE_SURE);
        assert_eq!(often.rules[0].quotes.len(), limits::RULE_QUOTES_MAX);
    }

    #[test]
    fn a_turn_that_asked_not_to_save_drops_everything() {
        let turns = ["I live in Graz", "I live in Graz", "Don't save this"];
        assert_eq!(end(&turns, &[], &[]), Promotion::default());
        let mut buffer = Buffer::default();
        buffer.hold(extract(turns[0], 1));
        buffer.emptied = true;
        let owner = Owner::stored("user:a");
        let sitting =
            SittingReview { owner: &owner, session: "s", turns: &[], memories: &[], earlier: &["Graz"] };
        assert_eq!(promote(&buffer, &sitting), Promotion::default());
    }

    #[test]
    fn what_the_person_asked_to_forget_is_not_promoted() {
        let turns =
            ["I live in Graz", "I live in Graz, I love tea", "I love tea", "Forget that I live in Graz"];
        assert_eq!(objects(&end(&turns, &[], &[])), ["tea"]);
        let turns = ["I live in Graz", "I live in Graz", "Forget everything"];
        assert_eq!(end(&turns, &[], &[]), Promotion::default());
    }

    #[test]
    fn unlike_candidates_stay_apart_and_alike_ones_are_one() {
        let turns = [
            "I live in Graz", "I live in Graz", "My sister lives in Graz", "My sister lives in Graz",
            "I hate tea",
        ];
        let promoted = end(&turns, &[], &[]);
        let subjects: Vec<_> = promoted.facts.iter().map(|fact| fact.subject.as_str()).collect();
        assert_eq!(subjects, [SELF, "sister"]);
        assert_eq!(promoted.facts[0].sources, [MemorySource { session: "s".into(), sequences: vec![1, 2] }]);
    }

    #[test]
    fn a_preference_yields_to_the_rule_that_says_the_same() {
        let turns = [
            "I prefer short sentences", "I prefer short sentences", "Always use short sentences",
            "Always use short sentences",
        ];
        let promoted = end(&turns, &[], &[]);
        assert_eq!((promoted.facts.len(), promoted.rules.len()), (0, 1));
    }

    #[test]
    fn what_is_asked_to_be_remembered_is_kept_at_once() {
        let owner = Owner::stored("user:a");
        let kept = |text| remember(text, &owner, "s", 9);
        let read = kept("I live in Graz").facts;
        assert_eq!((read[0].predicate.as_str(), read[0].object.as_str()), ("lives_in", "Graz"));
        assert_eq!(read[0].sources, [MemorySource { session: "s".into(), sequences: vec![9] }]);
        let plain = kept("the key is under the mat").facts;
        assert_eq!(
            (plain[0].predicate.as_str(), plain[0].object.as_str()),
            (NOTED, "the key is under the mat")
        );
        assert_eq!(kept("always answer in German").rules.len(), 1);
    }
}
