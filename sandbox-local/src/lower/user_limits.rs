//! Limits of what the kernel counts for each user.
//!
//! What the users of a user namespace have counts for the user who made the namespace as well: for the caller, or for root. So a
//! sandbox could use up what the caller may have.

use sandbox_agent::protocol::UserLimit;

use crate::host::Host;

/// By name in `/proc/sys/user`.
///
/// - Instances: half of what the kernel allows a user by default (128), so that one sandbox leaves the caller the other half.
/// - Watches: what the kernel allowed a user by default until Linux 5.11, when it began to look at the memory. A watcher of source
///   code (TypeScript's compiler, webpack) takes one for each folder.
const LIMITS: [(&str, u64); 2] = [("max_inotify_instances", 64), ("max_inotify_watches", 8192)];

/// The limits of the sandbox's user namespace. None where no procfs can be mounted: there the kernel's settings cannot be written
/// either.
pub(super) fn of(host: &Host) -> Vec<UserLimit> {
    if !host.proc_mount.is_present() {
        return Vec::new();
    }
    let limit = |(name, most): &(&str, u64)| UserLimit {
        name: name.as_bytes().to_vec(),
        most: *most,
    };
    LIMITS.iter().map(limit).collect()
}
