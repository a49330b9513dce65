//! The user of this process, and whether it may give sandboxes their own users.

use sandbox_agent::runtime::credentials::Capabilities;

use crate::subordinate::{FIRST, LAST};

/// The user of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    /// Effective user id.
    pub(crate) id: u32,
    /// Effective group id.
    pub(crate) group: u32,
    /// Root with the capabilities to create mounts and to map subordinate ids.
    pub(crate) can_map_ids: bool,
}

/// The capabilities needed for that: CHOWN, DAC_OVERRIDE, SETGID, SETUID, SETPCAP, NET_ADMIN,
/// SYS_ADMIN. Without them, sandboxes are created as by an ordinary user.
const NEEDED: u64 = 1 | 1 << 1 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 21;

impl User {
    pub(crate) fn current() -> Self {
        let id = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        let capable = Capabilities::current()
            .is_ok_and(|capabilities| capabilities.effective & NEEDED == NEEDED);
        let can_map_ids = id == 0
            && capable
            && ["/proc/self/uid_map", "/proc/self/gid_map"]
                .iter()
                .all(|map| {
                    std::fs::read_to_string(map).is_ok_and(|map| covers_subordinate_ids(&map))
                });
        Self {
            id,
            group,
            can_map_ids,
        }
    }
}

/// Whether this id map covers every subordinate id.
fn covers_subordinate_ids(map: &str) -> bool {
    map.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().map(str::parse::<u64>);
        match (fields.next(), fields.next(), fields.next()) {
            (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) => {
                first <= u64::from(FIRST) && first + count > u64::from(LAST)
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::covers_subordinate_ids;

    #[test]
    fn only_a_wide_id_map_covers_subordinate_ids() {
        assert!(covers_subordinate_ids("         0          0 4294967295\n"));
        assert!(!covers_subordinate_ids("0 100000 65536\n"));
        assert!(!covers_subordinate_ids("0 1000 1\n1 100000 65536\n"));
        assert!(!covers_subordinate_ids(""));
        assert!(!covers_subordinate_ids("0 0 many\n"));
    }
}
