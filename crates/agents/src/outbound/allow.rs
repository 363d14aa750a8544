//! The hosts and networks that the configuration allows besides the public internet.

use std::net::IpAddr;

use super::is_public;

/// Hosts and networks that may be called although they are not public.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allow {
    hosts: Vec<String>,
    networks: Vec<(IpAddr, u8)>,
}

/// An entry is neither a host name nor a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{entry}` is neither a host name nor a network such as 10.1.0.0/16")]
pub struct BadAllow {
    pub entry: String,
}

impl Allow {
    /// Reads entries such as `hooks.internal`, `10.1.0.0/16` or `::1`.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, BadAllow> {
        let mut allow = Self::default();
        for entry in entries {
            let bad = || BadAllow { entry: entry.to_owned() };
            let (address, bits) =
                entry.split_once('/').map_or((entry, None), |(address, bits)| (address, Some(bits)));
            match address.parse::<IpAddr>() {
                Ok(address) => {
                    let width = if address.is_ipv4() { 32 } else { 128 };
                    let bits = bits.map_or(Ok(width), |bits| bits.parse::<u8>().map_err(|_| bad()))?;
                    if bits > width {
                        return Err(bad());
                    }
                    allow.networks.push((address, bits));
                }
                Err(_) => {
                    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
                    if bits.is_some() || entry.is_empty() || !entry.chars().all(is_letter) {
                        return Err(bad());
                    }
                    allow.hosts.push(entry.trim_end_matches('.').to_ascii_lowercase());
                }
            }
        }
        Ok(allow)
    }

    /// Whether this address of this host may be called.
    pub fn permits(&self, host: &str, address: IpAddr) -> bool {
        let named = || self.hosts.iter().any(|name| host.trim_end_matches('.').eq_ignore_ascii_case(name));
        let inside = || self.networks.iter().any(|(network, bits)| contains(*network, *bits, address));
        is_public(address) || named() || inside()
    }
}

fn contains(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    let same_start = |network: u128, address: u128, width: u32| {
        let shift = width - u32::from(bits);
        network.checked_shr(shift).unwrap_or(0) == address.checked_shr(shift).unwrap_or(0)
    };
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            same_start(u32::from(network).into(), u32::from(address).into(), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => same_start(network.into(), address.into(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_host_or_network_passes_and_nothing_else() {
        let allow = Allow::parse(["hooks.internal", "10.1.0.0/16", "fd00::/8", "192.168.7.7"]).unwrap();
        let cases = [
            ("example.org", "8.8.8.8", true),
            ("hooks.internal", "10.9.9.9", true),
            ("HOOKS.internal.", "127.0.0.1", true),
            ("evil.hooks.internal", "10.9.9.9", false),
            ("x", "10.1.255.255", true),
            ("x", "10.2.0.0", false),
            ("x", "192.168.7.7", true),
            ("x", "192.168.7.8", false),
            ("x", "fd12::1", true),
            ("x", "fe80::1", false),
            ("x", "::ffff:10.1.0.1", false),
        ];
        for (host, address, expected) in cases {
            assert_eq!(allow.permits(host, address.parse().unwrap()), expected, "{host} {address}");
        }
        let all = Allow::parse(["0.0.0.0/0"]).unwrap();
        assert!(all.permits("x", "127.0.0.1".parse().unwrap()));
        assert!(!all.permits("x", "::1".parse().unwrap()));
    }

    #[test]
    fn an_entry_that_means_nothing_is_refused() {
        for entry in ["", "10.0.0.0/33", "::1/129", "10.0.0.0/x", "host/8", "http://host", "a b", "*"] {
            assert_eq!(Allow::parse([entry]), Err(BadAllow { entry: entry.to_owned() }));
        }
    }
}
