//! Which ports of a destination the rules allow. The host decides again.

use alloc::{collections::BTreeSet, vec::Vec};
use core::net::IpAddr;

use crate::protocol::{EgressHost, EgressTable, IpRange};

/// The allowed ports of a name.
pub(super) fn ports_of_name(table: &EgressTable, name: &[u8]) -> Vec<u16> {
    ports(table, |host| match host {
        EgressHost::Name(own) => own == name,
        EgressHost::Suffix(suffix) => {
            let below = name.strip_suffix(&suffix[..]);
            below.is_some_and(|below| below.len() > 1 && below.ends_with(b"."))
        }
        EgressHost::Range(_) => false,
    })
}

/// The allowed ports of an address.
pub(super) fn ports_of_address(table: &EgressTable, address: IpAddr) -> Vec<u16> {
    ports(table, |host| match host {
        EgressHost::Range(range) => range.contains(address),
        _ => false,
    })
}

/// The ranges that a rule allows, with its ports.
pub(super) fn ranges(table: &EgressTable) -> impl Iterator<Item = (IpRange, &[u16])> {
    let allowing = table.rules.iter().filter(|rule| !rule.denies);
    allowing.filter_map(|rule| match rule.host {
        EgressHost::Range(range) => Some((range, &rule.ports[..])),
        _ => None,
    })
}

fn ports(table: &EgressTable, matches: impl Fn(&EgressHost) -> bool) -> Vec<u16> {
    let mut allowed = BTreeSet::new();
    for rule in table.rules.iter().filter(|rule| matches(&rule.host)) {
        if !rule.denies {
            allowed.extend(&rule.ports);
        }
    }
    for rule in table.rules.iter().filter(|rule| matches(&rule.host)) {
        match (rule.denies, rule.ports.is_empty()) {
            (true, true) => allowed.clear(),
            (true, false) => allowed.retain(|port| !rule.ports.contains(port)),
            _ => {}
        }
    }
    allowed.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::EgressRule;

    fn rule(denies: bool, host: EgressHost, ports: &[u16]) -> EgressRule {
        EgressRule {
            denies,
            host,
            ports: ports.to_vec(),
        }
    }

    #[test]
    fn deny_wins_and_suffix_needs_a_label() {
        let suffix = |name: &[u8]| EgressHost::Suffix(name.to_vec());
        let name = |name: &[u8]| EgressHost::Name(name.to_vec());
        let table = EgressTable {
            rules: alloc::vec![
                rule(true, name(b"no.a.org"), &[]),
                rule(true, name(b"half.a.org"), &[80]),
                rule(false, suffix(b"a.org"), &[80, 443]),
                rule(false, name(b"b.org"), &[5432]),
            ],
        };
        assert_eq!(ports_of_name(&table, b"x.y.a.org"), [80, 443]);
        assert_eq!(ports_of_name(&table, b"half.a.org"), [443]);
        assert_eq!(ports_of_name(&table, b"b.org"), [5432]);
        for denied in [
            &b"a.org"[..],
            b".a.org",
            b"xa.org",
            b"no.a.org",
            b"x.b.org",
            b"",
        ] {
            assert_eq!(ports_of_name(&table, denied), [], "{denied:?}");
        }
    }

    #[test]
    fn addresses_are_compared_by_prefix() {
        let range = |address: &str, prefix| IpRange {
            address: address.parse().unwrap(),
            prefix,
        };
        let table = EgressTable {
            rules: alloc::vec![
                rule(false, EgressHost::Range(range("203.0.113.0", 24)), &[5432]),
                rule(true, EgressHost::Range(range("203.0.113.9", 32)), &[]),
                rule(false, EgressHost::Range(range("2001:db8::", 32)), &[443]),
            ],
        };
        let ports = |address: &str| ports_of_address(&table, address.parse().unwrap());
        assert_eq!(ports("203.0.113.255"), [5432]);
        assert_eq!(ports("2001:db8::1"), [443]);
        for denied in ["203.0.113.9", "203.0.112.255", "2001:db9::", "::"] {
            assert_eq!(ports(denied), [], "{denied}");
        }
        assert!(range("0.0.0.0", 0).contains("255.1.2.3".parse().unwrap()));
        assert!(range("::", 0).contains("ff::".parse().unwrap()));
    }
}
