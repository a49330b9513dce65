//! The addresses of this host. A sandbox may reach the host by only one of them, such as an
//! engine's bridge.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The maximum number of addresses to try. A host with many engines has a bridge for each.
const MOST: usize = 16;

/// The addresses of this host in one family, without its loopback. Empty if /proc does not list
/// them.
#[must_use]
pub fn of_host(v4: bool) -> Vec<IpAddr> {
    // Without the file, the kernel has no such address family.
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let found: BTreeSet<IpAddr> = if v4 {
        of_trie(&text("/proc/net/fib_trie"))
            .map(IpAddr::from)
            .collect()
    } else {
        of_interfaces(&text("/proc/net/if_inet6"))
            .map(IpAddr::from)
            .collect()
    };
    found.into_iter().take(MOST).collect()
}

/// The addresses that the kernel's routes mark as local: `|-- 10.0.0.1` above `/32 host LOCAL`.
fn of_trie(text: &str) -> impl Iterator<Item = Ipv4Addr> {
    let pairs = text.lines().zip(text.lines().skip(1));
    let own = pairs.filter(|(_, below)| below.trim() == "/32 host LOCAL");
    let addresses = own.filter_map(|(leaf, _)| leaf.trim().strip_prefix("|-- ")?.parse().ok());
    addresses.filter(|address: &Ipv4Addr| !address.is_loopback())
}

/// The addresses of interfaces, without link-local addresses.
fn of_interfaces(text: &str) -> impl Iterator<Item = Ipv6Addr> {
    let digits = text.lines().filter_map(|line| line.split(' ').next());
    let addresses = digits.filter_map(|digits| u128::from_str_radix(digits, 16).ok());
    let addresses = addresses.map(Ipv6Addr::from_bits);
    addresses.filter(|address| !address.is_loopback() && !address.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_addresses_are_listed() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.1.0.0\n        /24 link UNICAST\n     |-- 10.1.0.1\n        /32 host LOCAL\n     \
                    |-- 10.1.0.255\n        /32 link BROADCAST\n     |-- 127.0.0.1\n        /32 host LOCAL\n";
        let found: Vec<_> = of_trie(trie).collect();
        assert_eq!(found, [Ipv4Addr::new(10, 1, 0, 1)]);
        let interfaces = "00000000000000000000000000000001 01 80 10 80       lo\n\
                          fe800000000000000000000000000001 02 40 20 80     eth0\n\
                          20010db8000000000000000000000001 02 40 00 80     eth0\n";
        let found: Vec<_> = of_interfaces(interfaces).collect();
        assert_eq!(
            found,
            ["2001:db8::1".parse::<Ipv6Addr>().expect("an address")]
        );
    }
}
