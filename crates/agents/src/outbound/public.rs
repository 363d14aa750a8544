//! Which addresses are of the public internet. By the registries of special-purpose addresses; what is not
//! plainly public is not public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address that a tenant or a model chose may be called.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

/// Only global unicast (`2000::/3`), without the parts that carry an IPv4 address inside (Teredo, 6to4),
/// which could be any address, and without benchmarking and documentation. Mapped and translated addresses
/// lie outside of it.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    (0x2000..0x4000).contains(&a)
        && !matches!((a, b), (0x2001, 0..=0x1ff | 0xdb8) | (0x2002, _) | (0x3fff, 0..=0xfff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plainly_public_addresses_are_public() {
        let public = [
            "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1",
            "198.17.0.1", "198.20.0.1", "223.255.255.255", "2606:4700::1111", "2a00::1", "2001:4860::8888",
        ];
        let others = [
            "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1",
            "127.255.255.255", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1",
            "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
            "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1",
            "::ffff:8.8.8.8", "::8.8.8.8", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "fe80::1", "fc00::1",
            "fd00:ec2::254", "fec0::1", "ff02::1", "2001::1", "2001:db8::1", "2001:10::1", "2002:7f00:1::",
            "3fff::1", "5f00::1", "4000::1",
        ];
        for (addresses, expected) in [(&public[..], true), (&others[..], false)] {
            for address in addresses {
                assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
            }
        }
    }
}
