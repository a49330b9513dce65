//! The addresses of this host.

use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use sandbox_core::policy::IpNetwork;

/// The longest routing table that is read. A table beyond it refuses connections.
const MAX_TABLE: u64 = 16 * 1024 * 1024;

/// The flag of a route to this host itself (`RTF_LOCAL`).
const LOCAL: u32 = 0x8000_0000;

/// The networks whose packets the kernel delivers to this host itself: its addresses, and local
/// routes that nobody gave an address.
pub(super) fn own_networks() -> io::Result<Vec<IpNetwork>> {
    let mut networks = ipv4(&table("/proc/self/net/fib_trie")?);
    networks.extend(ipv6(&table("/proc/self/net/ipv6_route")?));
    Ok(networks)
}

/// The text of a table; empty if the kernel has none, without IPv6 for example.
fn table(path: &str) -> io::Result<String> {
    let file = match std::fs::File::open(Path::new(path)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(MAX_TABLE).read_to_string(&mut text)?;
    if text.len() as u64 == MAX_TABLE {
        return Err(io::Error::other(format!("{path} is too long to read")));
    }
    Ok(text)
}

/// The local routes in `fib_trie`: a line with an address, and below it one for each prefix.
fn ipv4(text: &str) -> Vec<IpNetwork> {
    let mut address = None;
    let mut networks = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(leaf) = line.strip_prefix("|-- ") {
            address = leaf.trim().parse::<Ipv4Addr>().ok();
        } else if let Some(rest) = line.strip_prefix('/')
            && rest.split_ascii_whitespace().any(|word| word == "LOCAL")
            && let Some(address) = address
            && let Some(prefix) = rest.split_ascii_whitespace().next()
            && let Ok(prefix) = prefix.parse()
        {
            networks.extend(IpNetwork::new(IpAddr::V4(address), prefix));
        }
    }
    networks
}

/// The local routes in `ipv6_route`.
fn ipv6(text: &str) -> Vec<IpNetwork> {
    let local = |line: &str| {
        let fields = line.split_ascii_whitespace().collect::<Vec<_>>();
        let flags = u32::from_str_radix(fields.get(8)?, 16).ok()?;
        let address = u128::from_str_radix(fields.first()?, 16).ok()?;
        let prefix = u8::from_str_radix(fields.get(1)?, 16).ok()?;
        let network = IpNetwork::new(Ipv6Addr::from_bits(address).into(), prefix)?;
        (flags & LOCAL != 0).then_some(network)
    };
    text.lines().filter_map(local).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IPV4: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 4
     |-- 0.0.0.0
        /0 universe UNICAST
Local:
  +-- 127.0.0.0/31 1 0 0
     |-- 127.0.0.0
        /8 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
  |-- 203.0.113.7
     /32 host LOCAL
  |-- 203.0.113.255
     /32 link BROADCAST
  |-- 198.18.0.0
     /24 link UNICAST
     /15 host LOCAL
";

    const IPV6: &str = "\
fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
00000000000000000000000000000001 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000004 00000000 80200001       lo
20010db8000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000002 00000000 80200001       lo
";

    fn texts(networks: &[IpNetwork]) -> Vec<String> {
        networks.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn local_routes_are_found() {
        assert_eq!(
            texts(&ipv4(IPV4)),
            ["127.0.0.0/8", "127.0.0.1", "203.0.113.7", "198.18.0.0/15"]
        );
        assert_eq!(texts(&ipv6(IPV6)), ["[::1]", "[2001:db8::]/64"]);
    }

    #[test]
    fn this_host_has_a_loopback_address() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert!(
            own_networks()
                .unwrap()
                .iter()
                .any(|own| own.contains(loopback))
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "([|/+]?-*[ 0-9a-fA-F./]{0,20}(LOCAL)?\\n?){0,20}") {
            let _ = (ipv4(&text), ipv6(&text));
        }
    }
}
