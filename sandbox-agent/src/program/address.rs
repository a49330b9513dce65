//! Names of control sockets: a path, or an abstract name after `@`.

use core::ffi::CStr;

use crate::runtime::{
    Errno, Fd, fs,
    net::{self, AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, UnixAddress},
};

/// Length of the queue of connections that are not accepted yet.
const BACKLOG: i32 = 64;

/// Creates a listening socket. A path must not exist yet; only its owner can connect.
///
/// # Errors
///
/// `EADDRINUSE`, `ENAMETOOLONG`, and what making a file reports.
pub(super) fn listen(name: &CStr) -> Result<Fd, Errno> {
    let (address, length) = address(name)?;
    let socket = net::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)?;
    let umask = fs::set_umask(0o177);
    let result = net::bind(&socket, address.bytes(length));
    fs::set_umask(umask);
    result?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Connects to a listening socket.
///
/// # Errors
///
/// `ENOENT`, `ECONNREFUSED`, `EACCES`, `ENAMETOOLONG`.
pub(super) fn connect(name: &CStr) -> Result<Fd, Errno> {
    let (address, length) = address(name)?;
    let socket = net::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)?;
    net::connect(&socket, address.bytes(length))?;
    Ok(socket)
}

fn address(name: &CStr) -> Result<(UnixAddress, usize), Errno> {
    match name.to_bytes() {
        [b'@', rest @ ..] => UnixAddress::new(&[&[0], rest].concat()),
        path => UnixAddress::new(path),
    }
}
