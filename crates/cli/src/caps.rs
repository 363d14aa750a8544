//! How many connections and streams a server may have open, by its settings and by how many files the process may
//! open.

use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sederunt_core::limits;
use sederunt_core::live::budget::{StreamBudget, StreamCap, StreamCaps};
use sederunt_server::{AddressBlock, ConnectionCaps, TrustedProxies};

use crate::config::{Connections, Streams};
use crate::exit::{Failure, Result};

/// Raises the number of files that this process may open as far as the system allows. Shells start programs with a
/// low limit, for the sake of very old ones.
pub fn raise_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
    {
        tracing::warn!(target: "sederunt", %error, "the limit of open files cannot be raised and stays as it is");
    }
}

/// How many files this process may open.
pub fn files() -> usize {
    let current = getrlimit(Resource::Nofile).current;
    current.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}

/// The setting, or the default where it is 0.
fn or(set: usize, otherwise: usize) -> usize {
    if set == 0 { otherwise.max(1) } else { set }
}

pub fn connections(set: &Connections, files: usize) -> ConnectionCaps {
    let max = or(set.max, ConnectionCaps::for_files(files).max);
    ConnectionCaps { max, per_address: Some(or(set.per_address, max / 4)), head_max: set.head.0 }
}

pub fn stream_caps(set: &Streams, files: usize) -> StreamCaps {
    let cap = |streams, bytes| StreamCap { streams, bytes };
    let max = or(set.max, limits::STREAMS_MAX.min(files / 2));
    StreamCaps {
        in_all: cap(max, set.bytes),
        per_address: cap(or(set.per_address, max / 4), set.bytes_per_caller),
        per_credential: cap(set.per_credential, set.bytes_per_caller),
        per_link: cap(set.per_link, set.bytes_per_link),
        per_link_and_address: cap(set.per_link_and_address, set.bytes_per_link_and_address),
    }
}

pub fn stream_budget(set: &Streams, files: usize) -> Arc<StreamBudget> {
    Arc::new(StreamBudget::new(stream_caps(set, files)))
}

/// Reads addresses and blocks, separated by commas.
pub fn trusted_proxies(text: Option<&str>) -> Result<TrustedProxies> {
    let blocks = text.into_iter().flat_map(|text| text.split(',')).map(str::trim);
    let blocks: std::result::Result<Vec<AddressBlock>, String> =
        blocks.filter(|block| !block.is_empty()).map(str::parse).collect();
    blocks.map(TrustedProxies).map_err(|wrong| Failure::usage(format!("`trusted_proxies`: {wrong}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Span;

    #[test]
    fn what_is_not_set_follows_from_the_files_that_may_be_open() {
        let set = Connections { max: 0, per_address: 0, head: Span(limits::CONNECTION_HEAD_MAX) };
        let caps = connections(&set, 1024);
        assert_eq!((caps.max, caps.per_address), (768, Some(192)));
        let caps = connections(&Connections { max: 100, ..set }, 1024);
        assert_eq!((caps.max, caps.per_address), (100, Some(25)));
        let caps = connections(&Connections { per_address: 7, ..set }, 1024);
        assert_eq!(caps.per_address, Some(7));
    }

    #[test]
    fn proxies_are_named_by_address_or_block() {
        assert_eq!(trusted_proxies(None).unwrap().0.len(), 0);
        assert_eq!(trusted_proxies(Some("")).unwrap().0.len(), 0);
        assert_eq!(trusted_proxies(Some("127.0.0.1, 10.0.0.0/8,::1")).unwrap().0.len(), 3);
        assert!(trusted_proxies(Some("my-proxy")).is_err());
    }
}
