//! Sockets.

use crate::runtime::descriptor::{Descriptor, Fd, RawFd, word};
use crate::runtime::errno::Errno;
use crate::runtime::process::Pid;
use crate::runtime::syscall::{check, nr, result, retry, syscall2, syscall3, syscall4, syscall5};

/// Family: local sockets.
pub const AF_UNIX: i32 = 1;
/// Family: IPv4.
pub const AF_INET: i32 = 2;
/// Family: IPv6.
pub const AF_INET6: i32 = 10;
/// Family: netlink.
pub const AF_NETLINK: i32 = 16;
/// Family: packet sockets.
pub const AF_PACKET: i32 = 17;
/// Family: vsock, between a virtual machine and its host.
pub const AF_VSOCK: i32 = 40;

/// Type: a stream.
pub const SOCK_STREAM: i32 = 1;
/// Type: datagrams.
pub const SOCK_DGRAM: i32 = 2;
/// Type: raw.
pub const SOCK_RAW: i32 = 3;
/// Type: ordered messages over a connection.
pub const SOCK_SEQPACKET: i32 = 5;
/// Type flag: close on exec.
pub const SOCK_CLOEXEC: i32 = 0o2_000_000;
/// Type flag: non-blocking.
pub const SOCK_NONBLOCK: i32 = 0o4000;

/// `struct sockaddr_in`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Address {
    family: u16,
    port: [u8; 2],
    address: [u8; 4],
    zero: [u8; 8],
}

impl Ipv4Address {
    /// An address and a port.
    pub const fn new(address: [u8; 4], port: u16) -> Self {
        Self {
            family: AF_INET as u16,
            port: port.to_be_bytes(),
            address,
            zero: [0; 8],
        }
    }
}

/// `struct sockaddr_in6`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Address {
    family: u16,
    port: [u8; 2],
    flow: u32,
    address: [u8; 16],
    scope: u32,
}

impl Ipv6Address {
    /// An address and a port.
    pub const fn new(address: [u8; 16], port: u16) -> Self {
        Self {
            family: AF_INET6 as u16,
            port: port.to_be_bytes(),
            flow: 0,
            address,
            scope: 0,
        }
    }
}

/// `struct sockaddr_un`, as long as its name.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixAddress {
    family: u16,
    name: [u8; 108],
}

/// An address of any family.
pub trait SocketAddress {
    /// The bytes as the kernel reads them.
    fn bytes(&self) -> &[u8];
}

macro_rules! address {
    ($($kind:ty),*) => {
        $(
            impl SocketAddress for $kind {
                fn bytes(&self) -> &[u8] {
                    let start = core::ptr::from_ref(self).cast();
                    // SAFETY: the records are plain integers without padding.
                    unsafe { core::slice::from_raw_parts(start, size_of::<Self>()) }
                }
            }
        )*
    };
}

address!(Ipv4Address, Ipv6Address);

