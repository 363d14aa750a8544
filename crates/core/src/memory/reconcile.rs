//! Merges promoted memories into the known ones: repeated, contradicted or new. Every step can be taken twice with
//! the same effect as once, since an end that failed is tried again.

use super::promote::{Promotion, alike, negates};
use super::words;
use super::{Fact, Memory, MemoryBody, MemorySource, Owner, Profile, ProfileRule, derived_id, profile_id};
use crate::limits;
use crate::time::Timestamp;

/// What a new fact does to the known ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactChange {
    /// It is known: count it once more.
    Bump(String),
    /// It replaces these.
    Supersede {
        old: Vec<String>,
    },
    Coexist,
}

/// The step of a fact among the owner's active facts.
pub fn step(fact: &Fact, active: &[Memory]) -> FactChange {
    let related = || {
        active
            .iter()
            .filter(|memory| memory.is_active())
            .filter_map(|memory| Some((memory, memory.fact()?)))
            .filter(|(_, known)| known.subject == fact.subject)
    };
    let said_again =
        related().find(|(_, known)| known.predicate == fact.predicate && same_object(known, fact));
    if let Some((memory, _)) = said_again {
        return FactChange::Bump(memory.id.clone());
    }
    let contradicted = related().filter(|(_, known)| {
        let other_value = known.predicate == fact.predicate && is_single_valued(&fact.predicate);
        other_value || (are_opposites(&known.predicate, &fact.predicate) && same_object(known, fact))
    });
    let old: Vec<String> = contradicted.map(|(memory, _)| memory.id.clone()).collect();
    if old.is_empty() { FactChange::Coexist } else { FactChange::Supersede { old } }
}

/// The memories to write, given all that the owner has.
pub fn reconcile(owner: &Owner, promoted: Promotion, known: &[Memory], now: Timestamp) -> Vec<Memory> {
    let mut facts: Vec<Memory> = known.iter().filter(|memory| memory.fact().is_some()).cloned().collect();
    let mut put: Vec<String> = Vec::new();
    for fact in promoted.facts {
        let id = fact_id(owner, &fact);
        if facts.iter().any(|memory| memory.id == id) {
            continue;
        }
        match step(&fact, &facts) {
            FactChange::Bump(id) => {
                if let Some(memory) = facts.iter_mut().find(|memory| memory.id == id)
                    && bump(memory, &fact, now)
                {
                    put.push(id);
                }
                continue;
            }
            FactChange::Supersede { old } => {
                for memory in facts.iter_mut().filter(|memory| old.contains(&memory.id)) {
                    memory.dormant_at = Some(now);
                    if let MemoryBody::Fact(known) = &mut memory.body {
                        known.superseded_by = Some(id.clone());
                    }
                }
                put.extend(old);
            }
            FactChange::Coexist => {}
        }
        put.push(id.clone());
        facts.push(Memory {
            id,
            owner: owner.clone(),
            body: MemoryBody::Fact(fact),
            created_at: now,
            last_referenced_at: now,
            dormant_at: None,
        });
    }
    facts.retain(|memory| put.contains(&memory.id));
    let profile = known.iter().find(|memory| memory.profile().is_some());
    facts.extend(with_rules(owner, profile, promoted.rules, now));
    facts
}

/// The owner's profile after these rules, if they change it.
pub fn with_rules(
    owner: &Owner,
    current: Option<&Memory>,
    rules: Vec<ProfileRule>,
    now: Timestamp,
) -> Option<Memory> {
    let before = current.and_then(Memory::profile).cloned().unwrap_or_default();
    let mut profile = before.clone();
    for rule in rules {
        let known = profile.rules.iter().position(|known| {
            known.id == rule.id || alike(&words::set(&known.text), &words::set(&rule.text))
        });
        match known {
            Some(at) if negates(&profile.rules[at].text) == negates(&rule.text) => {
                said_again(&mut profile.rules[at], rule);
            }
            Some(at) => {
                profile.archive(at);
                profile.add(rule);
            }
            None => profile.add(rule),
        }
    }
    (profile != before).then(|| profile_memory(owner, current, profile, now))
}

/// The owner's profile after another user was merged into this one, if that changes it. The owner's own recall
/// setting is kept where they have a profile.
pub fn with_profile(
    owner: &Owner,
    current: Option<&Memory>,
    other: &Profile,
    now: Timestamp,
) -> Option<Memory> {
    match current {
        Some(_) => with_rules(owner, current, other.rules.clone(), now),
        None => Some(profile_memory(owner, None, other.clone(), now)),
    }
}

