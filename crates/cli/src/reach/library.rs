//! Definitions in the store that was opened here, whatever they define.

use sederunt::{Actor, Error, Json, Sederunt};
use sederunt_core::library::{self, Agent, CriteriaSet, Defined, Definition, Entity, Task, View};
use sederunt_server::wire::library::{Kept, KeptList};
use serde_json::Value;

use super::Noun;
use super::store::shown;
use crate::exit::Result;

/// Calls a function of one definition for the noun that was meant.
macro_rules! of_noun {
    ($noun:expr, $call:ident($($arg:expr),*)) => {
        match $noun {
            Noun::Task => $call::<Task>($($arg),*).await,
            Noun::Agent => $call::<Agent>($($arg),*).await,
            Noun::Entity => $call::<Entity>($($arg),*).await,
            Noun::CriteriaSet => $call::<CriteriaSet>($($arg),*).await,
            Noun::View => $call::<View>($($arg),*).await,
        }
    };
}

pub async fn list(
    store: &Sederunt,
    actor: &Actor,
    noun: Noun,
    filters: Vec<(&'static str, String)>,
    limit: usize,
    after: Option<i64>,
) -> Result<Value> {
    async fn of<T: Definition>(
        store: &Sederunt,
        actor: &Actor,
        filters: Vec<(&'static str, String)>,
        limit: usize,
        after: Option<i64>,
    ) -> Result<Value> {
        shown(&KeptList::from(store.definitions::<T>(actor, filters, after, limit).await?))
    }
    of_noun!(noun, of(store, actor, filters, limit, after))
}

pub async fn show(store: &Sederunt, actor: &Actor, noun: Noun, name: &str) -> Result<Value> {
    async fn of<T: Definition>(store: &Sederunt, actor: &Actor, name: &str) -> Result<Value> {
        kept(store.definition::<T>(actor, name).await)
    }
    of_noun!(noun, of(store, actor, name))
}

pub async fn define(store: &Sederunt, actor: &Actor, noun: Noun, body: &Json) -> Result<Value> {
    async fn of<T: Definition>(store: &Sederunt, actor: &Actor, body: &Json) -> Result<Value> {
        let (id, wish) = library::read::<T>(body)?;
        kept(store.define(actor, id.as_deref(), wish, None).await)
    }
    of_noun!(noun, of(store, actor, body))
}

pub async fn redefine(
    store: &Sederunt,
    actor: &Actor,
    noun: Noun,
    name: &str,
    patch: &Json,
) -> Result<Value> {
    async fn of<T: Definition>(store: &Sederunt, actor: &Actor, name: &str, patch: &Json) -> Result<Value> {
        kept(store.redefine::<T>(actor, name, patch, None).await)
    }
    of_noun!(noun, of(store, actor, name, patch))
}

fn kept<T: Definition>(defined: Result<Defined<T>, Error>) -> Result<Value> {
    shown(&Kept::from(defined?))
}
