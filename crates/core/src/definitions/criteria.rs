//! Criteria sets: the dimensions by which what an agent wants to write is judged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Definition, DefinitionKind};
use crate::error::{Error, Result};
use crate::ids::{check_name, check_text};
use crate::json::Json;
use crate::limits;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CriteriaSet {
    pub name: String,
    #[serde(default)]
    pub dimensions: Vec<Dimension>,
}

/// One field to judge. Only selections are judged; other types are kept for clients that show them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimension {
    pub slug: String,
    pub name: Option<String>,
    #[serde(rename = "type", default = "select")]
    pub kind: String,
    #[serde(default)]
    pub options: Vec<DimensionOption>,
    /// How clients show the options, kept as given; only the word `hard_block` in it decides anything.
    #[serde(default)]
    pub option_styles: BTreeMap<String, Json>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DimensionOption {
    pub value: String,
    pub label: Option<String>,
    pub score: Option<f64>,
    #[serde(default)]
    pub flag: OptionFlag,
}

/// Whether choosing an option raises a flag; a text names it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "must be true, false or the name of a flag")]
pub enum OptionFlag {
    #[default]
    None,
    Raised(bool),
    Named(String),
}

impl OptionFlag {
    pub const fn is_raised(&self) -> bool {
        matches!(self, Self::Raised(true) | Self::Named(_))
    }
}

fn select() -> String {
    "select".to_owned()
}

impl Dimension {
    pub fn is_select(&self) -> bool {
        self.kind.eq_ignore_ascii_case("select")
    }

    pub fn blocks(&self, option: &str) -> bool {
        self.option_styles
            .get(option)
            .is_some_and(|style| style.value().get("hard_block").and_then(|v| v.as_bool()) == Some(true))
    }
}

impl Definition for CriteriaSet {
    const KIND: DefinitionKind = DefinitionKind::CriteriaSet;

    fn check(&self) -> Result<()> {
        check_text("name", &self.name, limits::NAME_CHARS_MAX)?;
        if self.dimensions.len() > limits::DIMENSIONS_MAX {
            return Err(Error::invalid("dimensions", format!("names more than {}", limits::DIMENSIONS_MAX)));
        }
        for (n, dimension) in self.dimensions.iter().enumerate() {
            check_name("dimensions.slug", &dimension.slug)?;
            if self.dimensions[..n].iter().any(|other| other.slug == dimension.slug) {
                return Err(Error::invalid("dimensions.slug", format!("names `{}` twice", dimension.slug)));
            }
            if dimension.options.len() > limits::OPTIONS_MAX {
                return Err(Error::invalid(
                    "dimensions.options",
                    format!("names more than {}", limits::OPTIONS_MAX),
                ));
            }
            for (m, option) in dimension.options.iter().enumerate() {
                check_name("dimensions.options.value", &option.value)?;
                if dimension.options[..m].iter().any(|other| other.value == option.value) {
                    return Err(Error::invalid(
                        "dimensions.options.value",
                        format!("names `{}` twice in `{}`", option.value, dimension.slug),
                    ));
                }
            }
            for (option, style) in &dimension.option_styles {
                if !style.is_object() {
                    return Err(Error::invalid("dimensions.option_styles", "every style is an object"));
                }
                if !dimension.options.iter().any(|known| known.value == *option) {
                    return Err(Error::invalid(
                        "dimensions.option_styles",
                        format!("`{option}` is no option of `{}`", dimension.slug),
                    ));
                }
            }
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
        Vec::new()
    }
}
