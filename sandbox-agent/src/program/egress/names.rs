//! The addresses that stand for names. An address belongs to one name for the sandbox's life.

use alloc::{collections::BTreeMap, vec::Vec};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::protocol::NAME_SERVER;

/// The most names that get an address.
pub(super) const MAX_NAMES: usize = 4096;

/// The network of the names' IPv6 addresses, 64 bits.
pub(super) const IPV6_NAMES: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x5b, 0, 0, 0, 0, 0, 0);

/// The names with addresses.
#[derive(Debug, Default)]
pub(super) struct Names {
    by_name: BTreeMap<Vec<u8>, u32>,
    names: Vec<Vec<u8>>,
}

impl Names {
    /// The name's number; a new one for a new name. `None` if there are too many.
    pub(super) fn number(&mut self, name: &[u8]) -> Option<u32> {
        if let Some(number) = self.by_name.get(name) {
            return Some(*number);
        }
        let number = u32::try_from(self.names.len()).ok()?;
        if self.names.len() >= MAX_NAMES {
            return None;
        }
        self.names.push(name.to_vec());
        self.by_name.insert(name.to_vec(), number);
        Some(number)
    }

    /// The name of an address.
    pub(super) fn name_of(&self, address: IpAddr) -> Option<&[u8]> {
        let number = match address {
            IpAddr::V4(address) => address.to_bits().checked_sub(NAME_SERVER.to_bits() + 1)?,
            IpAddr::V6(address) => {
                let offset = address.to_bits().checked_sub(IPV6_NAMES.to_bits() + 1)?;
                u32::try_from(offset).ok()?
            }
        };
        self.names.get(number as usize).map(Vec::as_slice)
    }

    /// The names with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        (0..).zip(self.names.iter().map(Vec::as_slice))
    }
}

/// The IPv4 address of a name.
pub(super) fn ipv4(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(NAME_SERVER.to_bits() + 1 + number)
}

/// The IPv6 address of a name.
pub(super) fn ipv6(number: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(IPV6_NAMES.to_bits() + 1 + u128::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_belongs_to_one_name_for_ever() {
        let mut names = Names::default();
        for round in 0..2 {
            for number in 0..MAX_NAMES as u32 {
                let name = alloc::format!("{number}.example.org");
                assert_eq!(names.number(name.as_bytes()), Some(number), "{round}");
                for address in [ipv4(number).into(), ipv6(number).into()] {
                    assert_eq!(names.name_of(address), Some(name.as_bytes()));
                }
            }
            assert_eq!(names.number(b"one.more"), None);
        }
        for other in [
            "127.0.0.1",
            "198.18.0.1",
            "198.18.16.2",
            "fd00:5b::",
            "::1",
            "::",
        ] {
            assert_eq!(names.name_of(other.parse().unwrap()), None, "{other}");
        }
        assert!(ipv4(MAX_NAMES as u32) < Ipv4Addr::new(198, 20, 0, 0));
    }
}
