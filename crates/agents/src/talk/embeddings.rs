//! Finds memories by meaning, where an embedding model is configured. Vectors are made in the background, after the
//! commits, by the first node that finds one missing; a turn only embeds its own message, waits shortly, and recalls
//! by words if no vector comes. An owner's vectors are held in memory for the comparison.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sederunt_core::engine::{Engine, RunningTurn};
use sederunt_core::memory::vector::{Vector, VectorIndex};
use sederunt_core::memory::{Memory, Owner};
use sederunt_core::{Error, TenantId, limits as core_limits};

use super::Conversations;
use crate::limits;
use crate::model;
use crate::model::embed::Embedder;

/// An embedding model, and the cached vectors of memories.
#[derive(Debug)]
pub struct MemoryEmbeddings {
    embedder: Embedder,
    /// The similarity (cosine) from which on a memory matches a message.
    min: f32,
    cache: Mutex<VectorCache>,
    /// A task is making the missing vectors.
    busy: AtomicBool,
}

/// Cached vectors by owner, with when they were last used.
#[derive(Debug, Default)]
struct VectorCache {
    kept: HashMap<(TenantId, Owner), CachedVectors>,
    asked: u64,
}

#[derive(Clone, Debug, Default)]
struct CachedVectors {
    index: Arc<VectorIndex>,
    /// How many vectors the store had, and the number of the newest.
    count: u64,
    newest: i64,
    asked: u64,
}

impl MemoryEmbeddings {
    pub fn new(embedder: Embedder, min: Option<f32>) -> Self {
        Self {
            embedder,
            min: min.unwrap_or(limits::SIMILARITY_MIN),
            cache: Mutex::default(),
            busy: AtomicBool::new(false),
        }
    }

    /// The ids of the memories of a turn that are similar to a text, most similar first. `None`: no vector of the text
    /// came in time.
    async fn similar(
        &self,
        engine: &Engine,
        begun: &RunningTurn,
        text: &str,
    ) -> Result<Option<Vec<String>>, Error> {
        let index = self.index(engine, begun).await?;
        if index.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let texts = [text];
        let asked = self.embedder.embed(&texts);
        match tokio::time::timeout(limits::EMBED_MESSAGE_MAX, asked).await {
            Ok(Ok(vectors)) => Ok(vectors
                .first()
                .map(|vector| index.nearest(vector, self.min, core_limits::RECALL_CANDIDATES))),
            Ok(Err(error)) => {
                tracing::debug!(target: "sederunt::talk", %error, "a message could not be embedded; its turn recalls by words");
                Ok(None)
            }
            Err(_) => Ok(None),
        }
    }

    /// An owner's vectors as the store has them now: new ones are added to the cache; if any were removed, all are
    /// read again.
    async fn index(&self, engine: &Engine, begun: &RunningTurn) -> Result<Arc<VectorIndex>, Error> {
        let key = (begun.tenant().clone(), begun.owner());
        let known = self.cache.lock().asked(&key);
        let read = async |after| engine.vectors_for_turn(begun, self.embedder.model(), after).await;
        let mut found = read(known.newest).await?;
        let mut kept = known;
        if found.kept != kept.count + found.items.len() as u64 {
            kept = CachedVectors::default();
            found = read(0).await?;
        } else if found.items.is_empty() {
            return Ok(kept.index);
        }
        let index = Arc::make_mut(&mut kept.index);
        for one in &found.items {
            index.put(&one.memory, &one.vector);
            kept.newest = one.number;
        }
        kept.count = found.kept;
        let index = kept.index.clone();
        self.cache.lock().keep(key, kept);
        Ok(index)
    }

    /// Makes the missing vectors of memories for this model, until none is missing or the provider does not answer.
    /// Returns how many were made.
    async fn make_missing(&self, engine: &Engine) -> Result<usize, Error> {
        let mut made = 0;
        loop {
            let missing = engine.unembedded(self.embedder.model(), limits::EMBED_TEXTS_MAX).await?;
            if missing.is_empty() {
                return Ok(made);
            }
            let Some(vectors) = self.vectors_of(&missing).await else { return Ok(made) };
            made += vectors.iter().flatten().count();
            let mut by_tenant: HashMap<TenantId, Vec<(Memory, Option<Vector>)>> = HashMap::new();
            for ((tenant, memory), vector) in missing.into_iter().zip(vectors) {
                by_tenant.entry(tenant).or_default().push((memory, vector));
            }
            for (tenant, made) in by_tenant {
                engine.keep_vectors(&tenant, self.embedder.model(), made).await?;
            }
        }
    }

