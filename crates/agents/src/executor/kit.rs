//! The models and tools that the configuration gives to an executor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret;
use sederunt_core::definitions::agent::{
    HttpTool as HttpDefinition, McpTools, SecretHosts, Tool as Definition, ToolOfAgent, sends_to,
};
use sederunt_core::definitions::task::RunLimits;
use sederunt_core::definitions::tool::ToolAction;
use sederunt_core::definitions::{ModelCheck, ToolDefinition};
use sederunt_core::engine::Engine;
use sederunt_core::ids::TenantId;
use sederunt_core::json::Json;
use sederunt_core::json_schema;
use sederunt_core::session::Session;
use sederunt_core::tool_session::values;

use crate::limits;
use crate::model::Model;
use crate::model::choice::{ModelChoice, Providers};
use crate::model::price::Prices;
use crate::model::retry::{RetryPolicy, Retrying};
use crate::outbound::Outbound;
use crate::tool::http::{ArgumentPlace, HttpTool, Secrets, Settings as HttpSettings};
use crate::tool::{
    BadTool, CalledTool, Confirm, Error as ToolError, SentSecrets, Tool, ToolSpec, Toolbox, mcp,
};

/// The name of a model that runs outside Sederunt.
const EXTERNAL: &str = "external";

/// Models and tools.
#[derive(Debug)]
pub struct Kit {
    /// The model of agents that name none.
    pub default_model: String,
    pub providers: Providers,
    /// Models that the configuration names, such as scripts. No agent opens a file by itself.
    pub named: BTreeMap<String, Arc<dyn Model>>,
    pub prices: Prices,
    /// Tools of the program itself, in sets. Agents of every tenant name a set as they name an MCP server.
    pub toolsets: BTreeMap<String, Vec<Arc<dyn Tool>>>,
    /// The secrets and MCP servers of each tenant.
    pub means: BTreeMap<TenantId, Means>,
    pub outbound: Outbound,
    pub retries: RetryPolicy,
}

/// Secrets and MCP servers of one tenant: declared in the configuration, named by agents.
#[derive(Debug, Default)]
pub struct Means {
    pub secrets: Secrets,
    /// The hosts that this tenant's tools may reach, where they are more than every tenant's.
    pub outbound: Option<Outbound>,
    pub servers: BTreeMap<String, Arc<mcp::Server>>,
}

/// What a model is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// The built-in `eliza`: replies by rules, and reads neither instructions nor memories.
    RuleBased,
    /// A script: replies with fixed texts.
    Scripted,
    /// A language model: reads its instructions, and can be asked to summarise.
    Language,
}

impl ModelKind {
    pub fn of(name: &str) -> Self {
        match name {
            "eliza" => Self::RuleBased,
            name if name.starts_with("scripted:") => Self::Scripted,
            _ => Self::Language,
        }
    }
}

/// Why an agent cannot work here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("{}", unknown_model(.0))]
    NoModel(String),
    #[error(
        "the limit `cost_micros` cannot be kept: this server has no price for the model `{0}`; add one under `[prices]` in \
         the agents file, or take the limit away"
    )]
    NoPrice(String),
    #[error("{0}")]
    Tool(#[from] BadTool),
    #[error("there is no tool `{0}`")]
    NoTool(String),
    #[error("this server has no MCP server `{0}`")]
    NoServer(String),
    #[error("the MCP server `{name}` cannot be used: {why}")]
    Server { name: String, why: ToolError },
}

/// The advice about a model that this server does not have.
fn unknown_model(name: &str) -> String {
    let sentence = format!("this server has no model `{name}`");
    match name.split_once(':').map(|(provider, _)| provider) {
        Some(provider @ ("openai" | "anthropic")) => {
            format!("{sentence}: set `[{provider}] key_file` in the agents file")
        }
        Some("scripted") => format!("{sentence}: name the script under `[scripts]` in the agents file"),
        _ => format!("{sentence}: write eliza, external, openai:MODEL, anthropic:MODEL or scripted:NAME"),
    }
}

