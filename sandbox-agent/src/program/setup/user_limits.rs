//! Limits of the sandbox's user namespace on objects that the kernel counts per user.

use alloc::{format, string::ToString};

use crate::runtime::{
    Descriptor, Errno, Fd, fs,
    fs::{AT_FDCWD, O_CLOEXEC, O_DIRECTORY, O_PATH, O_WRONLY},
    io,
    path::terminated,
};

use crate::{
    program::{
        failures::{failure, text},
        procfs::Procfs,
    },
    protocol::{FailStep, Failure, UserLimit},
};

/// Opens a procfs to set the limits in, while the host's root is visible: `procfs`, or the host's
/// own. The process that opens a file decides on the user namespace, not the mount. `None` without
/// limits.
///
/// # Errors
///
/// What opening `/proc` reports.
pub(super) fn open_procfs(
    limits: &[UserLimit],
    procfs: Option<&Procfs>,
) -> Result<Option<Fd>, Errno> {
    if limits.is_empty() {
        return Ok(None);
    }
    let flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    match procfs {
        Some(procfs) => fs::open_at(procfs.raw(), c".", flags, 0),
        None => fs::open_at(AT_FDCWD, c"/proc", flags, 0),
    }
    .map(Some)
}

/// Sets the limits of this process's user namespace.
///
/// # Errors
///
/// The limit that could not be set.
pub(super) fn set(limits: &[UserLimit], procfs: &Fd) -> Result<(), Failure> {
    for limit in limits {
        let path = format!("sys/user/{}", text(&limit.name));
        let written = terminated(path.as_bytes())
            .and_then(|path| fs::open_at(procfs, &path, O_WRONLY | O_CLOEXEC, 0))
            .and_then(|file| io::write_all(&file, limit.most.to_string().as_bytes()));
        written.map_err(|errno| failure(FailStep::Setup, errno, format!("/proc/{path}")))?;
    }
    Ok(())
}
