//! Id-mapped mounts.

use sandbox_agent::runtime::Errno;
use sandbox_agent::runtime::mount::{MountAttributes, set_attributes};

use super::Availability;

/// Whether the kernel has `mount_setattr`. Whether a file system supports id mapping shows only
/// when it is mounted.
pub(super) fn detect() -> Availability {
    // An empty path without AT_EMPTY_PATH fails with ENOENT wherever the call exists.
    match set_attributes(-1, c"", 0, &MountAttributes::default()) {
        Err(Errno::ENOSYS) => Availability::Missing {
            reason: "the kernel has no mount_setattr".into(),
            fix: "use Linux 5.12 or later".into(),
        },
        _ => Availability::Present,
    }
}