impl Kit {
    /// Models that need no configuration, and only the built-in tools.
    pub fn plain(outbound: Outbound) -> Self {
        Self {
            default_model: "eliza".to_owned(),
            providers: Providers::default(),
            named: BTreeMap::new(),
            prices: Prices::default(),
            toolsets: BTreeMap::new(),
            means: BTreeMap::new(),
            outbound,
            retries: RetryPolicy::default(),
        }
    }

    /// The hosts that each secret may be sent to; the engine checks agents against them when they are defined.
    pub fn secret_hosts(&self) -> SecretHosts {
        let mut hosts = SecretHosts::default();
        for (tenant, means) in &self.means {
            for (name, secret) in &means.secrets {
                hosts.declare(tenant.clone(), name, &secret.hosts);
            }
        }
        hosts
    }

    /// Whether agents with this model run here, rather than outside.
    pub fn runs(&self, model: Option<&str>) -> bool {
        model.unwrap_or(&self.default_model) != EXTERNAL
    }

    /// The full name of a model: the default one where none is named.
    pub fn name_of<'a>(&'a self, model: Option<&'a str>) -> &'a str {
        model.unwrap_or(&self.default_model)
    }

    /// The default model, if it is a language model: it sums sittings up, finds what is worth remembering and words
    /// lessons. Without one, rules do.
    pub fn language_model(&self) -> Option<&str> {
        Some(self.name_of(None)).filter(|name| ModelKind::of(name) == ModelKind::Language)
    }

    pub fn model(&self, name: &str) -> Result<Arc<dyn Model>, Unfit> {
        if let Some(model) = self.named.get(name) {
            return Ok(self.patient(model.clone()));
        }
        let opened = self.choice(name)?.open(&self.providers);
        opened.map(|model| self.patient(model)).map_err(|_| Unfit::NoModel(name.to_owned()))
    }

    /// A model that the configuration does not name itself, if a provider serves it.
    fn choice(&self, name: &str) -> Result<ModelChoice, Unfit> {
        match name.parse::<ModelChoice>() {
            Ok(choice) if !matches!(choice, ModelChoice::Scripted(_)) && self.providers.serve(&choice) => {
                Ok(choice)
            }
            Ok(_) | Err(_) => Err(Unfit::NoModel(name.to_owned())),
        }
    }

    /// Refuses a model that this server does not have.
    fn check_model(&self, name: &str) -> Result<(), Unfit> {
        if self.named.contains_key(name) { Ok(()) } else { self.choice(name).map(drop) }
    }

    /// Refuses a cost limit for a model without a known price. The built-in `eliza` costs nothing.
    pub fn check_price(&self, model: &str, limits: &RunLimits) -> Result<(), Unfit> {
        let known = ModelKind::of(model) == ModelKind::RuleBased || self.prices.of(model).is_some();
        if known || limits.cost_micros.is_none() { Ok(()) } else { Err(Unfit::NoPrice(model.to_owned())) }
    }

    fn patient(&self, model: Arc<dyn Model>) -> Arc<dyn Model> {
        Arc::new(Retrying::new(model, self.retries))
    }

    /// The tools of an agent, each behind its checks.
    pub async fn toolbox(&self, tenant: &TenantId, tools: &[Definition]) -> Result<Toolbox, Unfit> {
        let mut toolbox = Toolbox::default();
        let schemas = tools.iter().filter_map(|tool| match tool {
            Definition::Http(tool) => tool.schema.as_ref(),
            Definition::Mcp(_) | Definition::Builtin(_) | Definition::Tool(_) => None,
        });
        json_schema::prepare(schemas).await;
        let none = Means::default();
        let means = self.means.get(tenant).unwrap_or(&none);
        for tool in tools {
            match tool {
                Definition::Http(tool) => {
                    let confirm =
                        if tool.requires_confirmation { Confirm::Always } else { Confirm::WhenAsked };
                    let call_max = tool.timeout_ms.map_or(limits::TOOL_CALL_MAX, Duration::from_millis);
                    let called = self.http(tool, ArgumentPlace::ByMethod, means)?;
                    toolbox.add_within(Arc::new(called), confirm, call_max)?;
                }
                Definition::Mcp(tools) => match self.toolsets.get(&tools.server) {
                    Some(set) => offer(&mut toolbox, set.clone(), tools, str::to_owned).await?,
                    None => offer_server(&mut toolbox, means, tools).await?,
                },
                Definition::Builtin(_) | Definition::Tool(_) => {}
            }
        }
        Ok(toolbox)
    }

