//! Networks of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// An address, or all addresses with the same first bits (CIDR).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpNetwork {
    address: IpAddr,
    prefix: u8,
}

impl IpNetwork {
    /// The network of a prefix; `None` if the prefix is longer than an address, or if bits behind
    /// it are set.
    #[must_use]
    pub const fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let network = Self { address, prefix };
        if prefix <= network.width() && network.bits() & network.host_bits() == 0 {
            Some(network)
        } else {
            None
        }
    }

    /// The network of one address.
    #[must_use]
    pub const fn single(address: IpAddr) -> Self {
        let prefix = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        Self { address, prefix }
    }

    /// The first address.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// The number of bits that its addresses share.
    #[must_use]
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether it has one address.
    #[must_use]
    pub const fn is_single(&self) -> bool {
        self.prefix == self.width()
    }

    /// Whether an address is in it. IPv4 and IPv6 are never in each other.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let other = Self::single(address);
        self.width() == other.width() && (self.bits() ^ other.bits()) & !self.host_bits() == 0
    }

    /// Whether all addresses of another network are in it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.address)
    }

    const fn width(&self) -> u8 {
        match self.address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        }
    }

    const fn bits(&self) -> u128 {
        match self.address {
            IpAddr::V4(address) => address.to_bits() as u128,
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    /// The bits behind the prefix.
    const fn host_bits(&self) -> u128 {
        match self.width() - self.prefix {
            128 => u128::MAX,
            bits => (1 << bits) - 1,
        }
    }
}

impl fmt::Display for IpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            IpAddr::V4(address) => write!(f, "{address}")?,
            IpAddr::V6(address) => write!(f, "[{address}]")?,
        }
        if !self.is_single() {
            write!(f, "/{}", self.prefix)?;
        }
        Ok(())
    }
}

/// The IPv4 address to which a translator or tunnel would send packets for this address. For
/// Teredo and for NAT64 prefixes of an operator, there is none that can be known.
pub(super) fn embedded(address: Ipv6Addr) -> Option<std::net::Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let (high, low) = match [a, b, c, d, e, f] {
        // v4-mapped, v4-translated, and NAT64 with a prefix of 96 bits
        [0, 0, 0, 0, 0, 0xffff] | [0, 0, 0, 0, 0xffff, 0] | [0x64, 0xff9b, 0, 0, 0, 0] => (g, h),
        [0x64, 0xff9b, 1, _, _, _] => (g, h),
        // v4-compatible; the first two are `::` and `::1`
        [0, 0, 0, 0, 0, 0] if g != 0 || h > 1 => (g, h),
        // 6to4
        [0x2002, ..] => (b, c),
        _ => return None,
    };
    let [[w, x], [y, z]] = [high.to_be_bytes(), low.to_be_bytes()];
    Some(std::net::Ipv4Addr::new(w, x, y, z))
}

#[cfg(test)]
impl IpNetwork {
    /// An address of the network, chosen by these bits.
    pub(super) fn random_address(&self, bits: u128) -> IpAddr {
        let bits = self.bits() | (bits & self.host_bits());
        match self.address {
            IpAddr::V4(_) => {
                let bits = u32::try_from(bits).expect("32 bits");
                IpAddr::V4(std::net::Ipv4Addr::from_bits(bits))
            }
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        }
    }
}
