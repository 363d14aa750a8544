//! The head cache: heads as this node's appends left them, each with the id of the transaction that wrote its row.
//!
//! A cached head is a guess and is never trusted. `optimistic` writes on the condition that the row was written by
//! that transaction, and locks and loads the row if it was not. The newest patches of documents are cached with it, as
//! every patch writes the row.

use std::collections::HashMap;
use std::error::Error;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use parking_lot::Mutex;
use postgres_types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use sederunt_core::document::DocumentKey;
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::session::Head;

/// Heads that are cached at least; at most twice as many.
pub(in crate::postgres) const HEADS_MIN: usize = 8_192;
/// PostgreSQL numbers its transactions in 32 bits. None can come round again in this time.
const AGE_MAX: Duration = Duration::from_secs(600);

/// The id of the transaction that wrote a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::postgres) struct Xid(pub(in crate::postgres) u32);

impl ToSql for Xid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::XID
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Xid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(u32::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::XID
    }
}

/// A head without its preview, and which row it is.
#[derive(Clone, Debug)]
pub(in crate::postgres) struct CachedHead {
    pub(in crate::postgres) tk: i32,
    pub(in crate::postgres) sk: i64,
    pub(in crate::postgres) head: Head,
    pub(in crate::postgres) written_by: Xid,
    /// The newest patches of documents that this node has patched, as of this head: every patch moves the head.
    pub(in crate::postgres) patches: NewestPatches,
    at: Instant,
}

/// The newest patches of some documents of a session.
pub(in crate::postgres) type NewestPatches = Vec<(DocumentKey, u64)>;

impl CachedHead {
    pub(in crate::postgres) fn new(
        tk: i32,
        sk: i64,
        mut head: Head,
        written_by: Xid,
        patches: NewestPatches,
    ) -> Self {
        head.preview = None;
        Self { tk, sk, head, written_by, patches, at: Instant::now() }
    }

    /// Whether the newest patch of a document is known.
    pub(in crate::postgres) fn knows(&self, document: &DocumentKey) -> bool {
        self.patches.iter().any(|(known, _)| known == document)
    }
}

pub(in crate::postgres) type HeadKey = (TenantId, SessionId);

/// Two generations: when the young one is full, it becomes the old one, and heads that were not used since are
/// dropped.
#[derive(Debug, Default)]
pub(in crate::postgres) struct HeadCache(pub(in crate::postgres) Mutex<[HashMap<HeadKey, CachedHead>; 2]>);

impl HeadCache {
    /// Takes heads out: they are about to change.
    pub(in crate::postgres) fn take<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a HeadKey>,
    ) -> Vec<Option<CachedHead>> {
        let mut generations = self.0.lock();
        keys.into_iter()
            .map(|key| {
                let [young, old] = &mut *generations;
                young.remove(key).or_else(|| old.remove(key)).filter(|known| known.at.elapsed() < AGE_MAX)
            })
            .collect()
    }

    pub(in crate::postgres) fn put(&self, heads: impl IntoIterator<Item = (HeadKey, CachedHead)>) {
        let mut generations = self.0.lock();
        for (key, known) in heads {
            if generations[0].len() >= HEADS_MIN {
                generations[1] = std::mem::take(&mut generations[0]);
            }
            generations[1].remove(&key);
            generations[0].insert(key, known);
        }
    }

    /// Drops heads that another way or another node has changed.
    pub(in crate::postgres) fn forget(&self, keys: impl IntoIterator<Item = HeadKey>) {
        let mut generations = self.0.lock();
        for key in keys {
            for generation in &mut *generations {
                generation.remove(&key);
            }
        }
    }
}
