//! How memories and lessons are filed under their words and found by them, the same for every store.
//!
//! A store keeps, for every bucket (an owner's memories of one kind, a tenant's lessons of one state) and word, the numbers
//! of those that have it. It is asked for the newest few under each word and for nothing else, so that a word that is everywhere costs
//! what any other costs; which of them are the best is decided here, by BM25.

use std::collections::{BTreeMap, HashMap};

use sederunt_core::lesson::{Lesson, LessonQuery, State};
use sederunt_core::memory::words::meaningful;
use sederunt_core::memory::{Kind, Memory, Owner};
use sederunt_core::store::MemoryQuery;
use sha2::{Digest as _, Sha256};

use crate::words::words_of;

/// Memories that are looked at under one word. One that has more is too common to find anything by.
pub(crate) const HITS_MAX: usize = 500;
/// Words of one question.
const ASKED_MAX: usize = 32;
/// Memories that are read to answer one question.
const BEST_MAX: usize = 500;
/// How much it counts that a word is said again, and that a text is longer than others: the usual values.
const REPETITION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// Where a memory is filed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Postings {
    pub bucket: i64,
    /// Each word once, with how often it stands there.
    pub words: Vec<(String, i64)>,
    /// Words in all.
    pub length: i64,
}

impl Postings {
    pub(crate) fn of(tk: i64, memory: &Memory) -> Self {
        let bucket = bucket(tk, &memory.owner, memory.kind(), !memory.is_active());
        Self::under(bucket, words_in(&memory.text()))
    }

    /// Lessons are filed under what means something alone: there are many of them, and grammar is in all.
    pub(crate) fn of_lesson(tk: i64, lesson: &Lesson) -> Self {
        Self::under(lesson_bucket(tk, lesson.state), meaningful(&lesson.text()))
    }

    fn under(bucket: i64, filed: Vec<String>) -> Self {
        let length = i64::try_from(filed.len()).unwrap_or(i64::MAX);
        let mut words: BTreeMap<String, i64> = BTreeMap::new();
        for word in filed {
            *words.entry(word).or_default() += 1;
        }
        Self { bucket, words: words.into_iter().collect(), length }
    }

    /// The words on one line, as they are kept beside the memory.
    pub(crate) fn line(&self) -> String {
        self.words.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" ")
    }
}

/// A memory under a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostingHit {
    pub n: i64,
    pub times: i64,
    pub length: i64,
}

/// The number of a bucket. Two may share one by a very rare chance: what is found in it is compared with its owner.
fn bucket(tk: i64, owner: &Owner, kind: Kind, dormant: bool) -> i64 {
    bucket_of(tk, &[kind.as_str().as_bytes(), &[u8::from(dormant)], owner.as_str().as_bytes()])
}

fn lesson_bucket(tk: i64, state: State) -> i64 {
    bucket_of(tk, &[b"lesson", &[0], state.as_str().as_bytes()])
}

fn bucket_of(tk: i64, parts: &[&[u8]]) -> i64 {
    let mut hash = Sha256::new();
    hash.update(tk.to_be_bytes());
    parts.iter().for_each(|part| hash.update(part));
    let mut first = [0; 8];
    first.copy_from_slice(&hash.finalize()[..8]);
    i64::from_be_bytes(first)
}

/// Every bucket of an owner, in the same order for all.
pub(crate) fn buckets_of(tk: i64, owner: &Owner) -> Vec<i64> {
    let states = |kind| [false, true].map(|dormant| bucket(tk, owner, kind, dormant));
    Kind::ALL.into_iter().flat_map(states).collect()
}

/// The buckets in which a question is asked.
pub(crate) fn buckets(tk: i64, query: &MemoryQuery) -> Vec<i64> {
    let kinds = kinds(query);
    let states: &[bool] = if query.dormant { &[false, true] } else { &[false] };
    kinds.iter().flat_map(|kind| states.iter().map(|state| bucket(tk, &query.owner, *kind, *state))).collect()
}

pub(crate) fn kinds(query: &MemoryQuery) -> Vec<Kind> {
    query.kind.map_or_else(|| Kind::ALL.to_vec(), |kind| vec![kind])
}

/// The words that a question asks for, each once.
pub(crate) fn asked(query: &MemoryQuery) -> Vec<String> {
    first_of(query.words.iter().flat_map(|text| words_in(text)))
}

/// The buckets in which lessons are looked for.
pub(crate) fn lesson_buckets(tk: i64, query: &LessonQuery) -> Vec<i64> {
    query.states().iter().map(|state| lesson_bucket(tk, *state)).collect()
}

