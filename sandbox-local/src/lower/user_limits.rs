//! Limits of resources that the kernel counts per user.
//!
//! Usage inside a user namespace also counts against the user who created the namespace: the
//! caller, or root. Without these limits a sandbox could exhaust the caller's share.

use sandbox_agent::protocol::UserLimit;

use crate::host::Host;

/// Limits by name in `/proc/sys/user`.
///
/// - Instances: half of the kernel's default for a user (128), so that one sandbox leaves half to
///   the caller.
/// - Watches: the kernel's default for a user before Linux 5.11, which made it depend on the memory
///   size. File watchers such as TypeScript's compiler and webpack take one per folder.
const LIMITS: [(&str, u64); 2] = [("max_inotify_instances", 64), ("max_inotify_watches", 8192)];

/// The limits of the sandbox's user namespace. Empty if procfs cannot be mounted: then the settings
/// cannot be written either.
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
