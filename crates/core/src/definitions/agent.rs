//! Agents: who does the work, with which model, instructions and tools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::task::RunLimits;
use super::{Definition, DefinitionKind, ModelUse, UsedModel};
use crate::error::{Error, Result};
use crate::ids::{TenantId, check_name, check_text};
use crate::json::Json;
use crate::limits;

/// An agent that does tasks.
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
    /// Runs of this agent are given the recent activity of the person who triggered them.
    #[serde(default)]
    pub activity: bool,
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
    /// The most tokens that the model is given.
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

/// A tool that an agent may call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Tool {
    Http(HttpTool),
    Mcp(McpTools),
    Builtin(BuiltinTool),
    Tool(ToolOfAgent),
}

/// A request to a server, with the call's arguments as its JSON body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTool {
    pub name: String,
    pub description: Option<String>,
    /// JSON Schema of the arguments.
    pub schema: Option<Json>,
    pub url: String,
    #[serde(default = "post")]
    pub method: String,
    /// `secret:NAME` is replaced by a secret of the server's configuration.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    #[serde(default)]
    pub requires_confirmation: bool,
    pub timeout_ms: Option<u64>,
}

/// Tools of an MCP server that the server's configuration declares under this name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpTools {
    pub server: String,
    /// Which of its tools; none named is all.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Which of them ask a person first.
    #[serde(default)]
    pub requires_confirmation: Vec<String>,
}

/// A tool of Sederunt itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuiltinTool {
    pub name: String,
}

/// A tool that is defined by itself: each call is an invocation of it, in a session of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolOfAgent {
    pub slug: String,
}

/// Splits a tagged object into its `type`, as JSON text, and the other fields: serde's own tagged enums cannot hold
/// JSON unparsed.
pub(super) fn tagged<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> std::result::Result<(Json, Json), D::Error> {
    use serde::de::Error;
    let mut fields = Json::deserialize(from)?.fields();
    let at = fields.iter().position(|(key, _)| key == "type");
    let kind = at.map(|at| fields.remove(at).1).ok_or_else(|| D::Error::missing_field("type"))?;
    Ok((kind, Json::object(fields.iter().map(|(key, value)| (key.as_str(), value)))))
}

impl<'de> Deserialize<'de> for Tool {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        use serde::de::Error;
        let (kind, rest) = tagged(from)?;
        match kind.as_str() {
            r#""http""# => rest.read().map(Self::Http),
            r#""mcp""# => rest.read().map(Self::Mcp),
            r#""builtin""# => rest.read().map(Self::Builtin),
            r#""tool""# => rest.read().map(Self::Tool),
            other => {
                return Err(D::Error::custom(format!(
                    "unknown type of tool {other}; use http, mcp, builtin or tool"
                )));
            }
        }
        .map_err(D::Error::custom)
    }
}

pub(super) fn post() -> String {
    "POST".to_owned()
}

/// The facet by which claims know an agent's limit.
pub const CONCURRENCY: &str = "concurrency";

/// Tools that need no outside server.
pub const BUILTINS: [&str; 3] = ["request_input", "request_feedback", PATCH_DOCUMENT];
/// The tool by which an agent patches a document of its session; the others ask people.
pub const PATCH_DOCUMENT: &str = "patch_document";

impl Definition for Agent {
    const KIND: DefinitionKind = DefinitionKind::Agent;

    fn model_uses(&self) -> Vec<ModelUse<'_>> {
        let model = UsedModel::Named(self.model.as_deref());
        vec![ModelUse { model, limits: self.limits.of_a_run() }]
    }

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

    fn loosens(&self, before: &Self) -> bool {
        let confirmed = |agent: &Self| -> Vec<String> {
            agent
                .tools
                .iter()
                .flat_map(|tool| match tool {
                    Tool::Http(tool) if tool.requires_confirmation => vec![tool.name.clone()],
                    Tool::Mcp(tools) => {
                        let name = |tool: &String| format!("{}/{tool}", tools.server);
                        tools.requires_confirmation.iter().map(name).collect()
                    }
                    Tool::Http(_) | Tool::Builtin(_) | Tool::Tool(_) => Vec::new(),
                })
                .collect()
        };
        let now = confirmed(self);
        confirmed(before).iter().any(|tool| !now.contains(tool))
    }

    fn schemas(&self) -> Vec<&Json> {
        self.tools
            .iter()
            .filter_map(|tool| match tool {
                Tool::Http(tool) => tool.schema.as_ref(),
                Tool::Mcp(_) | Tool::Builtin(_) | Tool::Tool(_) => None,
            })
            .collect()
    }

    fn facets(&self) -> Vec<(&'static str, Box<str>)> {
        self.limits.concurrency.iter().map(|most| (CONCURRENCY, most.to_string().into())).collect()
    }
}

