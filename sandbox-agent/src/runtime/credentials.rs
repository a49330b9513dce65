//! Identities and capabilities.

use crate::runtime::errno::Errno;
use crate::runtime::process::{
    PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, PR_CAP_AMBIENT_IS_SET, PR_CAP_AMBIENT_RAISE,
    PR_CAPBSET_DROP, PR_CAPBSET_READ, prctl, set_attribute,
};
use crate::runtime::syscall::{check, nr, syscall0, syscall2, syscall3};

/// Capability: signal processes of other users.
pub const CAP_KILL: u32 = 5;
/// Capability: change the group.
pub const CAP_SETGID: u32 = 6;
/// Capability: change the user.
pub const CAP_SETUID: u32 = 7;
/// Capability: change the bounding set.
pub const CAP_SETPCAP: u32 = 8;
/// Capability: configure interfaces.
pub const CAP_NET_ADMIN: u32 = 12;
/// Capability: change the root.
pub const CAP_SYS_CHROOT: u32 = 18;
/// Capability: mount, and many other operations.
pub const CAP_SYS_ADMIN: u32 = 21;
/// The highest capability number that is tried. The kernel refuses unknown ones.
pub const CAP_LAST: u32 = 63;

/// A process's capability sets, one bit for each capability.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The effective set.
    pub effective: u64,
    /// The permitted set.
    pub permitted: u64,
    /// The inheritable set.
    pub inheritable: u64,
}

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

const VERSION_3: u32 = 0x2008_0522;

impl Capabilities {
    /// The caller's capabilities.
    ///
    /// # Errors
    /// None that Linux since 2.6.26 gives.
    pub fn current() -> Result<Capabilities, Errno> {
        let mut header = CapabilityHeader {
            version: VERSION_3,
            pid: 0,
        };
        let mut data = [[0u32; 3]; 2];
        // SAFETY: version 3 writes two records of three words.
        check(unsafe {
            syscall2(
                nr::CAPGET,
                &raw mut header as usize,
                data.as_mut_ptr() as usize,
            )
        })?;
        let join = |set: usize| u64::from(data[0][set]) | u64::from(data[1][set]) << 32;
        Ok(Capabilities {
            effective: join(0),
            permitted: join(1),
            inheritable: join(2),
        })
    }

    /// Sets the caller's capabilities.
    ///
    /// # Errors
    /// `EPERM` when one is added that the caller may not have.
    pub fn apply(self) -> Result<(), Errno> {
        let mut header = CapabilityHeader {
            version: VERSION_3,
            pid: 0,
        };
        let half = |shift: u32| {
            [
                (self.effective >> shift) as u32,
                (self.permitted >> shift) as u32,
                (self.inheritable >> shift) as u32,
            ]
        };
        let data = [half(0), half(32)];
        // SAFETY: version 3 reads two records of three words.
        check(unsafe { syscall2(nr::CAPSET, &raw mut header as usize, data.as_ptr() as usize) })
    }
}

/// Drops every capability from the bounding set except those in `keep` (one bit each).
///
/// # Errors
/// `EPERM` without `CAP_SETPCAP`.
pub fn limit_bounding_set(keep: u64) -> Result<(), Errno> {
    for capability in 0..=CAP_LAST {
        if keep & (1 << capability) != 0 {
            continue;
        }
        match set_attribute(PR_CAPBSET_DROP, capability as usize, 0) {
            // The first unknown number ends the list.
            Err(Errno::EINVAL) => return Ok(()),
            other => other?,
        }
    }
    Ok(())
}

/// Whether the capability is in the bounding set.
///
/// # Errors
/// `EINVAL` for a capability that the kernel does not have.
pub fn is_in_bounding_set(capability: u32) -> Result<bool, Errno> {
    // SAFETY: the operation takes a number.
    let there = unsafe { prctl(PR_CAPBSET_READ, capability as usize, 0)? };
    Ok(there != 0)
}

/// Whether the capability is in the ambient set.
///
/// # Errors
/// `EINVAL` before Linux 4.3.
pub fn is_ambient(capability: u32) -> Result<bool, Errno> {
    // SAFETY: the operation takes numbers.
    let there = unsafe { prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, capability as usize)? };
    Ok(there != 0)
}

/// Adds a capability to the ambient set, which `execve` preserves.
///
/// # Errors
/// `EPERM` when it is not permitted and inheritable.
pub fn raise_ambient(capability: u32) -> Result<(), Errno> {
    set_attribute(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability as usize)
}

/// Empties the ambient set.
///
/// # Errors
/// `EINVAL` before Linux 4.3.
pub fn clear_ambient() -> Result<(), Errno> {
    set_attribute(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0)
}

/// Sets the real, effective and saved user ID.
///
/// # Errors
/// `EPERM`; `EINVAL` when the user is not mapped.
pub fn set_user(user: u32) -> Result<(), Errno> {
    let user = user as usize;
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall3(nr::SETRESUID, user, user, user) })
}

/// Sets the real, effective and saved group ID.
///
/// # Errors
/// `EPERM`; `EINVAL` when the group is not mapped.
pub fn set_group(group: u32) -> Result<(), Errno> {
    let group = group as usize;
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall3(nr::SETRESGID, group, group, group) })
}

/// An ID that stays unchanged.
const SAME: usize = u32::MAX as usize;

/// Sets only the effective user ID. Leaving root clears the effective capabilities, and returning
/// restores them.
///
/// # Errors
/// `EPERM`; `EINVAL` when the user is not mapped.
pub fn set_effective_user(user: u32) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall3(nr::SETRESUID, SAME, user as usize, SAME) })
}

/// Sets only the effective group ID.
///
/// # Errors
/// `EPERM`; `EINVAL` when the group is not mapped.
pub fn set_effective_group(group: u32) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall3(nr::SETRESGID, SAME, group as usize, SAME) })
}

/// Sets the supplementary groups.
///
/// # Errors
/// `EPERM` without `CAP_SETGID`, or where the user namespace denies it.
pub fn set_groups(groups: &[u32]) -> Result<(), Errno> {
    // SAFETY: the kernel reads the list.
    check(unsafe { syscall2(nr::SETGROUPS, groups.len(), groups.as_ptr() as usize) })
}

/// The effective user.
pub fn effective_user() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { syscall0(nr::GETEUID) as u32 }
}

/// The effective group.
pub fn effective_group() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { syscall0(nr::GETEGID) as u32 }
}