    /// The tools of an agent that works in this session: those of [`Self::toolbox`], and the tools that are defined by
    /// themselves, whose calls are children of the session.
    pub async fn toolbox_of(
        &self,
        engine: &Engine,
        session: &Session,
        tools: &[Definition],
    ) -> Result<Toolbox, Unfit> {
        let mut toolbox = self.toolbox(&session.tenant, tools).await?;
        for tool in tools {
            let Definition::Tool(ToolOfAgent { slug }) = tool else { continue };
            let found = engine.tool_named(&session.tenant, slug).await;
            let found = found.map_err(|_| Unfit::NoTool(slug.clone()))?;
            let called = CalledTool::new(engine.clone(), session.clone(), &found);
            let called = called.map_err(|_| Unfit::NoTool(slug.clone()))?;
            json_schema::prepare([&called.spec().schema]).await;
            toolbox.add_patient(Arc::new(called), found.timeout() + limits::CALLED_TOOL_GRACE)?;
        }
        Ok(toolbox)
    }

    /// The one tool that an invocation calls. Empty, if an MCP server has no tool of this name.
    pub async fn invoked_tool(&self, tenant: &TenantId, tool: &ToolDefinition) -> Result<Toolbox, Unfit> {
        let mut toolbox = Toolbox::new(tool.timeout());
        let none = Means::default();
        let means = self.means.get(tenant).unwrap_or(&none);
        match &tool.run {
            ToolAction::Http(action) => {
                let called = HttpDefinition {
                    name: tool.slug.clone(),
                    description: None,
                    // The engine has checked the values by the tool's own schema.
                    schema: None,
                    url: action.url.clone(),
                    method: action.method.clone(),
                    headers: action.headers.clone(),
                    requires_confirmation: false,
                    timeout_ms: tool.timeout_ms,
                };
                let called = self.http(&called, ArgumentPlace::Body, means)?;
                toolbox.add(Arc::new(called), Confirm::WhenAsked)?;
            }
            ToolAction::Mcp(action) => {
                let wanted = McpTools {
                    server: action.server.clone(),
                    allow: vec![action.tool.clone()],
                    requires_confirmation: Vec::new(),
                };
                match self.toolsets.get(&action.server) {
                    Some(set) => offer(&mut toolbox, set.clone(), &wanted, str::to_owned).await?,
                    None => offer_server(&mut toolbox, means, &wanted).await?,
                }
            }
            ToolAction::Task(_) | ToolAction::Steps(_) => {}
        }
        Ok(toolbox)
    }

    /// The values of an invocation with their secrets filled in, and these secrets. A refusal names the
    /// secret and not its value.
    pub fn with_secrets(
        &self,
        tenant: &TenantId,
        tool: &ToolDefinition,
        values: &Json,
    ) -> Result<(Json, SentSecrets), String> {
        let none = Means::default();
        let known = &self.means.get(tenant).unwrap_or(&none).secrets;
        let named = values::secrets_named(tool, values);
        let mut sent = SentSecrets::default();
        let mut fields = values.fields();
        for (field, name) in named {
            let secret = known.get(&name).ok_or_else(|| format!("the secret `{name}` is not configured"))?;
            let place = tool.secrets_go_to().unwrap_or_default();
            if !sends_to(&secret.hosts, &place) {
                return Err(format!(
                    "the secret `{name}` may not be sent to {place}; the operator names its hosts"
                ));
            }
            let value = Json::of(&secret.value.expose_secret()).map_err(|error| error.to_string())?;
            fields.iter_mut().filter(|(key, _)| *key == field).for_each(|(_, kept)| *kept = value.clone());
            sent.add(&name, &secret.value);
        }
        Ok((Json::object(fields.iter().map(|(key, value)| (key.as_str(), value))), sent))
    }