impl SocketAddress for [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl UnixAddress {
    /// The address of a path, or of an abstract name, which begins with a NUL, and its length.
    ///
    /// # Errors
    /// `ENAMETOOLONG` from 108 bytes on.
    pub fn new(name: &[u8]) -> Result<(UnixAddress, usize), Errno> {
        let mut address = UnixAddress {
            family: AF_UNIX as u16,
            name: [0; 108],
        };
        if name.len() >= address.name.len() {
            return Err(Errno::ENAMETOOLONG);
        }
        address.name[..name.len()].copy_from_slice(name);
        let end = usize::from(name.first() != Some(&0));
        Ok((address, 2 + name.len() + end))
    }

    /// The first `length` bytes of the record.
    pub fn bytes(&self, length: usize) -> &[u8] {
        let start = core::ptr::from_ref(self).cast();
        // SAFETY: the record is plain integers without padding, and the length is bounded by it.
        unsafe { core::slice::from_raw_parts(start, length.min(size_of::<Self>())) }
    }
}

/// A new socket.
///
/// # Errors
/// `EAFNOSUPPORT`, `EPERM`, `EMFILE`.
pub fn socket(family: i32, kind: i32, protocol: i32) -> Result<Fd, Errno> {
    // SAFETY: no pointer is passed.
    result(unsafe {
        syscall3(
            nr::SOCKET,
            family as usize,
            kind as usize,
            protocol as usize,
        )
    })
    .map(|raw| Fd::from_raw(raw as RawFd))
}

/// Two connected local sockets.
///
/// # Errors
/// `EMFILE`.
pub fn socket_pair(kind: i32) -> Result<(Fd, Fd), Errno> {
    let mut ends = [0 as RawFd; 2];
    // SAFETY: the kernel writes two descriptors.
    check(unsafe {
        syscall4(
            nr::SOCKETPAIR,
            AF_UNIX as usize,
            kind as usize,
            0,
            ends.as_mut_ptr() as usize,
        )
    })?;
    Ok((Fd::from_raw(ends[0]), Fd::from_raw(ends[1])))
}

/// Connects.
///
/// # Errors
/// `ECONNREFUSED`, `ENETUNREACH`, `ENOENT`, `EACCES`, `EINPROGRESS`.
pub fn connect(
    socket: impl Descriptor,
    address: &(impl SocketAddress + ?Sized),
) -> Result<(), Errno> {
    let bytes = address.bytes();
    // SAFETY: the kernel reads the bytes.
    check(unsafe {
        syscall3(
            nr::CONNECT,
            word(socket),
            bytes.as_ptr() as usize,
            bytes.len(),
        )
    })
}

/// Binds.
///
/// # Errors
/// `EADDRINUSE`, `EACCES`.
pub fn bind(socket: impl Descriptor, address: &(impl SocketAddress + ?Sized)) -> Result<(), Errno> {
    let bytes = address.bytes();
    // SAFETY: the kernel reads the bytes.
    check(unsafe { syscall3(nr::BIND, word(socket), bytes.as_ptr() as usize, bytes.len()) })
}

/// Listens.
///
/// # Errors
/// `EADDRINUSE`.
pub fn listen(socket: impl Descriptor, backlog: i32) -> Result<(), Errno> {
    // SAFETY: no pointer is passed.
    check(unsafe { syscall2(nr::LISTEN, word(socket), backlog as usize) })
}

/// Accepts a connection. `flags`: [`SOCK_CLOEXEC`], [`SOCK_NONBLOCK`].
///
/// # Errors
/// `EAGAIN`, `EMFILE`.
pub fn accept(socket: impl Descriptor, flags: i32) -> Result<Fd, Errno> {
    let socket = word(socket);
    retry(|| {
        // SAFETY: no address is asked for.
        result(unsafe { syscall4(nr::ACCEPT4, socket, 0, 0, flags as usize) })
    })
    .map(|raw| Fd::from_raw(raw as RawFd))
}

/// The PID of the process that connected to this local socket, in the caller's PID namespace; 0 if
/// it has none there.
///
/// # Errors
/// `ENOTSOCK`, `EBADF`.
pub fn peer(socket: impl Descriptor) -> Result<Pid, Errno> {
    const SO_PEERCRED: usize = 17;
    // `struct ucred`: process, user and group.
    let mut credentials = [0i32; 3];
    let mut length = size_of_val(&credentials) as u32;
    // SAFETY: the kernel writes at most `length` bytes into the record, and how many into `length`.
    check(unsafe {
        syscall5(
            nr::GETSOCKOPT,
            word(socket),
            SOL_SOCKET as usize,
            SO_PEERCRED,
            credentials.as_mut_ptr() as usize,
            &raw mut length as usize,
        )
    })?;
    Ok(Pid(credentials[0]))
}

/// Ends one or both directions: 0 reading, 1 writing, 2 both.
///
/// # Errors
/// `ENOTCONN`.
pub fn shutdown(socket: impl Descriptor, how: i32) -> Result<(), Errno> {
    // SAFETY: no pointer is passed.
    check(unsafe { syscall2(nr::SHUTDOWN, word(socket), how as usize) })
}

#[repr(C)]
struct Vector {
    base: usize,
    length: usize,
}

#[repr(C)]
struct MessageHeader {
    name: usize,
    name_length: u32,
    vectors: usize,
    vector_count: usize,
    control: usize,
    control_length: usize,
    flags: i32,
}

impl MessageHeader {
    /// The returned record points to `vector` and `control`, which must outlive its use.
    fn new(vector: *const Vector, control: *const Control) -> Self {
        Self {
            name: 0,
            name_length: 0,
            vectors: vector as usize,
            vector_count: 1,
            control: control as usize,
            control_length: size_of::<Control>(),
            flags: 0,
        }
    }
}

#[repr(C)]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
    descriptor: RawFd,
    padding: i32,
}

