//! Options and addresses of sockets.

use crate::runtime::descriptor::{Descriptor, word};
use crate::runtime::errno::Errno;
use crate::runtime::syscall::{check, nr, syscall5};

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
