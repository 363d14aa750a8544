//! The operator's settings, and what is refused before a port is opened.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use sederunt_agents::talk::Conversations;
use sederunt_core::limits;
use sederunt_core::live::budget::StreamBudget;
use sederunt_core::people::SecretHash;

use crate::connections::ConnectionCaps;
use crate::proxies::TrustedProxies;

/// How callers prove who they are.
#[derive(Clone, Debug)]
pub enum Auth {
    /// They do not: every caller on this machine is the owner of the default tenant.
    Local,
    /// API keys.
    Keys,
    /// JSON Web Tokens of an outside issuer, beside API keys.
    Jwt(JwtConfig),
}

impl Auth {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Keys => "keys",
            Self::Jwt(_) => "jwt",
        }
    }
}

/// Which tokens are accepted.
#[derive(Clone, Debug)]
pub struct JwtConfig {
    pub keys: JwtKeys,
    /// The `iss` that tokens must have.
    pub issuer: Option<String>,
    /// The `aud` that must be among those of a token.
    pub audience: Option<String>,
    /// The shortest time between two reads of a key set because of an unknown key.
    pub again_after: Duration,
}

#[derive(Clone)]
pub enum JwtKeys {
    /// A shared secret: HS256.
    Secret(Vec<u8>),
    /// A file with a JSON Web Key Set: RS256 and ES256.
    JwksFile(PathBuf),
    /// The address at which an issuer publishes its JSON Web Key Set: RS256 and ES256.
    JwksUrl(String),
}

impl JwtConfig {
    /// Accepts tokens under these keys, of any issuer and for any audience.
    pub fn new(keys: JwtKeys) -> Self {
        Self { keys, issuer: None, audience: None, again_after: Duration::from_secs(10) }
    }

    pub fn secret(secret: impl Into<Vec<u8>>) -> Self {
        Self::new(JwtKeys::Secret(secret.into()))
    }
}

impl std::fmt::Debug for JwtKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret",
            Self::JwksFile(_) => "JwksFile",
            Self::JwksUrl(_) => "JwksUrl",
        })
    }
}

/// A rate per second, and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub per_second: NonZeroU32,
    pub burst: NonZeroU32,
}

impl Rate {
    pub const fn new(per_second: u32, burst: u32) -> Option<Self> {
        match (NonZeroU32::new(per_second), NonZeroU32::new(burst)) {
            (Some(per_second), Some(burst)) => Some(Self { per_second, burst }),
            _ => None,
        }
    }
}

/// The request rate of each kind of caller; `None` is unlimited.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Requests of one credential. The owner of a local server is not counted.
    pub per_credential: Option<Rate>,
    /// Requests of one holder of a share link: of one respondent or, where no cookie proves one, through one link from
    /// one address. All links together have [`limits::LINK_HOLDERS_PER_ADDRESS`] times as much per address.
    pub per_share: Option<Rate>,
    /// Answers of one respondent through a share link.
    pub forms_per_respondent: Option<Rate>,
    /// Strangers from one address who become respondents, per minute; as many may come at once.
    pub new_respondents_per_peer: Option<NonZeroU32>,
    /// People who register as leads through one share link: a rate per hour, and a burst.
    pub leads_per_link: Option<(NonZeroU32, NonZeroU32)>,
    /// Failed authentications from one address.
    pub failures_per_peer: Option<Rate>,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            per_credential: Rate::new(50_000, 100_000),
            per_share: Rate::new(20, 100),
            forms_per_respondent: Rate::new(1, 20),
            new_respondents_per_peer: NonZeroU32::new(limits::NEW_RESPONDENTS_PER_ADDRESS_AND_MINUTE),
            leads_per_link: NonZeroU32::new(limits::LEADS_PER_LINK_AND_HOUR)
                .zip(NonZeroU32::new(limits::LEADS_PER_LINK_BURST)),
            failures_per_peer: Rate::new(5, 50),
        }
    }
}