/// The owner's profile with recall switched, if that changes it. Where there is no profile yet, switching it off is a
/// change too: a person who has said nothing about it is still told of the last sitting.
pub fn with_recall(owner: &Owner, current: Option<&Memory>, enabled: bool, now: Timestamp) -> Option<Memory> {
    let known = current.and_then(Memory::profile);
    let changed = known.is_none_or(|profile| profile.recall_enabled != enabled);
    let before = known.cloned().unwrap_or_default();
    changed.then(|| profile_memory(owner, current, Profile { recall_enabled: enabled, ..before }, now))
}

fn profile_memory(owner: &Owner, current: Option<&Memory>, profile: Profile, now: Timestamp) -> Memory {
    Memory {
        id: profile_id(owner),
        owner: owner.clone(),
        body: MemoryBody::Profile(profile),
        created_at: current.map_or(now, |memory| memory.created_at),
        last_referenced_at: now,
        dormant_at: None,
    }
}

fn said_again(known: &mut ProfileRule, rule: ProfileRule) {
    if covers(&known.sources, &rule.sources) {
        return;
    }
    for source in rule.sources {
        MemorySource::add(&mut known.sources, &source.session, source.sequences);
    }
    known.confidence = known.confidence.max(rule.confidence);
    for quote in rule.quotes {
        if known.quotes.len() < limits::RULE_QUOTES_MAX && !known.quotes.contains(&quote) {
            known.quotes.push(quote);
        }
    }
}

/// Counts a fact once more; returns whether that was new.
fn bump(memory: &mut Memory, fact: &Fact, now: Timestamp) -> bool {
    let MemoryBody::Fact(known) = &mut memory.body else { return false };
    if covers(&known.sources, &fact.sources) {
        return false;
    }
    for source in &fact.sources {
        MemorySource::add(&mut known.sources, &source.session, source.sequences.iter().copied());
    }
    known.support = known.support.saturating_add(1);
    known.confidence = (known.confidence.max(fact.confidence) + BUMP_CONFIDENCE).min(1.0);
    memory.last_referenced_at = now;
    true
}

const BUMP_CONFIDENCE: f32 = 0.05;

fn covers(known: &[MemorySource], new: &[MemorySource]) -> bool {
    new.iter().all(|source| {
        let here = known.iter().find(|one| one.session == source.session);
        here.is_some_and(|here| source.sequences.iter().all(|sequence| here.sequences.contains(sequence)))
    })
}

fn fact_id(owner: &Owner, fact: &Fact) -> String {
    let first = fact.sources.first();
    let sequence = first.and_then(|source| source.sequences.first()).copied().unwrap_or_default();
    let session = first.map_or("", |source| source.session.as_str());
    let said = [fact.subject.as_str(), &fact.predicate, &fact.object].join("\n");
    derived_id(&["fact", owner.as_str(), session, &sequence.to_string(), &said])
}

fn same_object(a: &Fact, b: &Fact) -> bool {
    let (x, y) = (words::set(&a.object), words::set(&b.object));
    if x.is_empty() || y.is_empty() {
        return a.object.to_lowercase() == b.object.to_lowercase();
    }
    words::jaccard(&x, &y) >= 0.5
}

/// Predicates with one value at a time, such as name, home and trade; a favourite of each kind.
fn is_single_valued(predicate: &str) -> bool {
    const ONE: &[&str] = &[
        "name", "lives_in", "works_as", "works_at", "age", "birthday", "born_in", "comes_from", "married_to",
    ];
    ONE.contains(&predicate) || predicate.starts_with("favourite_")
}

