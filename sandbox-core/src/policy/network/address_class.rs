//! Which addresses are public, and what the others are.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::IpNetwork;
use super::address::embedded;

/// What an address is for. Only a rule with `private` opens another class than
/// [`AddressClass::Global`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressClass {
    /// Public: may be dialed if a rule allows the destination.
    Global,
    /// `0.0.0.0/8` and `::`, which Linux sends to the host itself.
    Unspecified,
    /// Networks for private use (RFC 1918), unique local and site-local addresses.
    Private,
    /// The host itself.
    Loopback,
    /// The host's own links.
    LinkLocal,
    /// Services of clouds that give credentials to any caller. Only a rule for exactly this
    /// address, with `private`, opens it.
    Metadata,
    /// Groups of receivers.
    Multicast,
    /// All hosts of a link.
    Broadcast,
    /// Networks between a provider and its customers (CGNAT).
    SharedNat,
    /// Networks for measurements.
    Benchmark,
    /// Networks for examples in documents.
    Documentation,
    /// Not assigned, or assigned to protocols.
    Reserved,
    /// IPv4 behind a translator (NAT64).
    Nat64,
    /// IPv4 behind a tunnel (6to4).
    SixToFour,
    /// IPv4 behind a tunnel (Teredo).
    Teredo,
    /// IPv4 in the form of IPv6.
    V4Mapped,
    /// The same in an older form.
    V4Compatible,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> IpNetwork {
    match IpNetwork::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix) {
        Some(network) => network,
        None => panic!("bits behind the prefix"),
    }
}

const fn v6(segments: [u16; 8], prefix: u8) -> IpNetwork {
    let [a, b, c, d, e, f, g, h] = segments;
    let address = Ipv6Addr::new(a, b, c, d, e, f, g, h);
    match IpNetwork::new(IpAddr::V6(address), prefix) {
        Some(network) => network,
        None => panic!("bits behind the prefix"),
    }
}

/// The first entry with the address decides.
const TABLE: &[(IpNetwork, AddressClass)] = {
    use AddressClass::*;
    &[
        // AWS, Azure, Google and most others; containers and pods on AWS; Alibaba; Azure; Oracle.
        (v4(169, 254, 169, 254, 32), Metadata),
        (v4(169, 254, 170, 2, 32), Metadata),
        (v4(169, 254, 170, 23, 32), Metadata),
        (v4(100, 100, 100, 200, 32), Metadata),
        (v4(168, 63, 129, 16, 32), Metadata),
        (v4(192, 0, 0, 192, 32), Metadata),
        (v4(0, 0, 0, 0, 8), Unspecified),
        (v4(10, 0, 0, 0, 8), Private),
        (v4(172, 16, 0, 0, 12), Private),
        (v4(192, 168, 0, 0, 16), Private),
        (v4(127, 0, 0, 0, 8), Loopback),
        (v4(169, 254, 0, 0, 16), LinkLocal),
        (v4(100, 64, 0, 0, 10), SharedNat),
        (v4(192, 0, 0, 0, 24), Reserved),
        (v4(192, 0, 2, 0, 24), Documentation),
        (v4(198, 51, 100, 0, 24), Documentation),
        (v4(203, 0, 113, 0, 24), Documentation),
        // Relays of 6to4.
        (v4(192, 88, 99, 0, 24), SixToFour),
        (v4(198, 18, 0, 0, 15), Benchmark),
        (v4(224, 0, 0, 0, 4), Multicast),
        (v4(255, 255, 255, 255, 32), Broadcast),
        (v4(240, 0, 0, 0, 4), Reserved),
        (v4(0, 0, 0, 0, 0), Global),
        // AWS, and its pods; Google.
        (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), Metadata),
        (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128), Metadata),
        (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), Metadata),
        (v6([0; 8], 128), Unspecified),
        (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Loopback),
        (v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), V4Mapped),
        (v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96), V4Mapped),
        (v6([0; 8], 96), V4Compatible),
        (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), Nat64),
        (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), Nat64),
        (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), Teredo),
        (v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), Benchmark),
        (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Reserved),
        (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Documentation),
        (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Documentation),
        (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), SixToFour),
        (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Private),
        (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), LinkLocal),
        (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Private),
        (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Multicast),
        // Only these are assigned as public addresses.
        (v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3), Global),
    ]
};

