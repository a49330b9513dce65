//! Calls on sockets.

use alloc::string::ToString;
use alloc::vec::Vec;

use crate::runtime::Errno;

use crate::ProbeArguments;
use crate::call::{close, poll, write_all};
use crate::call_result::{self, CallResult, Denied, any, done};
use crate::kernel;

const AF_UNIX: usize = 1;
const AF_INET: usize = 2;
const AF_INET6: usize = 10;
const AF_NETLINK: usize = 16;
const AF_PACKET: usize = 17;
const AF_VSOCK: usize = 40;
pub const STREAM: usize = 1;
pub const DATAGRAM: usize = 2;
const RAW: usize = 3;
const CLOEXEC: usize = 0o2000000;
/// The maximum time to wait for an answer.
const WAIT: usize = 600;

fn socket(family: usize, kind: usize, protocol: usize) -> Result<i32, Errno> {
    Ok(kernel!(SOCKET, family, kind | CLOEXEC, protocol)? as i32)
}

/// The families that sandboxes may use: between processes, over IP, and to ask for addresses.
const USUAL_FAMILIES: [usize; 4] = [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK];

/// The families, by their numbers, that make a socket of any type, except the usual ones.
pub fn socket_families() -> CallResult {
    const FAMILIES: usize = 50;
    const KINDS: [usize; 7] = [1, 2, 3, 4, 5, 6, 10];
    let mut made = Vec::new();
    let mut refusals = Vec::new();
    for family in (0..=FAMILIES).filter(|family| !USUAL_FAMILIES.contains(family)) {
        for kind in KINDS {
            match socket(family, kind, 0) {
                // The kernel's own answer for a family that it has.
                Err(Errno::ESOCKTNOSUPPORT | Errno::EPROTONOSUPPORT) => {}
                Err(error) => {
                    refusals.push(error);
                    continue;
                }
                Ok(descriptor) => close(descriptor),
            }
            made.push(family.to_string());
            break;
        }
    }
    match made.is_empty() {
        true => Err(Denied::Errors(refusals)),
        false => Ok(made.join(",")),
    }
}

/// A socket address: `127.0.0.1/80`, or 32 hexadecimal digits and a port for IPv6.
pub struct Address {
    family: usize,
    bytes: Vec<u8>,
}

impl Address {
    pub fn parse(text: &str) -> Option<Address> {
        let (host, port) = text.split_once('/')?;
        let port: u16 = port.parse().ok()?;
        let mut bytes = Vec::new();
        if host.contains('.') {
            bytes.extend((AF_INET as u16).to_ne_bytes());
            bytes.extend(port.to_be_bytes());
            for part in host.split('.') {
                bytes.push(part.parse().ok()?);
            }
            if bytes.len() != 8 {
                return None;
            }
            bytes.resize(16, 0);
            return Some(Address {
                family: AF_INET,
                bytes,
            });
        }
        bytes.extend((AF_INET6 as u16).to_ne_bytes());
        bytes.extend(port.to_be_bytes());
        bytes.extend([0; 4]);
        for index in 0..16 {
            bytes.push(u8::from_str_radix(host.get(index * 2..index * 2 + 2)?, 16).ok()?);
        }
        bytes.extend([0; 4]);
        Some(Address {
            family: AF_INET6,
            bytes,
        })
    }
}

/// The addresses from this argument on. A malformed address ends the program, because fewer
/// addresses would be tried.
pub fn addresses(arguments: &ProbeArguments, first: usize) -> impl Iterator<Item = Address> + '_ {
    let parsed =
        |text| Address::parse(text).unwrap_or_else(|| call_result::give_up("not_an_address"));
    arguments.texts().skip(first).map(parsed)
}

/// Waits until the socket is readable (1) or writable (4).
fn ready(socket: i32, event: u32) -> Result<(), Errno> {
    match poll(socket, event, WAIT)? {
        false => Err(Errno::ETIMEDOUT),
        true => Ok(()),
    }
}

