//! Message groups: messages of one session within a second are one document of the search index, which holds each of
//! their words once. Which messages of a document match is found out by the query.
//!
//! A document has a number that begins with its time, so that descending numbers are newest first, with room behind
//! it for each of its messages: a page of hits may end in the middle of a document.

use sederunt_core::ids::SessionId;
use sederunt_core::limits;
use sederunt_core::session::query::Page;
use sederunt_core::store::{HitSession, SearchHit, SearchQuery};

use crate::snippet;
use crate::words::SearchTerms;

/// Sequences that a document spans at most.
pub(crate) const REACH: i64 = 64;
/// How far apart in time its first and last message may be, in microseconds. Hits of several sessions may be out of
/// order by this much.
const SPAN_MICROS: i64 = 1_000_000;
/// Bytes of the messages of a document, unless it has a single one. This much is read to show a hit.
const TEXT_BYTES_MAX: usize = 32 * 1024;
/// Documents within 2^4 microseconds share [`NUMBERS`] numbers.
const UNIT_BITS: u32 = 4;
const NUMBERS_BITS: u32 = 15;
/// Numbers of a unit of time, in steps of [`REACH`]: room for a group of appends, which has one time.
pub(crate) const NUMBERS: i64 = 1 << NUMBERS_BITS;

/// The first number of the documents of a time.
pub(crate) fn first_number(at: i64) -> i64 {
    (at >> UNIT_BITS).saturating_mul(NUMBERS)
}

/// A text to index, with its sequence and time.
#[derive(Debug)]
pub(crate) struct IndexText {
    /// 0 for title and description.
    pub(crate) seq: i64,
    pub(crate) at: i64,
    pub(crate) text: String,
}

/// The messages of a document, in order; at least one.
#[derive(Debug)]
pub(crate) struct MessageGroup {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) at: i64,
    began: i64,
    bytes: usize,
    pub(crate) texts: Vec<IndexText>,
}

impl MessageGroup {
    pub(crate) fn of(said: IndexText) -> Self {
        let IndexText { seq, at, .. } = said;
        Self { first: seq, last: seq, at, began: at, bytes: said.text.len(), texts: vec![said] }
    }

    /// Adds the next message, or gives it back if it is too far away.
    pub(crate) fn add(&mut self, next: IndexText) -> Option<IndexText> {
        let bytes = self.bytes + next.text.len();
        let near = self.first > 0 && next.seq - self.first < REACH && next.at - self.began <= SPAN_MICROS;
        if !near || bytes > TEXT_BYTES_MAX {
            return Some(next);
        }
        (self.last, self.at, self.bytes) = (next.seq, next.at, bytes);
        self.texts.push(next);
        None
    }
}

/// Collects texts into documents. Texts of one `K` come one after another.
#[derive(Debug)]
pub(crate) struct MessageGroups<K> {
    pub(crate) groups: Vec<(K, MessageGroup)>,
    pub(crate) texts: usize,
}

impl<K> Default for MessageGroups<K> {
    fn default() -> Self {
        Self { groups: Vec::new(), texts: 0 }
    }
}

impl<K: PartialEq> MessageGroups<K> {
    pub(crate) fn push(&mut self, at: K, said: IndexText) {
        self.texts += 1;
        let refused = match self.groups.last_mut() {
            Some((place, group)) if *place == at => group.add(said),
            _ => Some(said),
        };
        self.groups.extend(refused.map(|said| (at, MessageGroup::of(said))));
    }
}

/// A page of hits, newest first, while it is filled.
#[derive(Debug)]
pub(crate) struct HitPage<'q> {
    terms: &'q SearchTerms,
    limit: usize,
    /// Documents with this number or a higher one were shown before.
    before: i64,
    items: Vec<SearchHit>,
    /// The last number that was read.
    last: i64,
}

impl<'q> HitPage<'q> {
    pub(crate) fn new(terms: &'q SearchTerms, query: &SearchQuery) -> Self {
        let before = query.after.unwrap_or(i64::MAX);
        let limit = query.limit.clamp(1, limits::PAGE_ROWS_MAX);
        Self { terms, limit, before, items: Vec::new(), last: before }
    }

    /// How many more hits fit.
    pub(crate) fn room(&self) -> usize {
        self.limit - self.items.len()
    }

    /// The number to continue from.
    pub(crate) fn last(&self) -> i64 {
        self.last
    }

