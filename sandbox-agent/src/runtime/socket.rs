//! Options and addresses of sockets.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::runtime::descriptor::{Descriptor, word};
use crate::runtime::errno::Errno;
use crate::runtime::net::{AF_INET, AF_INET6};
use crate::runtime::syscall::{check, nr, result, retry, syscall3, syscall5, syscall6};

/// Option level: the socket itself.
const SOL_SOCKET: usize = 1;
/// Option level: TCP.
const IPPROTO_TCP: usize = 6;

/// Sets an option whose value is plain integers.
fn set<T: Copy>(
    socket: impl Descriptor,
    level: usize,
    option: usize,
    value: &T,
) -> Result<(), Errno> {
    // SAFETY: the kernel reads the value.
    check(unsafe {
        syscall5(
            nr::SETSOCKOPT,
            word(socket),
            level,
            option,
            core::ptr::from_ref(value) as usize,
            size_of::<T>(),
        )
    })
}

/// Sends small pieces at once, without waiting for acknowledgements.
///
/// # Errors
/// `EOPNOTSUPP` for a socket that is not TCP.
pub fn set_no_delay(socket: impl Descriptor) -> Result<(), Errno> {
    const TCP_NODELAY: usize = 1;
    set(socket, IPPROTO_TCP, TCP_NODELAY, &1i32)
}

/// Makes the next close reset the connection and drop what was not sent.
///
/// # Errors
/// `ENOTSOCK`.
pub fn reset_on_close(socket: impl Descriptor) -> Result<(), Errno> {
    const SO_LINGER: usize = 13;
    // `struct linger`: on, for 0 seconds.
    set(socket, SOL_SOCKET, SO_LINGER, &[1i32, 0])
}

/// Takes the pending error of a socket: `None` once it is connected.
///
/// # Errors
/// `ENOTSOCK`.
pub fn take_error(socket: impl Descriptor) -> Result<Option<Errno>, Errno> {
    const SO_ERROR: usize = 4;
    let mut value = 0i32;
    let mut length = size_of::<i32>() as u32;
    // SAFETY: the kernel writes at most `length` bytes into the value, and how many into `length`.
    check(unsafe {
        syscall5(
            nr::GETSOCKOPT,
            word(socket),
            SOL_SOCKET,
            SO_ERROR,
            &raw mut value as usize,
            &raw mut length as usize,
        )
    })?;
    Ok((value != 0).then_some(Errno(value)))
}

/// Allows to bind an address and port that connections of an earlier listener still use.
///
/// # Errors
/// `ENOTSOCK`.
pub fn reuse_address(socket: impl Descriptor) -> Result<(), Errno> {
    const SO_REUSEADDR: usize = 2;
    set(socket, SOL_SOCKET, SO_REUSEADDR, &1i32)
}

/// Leaves IPv4 to other sockets.
///
/// # Errors
/// `ENOPROTOOPT` for a socket that is not IPv6.
pub fn only_ipv6(socket: impl Descriptor) -> Result<(), Errno> {
    const IPPROTO_IPV6: usize = 41;
    const IPV6_V6ONLY: usize = 26;
    set(socket, IPPROTO_IPV6, IPV6_V6ONLY, &1i32)
}

/// Allows addresses that no interface has, such as those of a local route for IPv6. For IPv4, these
/// are allowed anyway.
///
/// # Errors
/// None that Linux gives for an internet socket.
pub fn bind_freely(socket: impl Descriptor) -> Result<(), Errno> {
    // Linux takes the option of IPv4 for both. That of IPv6 came with 4.15.
    const IPPROTO_IP: usize = 0;
    const IP_FREEBIND: usize = 15;
    set(socket, IPPROTO_IP, IP_FREEBIND, &1i32)
}

/// An address of a socket, as the kernel writes it.
#[derive(Debug, Clone, Copy)]
pub struct RawAddress {
    bytes: [u8; 28],
    length: u32,
}

impl RawAddress {
    const EMPTY: RawAddress = RawAddress {
        bytes: [0; 28],
        length: 28,
    };

    /// The IP address and the port; `None` for another family.
    pub fn ip(&self) -> Option<(IpAddr, u16)> {
        let family = i32::from(u16::from_ne_bytes([self.bytes[0], self.bytes[1]]));
        let port = u16::from_be_bytes([self.bytes[2], self.bytes[3]]);
        let address = match family {
            AF_INET => Ipv4Addr::from(*self.bytes[4..].first_chunk::<4>()?).into(),
            AF_INET6 => Ipv6Addr::from(*self.bytes[8..].first_chunk::<16>()?).into(),
            _ => return None,
        };
        Some((address, port))
    }
}

/// The address that a socket is bound to.
///
/// # Errors
/// `ENOTSOCK`.
pub fn local_address(socket: impl Descriptor) -> Result<RawAddress, Errno> {
    let mut address = RawAddress::EMPTY;
    // SAFETY: the kernel writes at most `length` bytes into the address, and its size into
    // `length`.
    check(unsafe {
        syscall3(
            nr::GETSOCKNAME,
            word(socket),
            address.bytes.as_mut_ptr() as usize,
            &raw mut address.length as usize,
        )
    })?;
    Ok(address)
}

/// Receives a datagram, and who sent it. What does not fit into `buffer` is lost.
///
/// # Errors
/// `EAGAIN`.
pub fn receive_from(
    socket: impl Descriptor,
    buffer: &mut [u8],
) -> Result<(usize, RawAddress), Errno> {
    let mut address = RawAddress::EMPTY;
    let socket = word(socket);
    let count = retry(|| {
        // SAFETY: the kernel writes at most the buffer's length, and at most `length` bytes into
        // the address, and its size into `length`.
        result(unsafe {
            syscall6(
                nr::RECVFROM,
                socket,
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                0,
                address.bytes.as_mut_ptr() as usize,
                &raw mut address.length as usize,
            )
        })
    })?;
    Ok((count, address))
}

/// Sends a datagram.
///
/// # Errors
/// `EAGAIN`, `ECONNREFUSED`.
pub fn send_to(
    socket: impl Descriptor,
    bytes: &[u8],
    address: &RawAddress,
) -> Result<usize, Errno> {
    let socket = word(socket);
    let length = (address.length as usize).min(address.bytes.len());
    retry(|| {
        // SAFETY: the kernel reads the bytes and the address.
        result(unsafe {
            syscall6(
                nr::SENDTO,
                socket,
                bytes.as_ptr() as usize,
                bytes.len(),
                0,
                address.bytes.as_ptr() as usize,
                length,
            )
        })
    })
}
