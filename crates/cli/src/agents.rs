//! The models, prices, secrets and servers of the built-in workers and of conversations. Most of it is read from a file of its
//! own, since it names secrets and commands, which no request may do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sederunt_agents::background::RunningExecutor;
use sederunt_agents::executor::kit::{Kit, Means};
use sederunt_agents::executor::{Executor, Settings};
use sederunt_agents::model;
use sederunt_agents::model::choice::{ModelChoice, Provider};
use sederunt_agents::model::embed::Embedder;
use sederunt_agents::model::price::{Price, Prices};
use sederunt_agents::model::realtime::Realtime;
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::embeddings::MemoryEmbeddings;
use sederunt_agents::talk::{self, Conversations};
use sederunt_agents::tool::http::DeclaredSecret;
use sederunt_agents::tool::mcp;
use sederunt_core::engine::Engine;
use sederunt_core::ids::TenantId;
use serde::Deserialize;

use crate::config::{Config, toml_file};
use crate::exit::{Failure, Result};

/// The file that `agents_file` names.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AgentsFile {
    openai: Where,
    anthropic: Where,
    /// The model that finds memories by meaning.
    embeddings: Option<Served>,
    /// The provider of spoken conversations.
    realtime: Option<Served>,
    /// Scripts by the name under which agents use them, as `scripted:NAME`.
    scripts: BTreeMap<String, PathBuf>,
    /// Prices by model; a name that ends in `*` covers all that begin with it.
    prices: BTreeMap<String, PriceOf>,
    /// Hosts and networks that tools may reach although they are not on the public internet.
    allow: Vec<String>,
    tenants: BTreeMap<String, TenantMeans>,
}

/// A provider: its address, and the file that holds its key.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Where {
    base_url: Option<String>,
    key_file: Option<PathBuf>,
}

/// One model of a provider; its address and key are those of `[openai]` unless given.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Served {
    model: String,
    base_url: Option<String>,
    key_file: Option<PathBuf>,
    /// For `[embeddings]`: the similarity (cosine) from which on two texts match.
    likeness_min: Option<f32>,
}

impl Served {
    fn settings(&self, kit: &Kit, base: &Path) -> Result<model::Settings> {
        let Provider { base_url, key } = &kit.providers.openai;
        let key = match &self.key_file {
            Some(path) => Some(secret(&base.join(path))?),
            // The key of one host is not sent to another.
            None if self.base_url.is_none() => key.clone(),
            None => None,
        };
        Ok(model::Settings::new(self.base_url.as_ref().unwrap_or(base_url), key, &self.model))
    }
}

/// Per million tokens, in the currency of the bill.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceOf {
    input: f64,
    output: f64,
    cached: Option<f64>,
}

/// A secret: the file that holds it, and the hosts that agents' tools may send it to. A secret without hosts is only
/// for MCP servers of this file.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum SecretFile {
    File(PathBuf),
    Sent(SentSecret),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SentSecret {
    file: PathBuf,
    hosts: Vec<String>,
}