    /// Adds a text of a document if it matches and was not shown before. `false` if the page is full. `about` reads the
    /// session of a text that is added.
    pub(crate) fn offer<E>(
        &mut self,
        (document, place): (i64, i64),
        session: &str,
        (seq, text): (i64, &str),
        about: impl FnOnce() -> Result<HitSession, E>,
    ) -> Result<bool, E> {
        let number = document + place;
        if number >= self.before || !self.terms.match_text(text) {
            return Ok(true);
        }
        if self.room() == 0 {
            return Ok(false);
        }
        let sequence = (seq > 0).then_some(seq.cast_unsigned());
        self.items.push(SearchHit {
            session: SessionId::stored(session),
            about: about()?,
            sequence,
            snippet: snippet(text, self.terms.asked()),
        });
        self.last = number;
        Ok(true)
    }

    /// Notes that a document was read to its end.
    pub(crate) fn document_done(&mut self, document: i64) {
        self.last = document;
    }

    /// The page, as the last one.
    pub(crate) fn into_last_page(self) -> Page<SearchHit, i64> {
        Page { items: self.items, next: None }
    }

    /// The page, with a cursor: there may be more.
    pub(crate) fn into_page(self) -> Page<SearchHit, i64> {
        Page { items: self.items, next: Some(self.last) }
    }
}

#[cfg(test)]
mod tests {
    use sederunt_core::Timestamp;
    use sederunt_core::session::{SessionType, Status};

    use super::*;

    fn said(seq: i64, at: i64, bytes: usize) -> IndexText {
        IndexText { seq, at, text: "x".repeat(bytes) }
    }

    #[test]
    fn a_document_takes_what_follows_within_a_moment() {
        // sequence, time, bytes → whether it joins a first message of ten bytes
        for (seq, at, bytes, taken) in [
            (8, 5, 10, true),
            (7 + REACH - 1, 5 + SPAN_MICROS, 10, true),
            (7 + REACH, 5, 10, false),
            (8, 5 + SPAN_MICROS + 1, 10, false),
            (8, 5, TEXT_BYTES_MAX - 10, true),
            (8, 5, TEXT_BYTES_MAX - 9, false),
        ] {
            let mut group = MessageGroup::of(said(7, 5, 10));
            assert_eq!(group.add(said(seq, at, bytes)).is_none(), taken, "{seq} {at} {bytes}");
            let last = if taken { (7, seq, at, 2) } else { (7, 7, 5, 1) };
            assert_eq!((group.first, group.last, group.at, group.texts.len()), last);
        }
        assert!(MessageGroup::of(said(0, 5, 10)).add(said(1, 5, 10)).is_some(), "a title stands alone");
    }

    #[test]
    fn texts_of_one_place_are_gathered_and_those_of_another_begin_a_document() {
        let mut groups = MessageGroups::default();
        for (at, seq) in [('a', 0), ('a', 1), ('a', 2), ('b', 3), ('a', 4), ('a', 4 + REACH)] {
            groups.push(at, said(seq, 5, 1));
        }
        let found: Vec<_> = groups.groups.iter().map(|(at, group)| (*at, group.first, group.last)).collect();
        assert_eq!(found, [('a', 0, 0), ('a', 1, 2), ('b', 3, 3), ('a', 4, 4), ('a', 4 + REACH, 4 + REACH)]);
        assert_eq!(groups.texts, 6);
    }

    #[test]
    fn a_page_ends_in_the_middle_of_a_document_and_goes_on_there() {
        let terms = SearchTerms::of(&["tapir".to_owned()]).unwrap();
        let (documents, texts) = ([640, 64], ["a tapir", "nobody", "two tapirs", "tapir"]);
        let whole: Vec<(i64, i64)> = vec![(640, 4), (640, 3), (640, 1), (64, 4), (64, 3), (64, 1)];
        let shown = || {
            Ok::<_, std::convert::Infallible>(HitSession {
                title: None,
                session_type: SessionType::Mixed,
                status: Status::Idle,
                last_at: Timestamp::default(),
            })
        };
        for limit in 1..=7 {
            let mut query = SearchQuery { words: Vec::new(), seen_by: None, after: None, limit };
            let mut seen = Vec::new();
            loop {
                let mut page = HitPage::new(&terms, &query);
                let mut full = false;
                let before = page.before;
                for document in documents.into_iter().filter(|document| *document < before) {
                    full = (0..4).rev().any(|place| {
                        let session = document.to_string();
                        let text = (place + 1, texts[place as usize]);
                        !page.offer((document, place), &session, text, shown).unwrap()
                    });
                    if full {
                        break;
                    }
                    page.document_done(document);
                }
                let page = if full { page.into_page() } else { page.into_last_page() };
                assert!(page.items.len() <= limit);
                seen.extend(
                    page.items.into_iter().map(|hit| {
                        (hit.session.as_str().parse().unwrap(), hit.sequence.unwrap().cast_signed())
                    }),
                );
                query.after = page.next;
                if page.next.is_none() || seen.len() > 6 {
                    break;
                }
            }
            assert_eq!(seen, whole, "{limit}");
        }
    }
}
