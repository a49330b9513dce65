//! Limits of the sandbox's own user namespace, on what the kernel counts for each user.

use alloc::{format, string::ToString};

use crate::runtime::{
    Descriptor, Fd, Result, fs,
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

/// A procfs to set the limits in, taken while the host's root is in view: `files`, or where there is none the host's own. Which user
/// namespace is meant is decided by who opens a file of it, and not by the mount. `None` where there is nothing to set.
///
/// # Errors
///
/// What opening `/proc` reports.
pub(super) fn open_procfs(limits: &[UserLimit], procfs: Option<&Procfs>) -> Result<Option<Fd>> {
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

/// Sets the limits of the user namespace that this process is in.
///
/// # Errors
///
/// The limit that could not be set.
pub(super) fn set(limits: &[UserLimit], procfs: &Fd) -> core::result::Result<(), Failure> {
    for limit in limits {
        let path = format!("sys/user/{}", text(&limit.name));
        let written = terminated(path.as_bytes())
            .and_then(|path| fs::open_at(procfs, &path, O_WRONLY | O_CLOEXEC, 0))
            .and_then(|file| io::write_all(&file, limit.most.to_string().as_bytes()));
        written.map_err(|errno| failure(FailStep::Setup, errno, format!("/proc/{path}")))?;
    }
    Ok(())
}