/// The hosts to which each tenant's secrets may be sent, as the operator declared them. The values of the secrets
/// stay with the executor, which makes the calls.
#[derive(Clone, Debug, Default)]
pub struct SecretHosts(BTreeMap<(TenantId, String), Vec<String>>);

impl SecretHosts {
    pub fn declare(&mut self, tenant: TenantId, secret: &str, hosts: &[String]) {
        self.0.insert((tenant, secret.to_owned()), hosts.to_vec());
    }

    /// Refuses an agent with a tool that would send a secret to a host that the secret does not name. An undeclared
    /// secret is not judged here: the run reports that it is missing.
    pub fn check(&self, tenant: &TenantId, agent: &Agent) -> Result<()> {
        for tool in &agent.tools {
            let Tool::Http(HttpTool { url, headers, .. }) = tool else { continue };
            let secrets = headers.values().flat_map(|value| secrets_in(value));
            self.check_sent(tenant, "tools.headers", host_of(url).as_deref(), secrets)?;
        }
        Ok(())
    }

    /// Whether the operator has declared a secret of this name for the tenant.
    pub fn has(&self, tenant: &TenantId, secret: &str) -> bool {
        self.0.contains_key(&(tenant.clone(), secret.to_owned()))
    }

    /// Refuses to send one of these secrets to a host that it does not name; the refusal names the field.
    pub fn check_sent<'a>(
        &self,
        tenant: &TenantId,
        field: &str,
        host: Option<&str>,
        secrets: impl Iterator<Item = &'a str>,
    ) -> Result<()> {
        for name in secrets {
            let Some(hosts) = self.0.get(&(tenant.clone(), name.to_owned())) else { continue };
            if !host.is_some_and(|host| sends_to(hosts, host)) {
                let rule = match hosts.is_empty() {
                    true => format!(
                        "the secret `{name}` names no hosts, so no tool sends it; the operator adds `hosts` to it"
                    ),
                    false => format!("the secret `{name}` is sent to {} alone", hosts.join(", ")),
                };
                return Err(Error::invalid(field.to_owned(), rule));
            }
        }
        Ok(())
    }
}

/// Whether a secret with these hosts is sent to this one. Names are compared whole, in any letter case.
pub fn sends_to(hosts: &[String], host: &str) -> bool {
    let host = host.trim_end_matches('.');
    hosts.iter().any(|known| known.trim_end_matches('.').eq_ignore_ascii_case(host))
}

/// The secrets that the value of a header names: as `secret:NAME`, or as `${NAME}` anywhere in it.
pub fn secrets_in(value: &str) -> Vec<&str> {
    if let Some(name) = value.strip_prefix("secret:") {
        return vec![name];
    }
    value.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).collect()
}