/// The words that lessons are looked for by, each once.
pub(crate) fn asked_of_lessons(query: &LessonQuery) -> Vec<String> {
    first_of(query.words.iter().flat_map(|text| meaningful(text)))
}

fn first_of(asked: impl Iterator<Item = String>) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in asked {
        if words.len() == ASKED_MAX {
            break;
        }
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// The words of a text. Where no spaces stand between words, every character is one.
fn words_in(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in words_of(text).split_ascii_whitespace() {
        let mut run = String::new();
        for c in word.chars() {
            if is_unspaced(c) {
                if !run.is_empty() {
                    words.push(std::mem::take(&mut run));
                }
                words.push(c.to_string());
            } else {
                run.push(c);
            }
        }
        if !run.is_empty() {
            words.push(run);
        }
    }
    words
}

/// Kana and Han.
const fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{20000}'..='\u{3134f}')
}

/// The numbers of the memories that fit best, best first; of equals, the newest. `found` has the hits of each word,
/// of which one more than [`HITS_MAX`] says that there are too many.
pub(crate) fn best(found: &[Vec<PostingHit>]) -> Vec<i64> {
    let is_common = |hits: &Vec<PostingHit>| hits.len() > HITS_MAX;
    // Where nothing else is asked for, the newest that have the common words are as good an answer as any.
    let all_common = found.iter().filter(|hits| !hits.is_empty()).all(is_common);
    let (count, total) = found.iter().flatten().fold((0i64, 0i64), |(n, sum), hit| (n + 1, sum + hit.length));
    let average = if count == 0 { 1.0 } else { total as f64 / count as f64 };
    let score = |hits: &Vec<PostingHit>, hit: &PostingHit| {
        // As if there were so many memories: how rare a word is among them is all that counts.
        let (all, having) = ((4 * HITS_MAX) as f64, hits.len() as f64);
        let rarity = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
        let (times, length) = (hit.times as f64, hit.length as f64);
        let weight = 1.0 - LENGTH + LENGTH * length / average;
        rarity * times * (REPETITION + 1.0) / (times + REPETITION * weight)
    };
    let mut scores: HashMap<i64, f64> = HashMap::new();
    for hits in found.iter().filter(|hits| all_common || !is_common(hits)) {
        for hit in hits {
            *scores.entry(hit.n).or_default() += score(hits, hit);
        }
    }
    if !all_common {
        for hits in found.iter().filter(|hits| is_common(hits)) {
            for hit in hits {
                if let Some(sum) = scores.get_mut(&hit.n) {
                    *sum += score(hits, hit);
                }
            }
        }
    }
    let mut ranked: Vec<(i64, f64)> = scores.into_iter().collect();
    ranked.sort_unstable_by(|(a, x), (b, y)| y.total_cmp(x).then(b.cmp(a)));
    ranked.truncate(BEST_MAX);
    ranked.into_iter().map(|(n, _)| n).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(numbers: impl IntoIterator<Item = i64>) -> Vec<PostingHit> {
        numbers.into_iter().map(|n| PostingHit { n, times: 1, length: 5 }).collect()
    }

    #[test]
    fn a_rare_word_counts_more_than_two_frequent_ones_and_equals_are_newest_first() {
        assert_eq!(best(&[hits([7, 3]), hits([9, 8, 7])]), [7, 3, 9, 8]);
        let often = hits((0..400).rev());
        assert_eq!(best(&[hits([3]), often.clone(), often])[..3], [3, 399, 398]);
        assert_eq!(best(&[]), [0i64; 0]);
    }

    #[test]
    fn a_word_that_is_everywhere_finds_nothing_by_itself_unless_nothing_else_is_asked() {
        let everywhere = hits((1_000..1_000 + HITS_MAX as i64 + 1).rev());
        assert_eq!(best(&[hits([3]), everywhere.clone()]), [3]);
        assert_eq!(best(&[hits([1_002, 3]), everywhere.clone()])[..2], [1_002, 3]);
        assert_eq!(best(&[everywhere, hits([])]).len(), BEST_MAX);
    }

    #[test]
    fn what_says_it_again_and_says_little_else_comes_first() {
        let hit = |n, times, length| PostingHit { n, times, length };
        assert_eq!(best(&[vec![hit(3, 1, 5), hit(2, 3, 5), hit(1, 1, 2)]]), [2, 1, 3]);
    }

    #[test]
    fn han_and_kana_are_words_by_themselves() {
        assert_eq!(words_in("Tokyo 東京に ab京"), ["tokyo", "東", "京", "に", "ab", "京"]);
    }
}