pub fn connect(address: &Address, kind: usize) -> Result<i32, Errno> {
    let socket = socket(address.family, kind | 0o4000, 0)?;
    match kernel!(
        CONNECT,
        socket,
        address.bytes.as_slice(),
        address.bytes.len()
    ) {
        Err(Errno::EINPROGRESS) => {
            ready(socket, 4)?;
            let mut error = [0i32];
            let mut length = [4u32];
            kernel!(
                GETSOCKOPT,
                socket,
                1usize,
                4usize,
                error.as_mut_slice(),
                length.as_mut_slice()
            )?;
            if error[0] == 0 {
                Ok(socket)
            } else {
                Err(Errno(error[0]))
            }
        }
        Err(error) => Err(error),
        Ok(_) => Ok(socket),
    }
}

/// Sends the token and waits for an answer, which proves that a listener was reached.
fn exchange(socket: i32, token: &str) -> Result<(), Errno> {
    kernel!(
        SENDTO,
        socket,
        token.as_bytes(),
        token.len(),
        0o40000usize,
        0usize,
        0usize
    )?;
    ready(socket, 1)?;
    let mut answer = [0u8; 64];
    match kernel!(READ, socket, answer.as_mut_slice(), answer.len())? {
        0 => Err(Errno::ECONNRESET),
        _ => Ok(()),
    }
}

fn reach(arguments: &ProbeArguments, kind: usize) -> CallResult {
    let token = arguments.text(0);
    any(addresses(arguments, 1).map(|address| {
        let socket = connect(&address, kind)?;
        let result = exchange(socket, token);
        close(socket);
        result
    }))
}

pub fn tcp(arguments: &ProbeArguments) -> CallResult {
    reach(arguments, STREAM)
}

pub fn udp(arguments: &ProbeArguments) -> CallResult {
    reach(arguments, DATAGRAM)
}

fn own_address(socket: i32) -> Result<[u8; 16], Errno> {
    let mut address = [0u8; 16];
    let mut length = [16u32];
    kernel!(
        GETSOCKNAME,
        socket,
        address.as_mut_slice(),
        length.as_mut_slice()
    )?;
    Ok(address)
}

