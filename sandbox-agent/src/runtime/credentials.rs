//! Identities and capabilities.

use crate::runtime::Errno;
use crate::runtime::errno::Result;
use crate::runtime::process::{
    PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, PR_CAP_AMBIENT_IS_SET, PR_CAP_AMBIENT_RAISE,
    PR_CAPBSET_DROP, PR_CAPBSET_READ, prctl, set_attribute,
};
use crate::runtime::syscall::{check, nr, syscall0, syscall2, syscall3};

/// Capability: kill processes of others.
pub const CAP_KILL: u32 = 5;
/// Capability: become any group.
pub const CAP_SETGID: u32 = 6;
/// Capability: become any user.
pub const CAP_SETUID: u32 = 7;
/// Capability: change the bounding set.
pub const CAP_SETPCAP: u32 = 8;
/// Capability: configure interfaces.
pub const CAP_NET_ADMIN: u32 = 12;
/// Capability: change the root.
pub const CAP_SYS_CHROOT: u32 = 18;
/// Capability: mounts and much else.
pub const CAP_SYS_ADMIN: u32 = 21;
/// The highest capability number that is tried; the kernel refuses those it does not have.
pub const CAP_LAST: u32 = 63;

/// The three sets of a process, a bit for each capability.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// What holds now.
    pub effective: u64,
    /// What may be made effective.
    pub permitted: u64,
    /// What a program may inherit.
    pub inheritable: u64,
}

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

const VERSION_3: u32 = 0x2008_0522;

impl Capabilities {
    /// The caller's.
    ///
    /// # Errors
    /// None that Linux since 2.6.26 gives.
    pub fn current() -> Result<Capabilities> {
        let mut header = Header {
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

    /// Makes them the caller's.
    ///
    /// # Errors
    /// `EPERM` when one is added that the caller may not have.
    pub fn apply(self) -> Result<()> {
        let mut header = Header {
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

/// Drops every capability from the bounding set but those in `keep` (a bit each).
///
/// # Errors
/// `EPERM` without `CAP_SETPCAP`.
pub fn limit_bounding_set(keep: u64) -> Result<()> {
    for capability in 0..=CAP_LAST {
        if keep & (1 << capability) != 0 {
            continue;
        }
        match set_attribute(PR_CAPBSET_DROP, capability as usize, 0) {
            // The first number that the kernel does not have ends the list.
            Err(Errno::EINVAL) => return Ok(()),
            other => other?,
        }
    }
    Ok(())
}

/// Whether a program that is executed could still gain the capability by its file.
///
/// # Errors
/// `EINVAL` for a capability that the kernel does not have.
pub fn is_in_bounding_set(capability: u32) -> Result<bool> {
    // SAFETY: the operation takes a number.
    let there = unsafe { prctl(PR_CAPBSET_READ, capability as usize, 0)? };
    Ok(there != 0)
}

/// Whether the capability is in the ambient set.
///
/// # Errors
/// `EINVAL` before Linux 4.3.
pub fn is_ambient(capability: u32) -> Result<bool> {
    // SAFETY: the operation takes numbers.
    let there = unsafe { prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, capability as usize)? };
    Ok(there != 0)
}

/// Adds a capability to the ambient set: it survives the execution of a program.
///
/// # Errors
/// `EPERM` when it is not permitted and inheritable.
pub fn raise_ambient(capability: u32) -> Result<()> {
    set_attribute(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability as usize)
}

/// Empties the ambient set.
///
/// # Errors
/// `EINVAL` before Linux 4.3.
pub fn clear_ambient() -> Result<()> {
    set_attribute(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0)
}

/// Sets real, effective and saved user.
///
/// # Errors
/// `EPERM`; `EINVAL` when the user is not mapped.
pub fn set_user(user: u32) -> Result<()> {
    let user = user as usize;
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall3(nr::SETRESUID, user, user, user) })
}

/// Sets real, effective and saved group.
///
/// # Errors
/// `EPERM`; `EINVAL` when the group is not mapped.
pub fn set_group(group: u32) -> Result<()> {
    let group = group as usize;
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall3(nr::SETRESGID, group, group, group) })
}

/// Leaves a user or group as it is.
const SAME: usize = u32::MAX as usize;

/// Sets the effective user alone. Capabilities go from effect with an effective root, and come back with it.
///
/// # Errors
/// `EPERM`; `EINVAL` when the user is not mapped.
pub fn set_effective_user(user: u32) -> Result<()> {
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall3(nr::SETRESUID, SAME, user as usize, SAME) })
}

/// Sets the effective group alone.
///
/// # Errors
/// `EPERM`; `EINVAL` when the group is not mapped.
pub fn set_effective_group(group: u32) -> Result<()> {
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall3(nr::SETRESGID, SAME, group as usize, SAME) })
}

/// Sets the supplementary groups.
///
/// # Errors
/// `EPERM` without `CAP_SETGID`, or where the user namespace denies it.
pub fn set_groups(groups: &[u32]) -> Result<()> {
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
