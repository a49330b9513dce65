//! Mounts with mapped identities.

use sandbox_freestanding::Errno;
use sandbox_freestanding::mount::{MountAttributes, set_attributes};

use super::Support;

/// Whether the kernel knows `mount_setattr`. Whether a file system takes part shows when it is mounted.
pub(super) fn mapped() -> Support {
    // An empty path without the flag that permits one is ENOENT wherever the call exists.
    match set_attributes(-1, c"", 0, &MountAttributes::default()) {
        Err(Errno::ENOSYS) => Support::Missing {
            reason: "the kernel has no mount_setattr".into(),
            fix: "use Linux 5.12 or later".into(),
        },
        _ => Support::Present,
    }
}
