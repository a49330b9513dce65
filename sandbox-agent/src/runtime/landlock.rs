//! Landlock rulesets.

use crate::runtime::descriptor::{Descriptor, Fd, RawFd, word};
use crate::runtime::errno::Errno;
use crate::runtime::syscall::{check, nr, result, syscall2, syscall3, syscall4};

/// The handled rights: `struct landlock_ruleset_attr`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RulesetAttributes {
    /// `LANDLOCK_ACCESS_FS_*`.
    pub handled_fs: u64,
    /// `LANDLOCK_ACCESS_NET_*`, from ABI 4.
    pub handled_net: u64,
    /// `LANDLOCK_SCOPE_*`, from ABI 6.
    pub scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    access: u64,
    parent: RawFd,
}

/// The kernel's Landlock ABI. 0 if it has none, if it is disabled at boot, or if a seccomp filter
/// around this process refuses the call: nothing is enforced by Landlock then.
#[must_use]
pub fn abi() -> u32 {
    const VERSION: usize = 1;
    // SAFETY: no pointer is passed.
    let abi = result(unsafe { syscall3(nr::LANDLOCK_CREATE_RULESET, 0, 0, VERSION) });
    abi.map_or(0, |abi| abi as u32)
}

/// Creates a ruleset that denies all handled rights.
///
/// # Errors
/// `EINVAL` or `E2BIG` for what the kernel does not know.
pub fn create(attributes: &RulesetAttributes) -> Result<Fd, Errno> {
    // An older kernel has a shorter record, and accepts a longer one if the rest is zero.
    let size = size_of::<RulesetAttributes>();
    // SAFETY: the kernel reads the record.
    result(unsafe {
        syscall3(
            nr::LANDLOCK_CREATE_RULESET,
            core::ptr::from_ref(attributes) as usize,
            size,
            0,
        )
    })
    .map(|raw| Fd::from_raw(raw as i32))
}

/// Grants `access` below the file or folder `parent`.
///
/// # Errors
/// `EINVAL` for access that is not handled, or makes no sense on a file.
pub fn allow_beneath(
    ruleset: impl Descriptor,
    parent: impl Descriptor,
    access: u64,
) -> Result<(), Errno> {
    const PATH_BENEATH: usize = 1;
    let rule = PathBeneath {
        access,
        parent: parent.raw(),
    };
    // SAFETY: the kernel reads the record.
    check(unsafe {
        syscall4(
            nr::LANDLOCK_ADD_RULE,
            word(ruleset),
            PATH_BENEATH,
            &raw const rule as usize,
            0,
        )
    })
}

/// Confines the calling thread, its future programs and its children.
///
/// # Errors
/// `EPERM` without `no_new_privs`, `E2BIG` above 16 layers.
pub fn restrict_self(ruleset: impl Descriptor) -> Result<(), Errno> {
    // SAFETY: no pointer is passed.
    check(unsafe { syscall2(nr::LANDLOCK_RESTRICT_SELF, word(ruleset), 0) })
}