    /// `None` if the provider does not answer. If it refuses a batch, each text is sent by itself, so that one
    /// refused text does not keep the others from their vectors.
    async fn vectors_of(&self, missing: &[(TenantId, Memory)]) -> Option<Vec<Option<Vector>>> {
        let texts: Vec<String> = missing.iter().map(|(_, memory)| memory.text()).collect();
        let all: Vec<&str> = texts.iter().map(String::as_str).collect();
        match self.made(&all).await {
            Ok(vectors) => return Some(vectors.into_iter().map(Some).collect()),
            Err(error) if !is_about_the_text(&error) => {
                tracing::warn!(target: "sederunt::talk", %error, "the embeddings provider did not answer; memories are found by their words until it does");
                return None;
            }
            Err(_) => {}
        }
        let mut vectors = Vec::with_capacity(all.len());
        for text in all {
            vectors.push(match self.made(&[text]).await {
                Ok(vectors) => vectors.into_iter().next(),
                Err(error) if is_about_the_text(&error) => None,
                Err(_) => return None,
            });
        }
        Some(vectors)
    }

    async fn made(&self, texts: &[&str]) -> Result<Vec<Vector>, model::Error> {
        let made = self.embedder.embed(texts);
        let made = tokio::time::timeout(limits::EMBED_IDLE_MAX, made).await;
        made.unwrap_or(Err(model::Error::TimedOut(model::Wait::Total)))
    }
}

/// Whether the provider refused this text, and might accept another.
fn is_about_the_text(error: &model::Error) -> bool {
    matches!(error, model::Error::TooLong | model::Error::Refused { status: 400 | 413 | 422, .. })
}

impl VectorCache {
    fn asked(&mut self, key: &(TenantId, Owner)) -> CachedVectors {
        self.asked += 1;
        let Some(kept) = self.kept.get_mut(key) else { return CachedVectors::default() };
        kept.asked = self.asked;
        kept.clone()
    }

    /// Caches an owner's vectors, and drops those used least recently beyond the limit.
    fn keep(&mut self, key: (TenantId, Owner), kept: CachedVectors) {
        self.asked += 1;
        self.kept.insert(key, CachedVectors { asked: self.asked, ..kept });
        let mut bytes: usize = self.kept.values().map(|kept| kept.index.bytes()).sum();
        while bytes > limits::VECTOR_CACHE_BYTES_MAX
            && let Some(oldest) =
                self.kept.iter().min_by_key(|(_, kept)| kept.asked).map(|(key, _)| key.clone())
        {
            bytes -= self.kept.remove(&oldest).map_or(bytes, |kept| kept.index.bytes());
        }
    }
}

impl Conversations {
    /// The ids of the memories of a turn that are similar to its message, most similar first. `None`: no embedding is
    /// available.
    pub(super) async fn similar(
        &self,
        begun: &RunningTurn,
        text: &str,
    ) -> Result<Option<Vec<String>>, Error> {
        match &self.settings.embeddings {
            Some(embeddings) => embeddings.similar(&self.engine, begun, text).await,
            None => Ok(None),
        }
    }

    /// Makes the missing vectors, where an embedding model is configured. Only one task does so at a time; it also
    /// finds those that were added meanwhile.
    pub async fn make_vectors(&self) -> Result<usize, Error> {
        let Some(embeddings) = &self.settings.embeddings else { return Ok(0) };
        if embeddings.busy.swap(true, Ordering::AcqRel) {
            return Ok(0);
        }
        let made = embeddings.make_missing(&self.engine).await;
        embeddings.busy.store(false, Ordering::Release);
        made
    }

    /// The same, in the background.
    pub(super) fn make_vectors_soon(&self) {
        if self.settings.embeddings.is_none() {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            if let Err(error) = this.make_vectors().await {
                tracing::warn!(target: "sederunt::talk", code = error.code(), "the embeddings provider did not answer; memories are found by their words until it does");
            }
        });
    }
}
