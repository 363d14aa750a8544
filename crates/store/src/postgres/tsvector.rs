//! The words of a document in the binary form of `tsvector`: each once, in order. Cut and sorted here, they cost the
//! database a copy; text would have to be parsed and sorted there.

use std::collections::HashMap;
use std::error::Error;

use bytes::{BufMut as _, BytesMut};
use foldhash::fast::RandomState;
use postgres_types::{IsNull, ToSql, Type, to_sql_checked};
use smallvec::{SmallVec, smallvec};

use super::search::tenant_word;
use crate::words::each_word;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TsVector(Box<[u8]>);

impl TsVector {
    /// The words of a document of this tenant, each with the positions of the texts that hold it. Positions ascend
    /// from 1.
    pub(super) fn of<'t>(tk: i32, texts: impl IntoIterator<Item = (u16, &'t str)>) -> Self {
        let mut words: HashMap<String, SmallVec<[u16; 8]>, RandomState> = HashMap::default();
        words.insert(tenant_word(tk), SmallVec::new());
        for (place, text) in texts {
            each_word(text, |word| match words.get_mut(word) {
                Some(places) if places.last() == Some(&place) => {}
                Some(places) => places.push(place),
                None => drop(words.insert(word.to_owned(), smallvec![place])),
            });
        }
        let mut sorted: Vec<_> = words.into_iter().collect();
        // By their bytes, the shorter one first, as PostgreSQL compares them.
        sorted.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut bytes = Vec::new();
        bytes.put_u32(u32::try_from(sorted.len()).unwrap_or(u32::MAX));
        for (word, places) in sorted {
            bytes.extend_from_slice(word.as_bytes());
            bytes.put_u8(0);
            bytes.put_u16(u16::try_from(places.len()).unwrap_or(u16::MAX));
            places.into_iter().for_each(|place| bytes.put_u16(place));
        }
        Self(bytes.into())
    }
}

impl ToSql for TsVector {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TS_VECTOR
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_there_once_in_the_order_of_their_bytes_with_the_places_of_their_messages() {
        type WordPositions<'w> = &'w [(&'w str, &'w [u16])];
        let table: [(&[(u16, &str)], WordPositions<'_>); 4] = [
            (&[], &[("§7", &[])]),
            (&[(1, "B a\0b, A!")], &[("a", &[1]), ("b", &[1]), ("§7", &[])]),
            (
                &[(2, "ab abc a 한국어 10 9"), (9, "abc"), (64, "9 abc")],
                &[
                    ("10", &[2]),
                    ("9", &[2, 64]),
                    ("a", &[2]),
                    ("ab", &[2]),
                    ("abc", &[2, 9, 64]),
                    ("§7", &[]),
                    ("한국어", &[2]),
                ],
            ),
            (
                &[(1, "sederunts sederunt"), (2, "sederunta sede")],
                &[("sede", &[2]), ("sederunt", &[1]), ("sederunta", &[2]), ("sederunts", &[1]), ("§7", &[])],
            ),
        ];
        for (messages, words) in table {
            let mut bytes = u32::try_from(words.len()).unwrap().to_be_bytes().to_vec();
            for (word, places) in words {
                bytes.extend_from_slice(word.as_bytes());
                bytes.push(0);
                bytes.extend_from_slice(&u16::try_from(places.len()).unwrap().to_be_bytes());
                bytes.extend(places.iter().flat_map(|place| place.to_be_bytes()));
            }
            assert_eq!(*TsVector::of(7, messages.iter().copied()).0, *bytes, "{messages:?}");
        }
    }
}