impl SecretFile {
    fn read(&self, base: &Path) -> Result<DeclaredSecret> {
        let (file, hosts) = match self {
            Self::File(file) => (file, Vec::new()),
            Self::Sent(SentSecret { file, hosts }) => (file, hosts.clone()),
        };
        if let Some(host) = hosts.iter().find(|host| host.is_empty() || host.contains(['/', '*', ' '])) {
            return Err(wrong(format!("`{host}` is no host; write names such as `api.example.org`")));
        }
        Ok(DeclaredSecret { value: secret(&base.join(file))?, hosts })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TenantMeans {
    secrets: BTreeMap<String, SecretFile>,
    /// Hosts and networks that this tenant's tools may reach beside those of all tenants.
    allow: Vec<String>,
    mcp: BTreeMap<String, McpServer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct McpServer {
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    url: Option<String>,
    headers: BTreeMap<String, String>,
}

/// Starts the built-in workers; none when the configuration asks for none.
pub fn start_executor(engine: &Engine, kit: Arc<Kit>, config: &Config, url: &str) -> Option<RunningExecutor> {
    if config.workers == 0 {
        return None;
    }
    let settings = Settings {
        worker: format!("sederunt-{}", std::process::id()),
        runs_max: config.workers,
        lease: config.work.lease.0,
        base_url: url.trim_end_matches('/').to_owned(),
    };
    Some(RunningExecutor::start(Executor::new(engine.clone(), kit, settings)))
}

/// The installation's settings of the safety check.
pub fn safety_settings(config: &Config) -> Result<sederunt_core::safety::Settings> {
    match &config.safety_file {
        Some(path) => {
            let text = text_of(path)?;
            toml_file::read_as(&text, &path.display().to_string())
        }
        None => Ok(sederunt_core::safety::Settings::default()),
    }
}

/// Runs conversations, with the models and settings of the configuration.
pub fn conversations(engine: &Engine, kit: Arc<Kit>, config: &Config) -> Result<Conversations> {
    let safety = safety_settings(config)?;
    let instructions = match &config.instructions_file {
        Some(path) => text_of(path)?,
        None => TOLD.to_owned(),
    };
    if let Some(model) = &config.response_model {
        kit.model(model).map_err(|error| Failure::usage(format!("`response_model`: {error}")))?;
    }
    let (file, base) = file_of(config)?;
    let embeddings = match &file.embeddings {
        Some(served) => {
            let embedder = Embedder::new(&served.settings(&kit, base)?).map_err(wrong)?;
            Some(Arc::new(MemoryEmbeddings::new(embedder, served.likeness_min)))
        }
        None => None,
    };
    let realtime = match &file.realtime {
        Some(Served { likeness_min: Some(_), .. }) => {
            return Err(wrong("`likeness_min` belongs in [embeddings]"));
        }
        Some(served) => Some(Arc::new(Realtime::new(&served.settings(&kit, base)?).map_err(wrong)?)),
        None => None,
    };
    let settings = talk::Settings {
        response_model: config.response_model.clone(),
        safety,
        classify: config.safety.classify,
        extract_by_model: config.talk.extract_by_model,
        instructions,
        embeddings,
        realtime,
    };
    Ok(Conversations::new(engine.clone(), kit, settings))
}

fn text_of(path: &Path) -> Result<String> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("the file {} cannot be read: {error}", path.display())))
}

/// The instructions of conversations where the configuration sets none.
const TOLD: &str = "You talk with one person. Be warm, brief and honest; ask rather than assume.";

pub fn kit(config: &Config) -> Result<Kit> {
    let (file, base) = file_of(config)?;
    let allow = Allow::parse(file.allow.iter().map(String::as_str)).map_err(wrong)?;
    let outbound = Outbound::new(allow).map_err(wrong)?;
    let mut kit = Kit::plain(outbound.clone());
    for (given, provider) in
        [(&file.openai, &mut kit.providers.openai), (&file.anthropic, &mut kit.providers.anthropic)]
    {
        let Provider { base_url, key } = provider;
        if let Some(url) = &given.base_url {
            base_url.clone_from(url);
        }
        if let Some(path) = &given.key_file {
            *key = Some(secret(&base.join(path))?);
        }
    }
    for (name, path) in &file.scripts {
        let script = ModelChoice::Scripted(base.join(path)).open(&kit.providers).map_err(wrong)?;
        kit.named.insert(format!("scripted:{name}"), script);
    }
    kit.prices = Prices::new(file.prices.iter().map(|(model, price)| (model.clone(), price.in_micros())));
    for (tenant, given) in &file.tenants {
        let mut means = Means::default();
        for (name, declared) in &given.secrets {
            means.secrets.insert(name.clone(), declared.read(base)?);
        }
        if !given.allow.is_empty() {
            let all = file.allow.iter().chain(&given.allow).map(String::as_str);
            means.outbound = Some(Outbound::new(Allow::parse(all).map_err(wrong)?).map_err(wrong)?);
        }
        for (name, server) in &given.mcp {
            let settings = mcp::Settings::new(name, server.transport(name)?);
            let outbound = means.outbound.as_ref().unwrap_or(&outbound);
            let server = mcp::Server::new(settings, &means.secrets, outbound).map_err(wrong)?;
            means.servers.insert(name.clone(), server);
        }
        kit.means.insert(TenantId::parse(tenant).map_err(wrong)?, means);
    }
    match config.model.parse::<ModelChoice>().map_err(wrong)? {
        ModelChoice::Scripted(path) => {
            let script = ModelChoice::Scripted(path).open(&kit.providers).map_err(wrong)?;
            kit.named.insert(config.model.clone(), script);
        }
        choice if !kit.providers.serve(&choice) => {
            return Err(wrong(format!("`{}` needs a key: set one in `agents_file`", config.model)));
        }
        choice => drop(choice.open(&kit.providers).map_err(wrong)?),
    }
    kit.default_model.clone_from(&config.model);
    Ok(kit)
}

