//! User namespaces without a running process: an id-mapped mount takes its id map from one.
#![expect(unsafe_code, reason = "a child in shared memory")]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use sandbox_agent::runtime::namespace::CLONE_NEWUSER;
use sandbox_agent::runtime::process::{PR_SET_PDEATHSIG, set_attribute, wait_for};
use sandbox_agent::runtime::signal::{SIGKILL, send};
use sandbox_agent::runtime::time::sleep_microseconds;

use super::clone::{self, Child, Stack};

/// Creates a user namespace that maps the single user and group of `from` to `to`.
pub(super) fn user_namespace(from: (u32, u32), to: (u32, u32)) -> io::Result<OwnedFd> {
    let stack = Stack::new().map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
    // SAFETY: `wait` only makes system calls and takes no argument; the stack outlives the child,
    // which ends below.
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
    // The child has not been reaped, so the signal reaches it.
    let sent = send(child.pidfd.as_raw_fd(), SIGKILL);
    debug_assert!(sent.is_ok(), "{sent:?}");
    // Another thread may have reaped it; the child is gone either way.
    let _ = wait_for(child.pid);
}

unsafe extern "C" fn wait(_: *mut c_void) -> ! {
    // Best effort: the child is killed in a moment anyway unless the host process is killed first.
    let _ = set_attribute(PR_SET_PDEATHSIG, SIGKILL as usize, 0);
    loop {
        let _ = sleep_microseconds(1_000_000);
    }
}
