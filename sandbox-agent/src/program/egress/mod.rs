//! Connections of code to the hosts that rules allow.
//!
//! A name that a rule allows gets an address of its own, which is local to the sandbox's network
//! namespace. So a connection to it arrives here, and the address says the name. The host decides
//! about each connection again; nothing here protects anything.

mod dns;
mod listeners;
mod name_server;
mod names;
mod routes;
mod table;

use alloc::{collections::BTreeSet, format, vec::Vec};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::runtime::{
    Errno, Fd,
    net::{self, SOCK_CLOEXEC, SOCK_NONBLOCK},
    socket,
};

use self::{
    dns::{Directory, Lookup},
    listeners::{Listeners, Place},
    name_server::{NameServer, ServerSocket},
    names::Names,
};
use super::{
    agent::FIRST_CLIENT,
    failures::failure,
    poll_set::{MonotonicMicros, POLLIN, PollSet, after, now},
};
use crate::protocol::{
    AGENT_STREAMS, ConnectRequest, ConnectTarget, EgressTable, FailStep, Failure,
};

pub(super) use routes::add_routes;

/// How many connections to accept before other events are handled.
const MAX_ACCEPTS_PER_EVENT: usize = 16;

/// How long accepting pauses after the system ran out of descriptors or memory, in milliseconds.
const ACCEPT_PAUSE_MS: u64 = 100;

/// Which of the descriptors is ready.
#[derive(Debug, Clone, Copy)]
pub(super) enum EgressEvent {
    NameServer(ServerSocket),
    Listener(Place),
}

/// A connection of code.
#[derive(Debug)]
pub(super) struct CodeConnection {
    pub(super) stream: u32,
    pub(super) request: ConnectRequest,
    pub(super) socket: Fd,
}

impl CodeConnection {
    /// Refuses it. Only costs the reset if it fails.
    pub(super) fn reset(self) {
        let _ = socket::reset_on_close(&self.socket);
    }
}

/// The way out of a sandbox.
#[derive(Debug)]
pub(super) struct Egress {
    /// The number of the client that carries connections. It may have disconnected.
    carrier: u32,
    directory: NameDirectory,
    server: NameServer,
    last_stream: u32,
    /// When accepting resumes after a pause.
    paused_until: Option<MonotonicMicros>,
}

/// Names, their addresses, and who listens there.
#[derive(Debug)]
struct NameDirectory {
    table: EgressTable,
    /// Whether names have IPv6 addresses.
    ipv6: bool,
    names: Names,
    listeners: Listeners,
}

impl Egress {
    /// Starts the name server and listens for the table's addresses. The routes exist.
    ///
    /// # Errors
    ///
    /// What cannot be listened on.
    pub(super) fn new(table: EgressTable, ipv6: bool) -> Result<Self, Failure> {
        let server = NameServer::new()
            .map_err(|errno| failure(FailStep::Settings, errno, "name server of the sandbox"))?;
        let mut directory = NameDirectory {
            table,
            ipv6,
            names: Names::default(),
            listeners: Listeners::default(),
        };
        let listening = directory.listeners.set(&directory.places());
        listening.map_err(|((address, port), errno)| {
            let what = format!("listener for connections to {address} port {port}");
            failure(FailStep::Settings, errno, what)
        })?;
        Ok(Self {
            carrier: FIRST_CLIENT,
            directory,
            server,
            last_stream: 0,
            paused_until: None,
        })
    }

    /// The number of the client that carries connections.
    pub(super) fn carrier(&self) -> u32 {
        self.carrier
    }

    /// Replaces the rules. Names keep their addresses. From now on, this client carries connections,
    /// and decides about each of them.
    pub(super) fn set(&mut self, table: EgressTable, carrier: u32) {
        self.carrier = carrier;
        self.directory.table = table;
        let places = self.directory.places();
        // Where code listens itself, its connections to the address reach it instead of the host.
        let _ = self.directory.listeners.set(&places);
    }

    /// Adds its descriptors to the poll set, the listeners only if connections are accepted.
    pub(super) fn register<T: Copy>(
        &self,
        accepts: bool,
        set: &mut PollSet<T>,
        token: impl Fn(EgressEvent) -> T,
    ) {
        self.server
            .register(set, |place| token(EgressEvent::NameServer(place)));
        if accepts && self.paused_until.is_none() {
            for (place, socket) in self.directory.listeners.iter() {
                set.add(socket.as_raw(), POLLIN, token(EgressEvent::Listener(place)));
            }
        }
    }

    /// The next time at which [`Egress::tick`] has something to do.
    pub(super) fn next_moment(&self) -> Option<MonotonicMicros> {
        let clients = self.server.next_moment();
        clients.into_iter().chain(self.paused_until).min()
    }

