//! The settings of an installation, by flag, environment or file, and where each value came from.
//!
//! A flag wins over the environment, the environment over the file, the file over the default. An unknown name is
//! refused with its place: a misspelt setting that is silently ignored is worse than a start that fails.

mod layers;
mod span;
pub mod toml_file;

use std::collections::HashMap;
use std::path::PathBuf;

use sederunt::{
    ActivitySettings, Amount, Place, PrivateLimits, QuotaLimits, QuotaSettings, Settings, TenantId,
};
use serde::Deserialize;

pub use layers::{Flag, Layers, Shown};
pub use span::Span;

use crate::exit::{Failure, Result};

/// A setting: its name in files, its default, and what it is for.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    pub default: Option<&'static str>,
    pub about: &'static str,
}

impl Setting {
    /// Its name in the environment.
    pub fn variable(&self) -> String {
        format!("SEDERUNT_{}", self.name.replace('.', "_").to_uppercase())
    }
}

const fn setting(name: &'static str, default: &'static str, about: &'static str) -> Setting {
    Setting { name, default: Some(default), about }
}

const fn optional(name: &'static str, about: &'static str) -> Setting {
    Setting { name, default: None, about }
}

/// Every setting there is.
pub const SETTINGS: &[Setting] = &[
    setting("store", "./.store", "a directory, `memory:` or `postgres://…`"),
    optional(
        "migrate_store",
        "the database as the login that owns its tables, for `migrate`: `postgres://…`",
    ),
    setting("listen", "127.0.0.1:7070", "the address and port to serve on"),
    setting("auth", "local", "who may call: `local` (this machine), `keys` or `jwt`"),
    optional("public_url", "the address by which others reach this server, as it stands in links"),
    setting("log", "text", "how the server writes its log: `text` or `json`"),
    optional(
        "operator_key_file",
        "the file with the operator's key; without it, one in the store's directory",
    ),
    optional("jwt.secret_file", "the file with the secret that tokens are signed with"),
    optional("jwt.jwks_file", "the file with the public keys that tokens are signed with"),
    optional("jwt.jwks_url", "the address at which the issuer of tokens publishes its public keys"),
    optional("jwt.issuer", "the `iss` that tokens must have"),
    optional("jwt.audience", "the `aud` that tokens must have"),
    setting("workers", "4", "runs that this server works on at once; 0 leaves all work to others"),
    setting(
        "model",
        "eliza",
        "the model of agents that name none: `eliza`, `openai:…`, `anthropic:…`, `scripted:FILE`",
    ),
    optional(
        "agents_file",
        "the file with providers, prices, scripts, and each tenant's secrets and MCP servers",
    ),
    optional("response_model", "the model that answers when `quality` is asked for"),
    optional("instructions_file", "the file with what conversations without an agent are told"),
    setting("talk.idle_after", "20m", "silence after which a sitting is ended"),
    setting("talk.sweep_every", "30s", "how often sittings that fell silent are looked for"),
    setting(
        "talk.finalize_on_shutdown",
        "10s",
        "how long ending open sittings may take when an embedded server stops; `0s` leaves them open",
    ),
    setting(
        "talk.extract_by_model",
        "true",
        "whether a model, where there is one, finds what is worth remembering",
    ),
    setting(
        "talk.confirm_within",
        "2m",
        "how long a turn waits for somebody to agree to a tool call before it is given up",
    ),
    setting("talk.lease", "30s", "how long a turn may be silent before another node goes on"),
    optional("safety_file", "the file with safe words, phrases and the region of the crisis response (TOML)"),
    setting("safety.classify", "false", "whether the model judges what is said before the lexicon does"),
    setting("opaque_ids", "hmac", "how ratings and the crisis log name sessions: `hmac` or `sha256`"),
    setting("feedback.session_timeout", "60s", "silence after which a feedback session becomes a lesson"),
    setting("activity.owners_read", "false", "whether owners read what other people record about their work"),
    optional(
        "activity.exclude",
        "beginnings of paths that are never recorded, such as /admin, separated by commas",
    ),
    setting("incognito.session_bytes", "8388608", "bytes that one incognito session may take"),
    setting("incognito.user_bytes", "33554432", "bytes that the incognito sessions of one user may take"),
    setting(
        "incognito.total_bytes",
        "268435456",
        "bytes that all incognito sessions of this server may take",
    ),
    setting("incognito.idle_after", "1h", "silence after which an incognito session is deleted"),
    setting("quotas.tenant_sessions", "10000000", "sessions that a tenant may keep"),
    setting(
        "quotas.tenant_runs",
        "1000000",
        "work of a tenant that may be pending, running or waiting at once",
    ),
    setting("quotas.tenant_bytes", "1099511627776", "bytes of logs that a tenant may keep"),
    setting("quotas.tenant_streams", "16384", "streams that a tenant may have open on one node"),
    setting("quotas.user_sessions", "5000000", "sessions that one user may hold"),
    setting("quotas.user_runs", "500000", "work of one user that may be pending, running or waiting at once"),
    setting("quotas.user_bytes", "549755813888", "bytes of the logs of sessions that one user holds"),
    optional("quotas_file", "the file with quotas of single tenants (TOML)"),
    optional("channels_file", "the file with channels: the bots through which people are talked to (TOML)"),
    setting("work.lease", "30s", "how long a claim holds without a heartbeat"),
    setting("work.max_attempts", "3", "runs of a session before a lost lease fails it"),
    setting("work.sweep_every", "1s", "how often lost leases and passed deadlines are looked for"),
    setting("rates.credential_per_second", "50000", "requests of one credential; 0 does not count them"),
    setting("rates.credential_burst", "100000", "requests of one credential at once"),
    setting(
        "rates.share_per_second",
        "20",
        "requests of one respondent, or without a respondent's cookie through one share link from one address; \
         20 times as much from one address through all links; 0 does not count them",
    ),
    setting("rates.share_burst", "100", "the same at once"),
    setting(
        "rates.form_per_second",
        "1",
        "answers of one respondent to a view through its link; 0 does not count them",
    ),
    setting("rates.form_burst", "20", "answers of one respondent to a view through its link at once"),
    setting(
        "rates.new_respondents_per_minute",
        "60",
        "strangers from one address who begin to answer views through links; 0 does not count them",
    ),
    setting(
        "rates.leads_per_hour",
        "100",
        "people who say who they are through one link; 0 does not count them",
    ),
    setting("rates.leads_burst", "1000", "people who say who they are through one link at once"),
    setting("rates.failures_per_second", "5", "wrong credentials from one address; 0 does not count them"),
    setting("rates.failures_burst", "50", "wrong credentials from one address at once"),
    optional(
        "trusted_proxies",
        "proxies that are believed when they say whose request they pass on: addresses and blocks such as 10.0.0.0/8, \
         separated by commas; only with `keys` or `jwt`",
    ),
    setting(
        "connections.max",
        "0",
        "connections that may be open; 0 is three quarters of the files that may be",
    ),
    setting(
        "connections.per_address",
        "0",
        "connections from one address, except trusted proxies; 0 is a quarter of all",
    ),
    setting("connections.head", "10s", "how long a client may take to send the head of a request"),
    setting("streams.max", "0", "streams that may be open; 0 is half of the files that may be"),
    setting("streams.per_address", "0", "streams from one address; 0 is a quarter of all"),
    setting("streams.per_credential", "256", "streams of one credential"),
    setting("streams.per_link", "100", "streams through one share link"),
    setting("streams.per_link_and_address", "8", "streams through one share link from one address"),
    setting("streams.bytes", "268435456", "bytes that all streams may hold before their readers take them"),
    setting(
        "streams.bytes_per_caller",
        "67108864",
        "bytes that the streams of one credential or address may hold",
    ),
    setting("streams.bytes_per_link", "8388608", "bytes that the streams through one share link may hold"),
    setting(
        "streams.bytes_per_link_and_address",
        "2097152",
        "bytes that the streams through one share link from one address may hold",
    ),
    setting("streams.stall", "20s", "how long a reader may take nothing before its connection is cut"),
    setting(
        "streams.drain_bytes_per_second",
        "1024",
        "what a reader must take, on average, while writes wait for it",
    ),
    setting("streams.drain_window", "30s", "how much of such waiting is looked at together"),
    setting("shutdown.drain", "10s", "how long open requests may take to finish at the end"),
    setting("postgres.schema", "sederunt", "the schema that holds the tables"),
    setting("postgres.pool_size", "16", "connections to the database"),
];

