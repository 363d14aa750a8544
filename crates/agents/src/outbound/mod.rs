//! The guard of every request to an address that a tenant or a model chose: tools and webhooks.
//!
//! A name is looked up once, every address it has is judged, and the connection goes to those addresses and no
//! others; so a name that answers differently the second time gains nothing. Addresses that are not of the public
//! internet are refused ([`is_public`]), unless the configuration names the host or its network. Only `http` and
//! `https`; no credentials in the URL; redirects are never followed; no proxy is used, since it would look the name
//! up again.

mod allow;
mod public;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Method, RequestBuilder, Url};

pub use allow::{Allow, BadAllow};
pub use public::is_public;

use crate::limits;

/// Why nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    #[error("the address is not a valid URL")]
    NotAUrl,
    #[error("only http and https addresses may be called")]
    Scheme,
    #[error("the address must not hold a user name or a password")]
    Credentials,
    #[error("the host `{host}` is not known")]
    Unknown { host: String },
    #[error("the host `{host}` is not on the public internet, and the configuration does not allow it")]
    NotPublic { host: String },
}

/// Looks names up.
pub trait Lookup: Send + Sync + std::fmt::Debug {
    fn addresses<'a>(&'a self, host: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>>;
}

/// The machine's own resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses<'a>(&'a self, host: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A client that calls only permitted addresses.
#[derive(Clone, Debug)]
pub struct Outbound {
    client: Client,
    allow: Allow,
}

impl Outbound {
    pub fn new(allow: Allow) -> Result<Self, reqwest::Error> {
        Self::with_lookup(allow, Arc::new(SystemLookup))
    }

    pub fn with_lookup(allow: Allow, lookup: Arc<dyn Lookup>) -> Result<Self, reqwest::Error> {
        let resolver = Guarded { allow: allow.clone(), lookup };
        let client = Client::builder()
            .user_agent(concat!("sederunt/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(limits::CONNECT_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .dns_resolver(Arc::new(resolver))
            .build()?;
        Ok(Self { client, allow })
    }

    /// Checks an address without looking its name up; the look-up is made, and its result checked, when the
    /// connection is opened.
    pub fn check(&self, url: &str) -> Result<Url, Blocked> {
        let url = Url::parse(url).map_err(|_| Blocked::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Blocked::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Blocked::Credentials);
        }
        let host = url.host_str().ok_or(Blocked::NotAUrl)?.trim_matches(['[', ']']);
        if let Ok(address) = host.parse::<IpAddr>()
            && !self.allow.permits(host, address)
        {
            return Err(Blocked::NotPublic { host: host.to_owned() });
        }
        Ok(url)
    }

    /// Begins a request to an address that passed the check.
    pub fn request(&self, method: Method, url: &str) -> Result<RequestBuilder, Blocked> {
        Ok(self.client.request(method, self.check(url)?))
    }

    /// The client itself, for protocols that need one. The names it connects to are checked; a literal address in a
    /// URL is not, so [`Self::check`] it first.
    pub fn client(&self) -> Client {
        self.client.clone()
    }
}

/// The guard's refusal, if it was the guard that ended a request.
pub fn blocked(error: &reqwest::Error) -> Option<Blocked> {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(blocked) = error.downcast_ref::<Blocked>() {
            return Some(blocked.clone());
        }
        cause = error.source();
    }
    None
}

#[derive(Debug)]
struct Guarded {
    allow: Allow,
    lookup: Arc<dyn Lookup>,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let (allow, lookup) = (self.allow.clone(), Arc::clone(&self.lookup));
        Box::pin(async move {
            let host = name.as_str();
            let unknown = || Blocked::Unknown { host: host.to_owned() };
            let found = lookup.addresses(host).await.map_err(|_| unknown())?;
            if found.is_empty() {
                return Err(unknown().into());
            }
            // One forbidden address refuses them all: a name that points both inside and outside has no good reason
            // to.
            if !found.iter().all(|address| allow.permits(host, *address)) {
                return Err(Blocked::NotPublic { host: host.to_owned() }.into());
            }
            // The port is that of the URL.
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests;
