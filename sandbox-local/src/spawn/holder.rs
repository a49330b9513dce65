//! User namespaces that nobody lives in: a mount with mapped identities takes its map from one.
#![expect(unsafe_code, reason = "a child in shared memory")]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use sandbox_freestanding::namespace::CLONE_NEWUSER;
use sandbox_freestanding::process::{PR_SET_PDEATHSIG, set_attribute, wait_for};
use sandbox_freestanding::signal::{SIGKILL, send};
use sandbox_freestanding::time::sleep_microseconds;

use super::clone::{self, Child, Stack};

/// A user namespace in which the one user and group of `from` stand for `to`.
pub(super) fn user_namespace(from: (u32, u32), to: (u32, u32)) -> io::Result<OwnedFd> {
    let stack = Stack::new().map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
    // SAFETY: `wait` only makes system calls and takes no argument; the stack lives until the child has ended, below.
    let child = unsafe { clone::start(CLONE_NEWUSER, None, &stack, wait, std::ptr::null_mut()) };
    let child = child.map_err(|errno| {
        let cause = io::Error::from_raw_os_error(errno.0);
        io::Error::new(
            cause.kind(),
            format!("make a user namespace for a mount: {cause}"),
        )
    })?;
    let namespace = write_maps(&child, from, to);
    end(&child);
    drop(stack);
    namespace
}

fn write_maps(child: &Child, from: (u32, u32), to: (u32, u32)) -> io::Result<OwnedFd> {
    let proc = |file: &str| format!("/proc/{}/{file}", child.pid.0);
    std::fs::write(proc("uid_map"), format!("{} {} 1", from.0, to.0))?;
    std::fs::write(proc("gid_map"), format!("{} {} 1", from.1, to.1))?;
    Ok(File::open(proc("ns/user"))?.into())
}

fn end(child: &Child) {
    // The process is our child and has not been waited for, so the signal reaches it.
    let sent = send(child.pidfd.as_raw_fd(), SIGKILL);
    debug_assert!(sent.is_ok(), "{sent:?}");
    // Somebody else in this process may have taken the end; the child is gone either way.
    let _ = wait_for(child.pid);
}

unsafe extern "C" fn wait(_: *mut c_void) -> ! {
    // If this fails the holder is still killed in a moment, unless its maker is first.
    let _ = set_attribute(PR_SET_PDEATHSIG, SIGKILL as usize, 0);
    loop {
        let _ = sleep_microseconds(1_000_000);
    }
}