/// The times and rates of open streams.
#[derive(Clone, Copy, Debug)]
pub struct StreamTimes {
    /// How often a quiet stream sends a heartbeat.
    pub heartbeat: Duration,
    /// How long a reader may take nothing before its connection is cut.
    pub stall_max: Duration,
    /// What a reader must take per second, on average over the window in which writes waited for it.
    pub drain_bytes_per_second_min: usize,
    pub drain_window: Duration,
}

impl Default for StreamTimes {
    fn default() -> Self {
        Self {
            heartbeat: limits::STREAM_HEARTBEAT,
            stall_max: limits::STREAM_STALL_MAX,
            drain_bytes_per_second_min: limits::STREAM_DRAIN_BYTES_PER_SECOND_MIN,
            drain_window: limits::STREAM_DRAIN_WINDOW,
        }
    }
}

/// Everything that can be set about the server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    pub listen: SocketAddr,
    pub auth: Auth,
    /// Where clients reach this server; share links start with it.
    pub public_url: Option<String>,
    /// The hash of the operator's key; without it the server has no operator.
    pub operator_key_hash: Option<SecretHash>,
    pub rates: Rates,
    pub streams: StreamTimes,
    /// How many streams may be open, and what they may hold in memory.
    pub stream_budget: Arc<StreamBudget>,
    pub connections: ConnectionCaps,
    /// Proxies whose forwarded addresses are trusted.
    pub trusted_proxies: TrustedProxies,
    pub sweep_every: Duration,
    /// Runs conversations; by default with the built-in model.
    pub conversations: Option<Conversations>,
    /// How often conversations are swept for silent sittings.
    pub keep_every: Duration,
    /// How long ending open sittings may take when the server stops; zero leaves them open.
    pub finalize_max: Duration,
    /// How long open requests may go on after the server was told to stop.
    pub drain_max: Duration,
    /// What `/metrics` prints.
    pub metrics: Option<PrometheusHandle>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7070)),
            auth: Auth::Local,
            public_url: None,
            operator_key_hash: None,
            rates: Rates::default(),
            streams: StreamTimes::default(),
            stream_budget: Arc::default(),
            connections: ConnectionCaps::default(),
            trusted_proxies: TrustedProxies::default(),
            sweep_every: Duration::from_secs(1),
            conversations: None,
            keep_every: Duration::from_secs(30),
            finalize_max: Duration::ZERO,
            drain_max: Duration::from_secs(10),
            metrics: None,
        }
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{0} is not a loopback address: serve it with --auth keys or --auth jwt")]
    OpenToStrangers(SocketAddr),
    #[error("a server without authentication has no public address: {0} is not on this machine")]
    PublicWithoutAuth(String),
    #[error("the public URL must be http:// or https:// and a host: {0}")]
    PublicUrl(String),
    #[error(
        "a server without authentication does not stand behind a proxy: take `trusted_proxies` out, or serve \
         with --auth keys or --auth jwt"
    )]
    ProxyWithoutAuth,
    #[error("the JWT keys cannot be used: {0}")]
    Jwt(String),
    #[error("the network cannot be used: {0}")]
    Outbound(String),
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] std::io::Error),
}

impl ServerConfig {
    /// Refuses what would let strangers in.
    pub fn check(&self) -> Result<(), ConfigError> {
        let host = self.public_url.as_deref().map(|url| (url, public_host(url)));
        if let Some((url, None)) = host {
            return Err(ConfigError::PublicUrl(url.to_owned()));
        }
        if !matches!(self.auth, Auth::Local) {
            return Ok(());
        }
        if !self.listen.ip().is_loopback() {
            return Err(ConfigError::OpenToStrangers(self.listen));
        }
        if !self.trusted_proxies.0.is_empty() {
            return Err(ConfigError::ProxyWithoutAuth);
        }
        match host {
            Some((url, Some(host))) if !is_loopback(host) => {
                Err(ConfigError::PublicWithoutAuth(url.to_owned()))
            }
            _ => Ok(()),
        }
    }
}

