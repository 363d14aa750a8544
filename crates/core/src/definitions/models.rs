//! What definitions ask of models, and what to say when the models of this server cannot do it. Core knows no models:
//! the operator's configuration does, and hands in a check ([`ModelCheck`]). A definition that fails it is kept with a
//! warning, since it may come before the configuration does; its runs are refused.

use std::fmt::Debug;

use super::task::RunLimits;

/// Judges, by the models and prices that this server has, whether its workers can run an agent.
pub trait ModelCheck: Debug + Send + Sync {
    /// Why a run with this model, or with the default one where none is named, is refused within these limits: sentences
    /// that name the setting to change. None for a model that somebody else runs.
    fn refusals(&self, model: Option<&str>, limits: &RunLimits) -> Vec<String>;
}

/// Work that a definition leads to, which needs a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelUse<'a> {
    pub model: UsedModel<'a>,
    pub limits: RunLimits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsedModel<'a> {
    /// This one; the default one where none is named.
    Named(Option<&'a str>),
    /// That of the agent with this slug.
    OfAgent(&'a str),
}
