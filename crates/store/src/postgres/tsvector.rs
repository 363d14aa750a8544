//! The words of a text as the database keeps them: each once, in its order, in its own binary form. Cut, sorted and
//! counted here, they cost the database a copy; as text it would take them apart again and sort them.

use std::error::Error;

use bytes::{BufMut as _, BytesMut};
use postgres_types::{IsNull, ToSql, Type, to_sql_checked};

use super::search::tenant_word;
use crate::words::words_of;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TsVector(Box<[u8]>);

impl TsVector {
    /// What a document of this tenant is found by.
    pub(super) fn of(tk: i32, text: &str) -> Self {
        let (words, tenant) = (words_of(text), tenant_word(tk));
        let all = words.split_ascii_whitespace().chain([tenant.as_str()]);
        let mut sorted: Vec<(u64, &str)> = all.map(|word| (beginning(word), word)).collect();
        // By their bytes, and the shorter one first: as the database compares them.
        sorted.sort_unstable();
        sorted.dedup();
        let mut bytes = Vec::with_capacity(words.len() + 2 * sorted.len() + 16);
        bytes.put_u32(u32::try_from(sorted.len()).unwrap_or(u32::MAX));
        for (_, word) in sorted {
            bytes.extend_from_slice(word.as_bytes());
            // The end of the word, and no places in the text.
            bytes.extend_from_slice(&[0, 0, 0]);
        }
        Self(bytes.into())
    }
}

/// The first eight bytes of a word, as a number that sorts as they do: two words seldom have to be compared further.
fn beginning(word: &str) -> u64 {
    let mut bytes = [0; 8];
    let length = word.len().min(bytes.len());
    bytes[..length].copy_from_slice(&word.as_bytes()[..length]);
    u64::from_be_bytes(bytes)
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
    fn words_stand_there_once_and_in_the_order_of_their_bytes() {
        let table: [(&str, &[&str]); 4] = [
            ("", &["§7"]),
            ("B a\0b, A!", &["a", "b", "§7"]),
            ("ab abc a É 한국어 10 9", &["10", "9", "a", "ab", "abc", "e", "§7", "한국어"]),
            ("sederunts SEDERUNT sederunta sede", &["sede", "sederunt", "sederunta", "sederunts", "§7"]),
        ];
        for (text, words) in table {
            let mut bytes = u32::try_from(words.len()).unwrap().to_be_bytes().to_vec();
            for word in words {
                bytes.extend_from_slice(word.as_bytes());
                bytes.extend_from_slice(b"\0\0\0");
            }
            assert_eq!(*TsVector::of(7, text).0, *bytes, "{text:?}");
        }
    }
}