impl AddressClass {
    /// The class of an address. An IPv6 address that carries the IPv4 address of a metadata service
    /// is one as well.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        let listed = |address: IpAddr| {
            let mut entries = TABLE.iter();
            let entry = entries.find(|(network, _)| network.contains(address));
            // Outside of the table, there are only unassigned networks of IPv6.
            entry.map_or(Self::Reserved, |(_, class)| *class)
        };
        if let IpAddr::V6(carrier) = address
            && let Some(carried) = embedded(carrier)
            && listed(IpAddr::V4(carried)) == Self::Metadata
        {
            return Self::Metadata;
        }
        listed(address)
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Global => "a public address",
            Self::Unspecified => "an unspecified address",
            Self::Private => "a private address",
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "the address of a cloud's metadata service",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "the broadcast address",
            Self::SharedNat => "an address of a provider's own network",
            Self::Benchmark => "an address for measurements",
            Self::Documentation => "an address for documentation",
            Self::Reserved => "a reserved address",
            Self::Nat64 => "an IPv4 address behind NAT64",
            Self::SixToFour => "an IPv4 address behind 6to4",
            Self::Teredo => "an IPv4 address behind Teredo",
            Self::V4Mapped | Self::V4Compatible => "an IPv4 address in the form of IPv6",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> AddressClass {
        AddressClass::of(text.parse().unwrap())
    }

    #[test]
    fn samples_have_their_class() {
        use AddressClass::*;
        for (class, samples) in [
            (
                Global,
                "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 \
                 172.15.255.255 172.32.0.0 192.167.255.255 198.17.255.255 198.20.0.0 \
                 223.255.255.255 2606:4700::1111 2a00:1450::1 2001:200::1 2001:db7::1 2003::1",
            ),
            (Unspecified, "0.0.0.0 0.0.0.1 0.255.255.255 ::"),
            (
                Private,
                "10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.1.1 fc00::1 fdff::1 fec0::1",
            ),
            (Loopback, "127.0.0.1 127.255.255.255 ::1"),
            (LinkLocal, "169.254.0.1 169.254.169.253 fe80::1 febf::1"),
            (
                Metadata,
                "169.254.169.254 169.254.170.2 100.100.100.200 168.63.129.16 fd00:ec2::254 \
                 ::ffff:169.254.169.254 ::169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1 \
                 64:ff9b:1::a9fe:a9fe ::ffff:0:a9fe:a9fe",
            ),
            (Multicast, "224.0.0.1 239.255.255.255 ff02::1"),
            (Broadcast, "255.255.255.255"),
            (SharedNat, "100.64.0.1 100.127.255.255"),
            (Benchmark, "198.18.0.1 198.19.255.255 2001:2::1"),
            (
                Documentation,
                "192.0.2.1 198.51.100.1 203.0.113.7 2001:db8::1 3fff::1",
            ),
            (
                Reserved,
                "240.0.0.1 255.255.255.254 192.0.0.1 100::1 4000::1 5f00::1 2001:10::1 fe00::1",
            ),
            (Nat64, "64:ff9b::808:808 64:ff9b:1::1 64:ff9b:1:ffff::1"),
            (SixToFour, "2002:808:808::1 192.88.99.1"),
            (Teredo, "2001::1 2001:0:ffff::1"),
            (V4Mapped, "::ffff:8.8.8.8 ::ffff:10.0.0.1 ::ffff:0:808:808"),
            (V4Compatible, "::8.8.8.8 ::2"),
        ] {
            for sample in samples.split_ascii_whitespace() {
                assert_eq!(of(sample), class, "{sample}");
            }
        }
    }

    proptest! {
        #[test]
        fn standard_library_agrees_on_what_is_not_public(bits: u32) {
            let address = Ipv4Addr::from_bits(bits);
            let special = address.is_private() || address.is_loopback() || address.is_link_local()
                || address.is_multicast() || address.is_broadcast() || address.is_documentation()
                || address.is_unspecified();
            let class = AddressClass::of(address.into());
            prop_assert!(!special || class != AddressClass::Global, "{address} {class}");
        }

        #[test]
        fn every_address_of_an_entry_is_at_least_as_special(entry in 0..TABLE.len(), bits: u128) {
            let (network, class) = TABLE[entry];
            let inside = network.random_address(bits);
            prop_assert!(network.contains(inside));
            if class != AddressClass::Global {
                prop_assert_ne!(AddressClass::of(inside), AddressClass::Global);
            }
        }

        #[test]
        fn carried_ipv4_is_never_public(bits: u32) {
            let address = Ipv4Addr::from_bits(bits);
            let [mapped, compatible] = [address.to_ipv6_mapped(), address.to_ipv6_compatible()];
            for carrier in [mapped, compatible] {
                prop_assert_ne!(AddressClass::of(carrier.into()), AddressClass::Global);
            }
        }
    }
}