/// All settings, read and checked.
#[derive(Clone, Debug, Deserialize)]
pub struct Config {
    pub store: StorePlace,
    pub migrate_store: Option<StorePlace>,
    pub listen: String,
    pub auth: AuthKind,
    pub public_url: Option<String>,
    pub log: LogFormat,
    pub operator_key_file: Option<PathBuf>,
    #[serde(default)]
    pub jwt: Jwt,
    pub workers: usize,
    pub model: String,
    pub agents_file: Option<PathBuf>,
    pub response_model: Option<String>,
    pub instructions_file: Option<PathBuf>,
    pub talk: TalkConfig,
    pub safety_file: Option<PathBuf>,
    pub safety: SafetyConfig,
    pub opaque_ids: OpaqueIds,
    pub feedback: FeedbackConfig,
    pub activity: ActivityConfig,
    pub incognito: Incognito,
    pub quotas: Quotas,
    pub quotas_file: Option<PathBuf>,
    pub channels_file: Option<PathBuf>,
    pub work: WorkConfig,
    pub rates: Rates,
    pub trusted_proxies: Option<String>,
    pub connections: Connections,
    pub streams: Streams,
    pub shutdown: Shutdown,
    pub postgres: Postgres,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthKind {
    Local,
    Keys,
    Jwt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Jwt {
    pub secret_file: Option<PathBuf>,
    pub jwks_file: Option<PathBuf>,
    pub jwks_url: Option<String>,
    pub issuer: Option<String>,
    pub audience: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct TalkConfig {
    pub idle_after: Span,
    pub sweep_every: Span,
    pub finalize_on_shutdown: Span,
    pub extract_by_model: bool,
    pub confirm_within: Span,
    pub lease: Span,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct SafetyConfig {
    pub classify: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpaqueIds {
    Hmac,
    Sha256,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct FeedbackConfig {
    pub session_timeout: Span,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ActivityConfig {
    pub owners_read: bool,
    pub exclude: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Incognito {
    pub session_bytes: u64,
    pub user_bytes: u64,
    pub total_bytes: u64,
    pub idle_after: Span,
}

/// What a tenant and each of its users may keep.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Quotas {
    pub tenant_sessions: u64,
    pub tenant_runs: u64,
    pub tenant_bytes: u64,
    pub tenant_streams: u64,
    pub user_sessions: u64,
    pub user_runs: u64,
    pub user_bytes: u64,
}

/// The file of quotas: `[tenants.NAME]` with the quotas that differ from those of the installation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuotasFile {
    #[serde(default)]
    tenants: HashMap<String, TenantQuotas>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TenantQuotas {
    tenant_sessions: Option<u64>,
    tenant_runs: Option<u64>,
    tenant_bytes: Option<u64>,
    tenant_streams: Option<u64>,
    user_sessions: Option<u64>,
    user_runs: Option<u64>,
    user_bytes: Option<u64>,
}

impl Quotas {
    fn limits(self) -> QuotaLimits {
        QuotaLimits {
            tenant: Amount {
                sessions: self.tenant_sessions,
                runs: self.tenant_runs,
                bytes: self.tenant_bytes,
            },
            tenant_streams: self.tenant_streams,
            user: Amount { sessions: self.user_sessions, runs: self.user_runs, bytes: self.user_bytes },
        }
    }

    fn but(self, own: TenantQuotas) -> Self {
        Self {
            tenant_sessions: own.tenant_sessions.unwrap_or(self.tenant_sessions),
            tenant_runs: own.tenant_runs.unwrap_or(self.tenant_runs),
            tenant_bytes: own.tenant_bytes.unwrap_or(self.tenant_bytes),
            tenant_streams: own.tenant_streams.unwrap_or(self.tenant_streams),
            user_sessions: own.user_sessions.unwrap_or(self.user_sessions),
            user_runs: own.user_runs.unwrap_or(self.user_runs),
            user_bytes: own.user_bytes.unwrap_or(self.user_bytes),
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct WorkConfig {
    pub lease: Span,
    pub max_attempts: u32,
    pub sweep_every: Span,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Rates {
    pub credential_per_second: u32,
    pub credential_burst: u32,
    pub share_per_second: u32,
    pub share_burst: u32,
    pub form_per_second: u32,
    pub form_burst: u32,
    pub new_respondents_per_minute: u32,
    pub leads_per_hour: u32,
    pub leads_burst: u32,
    pub failures_per_second: u32,
    pub failures_burst: u32,
}

/// How many connections may be open.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Connections {
    pub max: usize,
    pub per_address: usize,
    pub head: Span,
}

/// How many streams may be open, what they may hold, and how fast they must be read.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Streams {
    pub max: usize,
    pub per_address: usize,
    pub per_credential: usize,
    pub per_link: usize,
    pub per_link_and_address: usize,
    pub bytes: usize,
    pub bytes_per_caller: usize,
    pub bytes_per_link: usize,
    pub bytes_per_link_and_address: usize,
    pub stall: Span,
    pub drain_bytes_per_second: usize,
    pub drain_window: Span,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Shutdown {
    pub drain: Span,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Postgres {
    pub schema: String,
    pub pool_size: usize,
}

/// Where the store is.
#[derive(Clone, Debug)]
pub struct StorePlace(pub Place);

impl<'de> Deserialize<'de> for StorePlace {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(|error: sederunt::Error| {
            serde::de::Error::custom(match error {
                sederunt::Error::Invalid { message, .. } => message,
                other => other.to_string(),
            })
        })
    }
}

impl Config {
    /// The engine's settings.
    pub fn settings(&self) -> Result<Settings> {
        let leases = sederunt::limits::LEASE_MIN..=sederunt::limits::LEASE_MAX;
        for (name, lease) in [("work.lease", self.work.lease.0), ("talk.lease", self.talk.lease.0)] {
            if !leases.contains(&lease) {
                return Err(Failure::usage(format!("`{name}` must be 100ms to 10m")));
            }
        }
        for (name, span) in [
            ("talk.idle_after", self.talk.idle_after),
            ("talk.sweep_every", self.talk.sweep_every),
            ("talk.confirm_within", self.talk.confirm_within),
            ("feedback.session_timeout", self.feedback.session_timeout),
            ("incognito.idle_after", self.incognito.idle_after),
        ] {
            if span.0.is_zero() {
                return Err(Failure::usage(format!("`{name}` must be longer than nothing")));
            }
        }
        if self.work.max_attempts == 0 {
            return Err(Failure::usage("`work.max_attempts` must be at least 1"));
        }
        if self.work.sweep_every.0.is_zero() {
            return Err(Failure::usage("`work.sweep_every` must be longer than nothing"));
        }
        Ok(Settings {
            lease: self.work.lease.0,
            attempts_max: self.work.max_attempts,
            talk: sederunt::talk::Settings {
                idle_after: self.talk.idle_after.0,
                lease: self.talk.lease.0,
                confirm_within: self.talk.confirm_within.0,
            },
            plain_opaque_ids: self.opaque_ids == OpaqueIds::Sha256,
            feedback_silence: self.feedback.session_timeout.0,
            incognito: PrivateLimits {
                session_bytes: self.incognito.session_bytes,
                user_bytes: self.incognito.user_bytes,
                total_bytes: self.incognito.total_bytes,
                idle_after: self.incognito.idle_after.0,
            },
        })
    }

    /// The quotas of this installation and of single tenants.
    fn quota_settings(&self) -> Result<QuotaSettings> {
        let mut settings = QuotaSettings { standard: self.quotas.limits(), ..QuotaSettings::default() };
        let Some(path) = &self.quotas_file else { return Ok(settings) };
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("the file {} cannot be read: {error}", path.display()))
        })?;
        let file: QuotasFile = toml_file::read_as(&text, &path.display().to_string())?;
        for (tenant, own) in file.tenants {
            settings.tenants.insert(TenantId::parse(&tenant)?, self.quotas.but(own).limits());
        }
        Ok(settings)
    }

    /// What is recorded of people's own activity, and who reads it.
    fn activity_settings(&self) -> Result<ActivitySettings> {
        let prefixes = self.activity.exclude.as_deref().unwrap_or_default().split(',').map(str::trim);
        let settings = ActivitySettings {
            owners_read: self.activity.owners_read,
            exclude: prefixes.filter(|prefix| !prefix.is_empty()).map(str::to_owned).collect(),
            one_person: self.auth == AuthKind::Local,
        };
        Ok(settings.checked()?)
    }

    /// How the store is opened. The server does the background work, and a command ends before any is due.
    pub fn opener(&self, migrate: bool) -> Result<sederunt::Builder> {
        if self.postgres.pool_size == 0 {
            return Err(Failure::usage("`postgres.pool_size` must be at least 1"));
        }
        let options = sederunt::Options {
            settings: self.settings()?,
            quotas: self.quota_settings()?,
            activity: self.activity_settings()?,
            schema: self.postgres.schema.clone(),
            pool_size: self.postgres.pool_size,
            migrate,
            ..sederunt::Options::default()
        };
        Ok(sederunt::Sederunt::builder().options(options).background(false))
    }

    /// The directory of a store that has one.
    pub fn directory(&self) -> Option<&std::path::Path> {
        match &self.store.0 {
            Place::Directory(path) => Some(path),
            Place::Memory | Place::Postgres(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_a_whole_configuration() {
        let (config, shown) = Layers::new(None, Vec::new(), Vec::new()).unwrap().read().unwrap();
        assert_eq!(config.listen, "127.0.0.1:7070");
        assert_eq!(config.auth, AuthKind::Local);
        let settings = config.settings().unwrap();
        assert_eq!(settings.lease, sederunt::limits::LEASE_DEFAULT);
        assert_eq!(settings.feedback_silence, sederunt::limits::FEEDBACK_SILENCE);
        assert_eq!(config.work.max_attempts, sederunt::limits::ATTEMPTS_MAX);
        assert_eq!(settings.incognito, PrivateLimits::default());
        assert_eq!(config.quota_settings().unwrap(), QuotaSettings::default());
        let alone = ActivitySettings { one_person: true, ..ActivitySettings::default() };
        assert_eq!(config.activity_settings().unwrap(), alone);
        assert_eq!(shown.len(), SETTINGS.len());
        assert!(
            shown
                .iter()
                .all(|setting| setting.from == if setting.value.is_some() { "default" } else { "unset" })
        );
    }

    #[test]
    fn a_tenant_has_quotas_of_its_own_where_the_file_says_so() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("quotas.toml");
        std::fs::write(&path, "[tenants.acme]\nuser_sessions = 7\ntenant_streams = 5\n").unwrap();
        let (config, _) = Layers::new(None, Vec::new(), Vec::new()).unwrap().read().unwrap();
        let config = Config { quotas_file: Some(path.clone()), ..config };
        let settings = config.quota_settings().unwrap();
        let own = settings.of(&TenantId::stored("acme"));
        assert_eq!((own.user.sessions, own.tenant_streams), (7, 5));
        assert_eq!(own.tenant, QuotaLimits::default().tenant);
        assert_eq!(settings.of(&TenantId::stored("beta")), QuotaLimits::default());
        std::fs::write(&path, "[tenants.acme]\nuser_seasons = 7\n").unwrap();
        assert!(config.quota_settings().unwrap_err().sentence().contains("user_seasons"));
    }

    #[test]
    fn every_setting_has_a_variable_of_its_own() {
        let mut variables: Vec<String> = SETTINGS.iter().map(Setting::variable).collect();
        assert!(variables.contains(&"SEDERUNT_WORK_MAX_ATTEMPTS".to_owned()));
        variables.sort_unstable();
        variables.dedup();
        assert_eq!(variables.len(), SETTINGS.len());
    }
}