    /// Handles expired timeouts.
    pub(super) fn tick(&mut self, now: MonotonicMicros) {
        self.paused_until.take_if(|until| *until <= now);
        self.server.tick(now);
    }

    /// Answers questions, and returns the connections that have arrived, at most `room`.
    pub(super) fn ready(&mut self, event: EgressEvent, room: usize) -> Vec<CodeConnection> {
        match event {
            EgressEvent::NameServer(place) => {
                self.server.ready(place, &mut self.directory);
                Vec::new()
            }
            EgressEvent::Listener(place) => self.accept(place, room),
        }
    }

    fn accept(&mut self, place: Place, room: usize) -> Vec<CodeConnection> {
        let mut connections = Vec::new();
        for _ in 0..room.min(MAX_ACCEPTS_PER_EVENT) {
            let Some(listener) = self.directory.listeners.get(place) else {
                break;
            };
            match net::accept(listener, SOCK_CLOEXEC | SOCK_NONBLOCK) {
                Ok(socket) => match self.directory.request(&socket) {
                    Some(request) => connections.push(CodeConnection {
                        stream: self.next_stream(),
                        request,
                        socket,
                    }),
                    // Its address is no destination. Only costs the reset if it fails.
                    None => {
                        let _ = socket::reset_on_close(&socket);
                    }
                },
                Err(Errno::EAGAIN) => break,
                Err(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS) => {
                    self.paused_until = Some(after(now(), ACCEPT_PAUSE_MS));
                    break;
                }
                // The connection was aborted before it was accepted.
                Err(_) => {}
            }
        }
        connections
    }

    /// The next number of the agent's streams. After 2^31, numbers repeat; earlier streams have
    /// ended by then.
    fn next_stream(&mut self) -> u32 {
        self.last_stream = (self.last_stream + 1) % AGENT_STREAMS;
        AGENT_STREAMS | self.last_stream
    }
}

impl NameDirectory {
    /// What a connection is for, by the address that it arrived at.
    fn request(&self, socket: &Fd) -> Option<ConnectRequest> {
        let (address, port) = socket::local_address(socket).ok()?.ip()?;
        let target = match self.names.name_of(address) {
            Some(name) => ConnectTarget::Name(name.to_vec()),
            None => {
                let allowed = table::ports_of_address(&self.table, address);
                allowed.contains(&port).then_some(())?;
                ConnectTarget::Address(address)
            }
        };
        Some(ConnectRequest { target, port })
    }

    /// Where to listen. A range of addresses takes its ports of all addresses.
    fn places(&self) -> BTreeSet<Place> {
        let mut places = BTreeSet::new();
        for (range, ports) in table::ranges(&self.table) {
            if range.address.is_ipv6() && !self.ipv6 {
                continue;
            }
            let address = match range.is_single() {
                true => range.address,
                false => any(range.address),
            };
            places.extend(ports.iter().map(|port| (address, *port)));
        }
        for (number, name) in self.names.iter() {
            places.extend(self.places_of(number, name));
        }
        let taken = |address: IpAddr, port| {
            let any = any(address);
            address != any && places.contains(&(any, port))
        };
        let single = places.iter().copied();
        single
            .filter(|(address, port)| !taken(*address, *port))
            .collect()
    }

    fn places_of(&self, number: u32, name: &[u8]) -> Vec<Place> {
        let mut places = Vec::new();
        for port in table::ports_of_name(&self.table, name) {
            places.push((names::ipv4(number).into(), port));
            if self.ipv6 {
                places.push((names::ipv6(number).into(), port));
            }
        }
        places
    }

    /// Listens for a name, unless a range has the port already. Returns whether any port works.
    fn listen_for(&mut self, number: u32, name: &[u8]) -> bool {
        let mut works = false;
        for (address, port) in self.places_of(number, name) {
            works |= self.listeners.get((any(address), port)).is_some()
                || self.listeners.add((address, port)).is_ok();
        }
        works
    }
}

/// All addresses of the family.
fn any(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

impl Directory for NameDirectory {
    fn look_up(&mut self, name: &[u8]) -> Lookup {
        if table::ports_of_name(&self.table, name).is_empty() {
            return Lookup::Denied;
        }
        let Some(number) = self.names.number(name) else {
            return Lookup::Failed;
        };
        if !self.listen_for(number, name) {
            return Lookup::Failed;
        }
        let ipv6 = self.ipv6.then(|| names::ipv6(number));
        Lookup::Addresses(names::ipv4(number), ipv6)
    }

    fn name_of(&self, address: IpAddr) -> Option<Vec<u8>> {
        self.names.name_of(address).map(Vec::from)
    }
}
