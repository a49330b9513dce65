//! The id maps of a user namespace that the process inside writes for itself.

use sandbox_agent::runtime::Errno;
use sandbox_agent::runtime::fs::{O_CLOEXEC, O_WRONLY, open};
use sandbox_agent::runtime::io::write_all;

/// The id of the caller's user and group inside, where only one id is mapped.
pub(crate) const SHARED_ID: u32 = 65_534;

/// Id maps that an unprivileged process may write for itself: only its own user and group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdentityMaps {
    users: String,
    groups: String,
}

impl IdentityMaps {
    /// Maps this user and group to [`SHARED_ID`].
    pub(crate) fn of_caller(user: u32, group: u32) -> Self {
        let line = |outside: u32| format!("{SHARED_ID} {outside} 1");
        Self {
            users: line(user),
            groups: line(group),
        }
    }

    /// Writes the maps of the calling process, which has just entered its user namespace. Makes
    /// system calls only.
    pub(crate) fn write_own(&self) -> Result<(), Errno> {
        for (file, text) in [
            (c"/proc/self/setgroups", "deny"),
            (c"/proc/self/uid_map", self.users.as_str()),
            (c"/proc/self/gid_map", self.groups.as_str()),
        ] {
            let file = open(file, O_WRONLY | O_CLOEXEC, 0)?;
            write_all(&file, text.as_bytes())?;
        }
        Ok(())
    }
}
