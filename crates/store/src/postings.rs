//! Postings: how memories and lessons are found by their words (BM25), the same for every store.
//!
//! A store keeps, for every bucket (an owner's memories of one kind, a tenant's lessons of one state) and word, the
//! numbers of the rows that have it. It reads only the newest few of each word, so that a frequent word costs what
//! any other costs. This file ranks them.

use std::collections::{BTreeMap, HashMap};

use sederunt_core::lesson::{Lesson, LessonQuery, LessonState};
use sederunt_core::memory::words::meaningful;
use sederunt_core::memory::{Memory, MemoryKind, Owner};
use sederunt_core::store::MemoryQuery;
use sha2::{Digest as _, Sha256};

use crate::words::words_of;

/// Memories that are read for one word. A word with more of them is too common to find anything by.
pub(crate) const HITS_MAX: usize = 500;
/// Words of one query.
const ASKED_MAX: usize = 32;
/// Memories that are read to answer one query.
const BEST_MAX: usize = 500;
/// The usual weights of BM25 for repeated words and for the length of a text.
const REPETITION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// The postings of a memory or lesson.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Postings {
    pub bucket: i64,
    /// Each word once, with its count.
    pub words: Vec<(String, i64)>,
    /// The number of words.
    pub length: i64,
}

impl Postings {
    pub(crate) fn of(tk: i64, memory: &Memory) -> Self {
        let bucket = bucket(tk, &memory.owner, memory.kind(), !memory.is_active());
        Self::under(bucket, words_in(&memory.text()))
    }

    /// Lessons are indexed by meaningful words only: there are many of them, and all have grammar.
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

    /// The words on one line, as they are stored beside the memory.
    pub(crate) fn line(&self) -> String {
        self.words.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" ")
    }
}

/// A memory that has a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostingHit {
    pub n: i64,
    pub times: i64,
    pub length: i64,
}

/// The number of a bucket. Two buckets may share one by a very rare chance, so rows are compared with their owner
/// too.
fn bucket(tk: i64, owner: &Owner, kind: MemoryKind, dormant: bool) -> i64 {
    bucket_of(tk, &[kind.as_str().as_bytes(), &[u8::from(dormant)], owner.as_str().as_bytes()])
}

fn lesson_bucket(tk: i64, state: LessonState) -> i64 {
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

/// Every bucket of an owner, always in the same order.
pub(crate) fn buckets_of(tk: i64, owner: &Owner) -> Vec<i64> {
    let states = |kind| [false, true].map(|dormant| bucket(tk, owner, kind, dormant));
    MemoryKind::ALL.into_iter().flat_map(states).collect()
}

/// The buckets that a query searches.
pub(crate) fn buckets(tk: i64, query: &MemoryQuery) -> Vec<i64> {
    let kinds = kinds(query);
    let states: &[bool] = if query.dormant { &[false, true] } else { &[false] };
    kinds.iter().flat_map(|kind| states.iter().map(|state| bucket(tk, &query.owner, *kind, *state))).collect()
}

pub(crate) fn kinds(query: &MemoryQuery) -> Vec<MemoryKind> {
    query.kind.map_or_else(|| MemoryKind::ALL.to_vec(), |kind| vec![kind])
}

/// The words of a query, each once.
pub(crate) fn query_words(query: &MemoryQuery) -> Vec<String> {
    distinct_words(query.words.iter().flat_map(|text| words_in(text)))
}

/// The buckets that a query for lessons searches.
pub(crate) fn lesson_buckets(tk: i64, query: &LessonQuery) -> Vec<i64> {
    query.states().iter().map(|state| lesson_bucket(tk, *state)).collect()
}

/// The words of a query for lessons, each once.
pub(crate) fn lesson_query_words(query: &LessonQuery) -> Vec<String> {
    distinct_words(query.words.iter().flat_map(|text| meaningful(text)))
}

fn distinct_words(asked: impl Iterator<Item = String>) -> Vec<String> {
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

/// The words of a text. In scripts without spaces, every character is a word.
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

/// The numbers of the best matches, best first; of equals, the newest. `found` has the hits of each word; one more
/// than [`HITS_MAX`] means too many.
pub(crate) fn rank(found: &[Vec<PostingHit>]) -> Vec<i64> {
    let is_common = |hits: &Vec<PostingHit>| hits.len() > HITS_MAX;
    // If all words are common, the newest memories that have them are as good an answer as any.
    let all_common = found.iter().filter(|hits| !hits.is_empty()).all(is_common);
    let (count, total) = found.iter().flatten().fold((0i64, 0i64), |(n, sum), hit| (n + 1, sum + hit.length));
    let average = if count == 0 { 1.0 } else { total as f64 / count as f64 };
    let score = |hits: &Vec<PostingHit>, hit: &PostingHit| {
        // Computed as if there were this many memories: only the relative rarity of a word counts.
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
        assert_eq!(rank(&[hits([7, 3]), hits([9, 8, 7])]), [7, 3, 9, 8]);
        let often = hits((0..400).rev());
        assert_eq!(rank(&[hits([3]), often.clone(), often])[..3], [3, 399, 398]);
        assert_eq!(rank(&[]), [0i64; 0]);
    }

    #[test]
    fn a_word_that_is_everywhere_finds_nothing_by_itself_unless_nothing_else_is_asked() {
        let everywhere = hits((1_000..1_000 + HITS_MAX as i64 + 1).rev());
        assert_eq!(rank(&[hits([3]), everywhere.clone()]), [3]);
        assert_eq!(rank(&[hits([1_002, 3]), everywhere.clone()])[..2], [1_002, 3]);
        assert_eq!(rank(&[everywhere, hits([])]).len(), BEST_MAX);
    }

    #[test]
    fn what_says_it_again_and_says_little_else_comes_first() {
        let hit = |n, times, length| PostingHit { n, times, length };
        assert_eq!(rank(&[vec![hit(3, 1, 5), hit(2, 3, 5), hit(1, 1, 2)]]), [2, 1, 3]);
    }

    #[test]
    fn han_and_kana_are_words_by_themselves() {
        assert_eq!(words_in("Tokyo 東京に ab京"), ["tokyo", "東", "京", "に", "ab", "京"]);
    }
}