fn are_opposites(a: &str, b: &str) -> bool {
    matches!((a, b), ("likes" | "prefers", "dislikes") | ("dislikes", "likes" | "prefers"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::promote::remember;

    const NOW: Timestamp = Timestamp::from_micros(1_000);
    const LATER: Timestamp = Timestamp::from_micros(2_000);

    fn owner() -> Owner {
        Owner::stored("user:a")
    }

    fn said(text: &str, sequence: u64) -> Promotion {
        remember(text, &owner(), "s", sequence)
    }

    /// The memories after these texts were said one after another.
    fn after(texts: &[&str]) -> Vec<Memory> {
        let mut known: Vec<Memory> = Vec::new();
        for (n, text) in texts.iter().enumerate() {
            let put = reconcile(&owner(), said(text, n as u64 + 1), &known, NOW);
            apply(&mut known, put);
        }
        known
    }

    fn apply(known: &mut Vec<Memory>, put: Vec<Memory>) {
        for memory in put {
            known.retain(|one| one.id != memory.id);
            known.push(memory);
        }
    }

    fn active(known: &[Memory]) -> Vec<&str> {
        known.iter().filter(|one| one.is_active()).filter_map(|one| Some(&*one.fact()?.object)).collect()
    }

    #[test]
    fn a_fact_bumps_supersedes_or_coexists() {
        let table: [(&[&str], &[&str]); 9] = [
            (&["I live in Graz", "I live in Graz"], &["Graz"]),
            (&["I live in Graz", "I live in Oslo"], &["Oslo"]),
            (&["I live in Graz", "My sister lives in Oslo"], &["Graz", "Oslo"]),
            (&["I love tea", "I love coffee"], &["tea", "coffee"]),
            (&["I love tea", "I hate tea"], &["tea"]),
            (&["I work as a nurse", "I work as a teacher"], &["teacher"]),
            (&["My favourite band is Neu", "My favourite band is Kraftwerk"], &["Kraftwerk"]),
            (&["My favourite band is Neu", "My favourite town is Graz"], &["Neu", "Graz"]),
            (&["I live in Graz", "I live in Oslo", "I live in Graz"], &["Graz"]),
        ];
        for (texts, expected) in table {
            assert_eq!(active(&after(texts)), expected, "{texts:?}");
        }
    }

    #[test]
    fn a_bump_counts_and_adds_its_source() {
        let known = after(&["I live in Graz", "I live in Graz"]);
        let fact = known[0].fact().unwrap();
        assert_eq!(fact.support, 2);
        assert_eq!(fact.sources[0].sequences, [1, 2]);
        assert_eq!(known.len(), 1);
    }

    #[test]
    fn the_superseded_goes_dormant_and_names_its_successor() {
        let known = after(&["I live in Graz", "I live in Oslo"]);
        let [old, new] = known.as_slice() else { panic!("{known:?}") };
        assert_eq!(old.dormant_at, Some(NOW));
        assert_eq!(old.fact().unwrap().superseded_by.as_deref(), Some(new.id.as_str()));
        assert_eq!(step(new.fact().unwrap(), &known), FactChange::Bump(new.id.clone()));
    }

    #[test]
    fn doing_it_twice_is_doing_it_once() {
        let both = |text: &str, n| {
            let mut known = after(&["I live in Graz", "Always answer in German"]);
            let put = reconcile(&owner(), said(text, n), &known, NOW);
            apply(&mut known, put);
            let again = reconcile(&owner(), said(text, n), &known, LATER);
            assert_eq!(again, vec![], "{text}");
        };
        both("I live in Graz", 9);
        both("I live in Oslo", 9);
        both("I love tea", 9);
        both("Always answer in German", 9);
        both("Never use emojis", 9);
    }

    #[test]
    fn one_profile_collects_the_rules_of_an_owner() {
        let known = after(&["Always answer in German", "Never use emojis", "Always answer in German please"]);
        let [memory] = known.as_slice() else { panic!("{known:?}") };
        assert_eq!(memory.id, profile_id(&owner()));
        let profile = memory.profile().unwrap();
        assert_eq!(profile.rules.len(), 2);
        assert_eq!(profile.rules[0].sources[0].sequences, [1, 3]);
    }

    #[test]
    fn a_rule_to_the_contrary_archives_the_old_one() {
        let known = after(&["Always answer in German", "Never answer in German"]);
        let profile = known[0].profile().unwrap();
        let texts = |rules: &[ProfileRule]| rules.iter().map(|rule| rule.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&profile.rules), ["Never answer in German"]);
        assert_eq!(texts(&profile.archived_rules), ["Always answer in German"]);
    }

    #[test]
    fn recall_is_switched_only_when_that_changes_it() {
        let on = with_recall(&owner(), None, true, NOW).unwrap();
        assert!(on.profile().unwrap().recall_enabled);
        assert_eq!(with_recall(&owner(), Some(&on), true, LATER), None);
        let refused = with_recall(&owner(), None, false, NOW).expect("a person who says no is heard");
        assert!(!refused.profile().unwrap().recall_enabled);
        assert_eq!(with_recall(&owner(), Some(&refused), false, LATER), None);
        let off = with_recall(&owner(), Some(&on), false, LATER).unwrap();
        assert_eq!((off.created_at, off.profile().unwrap().recall_enabled), (NOW, false));
    }
}
