//! The id maps of a user namespace, and their writing by the process inside.

use sandbox_freestanding::Result;
use sandbox_freestanding::fs::{O_CLOEXEC, O_WRONLY, open};
use sandbox_freestanding::io::write_all;

/// What the caller's user and group are called inside, where only one id is mapped.
pub(crate) const SHARED_ID: u32 = 65_534;

/// Id maps that a process without privileges writes for itself: its own user and group alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdentityMaps {
    users: String,
    groups: String,
}

impl IdentityMaps {
    /// This user and group, as [`SHARED_ID`].
    pub(crate) fn of_caller(user: u32, group: u32) -> Self {
        let line = |outside: u32| format!("{SHARED_ID} {outside} 1");
        Self {
            users: line(user),
            groups: line(group),
        }
    }

    /// Writes them for the calling process, in whose new user namespace nothing is mapped yet. Makes system calls only.
    pub(crate) fn write_own(&self) -> Result<()> {
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
