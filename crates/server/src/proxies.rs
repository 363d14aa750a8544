//! The caller's address of a request that came through a proxy.
//!
//! Only proxies that the operator named are trusted. Of the addresses that one forwards, the right-most one that is
//! no trusted proxy is the caller's: everything to the left of it was written by the caller and may be invented.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::HeaderMap;

/// A range of addresses, written as `10.0.0.0/8` or as one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBlock {
    first: u128,
    is_v4: bool,
    bits: u32,
}

impl AddressBlock {
    fn holds(&self, address: IpAddr) -> bool {
        let (number, is_v4, width) = number(address);
        if is_v4 != self.is_v4 {
            return false;
        }
        let shift = width - self.bits;
        shift == 128 || number >> shift == self.first >> shift
    }
}

fn number(address: IpAddr) -> (u128, bool, u32) {
    match address.to_canonical() {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), true, 32),
        IpAddr::V6(v6) => (u128::from(v6), false, 128),
    }
}

impl FromStr for AddressBlock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no address and no block such as 10.0.0.0/8");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let (first, is_v4, width) = number(address);
        let bits = bits.unwrap_or(width);
        if bits > width {
            return Err(wrong());
        }
        Ok(Self { first, is_v4, bits })
    }
}

/// The proxies that the operator named.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(pub Vec<AddressBlock>);

impl TrustedProxies {
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|block| block.holds(address))
    }

    /// The address of the caller of a request that `peer` forwarded. If `X-Forwarded-For` and `Forwarded` disagree,
    /// one of them came from the caller, and neither is trusted.
    pub fn caller(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.trusts(peer) {
            return peer;
        }
        let listed = self.rightmost(peer, headers, "x-forwarded-for", address_of);
        let forwarded = self.rightmost(peer, headers, "forwarded", |element| {
            let mut pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
            pairs.find(|(name, _)| name.eq_ignore_ascii_case("for")).and_then(|(_, value)| address_of(value))
        });
        match (listed, forwarded) {
            (Some(one), None) | (None, Some(one)) => one,
            (Some(one), Some(other)) if one == other => one,
            _ => peer,
        }
    }

    fn rightmost(
        &self,
        peer: IpAddr,
        headers: &HeaderMap,
        name: &str,
        read: impl Fn(&str) -> Option<IpAddr>,
    ) -> Option<IpAddr> {
        let values: Vec<&str> =
            headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("")).collect();
        if values.is_empty() {
            return None;
        }
        let mut nearest = peer;
        for element in values.iter().flat_map(|value| value.split(',')).rev() {
            match read(element) {
                Some(address) if self.trusts(address) => nearest = address,
                Some(address) => return Some(address.to_canonical()),
                // A hop that does not name its source: go no further.
                None => break,
            }
        }
        Some(nearest)
    }
}

/// An address, perhaps quoted, in brackets or with a port.
fn address_of(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    if let Some(bracketed) = text.strip_prefix('[') {
        return bracketed.split_once(']')?.0.parse().ok();
    }
    text.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_block_holds_its_addresses_and_no_others() {
        let table = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "10.0.0.8", false),
            ("10.0.0.7", "::ffff:10.0.0.7", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
        ];
        for (block, address, held) in table {
            let block: AddressBlock = block.parse().unwrap();
            assert_eq!(block.holds(address.parse().unwrap()), held, "{block:?} {address}");
        }
        for wrong in ["", "proxy", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/x", "::/129", "10.0.0/8"] {
            assert!(wrong.parse::<AddressBlock>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_caller_is_the_rightmost_address_that_is_no_trusted_proxy() {
        let proxies = TrustedProxies(vec!["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()]);
        type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
        let table: &[Row<'_>] = &[
            ("203.0.113.1", &[("x-forwarded-for", "198.51.100.1")], "203.0.113.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &[("x-forwarded-for", "198.51.100.1")], "198.51.100.1"),
            ("10.0.0.1", &[("x-forwarded-for", "192.0.2.66, 198.51.100.1")], "198.51.100.1"),
            ("10.0.0.1", &[("x-forwarded-for", "192.0.2.66, 198.51.100.1, 10.9.9.9")], "198.51.100.1"),
            (
                "10.0.0.1",
                &[("x-forwarded-for", "192.0.2.66"), ("x-forwarded-for", "198.51.100.1")],
                "198.51.100.1",
            ),
            ("10.0.0.1", &[("x-forwarded-for", "198.51.100.1:5000")], "198.51.100.1"),
            ("10.0.0.1", &[("x-forwarded-for", "[2001:db8::5]:5000")], "2001:db8::5"),
            ("10.0.0.1", &[("x-forwarded-for", "198.51.100.1, unknown, 10.2.2.2")], "10.2.2.2"),
            ("10.0.0.1", &[("x-forwarded-for", "garbage")], "10.0.0.1"),
            ("10.0.0.1", &[("x-forwarded-for", "10.3.3.3")], "10.3.3.3"),
            ("::1", &[("forwarded", "for=192.0.2.66, For=\"[2001:db8::5]:1\";proto=https")], "2001:db8::5"),
            ("::1", &[("forwarded", "proto=https;for=198.51.100.1;by=10.0.0.1")], "198.51.100.1"),
            ("::1", &[("forwarded", "for=_hidden")], "::1"),
            ("10.0.0.1", &[("x-forwarded-for", "198.51.100.1"), ("forwarded", "for=192.0.2.66")], "10.0.0.1"),
            (
                "10.0.0.1",
                &[("x-forwarded-for", "198.51.100.1"), ("forwarded", "for=198.51.100.1")],
                "198.51.100.1",
            ),
        ];
        for (peer, given, expected) in table {
            let mut headers = HeaderMap::new();
            for (name, value) in *given {
                headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            let caller = proxies.caller(peer.parse().unwrap(), &headers);
            assert_eq!(caller, expected.parse::<IpAddr>().unwrap(), "{peer} {given:?}");
        }
    }
}
