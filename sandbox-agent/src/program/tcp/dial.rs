//! Connecting to a port of the sandbox's loopback.

use crate::runtime::{
    Errno, Fd,
    net::{
        self, AF_INET, AF_INET6, Ipv4Address, Ipv6Address, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM,
    },
};

/// Starts a connection to `127.0.0.1`.
///
/// # Errors
///
/// What `socket` and `connect` report, except that the connection is not established yet.
pub(in crate::program) fn dial(port: u16) -> Result<Fd, Errno> {
    let socket = net::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)?;
    begun(net::connect(
        &socket,
        &Ipv4Address::new([127, 0, 0, 1], port),
    ))?;
    Ok(socket)
}

/// Starts a connection to `::1`.
///
/// # Errors
///
/// As [`dial`], and `EAFNOSUPPORT` or `EADDRNOTAVAIL` without IPv6.
pub(super) fn dial_ipv6(port: u16) -> Result<Fd, Errno> {
    const LOOPBACK: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let socket = net::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)?;
    begun(net::connect(&socket, &Ipv6Address::new(LOOPBACK, port)))?;
    Ok(socket)
}

fn begun(connected: Result<(), Errno>) -> Result<(), Errno> {
    match connected {
        Err(Errno::EINPROGRESS) => Ok(()),
        other => other,
    }
}
