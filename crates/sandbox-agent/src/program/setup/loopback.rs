//! The loopback interface of a new network namespace.

use sandbox_freestanding::{
    Result, io,
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

/// Brings `lo` up.
///
/// # Errors
///
/// `EPERM` without power over the network namespace.
pub(super) fn bring_up() -> Result<()> {
    let socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)?;
    let mut request = InterfaceFlags {
        name: [0; 16],
        flags: 0,
        padding: [0; 22],
    };
    request.name[..2].copy_from_slice(b"lo");
    // SAFETY: the request reads the name and writes the flags of one record.
    unsafe { io::ioctl(&socket, SIOCGIFFLAGS, &raw mut request as usize)? };
    request.flags |= IFF_UP;
    // SAFETY: the request reads one record.
    unsafe { io::ioctl(&socket, SIOCSIFFLAGS, &raw mut request as usize)? };
    Ok(())
}