const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
/// Length of a control record with one descriptor, without its padding.
const CONTROL_LENGTH: usize = 20;

/// Sends one byte and a duplicate of a descriptor.
///
/// # Errors
/// What `sendmsg` reports.
pub fn send_descriptor(socket: impl Descriptor, descriptor: impl Descriptor) -> Result<(), Errno> {
    let byte = [0u8; 1];
    let vector = Vector {
        base: byte.as_ptr() as usize,
        length: 1,
    };
    let control = Control {
        length: CONTROL_LENGTH,
        level: SOL_SOCKET,
        kind: SCM_RIGHTS,
        descriptor: descriptor.raw(),
        padding: 0,
    };
    let message = MessageHeader::new(&raw const vector, &raw const control);
    let socket = word(socket);
    retry(|| {
        // SAFETY: the kernel reads the message and what it points to, all of which lives here.
        check(unsafe { syscall3(nr::SENDMSG, socket, &raw const message as usize, 0) })
    })
}

/// Receives what [`send_descriptor`] sent; close-on-exec. `None` at the end of the stream.
///
/// # Errors
/// What `recvmsg` reports; `EPROTO` when a byte came without a descriptor.
pub fn receive_descriptor(socket: impl Descriptor) -> Result<Option<Fd>, Errno> {
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
    let mut byte = [0u8; 1];
    let vector = Vector {
        base: byte.as_mut_ptr() as usize,
        length: 1,
    };
    let mut control = Control {
        length: 0,
        level: 0,
        kind: 0,
        descriptor: -1,
        padding: 0,
    };
    let mut message = MessageHeader::new(&raw const vector, &raw mut control);
    let socket = word(socket);
    let count = retry(|| {
        // SAFETY: the kernel writes into the byte, the control record and the message, all of which
        // live here.
        result(unsafe {
            syscall3(
                nr::RECVMSG,
                socket,
                &raw mut message as usize,
                MSG_CMSG_CLOEXEC,
            )
        })
    })?;
    if count == 0 {
        return Ok(None);
    }
    if control.level == SOL_SOCKET && control.kind == SCM_RIGHTS && control.length == CONTROL_LENGTH
    {
        return Ok(Some(Fd::from_raw(control.descriptor)));
    }
    Err(Errno::EPROTO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_is_passed_over_a_socket() {
        let (left, right) = socket_pair(SOCK_STREAM | SOCK_CLOEXEC).unwrap();
        let (reader, writer) = crate::runtime::io::pipe(crate::runtime::fs::O_CLOEXEC).unwrap();
        send_descriptor(&left, &writer).unwrap();
        drop(writer);
        let writer = receive_descriptor(&right).unwrap().unwrap();
        crate::runtime::io::write_all(&writer, b"x").unwrap();
        drop(writer);
        assert_eq!(crate::runtime::io::read(&reader, &mut [0; 2]), Ok(1));
        drop(left);
        assert_eq!(receive_descriptor(&right), Ok(None));
    }

    #[test]
    fn socket_reports_its_peers_pid() {
        let (left, _right) = socket_pair(SOCK_STREAM | SOCK_CLOEXEC).unwrap();
        assert_eq!(peer(&left), Ok(crate::runtime::process::current()));
        let (reader, _writer) = crate::runtime::io::pipe(crate::runtime::fs::O_CLOEXEC).unwrap();
        assert_eq!(peer(&reader), Err(Errno::ENOTSOCK));
    }

    #[test]
    fn records_have_the_kernels_sizes() {
        assert_eq!(size_of::<Ipv4Address>(), 16);
        assert_eq!(size_of::<Ipv6Address>(), 28);
        assert_eq!(size_of::<MessageHeader>(), 56);
        assert_eq!(size_of::<Control>(), 24);
        assert_eq!(UnixAddress::new(b"\0abstract").unwrap().1, 11);
        assert_eq!(UnixAddress::new(b"/path").unwrap().1, 8);
        assert_eq!(
            UnixAddress::new(&[b'a'; 108]).err(),
            Some(Errno::ENAMETOOLONG)
        );
    }
}