impl ServerConfig {
    /// Settings that are allowed but risky, as sentences for the log.
    pub fn doubts(&self) -> Vec<&'static str> {
        let mut doubts = Vec::new();
        if let Auth::Jwt(JwtConfig {
            keys: JwtKeys::JwksFile(_) | JwtKeys::JwksUrl(_), audience: None, ..
        }) = &self.auth
        {
            doubts.push(
                "`jwt.audience` is not set: tokens that the issuer made for any other service are accepted here as well",
            );
        }
        doubts
    }
}

/// The host of a URL, without its port.
fn public_host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let authority = rest.split(['/', '?', '#']).next()?;
    if authority.contains('@') {
        return None;
    }
    let host = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?.0,
        None => authority.split(':').next()?,
    };
    (!host.is_empty()).then_some(host)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_authentication_stays_on_this_machine() {
        let table = [
            ("127.0.0.1:7070", None, true),
            ("[::1]:7070", None, true),
            ("127.0.0.2:0", None, true),
            ("0.0.0.0:7070", None, false),
            ("[::]:7070", None, false),
            ("192.168.1.2:7070", None, false),
            ("127.0.0.1:7070", Some("http://localhost:7070"), true),
            ("127.0.0.1:7070", Some("http://127.0.0.1:7070/x"), true),
            ("127.0.0.1:7070", Some("https://[::1]"), true),
            ("127.0.0.1:7070", Some("https://sessions.example"), false),
            ("127.0.0.1:7070", Some("http://localhost.evil.example"), false),
            ("127.0.0.1:7070", Some("http://localhost@evil.example"), false),
            ("127.0.0.1:7070", Some("ftp://localhost"), false),
            ("127.0.0.1:7070", Some("http://"), false),
        ];
        for (listen, public_url, starts) in table {
            let config = ServerConfig {
                listen: listen.parse().unwrap(),
                public_url: public_url.map(str::to_owned),
                ..ServerConfig::default()
            };
            assert_eq!(config.check().is_ok(), starts, "{listen} {public_url:?}");
        }
    }

    #[test]
    fn with_authentication_it_may_face_the_world() {
        let config = ServerConfig {
            listen: "0.0.0.0:7070".parse().unwrap(),
            auth: Auth::Keys,
            public_url: Some("https://sessions.example".into()),
            ..ServerConfig::default()
        };
        assert!(config.check().is_ok());
    }

    #[test]
    fn a_proxy_is_trusted_only_where_callers_prove_who_they_are() {
        let config = |auth, listen: &str| ServerConfig {
            auth,
            listen: listen.parse().unwrap(),
            trusted_proxies: TrustedProxies(vec!["10.0.0.0/8".parse().unwrap()]),
            ..ServerConfig::default()
        };
        assert!(matches!(config(Auth::Local, "127.0.0.1:0").check(), Err(ConfigError::ProxyWithoutAuth)));
        assert!(config(Auth::Keys, "127.0.0.1:0").check().is_ok());
        assert!(config(Auth::Jwt(JwtConfig::secret("x")), "0.0.0.0:0").check().is_ok());
    }

    #[test]
    fn tokens_of_an_issuer_for_no_audience_in_particular_are_doubted() {
        let jwks = || JwtKeys::JwksUrl("https://issuer.example/keys".into());
        let table = [
            (Auth::Local, 0),
            (Auth::Keys, 0),
            (Auth::Jwt(JwtConfig::secret("x")), 0),
            (Auth::Jwt(JwtConfig::new(jwks())), 1),
            (Auth::Jwt(JwtConfig { audience: Some("us".into()), ..JwtConfig::new(jwks()) }), 0),
        ];
        for (auth, doubts) in table {
            let config = ServerConfig { auth, ..ServerConfig::default() };
            assert_eq!(config.doubts().len(), doubts, "{:?}", config.auth);
        }
    }
}