    fn http(
        &self,
        tool: &HttpDefinition,
        arguments: ArgumentPlace,
        means: &Means,
    ) -> Result<HttpTool, BadTool> {
        let any = || Json::stored(r#"{"type":"object"}"#);
        let headers = tool.headers.iter().map(|(name, value)| {
            let value =
                value.strip_prefix("secret:").map_or_else(|| value.clone(), |name| format!("${{{name}}}"));
            (name.clone(), value)
        });
        let settings = HttpSettings {
            spec: ToolSpec {
                name: tool.name.clone(),
                description: tool.description.clone().unwrap_or_default(),
                schema: tool.schema.clone().unwrap_or_else(any),
            },
            method: tool.method.clone(),
            arguments,
            url: tool.url.clone(),
            headers: headers.collect(),
        };
        let outbound = means.outbound.as_ref().unwrap_or(&self.outbound);
        HttpTool::new(settings, &means.secrets, outbound.clone())
    }
}

impl ModelCheck for Kit {
    fn refusals(&self, model: Option<&str>, limits: &RunLimits) -> Vec<String> {
        if !self.runs(model) {
            return Vec::new();
        }
        let name = self.name_of(model);
        let checks = [self.check_model(name), self.check_price(name, limits)];
        checks.into_iter().filter_map(Result::err).map(|unfit| unfit.to_string()).collect()
    }
}

/// Adds the tools of an MCP server that the agent names.
async fn offer_server(toolbox: &mut Toolbox, means: &Means, wanted: &McpTools) -> Result<(), Unfit> {
    let name = &wanted.server;
    let server = means.servers.get(name).ok_or_else(|| Unfit::NoServer(name.clone()))?;
    let listed = server.tools().await.map_err(|why| Unfit::Server { name: name.clone(), why })?;
    offer(toolbox, listed, wanted, |tool| mcp::offered(name, tool)).await
}

/// Adds those of the listed tools that the agent names. `offered` is the name under which a model knows a tool.
async fn offer(
    toolbox: &mut Toolbox,
    listed: Vec<Arc<dyn Tool>>,
    wanted: &McpTools,
    offered: impl Fn(&str) -> String,
) -> Result<(), Unfit> {
    let among = |names: &[String], tool: &str| names.iter().any(|one| offered(one) == tool);
    json_schema::prepare(listed.iter().map(|tool| &tool.spec().schema)).await;
    for tool in listed {
        let name = tool.spec().name.clone();
        if wanted.allow.is_empty() || among(&wanted.allow, &name) {
            let asks = among(&wanted.requires_confirmation, &name);
            toolbox.add(tool, if asks { Confirm::Always } else { Confirm::WhenAsked })?;
        }
    }
    Ok(())
}

/// The context tokens of an agent, or the default.
pub(crate) fn context_budget(agent: Option<u64>) -> usize {
    agent.and_then(|tokens| usize::try_from(tokens).ok()).unwrap_or(limits::CONTEXT_TOKENS_DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::Allow;

    #[test]
    fn only_a_language_model_is_asked_to_summarise_and_to_word_lessons() {
        let table = [
            ("eliza", ModelKind::RuleBased),
            ("scripted:hello", ModelKind::Scripted),
            ("scripted:/srv/script.json", ModelKind::Scripted),
            ("openai:gpt-5", ModelKind::Language),
            ("anthropic:claude", ModelKind::Language),
            ("elizabeth", ModelKind::Language),
        ];
        for (name, kind) in table {
            assert_eq!(ModelKind::of(name), kind, "{name}");
            let mut kit = Kit::plain(Outbound::new(Allow::default()).unwrap());
            kit.default_model = name.to_owned();
            assert_eq!(kit.language_model(), (kind == ModelKind::Language).then_some(name), "{name}");
        }
    }
}
