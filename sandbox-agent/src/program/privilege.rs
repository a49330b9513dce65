//! Dropping privileges.

use crate::runtime::{
    Errno,
    credentials::{
        CAP_KILL, CAP_SETGID, CAP_SETPCAP, CAP_SETUID, Capabilities, clear_ambient,
        effective_group, effective_user, is_ambient, is_in_bounding_set, limit_bounding_set,
    },
    process::{
        self, PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, Pid, set_attribute,
    },
    syscall::{nr, syscall1},
};

use super::failures::{failure, refusal};
use crate::protocol::{FailStep, Failure};

/// Capabilities that split mode needs: changing the identity, and killing processes of it.
const NEEDED: u64 = 1 << CAP_SETUID | 1 << CAP_SETGID | 1 << CAP_KILL;

/// Drops every capability except [`NEEDED`] for another `identity`. Returns the remaining ones.
///
/// The bounding set ends empty in both modes. The agent executes no program itself, and no program
/// of the sandbox can gain a capability.
///
/// # Errors
///
/// When capabilities for the identity are missing, or a system call fails.
pub(super) fn drop_all_but_needed(identity: Option<(u32, u32)>) -> Result<Capabilities, Failure> {
    let failed = |what: &'static str| move |errno| failure(FailStep::Settings, errno, what);
    let held = Capabilities::current().map_err(failed("capget"))?;
    if identity.is_some() && held.permitted & NEEDED != NEEDED {
        return Err(refusal(
            FailStep::Identity,
            "another identity for code needs CAP_SETUID, CAP_SETGID and CAP_KILL",
        ));
    }
    if held.effective & (1 << CAP_SETPCAP) != 0 {
        limit_bounding_set(0).map_err(failed("PR_CAPBSET_DROP"))?;
    }
    drop_ambient().map_err(failed("PR_CAP_AMBIENT"))?;
    let needed = if identity.is_some() { NEEDED } else { 0 };
    let remaining = Capabilities {
        effective: needed,
        permitted: needed,
        inheritable: 0,
    };
    remaining.apply().map_err(failed("capset"))?;
    if let Some((user, group)) = identity {
        // New pipes belong to the code, which may then open /dev/stdout. The agent's file access is
        // limited to the code's.
        set_file_identity(user, group);
    }
    set_attribute(PR_SET_NO_NEW_PRIVS, 1, 0).map_err(failed("PR_SET_NO_NEW_PRIVS"))?;
    set_attribute(PR_SET_DUMPABLE, 0, 0).map_err(failed("PR_SET_DUMPABLE"))?;
    if process::current() != Pid(1) {
        set_attribute(PR_SET_CHILD_SUBREAPER, 1, 0).map_err(failed("PR_SET_CHILD_SUBREAPER"))?;
    }
    Ok(remaining)
}

/// Drops one capability from every set, so that neither this process nor its children can regain
/// it, and checks the result.
///
/// # Errors
///
/// `EPERM` without `CAP_SETPCAP`, `EIO` if the capability is still held.
pub(super) fn drop_capability(capability: u32) -> Result<(), Errno> {
    limit_bounding_set(!(1 << capability))?;
    drop_ambient()?;
    let without = |set: u64| set & !(1 << capability);
    let held = Capabilities::current()?;
    Capabilities {
        effective: without(held.effective),
        permitted: without(held.permitted),
        inheritable: without(held.inheritable),
    }
    .apply()?;
    let remaining = Capabilities::current()?;
    let sets = remaining.effective | remaining.permitted | remaining.inheritable;
    let ambient = match is_ambient(capability) {
        // Linux before 4.3 has no ambient set.
        Err(Errno::EINVAL) => false,
        known => known?,
    };
    match sets & 1 << capability != 0 || ambient || is_in_bounding_set(capability)? {
        true => Err(Errno::EIO),
        false => Ok(()),
    }
}

/// Drops every capability, in a process that needs none.
///
/// # Errors
///
/// None that Linux gives.
pub(super) fn drop_all() -> Result<(), Errno> {
    if Capabilities::current()?.effective & (1 << CAP_SETPCAP) != 0 {
        limit_bounding_set(0)?;
    }
    drop_ambient()?;
    Capabilities::default().apply()?;
    set_attribute(PR_SET_NO_NEW_PRIVS, 1, 0)
}

fn drop_ambient() -> Result<(), Errno> {
    match clear_ambient() {
        // Linux before 4.3 has no ambient set.
        Err(Errno::EINVAL) => Ok(()),
        cleared => cleared,
    }
}

/// Whether `identity` differs from the agent's own.
pub(super) fn differs((user, group): (u32, u32)) -> bool {
    (user, group) != (effective_user(), effective_group())
}

/// Sets the identity for file access only. The calls report no errors: an unmapped ID leaves the
/// old identity, and the first execution fails with the reason.
pub(super) fn set_file_identity(user: u32, group: u32) {
    // SAFETY: the calls take no pointer.
    unsafe {
        syscall1(nr::SETFSGID, group as usize);
        syscall1(nr::SETFSUID, user as usize);
    }
}

/// Sets the signal for the end of the parent's thread. A change of credentials clears it.
///
/// # Errors
///
/// None that Linux gives.
pub(super) fn die_with_parent() -> Result<(), Errno> {
    set_attribute(
        process::PR_SET_PDEATHSIG,
        crate::runtime::signal::SIGKILL.cast_unsigned() as usize,
        0,
    )
}