/// The contents of `agents_file`, and the directory that its paths are relative to.
fn file_of(config: &Config) -> Result<(AgentsFile, &Path)> {
    Ok(match &config.agents_file {
        Some(path) => (read(path)?, path.parent().unwrap_or(Path::new("."))),
        None => (AgentsFile::default(), Path::new(".")),
    })
}

fn read(path: &Path) -> Result<AgentsFile> {
    toml_file::read_as(&text_of(path)?, &path.display().to_string())
}

fn secret(path: &Path) -> Result<secrecy::SecretString> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("the file {} cannot be read: {error}", path.display())))?;
    Ok(text.trim().to_owned().into())
}

fn wrong(error: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("the agents' configuration cannot be used: {error}"))
}

impl PriceOf {
    fn in_micros(&self) -> Price {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a price is a small positive number"
        )]
        let micros = |price: f64| (price * 1e6).round() as u64;
        Price {
            input_micros: micros(self.input),
            output_micros: micros(self.output),
            cached_micros: self.cached.map(micros),
        }
    }
}

impl McpServer {
    fn transport(&self, name: &str) -> Result<mcp::Transport> {
        let pairs = |map: &BTreeMap<String, String>| map.clone().into_iter().collect();
        match (&self.command, &self.url) {
            (Some(command), None) => Ok(mcp::Transport::Stdio {
                command: command.clone(),
                args: self.args.clone(),
                env: pairs(&self.env),
            }),
            (None, Some(url)) => Ok(mcp::Transport::Http { url: url.clone(), headers: pairs(&self.headers) }),
            _ => Err(wrong(format!("the MCP server `{name}` needs a `command` or a `url`, and not both"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_file_is_read_whole_and_nothing_unknown_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agents.toml");
        std::fs::write(dir.path().join("key"), "s3cret\n").unwrap();
        std::fs::write(dir.path().join("script.json"), r#"{"steps":[{"say":"hi"}]}"#).unwrap();
        let good = r#"
            allow = ["127.0.0.1"]
            [openai]
            base_url = "http://127.0.0.1:1/v1"
            key_file = "key"
            [embeddings]
            model = "meaning"
            likeness_min = 0.4
            [realtime]
            model = "speech"
            base_url = "http://127.0.0.1:2/v1"
            key_file = "key"
            [scripts]
            hello = "script.json"
            [prices."openai:*"]
            input = 2.5
            output = 10
            [tenants.default.secrets]
            crm = "key"
            shop = { file = "key", hosts = ["api.example.org"] }
            [tenants.default.mcp.files]
            command = "true"
            [tenants.default.mcp.search]
            url = "http://127.0.0.1:1/mcp"
            headers = { Authorization = "Bearer ${crm}" }
        "#;
        std::fs::write(&path, good).unwrap();
        let file = read(&path).unwrap();
        assert_eq!(file.prices["openai:*"].in_micros().input_micros, 2_500_000);
        assert_eq!(file.tenants["default"].mcp.len(), 2);
        let secrets = &file.tenants["default"].secrets;
        assert_eq!(secrets["shop"].read(dir.path()).unwrap().hosts, ["api.example.org"]);
        assert!(secrets["crm"].read(dir.path()).unwrap().hosts.is_empty());
        let everywhere = SentSecret { file: "key".into(), hosts: vec!["*".into()] };
        assert!(SecretFile::Sent(everywhere).read(dir.path()).is_err());
        let mut kit = Kit::plain(Outbound::new(Allow::default()).unwrap());
        kit.providers.openai = Provider {
            base_url: "http://127.0.0.1:1/v1".to_owned(),
            key: Some(secret(&dir.path().join("key")).unwrap()),
        };
        for (served, url, has_key) in [
            (file.embeddings.unwrap(), "http://127.0.0.1:1/v1", true),
            (Served { key_file: None, ..file.realtime.unwrap() }, "http://127.0.0.1:2/v1", false),
        ] {
            let settings = served.settings(&kit, dir.path()).unwrap();
            assert_eq!((settings.base_url.as_str(), settings.key.is_some()), (url, has_key));
        }
        for bad in [
            "unknown = 1",
            "[embeddings]\nbase_url = \"http://h\"",
            "[openai]\nkey = \"in the open\"",
            "[tenants.default]\nsecret = 1",
            "[tenants.default.secrets.x]\nfile = \"key\"",
        ] {
            std::fs::write(&path, bad).unwrap();
            assert!(read(&path).is_err(), "{bad}");
        }
        assert!(read(&dir.path().join("none.toml")).is_err());
    }
}
