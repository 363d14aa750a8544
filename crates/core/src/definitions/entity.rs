//! Entities: the things that work is about and that its results are written back to.

use serde::{Deserialize, Serialize};

use super::{Definition, DefinitionKind};
use crate::error::{Error, Result};
use crate::ids::{check_name, check_text};
use crate::json::Json;
use crate::limits;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entity {
    pub type_slug: String,
    pub title: Option<String>,
    #[serde(default = "Json::empty_object")]
    pub fields: Json,
}

impl Definition for Entity {
    const KIND: DefinitionKind = DefinitionKind::Entity;

    fn check(&self) -> Result<()> {
        check_name("type_slug", &self.type_slug)?;
        if let Some(title) = &self.title {
            check_text("title", title, limits::NAME_CHARS_MAX)?;
        }
        if !self.fields.is_object() {
            return Err(Error::invalid("fields", "must be an object"));
        }
        Ok(())
    }

    fn own_id(&self) -> Option<&str> {
        None
    }

    fn slug(&self) -> Option<&str> {
        None
    }

    fn facets(&self) -> Vec<(&'static str, Box<str>)> {
        let mut facets = vec![("type_slug", self.type_slug.as_str().into())];
        facets.extend(self.email().map(|email| (EMAIL, email.into())));
        facets
    }
}

/// The type of entities that represent people who gave their address, and the field by which they are found.
pub const LEAD: &str = "lead";
pub const EMAIL: &str = "email";

impl Entity {
    /// A new entity of this type with these fields. A text in `title` or `name` becomes its title.
    pub fn of_fields(type_slug: &str, fields: &[(String, Json)]) -> Self {
        let title = fields
            .iter()
            .find(|(key, _)| key == "title" || key == "name")
            .and_then(|(_, title)| title.read::<String>().ok())
            .map(|title| title.chars().take(limits::NAME_CHARS_MAX).collect());
        let mut entity = Self { type_slug: type_slug.to_owned(), title, fields: Json::empty_object() };
        entity.take(fields);
        entity
    }

    /// The address of a lead, in the form in which addresses are compared.
    fn email(&self) -> Option<String> {
        if self.type_slug != LEAD {
            return None;
        }
        let (_, email) = self.fields.fields().into_iter().find(|(key, _)| key == EMAIL)?;
        let email = email.read::<String>().ok()?.trim().to_lowercase();
        (!email.is_empty() && email.len() <= limits::EMAIL_BYTES_MAX).then_some(email)
    }

    /// Replaces these fields; the others stay.
    pub fn take(&mut self, fields: &[(String, Json)]) {
        let mut all = self.fields.fields();
        for (key, value) in fields {
            match all.iter_mut().find(|(kept, _)| kept == key) {
                Some((_, kept)) => *kept = value.clone(),
                None => all.push((key.clone(), value.clone())),
            }
        }
        self.fields = Json::object(all.iter().map(|(key, value)| (key.as_str(), value)));
    }
}