/// The host of an address, without its port. The HTTP tool parses the address again, strictly, before it calls.
pub(super) fn host_of(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let place = authority.rsplit('@').next()?;
    let host = match place.strip_prefix('[') {
        Some(inside) => inside.split(']').next()?,
        None => place.split(':').next()?,
    };
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

fn check_tool(tool: &Tool) -> Result<()> {
    match tool {
        Tool::Http(HttpTool { name, description, schema, url, method, headers, .. }) => {
            check_tool_name("tools.name", name)?;
            if let Some(text) = description {
                check_text("tools.description", text, limits::DESCRIPTION_CHARS_MAX)?;
            }
            if let Some(schema) = schema {
                if schema.len() > limits::TOOL_SCHEMA_BYTES_MAX {
                    return Err(Error::TooLarge { what: "schema", limit: limits::TOOL_SCHEMA_BYTES_MAX });
                }
                crate::json_schema::check("tools.schema", schema)?;
            }
            check_request("tools", url, method, headers)
        }
        Tool::Mcp(McpTools { server, allow, requires_confirmation }) => {
            check_name("tools.server", server)?;
            allow.iter().chain(requires_confirmation).try_for_each(|name| check_name("tools.allow", name))
        }
        Tool::Builtin(BuiltinTool { name }) => {
            if BUILTINS.contains(&name.as_str()) {
                return Ok(());
            }
            Err(Error::invalid("tools.name", format!("must be one of {}", BUILTINS.join(", "))))
        }
        Tool::Tool(ToolOfAgent { slug }) => check_tool_name("tools.slug", slug),
    }
}

/// Refuses a request that could not be sent; the refusal names the place.
pub(super) fn check_request(
    place: &str,
    url: &str,
    method: &str,
    headers: &BTreeMap<String, String>,
) -> Result<()> {
    let refused = |field: &str, rule: &str| Err(Error::invalid(format!("{place}.{field}"), rule));
    if !(url.starts_with("https://") || url.starts_with("http://")) || url.len() > 2_000 {
        return refused("url", "must be an http or https address");
    }
    if !["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method) {
        return refused("method", "must be GET, POST, PUT, PATCH or DELETE");
    }
    for (name, value) in headers {
        let fits = !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && value.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
        if !fits {
            return refused("headers", "holds a name or value that no request can carry");
        }
    }
    Ok(())
}

/// Refuses a name that some model provider does not take.
pub(super) fn check_tool_name(field: &'static str, name: &str) -> Result<()> {
    let fits = (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if fits { Ok(()) } else { Err(Error::invalid(field, "must be 1 to 64 letters, digits, `_` or `-`")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_goes_to_the_hosts_that_it_names_and_nowhere_else() {
        let tenant = TenantId::stored("acme");
        let mut hosts = SecretHosts::default();
        hosts.declare(tenant.clone(), "crm", &["api.example.org".to_owned(), "::1".to_owned()]);
        hosts.declare(tenant.clone(), "inner", &[]);
        let check = |url: &str, value: &str| {
            let agent = format!(
                r#"{{"slug":"a","name":"A","tools":[{{"type":"http","name":"t","url":"{url}","headers":{{"X":"{value}"}}}}]}}"#
            );
            let agent: Agent = crate::definitions::read::read(&Json::stored(agent)).unwrap().1;
            hosts.check(&tenant, &agent).map_err(|error| error.code())
        };
        for url in ["https://api.example.org/x", "https://API.example.org:8443?q", "http://[::1]:80/"] {
            assert_eq!(check(url, "secret:crm"), Ok(()), "{url}");
        }
        for url in [
            "https://example.org/", "https://notapi.example.org/", "https://api.example.org.evil.net/",
            "https://api.example.org@evil.net/", "https://evil.net/?api.example.org",
            "https://evil.net#api.example.org",
        ] {
            assert_eq!(check(url, "secret:crm"), Err("invalid"), "{url}");
            assert_eq!(check(url, "Bearer ${crm}"), Err("invalid"), "{url}");
            assert_eq!(check(url, "plain"), Ok(()));
        }
        assert_eq!(check("https://api.example.org/", "secret:inner"), Err("invalid"), "it names no hosts");
        assert_eq!(check("https://evil.net/", "secret:unknown"), Ok(()), "the run says that it is missing");
        let other = TenantId::stored("globex");
        let agent = r#"{"slug":"a","name":"A","tools":[{"type":"http","name":"t","url":"https://e.org/","headers":{"X":"secret:crm"}}]}"#;
        let agent: Agent = crate::definitions::read::read(&Json::stored(agent)).unwrap().1;
        assert!(
            hosts.check(&other, &agent).is_ok(),
            "another tenant's secret of that name is another secret"
        );
    }
}
