//! Turns texts into vectors, by a provider that serves `/embeddings` as OpenAI publishes it.

use sederunt_core::memory::vector::Vector;
use serde::Deserialize;
use serde_json::json;

use super::http::{BadSettings, Endpoint, KeyHeader};
use super::{Error, Settings};
use crate::limits;

/// A model that turns texts into vectors.
#[derive(Debug)]
pub struct Embedder {
    endpoint: Endpoint,
    model: String,
}

#[derive(Deserialize)]
struct EmbeddingsAnswer {
    data: Vec<EmbeddingRow>,
}

#[derive(Deserialize)]
struct EmbeddingRow {
    index: usize,
    embedding: Vec<f32>,
}

impl Embedder {
    pub fn new(settings: &Settings) -> Result<Self, BadSettings> {
        let endpoint = Endpoint::new(settings, "/embeddings", KeyHeader::Bearer)?;
        Ok(Self { endpoint, model: settings.model.clone() })
    }

    /// The name under which vectors are stored: those of two models cannot be compared.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The vectors of texts, in their order.
    pub async fn embed(&self, texts: &[&str]) -> Result<Vec<Vector>, Error> {
        let input: Vec<String> =
            texts.iter().map(|text| text.chars().take(limits::EMBED_CHARS_MAX).collect()).collect();
        let body = json!({"model": self.model, "input": input, "encoding_format": "float"});
        let EmbeddingsAnswer { data } = self.endpoint.ask(&body, limits::EMBED_BYTES_MAX).await?;
        let mut vectors: Vec<Option<Vector>> = vec![None; texts.len()];
        for EmbeddingRow { index, embedding } in data {
            let place = vectors.get_mut(index).ok_or(Error::Malformed { what: "a vector of no text" })?;
            *place = Vector::of(&embedding);
        }
        vectors.into_iter().collect::<Option<_>>().ok_or(Error::Malformed { what: "a text without a vector" })
    }
}
