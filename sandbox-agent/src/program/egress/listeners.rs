//! The sockets that connections of code arrive at.

use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;

use crate::runtime::{
    Errno, Fd,
    net::{
        self, AF_INET, AF_INET6, Ipv4Address, Ipv6Address, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM,
    },
    socket,
};

/// The most listening sockets. Further names then have no address.
const MAX_LISTENERS: usize = 1024;

/// Length of the queue of connections that are not accepted yet.
const BACKLOG: i32 = 512;

/// Where a socket listens.
pub(super) type Place = (IpAddr, u16);

/// The listening sockets.
#[derive(Debug, Default)]
pub(super) struct Listeners(BTreeMap<Place, Fd>);

impl Listeners {
    /// Closes those elsewhere, and then listens at these places. Returns the first failure.
    pub(super) fn set(&mut self, places: &BTreeSet<Place>) -> Result<(), (Place, Errno)> {
        self.0.retain(|place, _| places.contains(place));
        let mut first = Ok(());
        for place in places {
            // Each is tried, also after a failure.
            first = first.and(self.add(*place));
        }
        first
    }

    /// Listens at a place, unless it does so already.
    pub(super) fn add(&mut self, place: Place) -> Result<(), (Place, Errno)> {
        if self.0.contains_key(&place) {
            return Ok(());
        }
        if self.0.len() >= MAX_LISTENERS {
            return Err((place, Errno::EMFILE));
        }
        let socket = listen(place).map_err(|errno| (place, errno))?;
        self.0.insert(place, socket);
        Ok(())
    }

    /// The sockets with their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, &Fd)> {
        self.0.iter().map(|(place, socket)| (*place, socket))
    }

    /// The socket at a place.
    pub(super) fn get(&self, place: Place) -> Option<&Fd> {
        self.0.get(&place)
    }
}

fn listen((address, port): Place) -> Result<Fd, Errno> {
    let socket = bound(address, port, SOCK_STREAM)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A socket that is bound to this address and port.
pub(super) fn bound(address: IpAddr, port: u16, kind: i32) -> Result<Fd, Errno> {
    let kind = kind | SOCK_CLOEXEC | SOCK_NONBLOCK;
    let socket = match address {
        IpAddr::V4(_) => net::socket(AF_INET, kind, 0)?,
        IpAddr::V6(_) => net::socket(AF_INET6, kind, 0)?,
    };
    socket::reuse_address(&socket)?;
    match address {
        IpAddr::V4(address) => net::bind(&socket, &Ipv4Address::new(address.octets(), port))?,
        IpAddr::V6(address) => {
            socket::only_ipv6(&socket)?;
            socket::bind_freely(&socket)?;
            net::bind(&socket, &Ipv6Address::new(address.octets(), port))?;
        }
    }
    Ok(socket)
}
