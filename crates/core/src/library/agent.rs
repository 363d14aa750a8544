//! Agents: who does the work, with which model, instructions and tools.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::task::RunLimits;
use super::{Definition, Kind};
use crate::error::{Error, Result};
use crate::ids::{check_name, check_text};
use crate::json::Json;
use crate::limits;

/// A doer of tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    pub slug: String,
    pub name: String,
    pub instructions: Option<String>,
    /// `eliza`, `external`, or a model that the server's configuration knows; none is its default.
    pub model: Option<String>,
    #[serde(default)]
    pub tools: Vec<Tool>,
    #[serde(default)]
    pub limits: AgentLimits,
}

/// What one run of an agent may use, and how many of them at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentLimits {
    pub steps: Option<u64>,
    pub tokens: Option<u64>,
    pub cost_micros: Option<u64>,
    pub wall_ms: Option<u64>,
    /// Runs at the same time, on all workers together.
    pub concurrency: Option<u32>,
    /// What the model is given at most, in tokens.
    pub context_tokens: Option<u64>,
}

impl AgentLimits {
    pub const fn of_a_run(&self) -> RunLimits {
        RunLimits {
            steps: self.steps,
            tokens: self.tokens,
            cost_micros: self.cost_micros,
            wall_ms: self.wall_ms,
        }
    }
}

/// Something that an agent may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Tool {
    /// A request to a server, with the call's arguments as its JSON body.
    Http {
        name: String,
        description: Option<String>,
        /// JSON Schema of the arguments.
        #[serde(default, deserialize_with = "schema")]
        schema: Option<Json>,
        url: String,
        #[serde(default = "post")]
        method: String,
        /// `secret:NAME` stands for a secret of the server's configuration.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        #[serde(default)]
        requires_confirmation: bool,
        timeout_ms: Option<u64>,
    },
    /// Tools of an MCP server that the server's configuration declares under this name.
    Mcp {
        server: String,
        /// Which of its tools; none named is all.
        #[serde(default)]
        allow: Vec<String>,
        /// Which of them ask a person first.
        #[serde(default)]
        requires_confirmation: Vec<String>,
    },
    /// A tool of Sederunt itself.
    Builtin { name: String },
}

/// A tagged enumeration is read from values that serde holds, not from the text that [`Json`] keeps.
fn schema<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(from)?;
    value.map(|value| Json::of(&value).map_err(serde::de::Error::custom)).transpose()
}

fn post() -> String {
    "POST".to_owned()
}

/// The tools that need nothing outside.
pub const BUILTINS: [&str; 2] = ["request_input", "request_feedback"];

impl Definition for Agent {
    const KIND: Kind = Kind::Agent;

    fn check(&self) -> Result<()> {
        check_name("slug", &self.slug)?;
        check_text("name", &self.name, limits::NAME_CHARS_MAX)?;
        if let Some(text) = &self.instructions
            && (text.len() > limits::INSTRUCTIONS_BYTES_MAX || text.contains('\0'))
        {
            let rule = format!("must be at most {} bytes, without NUL", limits::INSTRUCTIONS_BYTES_MAX);
            return Err(Error::invalid("instructions", rule));
        }
        if let Some(model) = &self.model {
            check_name("model", model)?;
        }
        if self.limits.concurrency.is_some_and(|most| most == 0) {
            return Err(Error::invalid("limits.concurrency", "must be at least 1"));
        }
        if self.tools.len() > limits::TOOLS_MAX {
            return Err(Error::invalid("tools", format!("names more than {}", limits::TOOLS_MAX)));
        }
        self.tools.iter().try_for_each(check_tool)
    }

    fn own_id(&self) -> Option<&str> {
        Some(&self.slug)
    }

    fn slug(&self) -> Option<&str> {
        None
    }

    fn facets(&self) -> Vec<(&'static str, Box<str>)> {
        Vec::new()
    }
}

fn check_tool(tool: &Tool) -> Result<()> {
    match tool {
        Tool::Http { name, description, schema, url, method, headers, .. } => {
            check_tool_name(name)?;
            if let Some(text) = description {
                check_text("tools.description", text, limits::DESCRIPTION_CHARS_MAX)?;
            }
            if let Some(schema) = schema {
                crate::work::output::check_schema("tools.schema", schema)?;
            }
            if !(url.starts_with("https://") || url.starts_with("http://")) || url.len() > 2_000 {
                return Err(Error::invalid("tools.url", "must be an http or https address"));
            }
            if !["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method.as_str()) {
                return Err(Error::invalid("tools.method", "must be GET, POST, PUT, PATCH or DELETE"));
            }
            for (name, value) in headers {
                let fits = !name.is_empty()
                    && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                    && value.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
                if !fits {
                    return Err(Error::invalid(
                        "tools.headers",
                        "holds a name or value that no request can carry",
                    ));
                }
            }
            Ok(())
        }
        Tool::Mcp { server, allow, requires_confirmation } => {
            check_name("tools.server", server)?;
            allow.iter().chain(requires_confirmation).try_for_each(|name| check_name("tools.allow", name))
        }
        Tool::Builtin { name } => {
            if BUILTINS.contains(&name.as_str()) {
                return Ok(());
            }
            Err(Error::invalid("tools.name", format!("must be one of {}", BUILTINS.join(", "))))
        }
    }
}

/// A name that every model provider takes.
fn check_tool_name(name: &str) -> Result<()> {
    let fits = (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if fits {
        Ok(())
    } else {
        Err(Error::invalid("tools.name", "must be 1 to 64 letters, digits, `_` or `-`"))
    }
}
