//! Splits a plan's disk limit over writable in-memory folders, for containers and pods.

/// Mount point of POSIX shared memory.
pub const SHARED_MEMORY: &str = "/dev/shm";

/// Byte limit for [`SHARED_MEMORY`], besides an eighth of the disk limit: it is small in practice.
const SHARED_MEMORY_MAX: u64 = 64 << 20;

/// The kernel sizes a tmpfs in pages of this many bytes.
pub const PAGE: u64 = 4096;

/// Folders that a mount would hide with their content: never writable, even if exported.
const SYSTEM_FOLDERS: [&str; 11] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys", "/usr",
];

/// Sizes of the writable parts of a sandbox, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskShares {
    /// Size of each writable part.
    pub each: u64,
    /// Size of [`SHARED_MEMORY`].
    pub shared_memory: u64,
}

/// Splits `disk` bytes evenly between `parts` writable parts, after the share of
/// [`SHARED_MEMORY`].
///
/// Shares are whole pages, and at least one: a tmpfs of size 0 is unlimited. So their sum exceeds
/// `disk` if it is smaller than a page for each.
#[must_use]
pub fn disk_shares(disk: u64, parts: usize) -> DiskShares {
    let shared_memory = (disk / 8).min(SHARED_MEMORY_MAX);
    let each = (disk - shared_memory) / parts.max(1) as u64;
    let whole_pages = |size: u64| (size & !(PAGE - 1)).max(PAGE);
    DiskShares {
        each: whole_pages(each),
        shared_memory: whole_pages(shared_memory),
    }
}

/// The folders to mount, in this order: each once, without those inside another, and without
/// unmountable ones. `reserved` are characters that a path may not have.
pub fn writable_folders(
    candidates: impl IntoIterator<Item = String>,
    reserved: &[char],
) -> Vec<String> {
    let mut folders: Vec<String> = Vec::new();
    for folder in candidates {
        let is_covered = folders.iter().any(|outer| is_below(&folder, outer));
        if !is_covered && is_mountable(&folder, reserved) {
            folders.push(folder);
        }
    }
    folders
}

/// Whether `path` is `folder` or inside it.
#[must_use]
pub fn is_below(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a folder may be mounted there: not over system folders or the root. `reserved` are
/// characters that the path may not have.
fn is_mountable(folder: &str, reserved: &[char]) -> bool {
    let is_plain = !folder.contains(reserved) && !folder.split('/').any(|part| part == "..");
    let is_system = SYSTEM_FOLDERS.iter().any(|system| is_below(folder, system));
    is_plain && folder.len() > 1 && !is_system
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_stay_within_the_disk_limit() {
        for disk in [64 << 10, 1 << 20, 256 << 20, 4096 << 20] {
            let shares = disk_shares(disk, 4);
            let total = 4 * shares.each + shares.shared_memory;
            assert!(total <= disk && total * 10 >= disk * 7, "{shares:?}");
        }
    }

    #[test]
    fn share_is_at_least_one_page() {
        for disk in [0, 4096, 8 << 10, 13 << 10] {
            let shares = disk_shares(disk, 3);
            assert_eq!((shares.each, shares.shared_memory), (PAGE, PAGE), "{disk}");
        }
    }

    #[test]
    fn nested_folders_are_merged() {
        let candidates = [
            "/tmp",
            "/output",
            "/output/deep",
            "/usr/x",
            "/output",
            "/a:b",
        ];
        let folders = writable_folders(candidates.map(str::to_owned), &[':']);
        assert_eq!(folders, ["/tmp", "/output"]);
    }

    #[test]
    fn system_folders_are_never_hidden() {
        for folder in [
            "/",
            "/usr",
            "/usr/share/x",
            "/etc",
            "/proc/self",
            "/a,b",
            "/a/../b",
        ] {
            assert!(!is_mountable(folder, &[',', ':']), "{folder}");
        }
        for folder in ["/output", "/var/results", "/user", "/liberty"] {
            assert!(is_mountable(folder, &[',', ':']), "{folder}");
        }
    }
}
