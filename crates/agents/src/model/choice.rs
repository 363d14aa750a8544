//! Which model to use, as people write it: `eliza`, `openai:MODEL`, `anthropic:MODEL`, `scripted:FILE`.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use super::anthropic::Anthropic;
use super::eliza::Eliza;
use super::openai::OpenAi;
use super::scripted::{BadFixture, Scripted};
use super::{BadSettings, Model, Settings};
use crate::limits;

/// A model by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelChoice {
    Eliza,
    OpenAi(String),
    Anthropic(String),
    Scripted(PathBuf),
}

/// The text names no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` names no model; write eliza, openai:MODEL, anthropic:MODEL or scripted:FILE")]
pub struct UnknownModel {
    pub text: String,
}

impl FromStr for ModelChoice {
    type Err = UnknownModel;

    fn from_str(text: &str) -> Result<Self, UnknownModel> {
        match text.split_once(':') {
            None if text == "eliza" => Ok(Self::Eliza),
            Some(("openai", model)) if !model.is_empty() => Ok(Self::OpenAi(model.to_owned())),
            Some(("anthropic", model)) if !model.is_empty() => Ok(Self::Anthropic(model.to_owned())),
            Some(("scripted", file)) if !file.is_empty() => Ok(Self::Scripted(file.into())),
            _ => Err(UnknownModel { text: text.to_owned() }),
        }
    }
}

/// One provider, as it is configured.
#[derive(Clone, Debug)]
pub struct Provider {
    pub base_url: String,
    pub key: Option<SecretString>,
}

/// The configured providers.
#[derive(Clone, Debug)]
pub struct Providers {
    pub openai: Provider,
    pub anthropic: Provider,
    /// Silence after which a stream is given up.
    pub idle: Duration,
}

impl Providers {
    /// Whether this model can be asked: a public provider refuses every request without a key.
    pub fn serve(&self, choice: &ModelChoice) -> bool {
        let public = Self::default();
        let usable =
            |here: &Provider, there: &Provider| here.key.is_some() || here.base_url != there.base_url;
        match choice {
            ModelChoice::Eliza | ModelChoice::Scripted(_) => true,
            ModelChoice::OpenAi(_) => usable(&self.openai, &public.openai),
            ModelChoice::Anthropic(_) => usable(&self.anthropic, &public.anthropic),
        }
    }
}

impl Default for Providers {
    /// The providers' own addresses, without keys.
    fn default() -> Self {
        let at = |base_url: &str| Provider { base_url: base_url.to_owned(), key: None };
        Self {
            openai: at("https://api.openai.com/v1"),
            anthropic: at("https://api.anthropic.com"),
            idle: limits::MODEL_IDLE_MAX,
        }
    }
}

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error(transparent)]
    Settings(#[from] BadSettings),
    #[error(transparent)]
    Fixture(#[from] BadFixture),
}

impl ModelChoice {
    /// The model, ready to be asked. Nothing is sent yet.
    pub fn open(&self, providers: &Providers) -> Result<Arc<dyn Model>, Unusable> {
        let settings = |provider: &Provider, model: &str| Settings {
            idle: providers.idle,
            ..Settings::new(provider.base_url.as_str(), provider.key.clone(), model)
        };
        Ok(match self {
            Self::Eliza => Arc::new(Eliza),
            Self::OpenAi(model) => Arc::new(OpenAi::new(&settings(&providers.openai, model))?),
            Self::Anthropic(model) => Arc::new(Anthropic::new(&settings(&providers.anthropic, model))?),
            Self::Scripted(file) => Arc::new(Scripted::open(file)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_in_one_word() {
        let cases = [
            ("eliza", Some(ModelChoice::Eliza)),
            ("openai:gpt-x", Some(ModelChoice::OpenAi("gpt-x".to_owned()))),
            ("openai:vendor/model:free", Some(ModelChoice::OpenAi("vendor/model:free".to_owned()))),
            ("anthropic:claude-x", Some(ModelChoice::Anthropic("claude-x".to_owned()))),
            ("scripted:a/b.json", Some(ModelChoice::Scripted("a/b.json".into()))),
            ("openai:", None),
            ("openai", None),
            ("eliza:x", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<ModelChoice>().ok(), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_opened_says_why() {
        let providers = Providers::default();
        assert!(ModelChoice::Eliza.open(&providers).is_ok());
        assert!(ModelChoice::OpenAi("m".to_owned()).open(&providers).is_ok());
        let missing = ModelChoice::Scripted("/does/not/exist.json".into()).open(&providers);
        assert!(matches!(missing, Err(Unusable::Fixture(BadFixture::Unreadable { .. }))));
        let nowhere = Provider { base_url: "nowhere".to_owned(), key: None };
        let nowhere = Providers { anthropic: nowhere, ..providers };
        let refused = ModelChoice::Anthropic("m".to_owned()).open(&nowhere);
        assert!(matches!(refused, Err(Unusable::Settings(BadSettings::Url))));
    }
}
