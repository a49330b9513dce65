//! Ports below 1024 of a new network namespace.

use crate::runtime::{
    Descriptor, Errno,
    fs::{self, AT_FDCWD, O_CLOEXEC, O_WRONLY},
    io,
};

use crate::program::procfs::Procfs;

/// The setting, for messages.
pub(super) const SETTING: &str = "net.ipv4.ip_unprivileged_port_start";

/// Lets every process of the network namespace listen on low ports. The agent listens for the
/// ports of rules later, when it has no capability any more.
///
/// # Errors
///
/// `EROFS` where the kernel's settings are read-only.
pub(super) fn open(procfs: Option<&Procfs>) -> Result<(), Errno> {
    let file = match procfs {
        Some(procfs) => fs::open_at(
            procfs.raw(),
            c"sys/net/ipv4/ip_unprivileged_port_start",
            O_WRONLY | O_CLOEXEC,
            0,
        ),
        None => Err(Errno::ENOENT),
    };
    let file = file.or_else(|_| {
        fs::open_at(
            AT_FDCWD,
            c"/proc/sys/net/ipv4/ip_unprivileged_port_start",
            O_WRONLY | O_CLOEXEC,
            0,
        )
    })?;
    io::write_all(&file, b"0")
}