fn bind_loopback(socket: i32) -> Result<[u8; 16], Errno> {
    let any_port = [2u8, 0, 0, 0, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    kernel!(BIND, socket, any_port.as_slice(), 16usize)?;
    own_address(socket)
}

pub fn tcp_loopback() -> CallResult {
    let listener = socket(AF_INET, STREAM, 0)?;
    let address = bind_loopback(listener)?;
    kernel!(LISTEN, listener, 1usize)?;
    let client = socket(AF_INET, STREAM, 0)?;
    kernel!(CONNECT, client, address.as_slice(), 16usize)?;
    kernel!(ACCEPT4, listener, 0usize, 0usize, 0usize)?;
    done()
}

pub fn udp_loopback() -> CallResult {
    let receiver = socket(AF_INET, DATAGRAM, 0)?;
    let address = bind_loopback(receiver)?;
    let sender = socket(AF_INET, DATAGRAM, 0)?;
    kernel!(
        SENDTO,
        sender,
        b"x".as_slice(),
        1usize,
        0usize,
        address.as_slice(),
        16usize
    )?;
    ready(receiver, 1)?;
    done()
}

fn unix_address(first: &[u8], name: &str) -> Vec<u8> {
    let mut address = Vec::from((AF_UNIX as u16).to_ne_bytes());
    address.extend_from_slice(first);
    address.extend_from_slice(name.as_bytes());
    address
}

/// The address of a path.
pub fn named(path: &str) -> Vec<u8> {
    let mut address = unix_address(b"", path);
    address.push(0);
    address
}

/// A unix socket of this type.
pub fn socket_unix(kind: usize) -> Result<i32, Errno> {
    socket(AF_UNIX, kind, 0)
}

fn unix_connect(address: &[u8]) -> CallResult {
    let client = socket(AF_UNIX, STREAM, 0)?;
    kernel!(CONNECT, client, address, address.len())?;
    exchange(client, "unix")?;
    done()
}

pub fn unix(path: &str) -> CallResult {
    unix_connect(&named(path))
}

pub fn unix_abstract(name: &str) -> CallResult {
    unix_connect(&unix_address(b"\0", name))
}

/// Sends a datagram from a socket of a pair to another socket's path, with its address and after
/// connecting.
pub fn unix_pair(path: &str) -> CallResult {
    let address = named(path);
    let message = b"unix".as_slice();
    // The kernel makes a raw unix socket a datagram socket.
    let kinds = [DATAGRAM, RAW].into_iter();
    any(kinds
        .flat_map(|kind| [(kind, false), (kind, true)])
        .map(|(kind, connected)| {
            let mut ends = [0i32; 2];
            kernel!(
                SOCKETPAIR,
                AF_UNIX,
                kind | CLOEXEC,
                0usize,
                ends.as_mut_slice()
            )?;
            if connected {
                kernel!(CONNECT, ends[0], address.as_slice(), address.len())?;
                return kernel!(WRITE, ends[0], message, message.len());
            }
            kernel!(
                SENDTO,
                ends[0],
                message,
                message.len(),
                0usize,
                address.as_slice(),
                address.len()
            )
        }))
}

/// Answers at an abstract name until a message says `end`, for a maximum number of connections.
pub fn unix_serve(name: &str, most: usize) -> CallResult {
    let address = unix_address(b"\0", name);
    let listener = socket(AF_UNIX, STREAM, 0)?;
    kernel!(BIND, listener, address.as_slice(), address.len())?;
    kernel!(LISTEN, listener, 8usize)?;
    for _ in 0..most {
        let served = kernel!(ACCEPT4, listener, 0usize, 0usize, CLOEXEC)? as i32;
        let mut message = [0u8; 64];
        let length = kernel!(READ, served, message.as_mut_slice(), message.len())?;
        write_all(served, b"here");
        close(served);
        if message[..length] == *b"end" {
            break;
        }
    }
    done()
}

/// Sends a message to an abstract name and waits for an answer.
pub fn unix_send(name: &str, message: &str) -> CallResult {
    let address = unix_address(b"\0", name);
    let client = socket(AF_UNIX, STREAM, 0)?;
    kernel!(CONNECT, client, address.as_slice(), address.len())?;
    exchange(client, message)?;
    done()
}

/// Listens on an abstract name and on its own path, and connects to both.
pub fn unix_own(path: &str) -> CallResult {
    for address in [named(path), unix_address(b"\0", path)] {
        let listener = socket(AF_UNIX, STREAM, 0)?;
        kernel!(BIND, listener, address.as_slice(), address.len())?;
        kernel!(LISTEN, listener, 1usize)?;
        let client = socket(AF_UNIX, STREAM, 0)?;
        kernel!(CONNECT, client, address.as_slice(), address.len())?;
        let served = kernel!(ACCEPT4, listener, 0usize, 0usize, CLOEXEC)? as i32;
        write_all(served, b"x");
    }
    if let Ok(path) = alloc::ffi::CString::new(path) {
        crate::call::unlink(&path);
    }
    done()
}

pub fn packet() -> CallResult {
    close(socket(AF_PACKET, RAW, usize::from(3u16.to_be()))?);
    done()
}

pub fn raw() -> CallResult {
    close(socket(AF_INET, RAW, 1)?);
    done()
}

/// No network namespace separates virtual machine sockets, so a bound port is proof.
pub fn vsock() -> CallResult {
    let socket = socket(AF_VSOCK, STREAM, 0)?;
    let mut address = [0u32; 4];
    address[0] = AF_VSOCK as u32;
    address[1] = u32::MAX;
    address[2] = u32::MAX;
    kernel!(BIND, socket, address.as_slice(), 16usize)?;
    close(socket);
    done()
}

/// Opens and binds a netlink socket of this protocol.
pub fn netlink(protocol: usize) -> CallResult {
    let socket = socket(AF_NETLINK, RAW, protocol)?;
    let address = [AF_NETLINK as u32, 0, 0];
    kernel!(BIND, socket, address.as_slice(), 12usize)?;
    close(socket);
    if protocol > 64 {
        Err(Denied::Word("nonsense"))
    } else {
        done()
    }
}
