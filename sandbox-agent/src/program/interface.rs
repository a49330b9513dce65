//! Network interfaces: bringing them up and down.

use crate::runtime::{
    Errno, Fd, io,
    net::{AF_INET, SOCK_CLOEXEC, SOCK_DGRAM, socket},
};

/// `ioctl` request: an interface's flags.
const SIOCGIFFLAGS: usize = 0x8913;
/// `ioctl` request: set an interface's flags.
const SIOCSIFFLAGS: usize = 0x8914;
/// Flag: the interface is up.
const IFF_UP: u16 = 1;

/// `struct ifreq` with flags.
#[repr(C)]
struct InterfaceFlags {
    name: [u8; 16],
    flags: u16,
    padding: [u8; 22],
}

const _: () = assert!(size_of::<InterfaceFlags>() == 40);

/// Brings the interface `name` up or down, and reads the state back.
///
/// # Errors
///
/// `ENODEV` if there is none, `EPERM` without `CAP_NET_ADMIN` over the network namespace, `EIO` if
/// the state read back is wrong.
pub(super) fn set_up(name: &[u8], up: bool) -> Result<(), Errno> {
    let (socket, mut request) = open_request(name)?;
    read_flags(&socket, &mut request)?;
    request.flags = if up {
        request.flags | IFF_UP
    } else {
        request.flags & !IFF_UP
    };
    // SAFETY: the request reads one record.
    unsafe { io::ioctl(&socket, SIOCSIFFLAGS, &raw mut request as usize)? };
    read_flags(&socket, &mut request)?;
    if (request.flags & IFF_UP != 0) == up {
        Ok(())
    } else {
        Err(Errno::EIO)
    }
}

/// Whether the interface `name` is up.
///
/// # Errors
///
/// `ENODEV` if there is none.
pub(super) fn is_up(name: &[u8]) -> Result<bool, Errno> {
    let (socket, mut request) = open_request(name)?;
    read_flags(&socket, &mut request)?;
    Ok(request.flags & IFF_UP != 0)
}

fn open_request(name: &[u8]) -> Result<(Fd, InterfaceFlags), Errno> {
    let mut request = InterfaceFlags {
        name: [0; 16],
        flags: 0,
        padding: [0; 22],
    };
    // The name needs a terminating nul.
    if name.len() >= request.name.len() {
        return Err(Errno::ENAMETOOLONG);
    }
    request.name[..name.len()].copy_from_slice(name);
    let socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)?;
    Ok((socket, request))
}

fn read_flags(socket: &Fd, request: &mut InterfaceFlags) -> Result<(), Errno> {
    // SAFETY: the request reads the name and writes the flags of one record.
    unsafe { io::ioctl(socket, SIOCGIFFLAGS, &raw mut *request as usize)? };
    Ok(())
}
