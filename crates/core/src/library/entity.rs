//! Entities: the things that work is about and that its results are written back to.

use serde::{Deserialize, Serialize};

use super::{Definition, Kind};
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
    const KIND: Kind = Kind::Entity;

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
        vec![("type_slug", self.type_slug.as_str().into())]
    }
}

impl Entity {
    /// Takes over fields, one by one; the others stay.
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
