//! Routes that make addresses local: a connection to any of them ends in this network namespace.
//! gVisor has no such routes, but an address of the loopback makes its whole network local there.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::runtime::{
    Errno, Fd, io,
    net::{
        self, AF_INET, AF_INET6, AF_NETLINK, Ipv4Address, Ipv6Address, SOCK_CLOEXEC, SOCK_RAW,
        SOCK_STREAM,
    },
};

use super::names::IPV6_NAMES;
use crate::protocol::{IpRange, NAME_SERVER};

/// The addresses of names: the network for benchmarks (RFC 2544), which is on no other network.
const IPV4_NAMES: IpRange = IpRange {
    address: IpAddr::V4(Ipv4Addr::new(198, 18, 0, 0)),
    prefix: 15,
};

/// The loopback's own IPv6 address, behind those of names.
const IPV6_OWN: Ipv6Addr = Ipv6Addr::from_bits(IPV6_NAMES.to_bits() | u64::MAX as u128);

/// The loopback interface is the first of each network namespace.
const LOOPBACK: u32 = 1;

/// Adds the routes for names and for these ranges. Returns whether names have IPv6 addresses.
///
/// # Errors
///
/// `EPERM` without `CAP_NET_ADMIN` over the network namespace.
pub(in crate::program) fn add_routes(ranges: &[IpRange]) -> Result<bool, Errno> {
    let socket = net::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0)?;
    add_address(&socket, NAME_SERVER.into(), 32)?;
    add(&socket, IPV4_NAMES)?;
    let names = IpRange {
        address: IPV6_NAMES.into(),
        prefix: 64,
    };
    // Disabled or not built in, as in containers. Then code has IPv4 alone.
    let ipv6 = add_address(&socket, IPV6_OWN.into(), 128).is_ok() && add(&socket, names).is_ok();
    for range in ranges {
        match add(&socket, *range) {
            // Nothing can connect to it then.
            Err(_) if range.address.is_ipv6() && !ipv6 => {}
            added => added?,
        }
    }
    Ok(ipv6)
}

/// `ip route replace local RANGE dev lo`.
fn add(socket: &Fd, range: IpRange) -> Result<(), Errno> {
    match ask(socket, &request(range)) {
        Err(Errno::EOPNOTSUPP) => {
            add_address(socket, range.address, range.prefix)?;
            check_local(last(range))
        }
        added => added,
    }
}

/// Checks that a socket can be bound to this address. On Linux, an address of the same network would
/// not be enough.
fn check_local(address: IpAddr) -> Result<(), Errno> {
    let open = |family| net::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    match address {
        IpAddr::V4(address) => net::bind(&open(AF_INET)?, &Ipv4Address::new(address.octets(), 0)),
        IpAddr::V6(address) => net::bind(&open(AF_INET6)?, &Ipv6Address::new(address.octets(), 0)),
    }
}

/// The last address of a range but one: the last is for broadcasts. A prefix of the full length leaves
/// no other address, and its shift is out of range.
fn last(range: IpRange) -> IpAddr {
    match range.address {
        IpAddr::V4(first) => {
            let others = u32::MAX.checked_shr(range.prefix.into()).unwrap_or(0);
            Ipv4Addr::from_bits(first.to_bits() | others & !1).into()
        }
        IpAddr::V6(first) => {
            let others = u128::MAX.checked_shr(range.prefix.into()).unwrap_or(0);
            Ipv6Addr::from_bits(first.to_bits() | others & !1).into()
        }
    }
}

/// `ip address replace ADDRESS/PREFIX dev lo`. Resolvers ask for a family only if an interface has
/// another address of it than the loopback's (`AI_ADDRCONFIG`).
fn add_address(socket: &Fd, address: IpAddr, prefix: u8) -> Result<(), Errno> {
    const RTM_NEWADDR: u16 = 20;
    const IFA_ADDRESS: u16 = 1;
    const IFA_LOCAL: u16 = 2;
    let (family, bytes) = octets(address);
    let mut body = Vec::from([family, prefix, 0, 0]);
    body.extend_from_slice(&LOOPBACK.to_ne_bytes());
    attributes(&mut body, &[(IFA_LOCAL, &bytes), (IFA_ADDRESS, &bytes)]);
    ask(socket, &framed(RTM_NEWADDR, &body))
}

/// Sends a request and reads the kernel's answer.
fn ask(socket: &Fd, message: &[u8]) -> Result<(), Errno> {
    io::write(socket, message)?;
    let mut answer = [0; 1024];
    let count = io::read(socket, &mut answer)?;
    // The header, and an error number, which is 0 for success.
    const NLMSG_ERROR: [u8; 2] = 2u16.to_ne_bytes();
    match answer[..count].first_chunk::<20>() {
        Some(answer) if answer[4..6] == NLMSG_ERROR => {
            let number = [answer[16], answer[17], answer[18], answer[19]];
            match i32::from_ne_bytes(number) {
                0 => Ok(()),
                number => Err(Errno(number.wrapping_neg())),
            }
        }
        _ => Err(Errno::EPROTO),
    }
}

fn request(range: IpRange) -> Vec<u8> {
    const RTM_NEWROUTE: u16 = 24;
    const TABLE_LOCAL: u8 = 255;
    const PROTOCOL_STATIC: u8 = 4;
    const SCOPE_HOST: u8 = 254;
    const TYPE_LOCAL: u8 = 2;
    const RTA_DST: u16 = 1;
    const RTA_OIF: u16 = 4;
    let (family, address) = octets(range.address);
    let mut body = Vec::from([
        family,
        range.prefix,
        0,
        0,
        TABLE_LOCAL,
        PROTOCOL_STATIC,
        SCOPE_HOST,
        TYPE_LOCAL,
    ]);
    body.extend_from_slice(&0u32.to_ne_bytes());
    let own = LOOPBACK.to_ne_bytes();
    attributes(&mut body, &[(RTA_DST, &address), (RTA_OIF, &own)]);
    framed(RTM_NEWROUTE, &body)
}

fn octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (AF_INET as u8, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6 as u8, address.octets().to_vec()),
    }
}

fn attributes(body: &mut Vec<u8>, attributes: &[(u16, &[u8])]) {
    for (kind, value) in attributes {
        body.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        body.extend_from_slice(&kind.to_ne_bytes());
        body.extend_from_slice(value);
    }
}

/// A request to change something, which the kernel answers.
fn framed(kind: u16, body: &[u8]) -> Vec<u8> {
    /// Request, acknowledge, replace, create.
    const FLAGS: u16 = 1 | 4 | 0x100 | 0x400;
    let mut message = Vec::new();
    message.extend_from_slice(&(16 + body.len() as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&FLAGS.to_ne_bytes());
    message.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
    message.extend_from_slice(body);
    message
}
